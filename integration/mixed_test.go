//go:build integration

package integration

// This file proves that a cluster in the middle of an upgrade is served as each of its
// nodes can be: one node is Kafka 3.9, the others are of the run's version, and the cluster
// is at the metadata version of 3.9. Each node's versions reach the clients as that node
// offers them; Java clients of both generations and franz-go write and read exactly, with
// groups and transactions coordinated by nodes of either kind, while all leaders move
// between them.

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/errgroup"

	"doorkeeper/integration/harness"
)

// older is what the first node still is.
const older harness.Version = "3.9.1"

// Case B58.
func TestMixedClusterInMidUpgrade(t *testing.T) {
	t.Parallel() // on brokers of its own
	newer := harness.KafkaVersion()
	if !newer.AtLeast("4.0") {
		newer = harness.DefaultVersion
	}
	c := ownCluster(t, harness.ClusterConfig{Version: newer, Engine: harness.ProcessEngine(), Node: func(id int32) harness.NodeConfig {
		if id == 1 {
			return harness.NodeConfig{Version: older}
		}
		return harness.NodeConfig{}
	}})
	ctx := within(t, 5*time.Minute)
	app := name(t, "app")
	must(t, c.Admin.Grant(ctx, harness.AppGrants("mia", app)...))
	g := gateway(t, c, harness.GatewayConfig{})

	// A client that asks each node is told what that node has.
	told := map[int32]map[int16][2]int16{}
	for _, n := range c.Nodes {
		directly := served(t, rawLeg(ctx, t, n.ControlListener(), site.Direct("mia"), app))
		told[n.ID] = served(t, rawLeg(ctx, t, g.NodeAddress(n.ID), site.Client("mia"), app))
		for key, versions := range told[n.ID] {
			has := directly[key]
			if key == int16(kmsg.AddPartitionsToTxn) {
				has[1] = min(has[1], 3) // later ones are for brokers
			}
			if versions != has {
				t.Errorf("node %d, %s: versions %v, the node itself has %v", n.ID, kmsg.NameForKey(key), versions, has)
			}
		}
		t.Logf("node %d, Kafka %s: Produce to %d, Fetch to %d, Metadata to %d", n.ID, n.Version(), told[n.ID][0][1], told[n.ID][1][1], told[n.ID][3][1])
	}
	if maps.Equal(told[1], told[2]) || maps.Equal(told[1], told[3]) {
		t.Errorf("nodes of different kinds are told apart no more: %v", told)
	}

	const records, rate = 3_000, 500
	byOld := series{app + "-old", "o", records}.make(ctx, t, c)
	byNew := series{app + "-new", "n", records}.make(ctx, t, c)
	byFranz := series{app + "-franz", "f", records}.make(ctx, t, c)
	oldGroup, err := c.Admin.GroupOn(ctx, 2, app+"-old")
	must(t, err)
	newGroup, err := c.Admin.GroupOn(ctx, 1, app+"-new")
	must(t, err)
	oldTxn, err := c.Admin.TxnOn(ctx, 3, app+"-old")
	must(t, err)
	newTxn, err := c.Admin.TxnOn(ctx, 1, app+"-new")
	must(t, err)

	mia := site.Client("mia")
	start := func(version harness.Version, of series, group, txn string) *harness.JavaClient {
		java, err := site.StartJava(harness.JavaRun{Certificate: mia, Version: version, Steps: []harness.JavaStep{
			of.step("produce", g.Bootstrap, "rate", "500", "txn", txn, "per.txn", "500", "abort.every", "3"),
			of.step("consume", g.Bootstrap, "group", group, "members", "2"),
		}})
		must(t, err)
		return java
	}
	old, young := start(harness.OlderClientVersion, byOld, oldGroup, oldTxn), start(harness.ClientVersion, byNew, newGroup, newTxn)
	var dials harness.Dials
	var franzWrites errgroup.Group
	writer := franz(t, &dials, mia, g.Bootstrap)
	franzWrites.Go(func() error {
		wrote, err := byFranz.produce(ctx, writer, rate)
		byFranz.judge(t, "franz-go wrote", wrote, false)
		return err
	})

	all := []series{byOld, byNew, byFranz}
	for _, of := range all { // a new leader has to know the writer
		for slices.Min(ends(ctx, t, c, of.topic)) == 0 {
			must(t, pauseOrEnd(ctx, 100*time.Millisecond))
		}
	}
	var moving errgroup.Group
	for _, of := range all {
		moving.Go(func() error {
			for round := int32(1); round <= 2; round++ { // to each of the other nodes
				for p := range int32(partitions) {
					if err := c.Admin.MoveLeader(ctx, of.topic, p, 1+(p+round)%3); err != nil {
						return err
					}
				}
			}
			return nil
		})
	}
	must(t, moving.Wait())
	must(t, franzWrites.Wait())

	for _, by := range []struct {
		what string
		java *harness.JavaClient
		of   series
	}{{"Java 3.9", old, byOld}, {"Java 4", young, byNew}} {
		did, err := by.java.Results(ctx)
		must(t, err)
		by.of.judgeJava(t, by.what+" wrote in transactions", did[0])
		by.of.judgeJava(t, by.what+" read as a group", did[1])
		namesNoBroker(t, by.what, by.java.Output())
	}
	for _, of := range all {
		reader := franz(t, &dials, mia, g.Bootstrap, kgo.FetchIsolationLevel(kgo.ReadCommitted()),
			kgo.ConsumeTopics(of.topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
		read, err := of.consume(ctx, reader)
		must(t, err)
		of.judge(t, "franz-go read "+of.topic, read, false)
	}
	if n := stored(ctx, t, c, byFranz.topic); n != records {
		t.Errorf("%s holds %d records", byFranz.topic, n)
	}
	must(t, dials.Only(g.Addresses(c)...))
	for _, n := range c.Nodes {
		if dials.Count()[g.NodeAddress(n.ID)] == 0 {
			t.Errorf("franz-go never went to node %d: %v", n.ID, dials.Count())
		}
	}
	noFaults(ctx, t, g)
}
