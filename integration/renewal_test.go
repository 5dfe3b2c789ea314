//go:build integration

package integration

// This file proves that no client notices that its sessions end: with tokens of twenty
// seconds, and with brokers that end every session after ten seconds whatever its token,
// twenty clients write and read for a minute each: Java idempotently and in transactions,
// librdkafka, kafkajs, franz-go with several requests in flight and without idempotence,
// and with acks=0; groups of both protocols and a share group read. The checker finds nothing, no
// group is rebalanced, no client comes again once all have warmed up, and no broker kills
// an expired connection.
//
// DOORKEEPER_RENEWAL says for how long forty clients do so instead, DOORKEEPER_RENEWAL_MODE for what
// alone (tokens, sessions, both), and DOORKEEPER_RENEWAL_KIND with which
// connections.renewal: `make renewal`.

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"doorkeeper/integration/checker"
	"doorkeeper/integration/harness"
)

func TestNoClientNoticesRenewals(t *testing.T) {
	const tokens, sessions = 20 * time.Second, 10 * time.Second
	for _, mode := range []struct {
		name string
		long bool // not without being asked for
		run  func(*testing.T)
	}{
		// F7, F41
		{"tokens", false, func(t *testing.T) { nobodyNotices(t, cluster(t), "auto", tokens, tokens) }},
		// B03, F14
		{"sessions", false, func(t *testing.T) {
			nobodyNotices(t, ownCluster(t, harness.ClusterConfig{Reauth: sessions}), "auto", time.Hour, sessions)
		}},
		{"both", true, func(t *testing.T) {
			nobodyNotices(t, ownCluster(t, harness.ClusterConfig{Reauth: sessions}), "auto", tokens, sessions)
		}},
	} {
		if asked := os.Getenv("DOORKEEPER_RENEWAL_MODE"); asked == mode.name || asked == "" && !mode.long {
			t.Run(mode.name, mode.run)
		}
	}
}

// renewalTime is how long a load over renewals lasts, and of how many clients it is.
func renewalTime(t *testing.T, short time.Duration) (time.Duration, scale) {
	t.Helper()
	if s := os.Getenv("DOORKEEPER_RENEWAL"); s != "" {
		long, err := time.ParseDuration(s)
		must(t, err)
		return long, scale{writers: 3, members: 3}
	}
	return short, scale{writers: 1, members: 2}
}

// renewalKind has a gateway renew sessions in the way that is asked for, or in this one.
func renewalKind(d harness.Document, kind string) {
	if asked := os.Getenv("DOORKEEPER_RENEWAL_KIND"); asked != "" {
		kind = asked
	}
	d.Set("connections.renewal", kind)
}

// nobodyNotices has all clients write and read over many ends of sessions, which last for
// life at most.
func nobodyNotices(t *testing.T, c *harness.Cluster, kind string, token, life time.Duration) {
	t.Helper()
	load, of := renewalTime(t, time.Minute)
	ctx := within(t, load+6*time.Minute)
	fleet := newFleet(ctx, t, c, load, of)
	g := gateway(t, c, harness.GatewayConfig{Change: func(d harness.Document) {
		d.Set("tokens.lifetime", token.String())
		d.Set("log.level", "debug")
		renewalKind(d, kind)
	}})
	before := killedNow(ctx, t, c)
	fleet.start(g)
	if os.Getenv("DOORKEEPER_RENEWAL") != "" {
		// In a minute some clients are still opening connections, of their own accord: there,
		// the sessions' ends alone tell whether anybody had to come again.
		fleet.all.Go(func() error {
			return nobodyComesAgain(fleet.ctx, t, g, fleet.began.Add(load-10*time.Second), fleet.clients, life)
		})
	}
	fleet.all.Go(func() error { return fleet.epochsStay() })
	if err := fleet.all.Wait(); err != nil {
		t.Error(err)
		if load > 2*time.Minute {
			return // the others would go on for long
		}
	}
	fleet.end()
	fleet.judge()
	noneKilled(ctx, t, c, before)
	judgeRenewals(ctx, t, g, life)
	m := metricsNow(ctx, t, g)
	all := m.Sum("doorkeeper_session_ends_total")
	if own := m.Sum("doorkeeper_session_ends_total", `reason="client_closed"`) + m.Sum("doorkeeper_session_ends_total", `reason="client_lost"`); own != all {
		t.Errorf("%v of %v sessions were not ended by their clients", all-own, all)
	}
	for _, of := range []string{"left_seconds", "duration_seconds", "unanswered_requests"} {
		t.Logf("renewals by %s: %s", of, m.Histogram("doorkeeper_renewal_"+of))
	}
}

// nobodyComesAgain looks at the client legs until the first clients are done. All have warmed
// up when each client has some and nothing about them has changed for ten seconds. From then
// on none may end, for a session's life at least: who comes again has lost one. A client that
// opens one more, since a coordinator has moved, say, has lost none.
func nobodyComesAgain(ctx context.Context, t *testing.T, g *harness.Gateway, until time.Time, clients int, life time.Duration) error {
	const warm = 10 * time.Second
	type legs struct{ accepted, ended float64 }
	var seen legs
	since, settled := time.Now(), false
	look := time.NewTicker(time.Second)
	defer look.Stop()
	for time.Now().Before(until) {
		m, err := g.Metrics(ctx)
		now := legs{m.Sum("doorkeeper_client_legs_accepted_total"), m.Sum("doorkeeper_session_ends_total")}
		switch {
		case err != nil: // a machine too slow for this is one look less
		case settled && now.ended != seen.ended:
			return fmt.Errorf("%v client legs ended, and %v were accepted, once all had warmed up", now.ended-seen.ended, now.accepted-seen.accepted)
		case !settled && now != seen:
			seen, since = now, time.Now()
		case now.accepted >= 3*float64(clients) && time.Since(since) > warm:
			settled = true
			if now != seen {
				t.Logf("%v more client legs", now.accepted-seen.accepted)
				seen = now
			}
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return nil
		}
	}
	if constant := time.Since(since); !settled || constant < warm+life {
		return fmt.Errorf("of %v legs of %d clients none ended for %v only: that proves nothing on sessions of %v", seen.accepted, clients, constant, life)
	}
	return nil
}

// judged reads what the brokers hold of the ledgers' topics, from them directly, and wants
// nothing to be wrong with it.
func judged(ctx context.Context, t *testing.T, c *harness.Cluster, ledgers ...*checker.Ledger) {
	t.Helper()
	j := checker.NewJudge(ledgers...)
	var dials harness.Dials
	err := checker.Read(ctx, j.Topics(), j.Observe, dials.Options(site.Direct("admin"), c.ControlAddresses()...)...)
	if err != nil {
		t.Errorf("read back: %v", err)
	}
	sent, acked := 0, 0
	for _, l := range ledgers {
		out, in := l.Count()
		sent, acked = sent+out, acked+in
	}
	t.Logf("checked: %d writers, %d records sent, %d acknowledged, %d stored", len(ledgers), sent, acked, j.Observed())
	for _, f := range j.Findings() {
		t.Error(f)
	}
}
