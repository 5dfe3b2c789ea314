//go:build integration

package integration

// This file proves that the client libraries which share no code with Java, franz-go and
// librdkafka's Python get through the gateway what they get from the brokers: writes,
// groups, transactions, copies in transactions that hold the group's offsets, and
// administration, each as far as the library has it, exact by count and checksum; and
// that none of them receives, is told of, or dials a broker's address.

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"doorkeeper/integration/checker"
	"doorkeeper/integration/harness"
)

// ability is what a client library has, and so what is asked of it.
type ability struct {
	client       harness.Client
	transactions bool // and idempotence
	lonely       bool // one member in a process: see its consume.py
	// talk makes one log every address whose bytes nobody but itself can look at.
	talk []string
}

func abilities() []ability {
	return []ability{
		{client: harness.Sarama, transactions: true},
		{client: harness.KafkaGo},
		{client: harness.KafkaJS, transactions: true},
		{client: harness.KafkaPython, transactions: true, lonely: true},
		{client: harness.Aiokafka, transactions: true},
		{client: harness.Rdkafka, transactions: true, talk: []string{"p.debug", talkative}},
	}
}

func TestClientsAreExact(t *testing.T) {
	c := cluster(t)
	for _, can := range abilities() {
		t.Run(string(can.client), func(t *testing.T) {
			t.Parallel()
			must(t, site.MakeReady(within(t, 10*time.Minute), can.client))
			g := gateway(t, c, harness.GatewayConfig{})
			for _, s := range bothSides(c, g, "matt") {
				t.Run(s.name, func(t *testing.T) { can.isExact(t, c, g, s) })
			}
			noFaults(within(t, time.Minute), t, g)
		})
	}
}

// isExact has a client do all that it can, from one side.
func (can ability) isExact(t *testing.T, c *harness.Cluster, g *harness.Gateway, s side) {
	ctx := within(t, 8*time.Minute)
	const records, perTxn = 3_000, 1_000
	app := name(t, "app")
	must(t, c.Admin.Grant(ctx, append(harness.AppGrants("matt", app), topicGrants("matt", app)...)...))
	plain := series{app + "-plain", "p", records}.make(ctx, t, c)
	members := []string{"members", "2"}
	if can.lonely {
		members = nil
	}
	steps := []harness.Step{
		can.step(s, plain, "produce"),
		can.step(s, plain, "consume", append(members, "group", app)...),
		can.ask(s, "describe", "topic", plain.topic, "group", app),
		can.ask(s, "topics", "topic", app+"-made", "action", "create"),
		can.ask(s, "topics", "topic", app+"-made", "action", "create"),
		can.ask(s, "topics", "topic", app+"-made", "action", "delete"),
	}
	var txn, copied series
	if can.transactions {
		txn = series{app + "-txn", "x", records}.make(ctx, t, c)
		copied = series{app + "-copied", "x", records}.make(ctx, t, c)
		pace := []string{"per.txn", fmt.Sprint(perTxn), "abort.every", "2"}
		steps = append(steps,
			can.step(s, txn, "produce", append(pace, "txn", app+"-id")...),
			can.step(s, txn, "consume", "group", app+"-committed"),
			can.step(s, txn, "transform", append(pace, "to", copied.topic, "group", app+"-copy", "txn", app+"-copy")...),
		)
	}
	did, ran := foreign(ctx, t, can.client, s, steps...)
	plain.judgeJava(t, "it wrote", did[0])
	plain.judgeJava(t, "its group read", did[1])
	judgeDescription(ctx, t, c, plain.topic, did[2])
	if did[3].Count != 1 || did[4].Count != 0 || len(did[4].Errors) != 1 || did[5].Count != 1 {
		t.Errorf("a topic was made %v, made again %v and deleted %v", did[3].Messages, did[4].Messages, did[5].Messages)
	}
	ledgers := []*checker.Ledger{plain.whole()}
	if can.transactions {
		txn.judgeJava(t, "it wrote in transactions", did[6])
		txn.judgeJava(t, "it read what is committed", did[7])
		txn.judgeJava(t, "it copied in transactions", did[8])
		if did[8].Values["aborted"] == "" {
			t.Error("no copy was aborted")
		}
		ledgers = append(ledgers, txn.whole(), copied.whole())
		if n := committedBy(ctx, t, c, app+"-copy", txn.topic); n < records { // the markers of transactions have offsets too
			t.Errorf("the copies have committed offset %d of %d", n, records)
		}
	}
	judged(ctx, t, c, ledgers...)
	can.knowsOnly(t, c, g, s, did, ran.Output())
}

// whole is the ledger of a writer all of whose records were acknowledged somewhere.
func (s series) whole() *checker.Ledger {
	l := s.ledger()
	for i := range s.records {
		l.Acked(i, int32(i%partitions), -1)
	}
	return l
}

// step is one with a series of records, ask one without.
func (can ability) step(s side, of series, mode string, more ...string) harness.Step {
	return can.looked(of.step(mode, s.bootstrap, more...))
}

func (can ability) ask(s side, mode string, more ...string) harness.Step {
	settings := map[string]string{"bootstrap": s.bootstrap}
	for i := 0; i < len(more); i += 2 {
		settings[more[i]] = more[i+1]
	}
	return can.looked(harness.Step{Mode: mode, Settings: settings})
}

// looked has a step look at what it receives, or log what it is told.
func (can ability) looked(step harness.Step) harness.Step {
	if can.talk == nil {
		step.Settings["unwanted"] = site.LoopbackPrefix()
		return step
	}
	for i := 0; i < len(can.talk); i += 2 {
		step.Settings[can.talk[i]] = can.talk[i+1]
	}
	return step
}

// judgeDescription compares what a client was told of the cluster with what there is.
func judgeDescription(ctx context.Context, t *testing.T, c *harness.Cluster, topic string, r harness.StepResult) {
	t.Helper()
	leaders, err := c.Admin.Leaders(ctx, 1, topic)
	must(t, err)
	want := map[string]string{"brokers": "1 2 3"}
	for p, leader := range leaders {
		want[fmt.Sprintf("leader-%d", p)] = fmt.Sprint(leader)
	}
	for name, value := range want {
		if r.Values[name] != value {
			t.Errorf("it was told of %s %q, not %q; errors %v", name, r.Values[name], value, r.Messages)
		}
	}
	if !slices.Contains(strings.Fields(r.Values["topics"]), topic) || r.Values["group"] == "" || len(r.Errors) > 0 {
		t.Errorf("it was told of topics %q, the group's state %q; errors %v", r.Values["topics"], r.Values["group"], r.Messages)
	}
}

// knowsOnly checks that through the gateway a client has heard of its addresses alone,
// and directly that it would have been noticed had it heard of a broker's.
func (can ability) knowsOnly(t *testing.T, c *harness.Cluster, g *harness.Gateway, s side, did []harness.StepResult, output string) {
	t.Helper()
	if s.outside {
		if !strings.Contains(output, site.LoopbackPrefix()) {
			t.Error("it does not log the brokers' addresses that it knows")
		}
		if n, _ := strconv.Atoi(did[0].Values["unwanted"]); can.talk == nil && n == 0 {
			t.Error("it does not notice the brokers' addresses in what it receives")
		}
		return
	}
	knowsOnly(t, c, g, string(can.client), output)
	for i, r := range did {
		for _, address := range append(strings.Fields(r.Values["dialled"]), r.Nodes...) {
			if !slices.Contains(g.Addresses(c), address) {
				t.Errorf("step %d: it was told of, or dialled, %s", i, address)
			}
		}
		if can.talk == nil && (r.Values["unwanted"] != "0" || r.Values["received"] == "0") {
			t.Errorf("step %d: in %q bytes a broker's address came %q times", i, r.Values["received"], r.Values["unwanted"])
		}
	}
}

// topicGrants are the rights to make and delete topics whose names begin with prefix.
func topicGrants(principal, prefix string) (grants []harness.Grant) {
	for _, op := range []kmsg.ACLOperation{kmsg.ACLOperationCreate, kmsg.ACLOperationDelete} {
		grants = append(grants, harness.Grant{Principal: principal, Type: kmsg.ACLResourceTypeTopic, Name: prefix, Prefixed: true, Operation: op})
	}
	return grants
}

// committedBy is the sum of a group's offsets in a topic.
func committedBy(ctx context.Context, t *testing.T, c *harness.Cluster, group, topic string) int {
	t.Helper()
	committed, err := c.Admin.FetchOffsets(ctx, group)
	must(t, err)
	total := 0
	for _, offset := range committed.Offsets()[topic] {
		total += int(offset.At)
	}
	return total
}
