//go:build integration

package integration

// This file proves that no connection meets the end of its broker session unawares:
// with tokens that live a minute, under load for two (DOORKEEPER_SOAK says for how
// long otherwise), every leg reports that it is at risk before the session end and is
// closed by the gateway at a moment with nothing unanswered; the brokers never have
// to kill an expired session themselves; and no record is lost, by the Java client's
// idempotent producer and group, or by franz-go's.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
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
)

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
	killedBefore, err := c.JMX(ctx, killed, killedBy)
	must(t, err)

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
	load.Go(func() error { return silentLegsEndInTime(loadCtx, c, g) })
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

	killedAfter, err := c.JMX(ctx, killed, killedBy)
	must(t, err)
	if len(killedAfter) != len(c.Nodes) {
		t.Errorf("only %v tell of killed connections", killedAfter)
	}
	for node, n := range killedAfter {
		if n != killedBefore[node] {
			t.Errorf("%s has killed expired connections: %s, before the load %s", node, n, killedBefore[node])
		}
	}
	judgeEnds(ctx, t, g)
}

// riskComesFirst looks at the figures for as long as the writer runs: at no moment
// have more sessions come to the end of their broker session than were at risk.
func riskComesFirst(ctx context.Context, g *harness.Gateway, writer *harness.JavaClient) error {
	look := time.NewTicker(200 * time.Millisecond)
	defer look.Stop()
	ends := 0.0 // of the look before: the figures of one are not of the very same moment
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
		if risk := m.Sum(atRisk); ends > risk {
			return fmt.Errorf("%v sessions have ended for their session end, but %v were ever at risk", ends, risk)
		}
		ends = m.Sum("doorkeeper_session_ends_total", `reason="session_ending"`)
	}
	return nil
}

// silentLegsEndInTime opens legs on one token and leaves them alone: each has to be
// at risk, and closed without a byte, before that token's end, which is their session
// end.
func silentLegsEndInTime(ctx context.Context, c *harness.Cluster, g *harness.Gateway) error {
	const legs = 12
	before, err := g.Metrics(ctx)
	if err != nil {
		return err
	}
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

	var all errgroup.Group
	for _, leg := range open {
		all.Go(func() error {
			if err := leg.SetReadDeadline(end.Add(tokenLife)); err != nil {
				return err
			}
			n, err := leg.Read(make([]byte, 1))
			switch left := time.Until(end); {
			case n != 0 || !errors.Is(err, io.EOF):
				return fmt.Errorf("a silent leg got %d bytes and %w", n, err)
			case left < 0:
				return fmt.Errorf("a silent leg was closed %v after its session end", -left)
			}
			return nil
		})
	}
	err = all.Wait()
	after, metricsErr := g.Metrics(ctx)
	if grown := after.Sum(atRisk) - before.Sum(atRisk); metricsErr == nil && grown < legs {
		err = errors.Join(err, fmt.Errorf("%d silent legs were closed, but only %v connections were at risk", legs, grown))
	}
	return errors.Join(err, metricsErr)
}

// judgeEnds looks at the gateway's line about each session: none lived longer than a
// token, and none was ended by a broker.
func judgeEnds(ctx context.Context, t *testing.T, g *harness.Gateway) {
	t.Helper()
	ends, longest := map[string]int{}, time.Duration(0)
	for _, l := range g.Lines() {
		if l["msg"] != "session ended" {
			continue
		}
		reason, _ := l["reason"].(string)
		lasted, err := time.ParseDuration(fmt.Sprint(l["lasted"]))
		must(t, err)
		ends[reason]++
		longest = max(longest, lasted)
	}
	m := metricsNow(ctx, t, g)
	t.Logf("session ends: %v; the longest lasted %v; at risk: %v", ends, longest, m.Sum(atRisk))
	if longest > tokenLife {
		t.Errorf("a session lasted %v on tokens of %v", longest, tokenLife)
	}
	if m.Sum(atRisk) == 0 || ends["session_ending"] == 0 {
		t.Error("no connection came to its session end: this proves nothing")
	}
	noFaults(ctx, t, g)
}
