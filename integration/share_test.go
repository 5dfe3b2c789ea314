//go:build integration

package integration

// This file proves that share consumers (KIP-932) get through the gateway what they are
// promised: two members that accept, release and reject each by itself are done with every
// record once, over two ends of their sessions and more, without a reconnect or a swap of
// the broker leg, which would end the share session and give its records to others; and
// while leaders move, nothing is lost and nothing that was confirmed comes again. They are
// told of the gateway alone.

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/errgroup"

	"doorkeeper/integration/harness"
)

func TestShareConsumers(t *testing.T) {
	c := cluster(t)
	ctx := within(t, time.Minute)
	g := gateway(t, c, harness.GatewayConfig{})
	through, directly := bothSides(c, g, "shay")[0], bothSides(c, g, "shay")[1]
	serves := func(s side) bool {
		return served(t, rawLeg(ctx, t, s.node(1), s.as, "asks"))[int16(kmsg.ShareFetch)][1] >= 1 // 0 was a preview
	}
	if !serves(directly) {
		if serves(through) {
			t.Errorf("the gateway offers shares that Kafka %s does not have", c.Version())
		}
		return
	}
	t.Run("over renewals", func(t *testing.T) { t.Parallel(); shareOverRenewals(t, c, "auto") })
	t.Run("over swaps", func(t *testing.T) { t.Parallel(); shareOverRenewals(t, c, "swap") })
	t.Run("while leaders move", func(t *testing.T) { t.Parallel(); shareWhileLeadersMove(t, c) })
}

// shareOverRenewals has a setting of connections.renewal: none of them may swap a leg that
// has a share session, since that would end it. F41
func shareOverRenewals(t *testing.T, c *harness.Cluster, renewal string) {
	const (
		life = 10 * time.Second
		rate = 150 // records a second
		load = 22 * time.Second
	)
	ctx := within(t, load+3*time.Minute)
	app := name(t, "app")
	must(t, c.Admin.Grant(ctx, harness.AppGrants("shay", app)...))
	of := series{app, "s", rate * int(load.Seconds())}.make(ctx, t, c)
	shareFromTheStart(ctx, t, c, app)
	g := gateway(t, c, harness.GatewayConfig{Change: func(d harness.Document) {
		d.Set("tokens.lifetime", life.String())
		d.Set("connections.renewal", renewal)
		d.Set("log.level", "debug")
	}})
	before := killedNow(ctx, t, c)
	through := bothSides(c, g, "shay")[0]
	consumers := startSharing(t, through, of)

	// All have their connections, to each node and to the coordinator, once no more come;
	// from then on none must.
	legs, since, least := 0.0, time.Now(), float64(2*(len(c.Nodes)+1))
	for legs < least || time.Since(since) < 5*time.Second {
		if now := metricsNow(ctx, t, g).Sum("doorkeeper_client_legs_accepted_total"); now != legs {
			legs, since = now, time.Now()
		}
		must(t, pauseOrEnd(ctx, 200*time.Millisecond))
	}
	began := time.Now()
	of.writeDirectly(ctx, t, c, rate)
	results, err := consumers.Results(ctx)
	must(t, err)
	t.Logf("shared for %v", time.Since(began).Round(time.Millisecond))
	if now := metricsNow(ctx, t, g).Sum("doorkeeper_client_legs_accepted_total"); now != legs {
		t.Errorf("%v client legs came on top of %v", now-legs, legs)
	}
	if time.Since(began) < 2*life {
		t.Errorf("%v are too short for tokens of %v", time.Since(began), life)
	}

	r := results[0]
	of.judgeJava(t, "the share group", r)
	tenth := fmt.Sprint(of.records / 10)
	for what, want := range map[string]string{
		"released": tenth, "asked again": tenth, "rejected": tenth, "accepted": fmt.Sprint(of.records - of.records/10),
		"unasked": "", "after its end": "", "unconfirmed": "",
	} {
		if r.Values[what] != want {
			t.Errorf("%s: %q, not %q", what, r.Values[what], want)
		}
	}
	if r.Values["member 0"] == "" || r.Values["member 1"] == "" {
		t.Errorf("one member did it all: %v", r.Values)
	}
	namesNoBroker(t, "a share consumer", consumers.Output())
	noneKilled(ctx, t, c, before)
	judgeRenewals(ctx, t, g, life)
	m := metricsNow(ctx, t, g)
	inPlace, swapped := m.Sum(renewals, `kind="reauthenticate"`, `result="ok"`), m.Sum(renewals, `kind="swap"`, `result="ok"`)
	if inPlace == 0 || (swapped > 0) != (renewal == "swap") {
		t.Errorf("renewed in place: %v, swapped: %v", inPlace, swapped)
	}
	noFaults(ctx, t, g)
}

// Case B17.
func shareWhileLeadersMove(t *testing.T, c *harness.Cluster) {
	const rate = 100 // records a second
	ctx := within(t, 4*time.Minute)
	app := name(t, "app")
	must(t, c.Admin.Grant(ctx, harness.AppGrants("shay", app)...))
	g := gateway(t, c, harness.GatewayConfig{})
	sides := bothSides(c, g, "shay")
	var sharing []*harness.JavaClient
	var all []series
	var writing errgroup.Group
	for _, s := range sides {
		of := series{app + s.topicSuffix, "m", 1_500}.make(ctx, t, c)
		shareFromTheStart(ctx, t, c, of.topic)
		sharing = append(sharing, startSharing(t, s, of))
		all = append(all, of)
		writer := franz(t, &harness.Dials{}, site.Direct("admin"), c.ControlAddresses()[0])
		writing.Go(func() error {
			wrote, err := of.produce(ctx, writer, rate)
			of.judge(t, "written directly", wrote, false)
			return err
		})
		for slices.Min(ends(ctx, t, c, of.topic)) == 0 { // a new leader has to know the writer
			must(t, pauseOrEnd(ctx, 100*time.Millisecond))
		}
	}
	moves := 0
	for round := int32(0); round < 3; round++ {
		for p := range int32(partitions) {
			for _, of := range all {
				must(t, c.Admin.MoveLeader(ctx, of.topic, p, 1+(p+round+1)%3))
				moves++
			}
		}
	}
	must(t, writing.Wait())
	for i, s := range sides {
		results, err := sharing[i].Results(ctx)
		must(t, err)
		r := results[0]
		t.Logf("%s, %d moves: %d records, errors %v, %v", s.name, moves, r.Count, r.Errors, r.Values)
		got := r.Tally
		got.Duplicates = 0
		all[i].judge(t, s.name, got, true)
		if r.Values["after its end"] != "" {
			t.Errorf("%s: %s records came again once they were done with", s.name, r.Values["after its end"])
		}
	}
	namesNoBroker(t, "a share consumer", sharing[0].Output())
	noFaults(ctx, t, g)
}

// startSharing starts two members of the share group that is named after the topic.
func startSharing(t *testing.T, s side, of series) *harness.JavaClient {
	t.Helper()
	java, err := site.StartJava(harness.JavaRun{Certificate: s.as, Outside: s.outside, Steps: []harness.JavaStep{
		of.step("acknowledge", s.bootstrap, "group", of.topic, "members", "2", "release.every", "10", "reject.every", "10", "deadline.s", "180", "p.max.poll.records", "50"),
	}})
	must(t, err)
	return java
}

// shareFromTheStart has a share group read what was there before it.
func shareFromTheStart(ctx context.Context, t *testing.T, c *harness.Cluster, group string) {
	t.Helper()
	earliest := "earliest"
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.Resources = []kmsg.IncrementalAlterConfigsRequestResource{{
		ResourceType: kmsg.ConfigResourceTypeGroupConfig, ResourceName: group,
		Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: "share.auto.offset.reset", Op: kmsg.IncrementalAlterConfigOpSet, Value: &earliest}},
	}}
	resp, err := req.RequestWith(ctx, c.Admin.Kafka)
	must(t, err)
	for _, r := range resp.Resources {
		if r.ErrorCode != 0 {
			t.Fatalf("share group %s: %v", group, kerr.ErrorForCode(r.ErrorCode))
		}
	}
}

// writeDirectly has the series written to the brokers themselves.
func (s series) writeDirectly(ctx context.Context, t *testing.T, c *harness.Cluster, rate int) {
	t.Helper()
	wrote, err := s.produce(ctx, franz(t, &harness.Dials{}, site.Direct("admin"), c.ControlAddresses()[0]), rate)
	must(t, err)
	s.judge(t, "written directly", wrote, false)
}
