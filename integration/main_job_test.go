//go:build integration

package integration

// This file proves that the main job is done: clients that have a certificate and
// nothing else produce and consume on a stock cluster through the gateway, exactly,
// whatever of Kafka they use: idempotent producers, transactions, consumer groups
// of both protocols. Topics of six partitions are led by all three brokers at
// replication factor 3, and the groups and the transaction have coordinators on
// different brokers, so nothing works by one connection alone. The Java client is
// in a network in which nothing but the gateway exists; of franz-go every dial is on
// record.

import (
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"doorkeeper/integration/harness"
)

func TestMainJobIsExact(t *testing.T) {
	c := cluster(t)
	ctx := within(t, 8*time.Minute)
	app := name(t, "app")
	must(t, c.Admin.Grant(ctx, harness.AppGrants("alice", app)...))
	const records = 100_000
	plain := series{app + "-java", "j", records}.make(ctx, t, c)
	txn := series{app + "-txn", "x", records}.make(ctx, t, c)
	other := series{app + "-franz", "f", records}.make(ctx, t, c)

	g := gateway(t, c, harness.GatewayConfig{})
	alice := site.Client("alice")
	group := func(node int32, suffix string) string {
		found, err := c.Admin.GroupOn(ctx, node, app+"-"+suffix)
		must(t, err)
		return found
	}
	classic, next, franzClassic, franzNext := group(1, "classic"), group(3, "next"), group(2, "franz"), group(1, "franznext")
	txnID, err := c.Admin.TxnOn(ctx, 2, app+"-txnid")
	must(t, err)

	java, err := site.StartJava(harness.JavaRun{Certificate: alice, Steps: []harness.JavaStep{
		plain.step("produce", g.Bootstrap),
		txn.step("produce", g.Bootstrap, "txn", txnID, "per.txn", "5000", "abort.every", "4"),
		plain.step("consume", g.Bootstrap, "group", classic, "protocol", "classic", "members", "2"),
		txn.step("consume", g.Bootstrap, "group", next, "protocol", "consumer", "members", "2"),
		other.step("consume", g.Bootstrap, "group", next+"-franz", "protocol", "consumer"),
	}})
	must(t, err)

	var dials harness.Dials
	began := time.Now()
	wrote, err := other.produce(ctx, franz(t, &dials, alice, g.Bootstrap), 0)
	must(t, err)
	t.Logf("franz-go wrote %d in %v", wrote.Count, time.Since(began).Round(time.Millisecond))
	other.judge(t, "franz-go, idempotent", wrote, false)
	for _, by := range []struct {
		what string
		series
		opts []kgo.Opt
	}{
		{"franz-go reads its own, classic group", other, []kgo.Opt{kgo.ConsumerGroup(franzClassic)}},
		{"franz-go reads Java's", plain, []kgo.Opt{kgo.ConsumerGroup(franzNext), kgo.ServerSideBalancer()}},
		{"franz-go reads Java's transactions", txn, []kgo.Opt{kgo.FetchIsolationLevel(kgo.ReadCommitted())}},
	} {
		began := time.Now()
		reader := franz(t, &dials, alice, g.Bootstrap, append(by.opts,
			kgo.ConsumeTopics(by.topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))...)
		read, err := by.consume(ctx, reader)
		must(t, err)
		t.Logf("%s: %d in %v", by.what, read.Count, time.Since(began).Round(time.Millisecond))
		by.judge(t, by.what, read, false)
	}

	results, err := java.Results(ctx)
	must(t, err)
	for i, step := range []struct {
		what string
		series
	}{
		{"Java, idempotent", plain}, {"Java, transactions", txn},
		{"Java, classic group", plain}, {"Java, KIP-848 group, read_committed", txn}, {"Java reads franz-go's", other},
	} {
		step.judgeJava(t, step.what, results[i])
	}
	// Counting stopped with the last record that was due: the cluster knows of any
	// written twice. (Transactions have markers between their records.)
	for _, s := range []series{plain, other} {
		if n := stored(ctx, t, c, s.topic); n != records {
			t.Errorf("%s holds %d records", s.topic, n)
		}
	}
	kinds, err := c.Admin.ListGroups(ctx)
	must(t, err)
	if a, b := kinds[classic].GroupType, kinds[next].GroupType; !strings.EqualFold(a, "classic") || !strings.EqualFold(b, "consumer") {
		t.Errorf("the groups were %q and %q", a, b)
	}

	must(t, dials.Only(g.Addresses(c)...))
	if strings.Contains(java.Output(), site.LoopbackPrefix()) {
		t.Errorf("the Java client saw a broker's address:\n%s", last(java.Output(), 40))
	}
	for _, n := range c.Nodes {
		if dials.Count()[g.NodeAddress(n.ID)] == 0 {
			t.Errorf("franz-go never went to node %d: %v", n.ID, dials.Count())
		}
	}
	noFaults(ctx, t, g)
}
