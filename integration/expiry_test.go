//go:build integration

package integration

// This file proves that sessions outlive their tokens, and no client notices: with
// tokens that live a minute, under load for two (DOORKEEPER_SOAK says for how long
// otherwise), every busy leg that is at risk is renewed in place, and every silent one
// by its next request, after its session end too; no client leg is closed for a session
// end; the brokers never have to kill an expired session; and no record is lost, by the
// Java client's idempotent producer and group, or by franz-go's.

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"doorkeeper/integration/harness"
)

const (
	tokenLife = time.Minute
	// What the gauge ExpiredConnectionsKilledCount adds up. A combined node has two of
	// those gauges under one name, and shows the controller's.
	killed   = "kafka.server:type=socket-server-metrics,listener=TOKEN,networkProcessor=*"
	killedBy = "expired-connections-killed-count"
	atRisk   = "doorkeeper_connections_at_risk_total"
	renewals = "doorkeeper_renewals_total"
)

// B01
func TestSoakTokensOfAMinuteUnderLoad(t *testing.T) {
	soak := 2 * time.Minute
	if s := os.Getenv("DOORKEEPER_SOAK"); s != "" {
		var err error
		soak, err = time.ParseDuration(s)
		must(t, err)
	}
	c := cluster(t)
	ctx := within(t, soak+4*time.Minute)
	app := name(t, "app")
	must(t, c.Admin.Grant(ctx, harness.AppGrants("erin", app)...))
	const rate = 500 // records a second, of each writer
	byFranz := series{app + "-franz", "f", int(soak.Seconds()) * rate}.make(ctx, t, c)
	byJava := series{app + "-java", "j", byFranz.records}.make(ctx, t, c)
	g := gateway(t, c, harness.GatewayConfig{Change: func(d harness.Document) {
		d.Set("tokens.lifetime", tokenLife.String())
		d.Set("log.level", "debug")
	}})
	killedBefore := killedNow(ctx, t, c)

	erin := site.Client("erin")
	writer, err := site.StartJava(harness.JavaRun{Certificate: erin, Steps: []harness.JavaStep{
		byJava.step("produce", g.Bootstrap, "rate", fmt.Sprint(rate)),
	}})
	must(t, err)
	reader, err := site.StartJava(harness.JavaRun{Certificate: erin, Steps: []harness.JavaStep{
		byJava.step("consume", g.Bootstrap, "group", app, "members", "2", "deadline.s", fmt.Sprint(int(soak.Seconds())+180)),
	}})
	must(t, err)
	var dials harness.Dials
	load, loadCtx := errgroup.WithContext(ctx)
	load.Go(func() error {
		wrote, err := byFranz.produce(loadCtx, franz(t, &dials, erin, g.Bootstrap), rate)
		byFranz.judge(t, "franz-go wrote", wrote, false)
		return err
	})
	load.Go(func() error {
		read, err := byFranz.consume(loadCtx, franz(t, &dials, erin, g.Bootstrap, kgo.ConsumeTopics(byFranz.topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())))
		byFranz.judge(t, "franz-go read", read, false)
		return err
	})
	load.Go(func() error { return riskComesFirst(loadCtx, g, writer) })
	load.Go(func() error { return silentLegsAreRenewed(loadCtx, c, g) })
	if err := load.Wait(); err != nil {
		t.Error(err)
	}

	wrote, err := writer.Results(ctx)
	must(t, err)
	read, err := reader.Results(ctx)
	must(t, err)
	byJava.judgeJava(t, "Java wrote", wrote[0])
	byJava.judgeJava(t, "Java read", read[0])
	for _, s := range []series{byJava, byFranz} {
		if n := stored(ctx, t, c, s.topic); n != s.records {
			t.Errorf("%s holds %d records, not %d", s.topic, n, s.records)
		}
	}
	must(t, dials.Only(g.Addresses(c)...))

	noneKilled(ctx, t, c, killedBefore)
	judgeRenewals(ctx, t, g, tokenLife)
}

// killedNow is how many expired connections each broker has killed on its token
// listener.
func killedNow(ctx context.Context, t *testing.T, c *harness.Cluster) map[string]string {
	t.Helper()
	n, err := c.JMX(ctx, killed, killedBy)
	must(t, err)
	return n
}

// noneKilled checks that no broker has killed one since.
func noneKilled(ctx context.Context, t *testing.T, c *harness.Cluster, before map[string]string) {
	t.Helper()
	after := killedNow(ctx, t, c)
	if len(after) != len(c.Nodes) {
		t.Errorf("only %v tell of killed connections", after)
	}
	for node, n := range after {
		if n != before[node] {
			t.Errorf("%s has killed expired connections: %s, before the load %s", node, n, before[node])
		}
	}
}

// riskComesFirst looks at the figures for as long as the writer runs: at no moment
// have more sessions been renewed than were at risk, and none is ended for its session
// end.
func riskComesFirst(ctx context.Context, g *harness.Gateway, writer *harness.JavaClient) error {
	look := time.NewTicker(200 * time.Millisecond)
	defer look.Stop()
	ok := 0.0 // of the look before: the figures of one are not of the very same moment
	for writer.Alive() {
		select {
		case <-look.C:
		case <-ctx.Done():
			return nil
		}
		m, err := g.Metrics(ctx)
		if err != nil {
			return err
		}
		if risk := m.Sum(atRisk); ok > risk {
			return fmt.Errorf("%v sessions were renewed, but %v were ever at risk", ok, risk)
		}
		ok = m.Sum(renewals, `result="ok"`)
		if n := m.Sum("doorkeeper_session_ends_total", `reason="session_ending"`); n > 0 {
			return fmt.Errorf("%v sessions have ended for their session end", n)
		}
	}
	return nil
}

// silentLegsAreRenewed opens legs on one token and leaves them alone until after that
// token's end, which is their session end: each is then renewed by its next request, on
// the same leg.
func silentLegsAreRenewed(ctx context.Context, c *harness.Cluster, g *harness.Gateway) error {
	const legs = 12
	var open []*harness.Raw
	defer func() {
		for _, leg := range open {
			_ = leg.Close()
		}
	}()
	for i := range legs {
		leg, err := harness.DialRaw(ctx, g.Addresses(c)[i%4], site.Client("silent").ClientTLS())
		if err != nil {
			return err
		}
		open = append(open, leg)
		if _, err := leg.Request(metadataRequest(9)); err != nil {
			return err
		}
	}
	// One token unless the machine was slow to open them: no session outlives the last.
	tokens, err := c.Admin.Tokens(ctx, 1, "silent")
	if err != nil {
		return err
	}
	var end time.Time // by a clock of this machine
	for _, token := range tokens {
		if at := time.UnixMilli(token.ExpiryTimestamp); at.After(end) {
			end = at
		}
	}
	before, err := g.Metrics(ctx)
	if err != nil {
		return err
	}
	select {
	case <-time.After(time.Until(end) + time.Second):
	case <-ctx.Done():
		return ctx.Err()
	}

	for i, leg := range open {
		if _, err := leg.Request(metadataRequest(9)); err != nil {
			return fmt.Errorf("silent leg %d, a second after its session end: %w", i, err)
		}
	}
	after, err := g.Metrics(ctx)
	if grown := after.Sum(renewals, `result="ok"`) - before.Sum(renewals, `result="ok"`); err == nil && grown < legs {
		err = fmt.Errorf("%d silent legs went on, but only %v connections were renewed", legs, grown)
	}
	return err
}

// judgeRenewals looks at the gateway's figures and at its lines: sessions outlived their
// tokens, every leg at risk was renewed unless it was silent until it closed, none was
// closed for its session end, and no renewal failed.
func judgeRenewals(ctx context.Context, t *testing.T, g *harness.Gateway, life time.Duration) {
	t.Helper()
	ends, longest, lines := map[string]int{}, time.Duration(0), 0
	unanswered := map[string]int{}
	told := metricsNow(ctx, t, g).Sum(renewals, `result="ok"`) // each had its line before
	for _, l := range g.Lines() {
		switch l["msg"] {
		case "session ended":
			reason, _ := l["reason"].(string)
			lasted, err := time.ParseDuration(fmt.Sprint(l["lasted"]))
			must(t, err)
			ends[reason]++
			longest = max(longest, lasted)
		case "session renewed":
			if l["result"] == "ok" {
				lines++
				unanswered[fmt.Sprint(l["unanswered"])]++
			}
		}
	}
	m := metricsNow(ctx, t, g)
	ok, all, risk := m.Sum(renewals, `result="ok"`), m.Sum(renewals), m.Sum(atRisk)
	t.Logf("session ends: %v; the longest lasted %v; at risk: %v; renewals: %v of %v, unanswered when they began: %v", ends, longest, risk, ok, all, unanswered)
	for series, v := range m {
		if strings.HasPrefix(series, "doorkeeper_renewal") && (strings.HasSuffix(series, "_sum") || strings.HasSuffix(series, "_count")) {
			t.Logf("  %s %v", series, v)
		}
	}
	if longest <= life {
		t.Errorf("the longest session lasted %v: it proves nothing on tokens of %v", longest, life)
	}
	if float64(lines) < told || float64(lines) > ok || ok == 0 { // clients that live still renew
		t.Errorf("%d lines tell of %v to %v renewals", lines, told, ok)
	}
	// Idle legs that closed at risk, and node status's own legs, which are made anew.
	if idle := m.Sum("doorkeeper_client_legs_accepted_total") + risk/4; risk < ok || risk-ok > idle {
		t.Errorf("%v legs were at risk, %v were renewed", risk, ok)
	}
	if n := m.Sum("doorkeeper_forced_closes_total"); n != 0 || ends["session_ending"] != 0 || ends["renewal_failed"] != 0 {
		t.Errorf("%v legs were closed since they could not be renewed; session ends: %v", n, ends)
	}
	noFaults(ctx, t, g)
}
