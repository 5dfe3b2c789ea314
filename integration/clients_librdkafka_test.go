//go:build integration

package integration

// This file proves that librdkafka, by way of Python, gets through the gateway what it
// gets from the brokers: idempotent and transactional writes, groups of both
// protocols, copies in transactions that hold the group's offsets, acks=0 and
// administration, exact by count and checksum; that it reads on while leaders move;
// and that it never learns of a broker's address, though it logs every address.

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/errgroup"

	"doorkeeper/integration/harness"
)

func TestLibrdkafkaIsExact(t *testing.T) {
	c := cluster(t)
	ctx := within(t, 5*time.Minute)
	app := name(t, "app")
	must(t, c.Admin.Grant(ctx, harness.AppGrants("alice", app)...))
	const records = 20_000
	plain := series{app + "-plain", "p", records}.make(ctx, t, c)
	txn := series{app + "-txn", "x", records}.make(ctx, t, c)
	copied := series{app + "-copied", "p", records}.make(ctx, t, c)
	other := series{app + "-franz", "f", records}.make(ctx, t, c)
	classic, err := c.Admin.GroupOn(ctx, 1, app+"-classic")
	must(t, err)
	next, err := c.Admin.GroupOn(ctx, 3, app+"-next")
	must(t, err)
	txnID, err := c.Admin.TxnOn(ctx, 2, app+"-txnid")
	must(t, err)
	protocol := nextProtocol(ctx, t, c)

	g := gateway(t, c, harness.GatewayConfig{})
	through := bothSides(c, g, "alice")[0]
	var dials harness.Dials
	wrote, err := other.produce(ctx, franz(t, &dials, through.as, g.Bootstrap), 0)
	must(t, err)
	other.judge(t, "franz-go wrote", wrote, false)

	// Two at once, since each waits for brokers most of the time.
	one, err := site.StartForeign(ctx, through.run(harness.Librdkafka,
		plain.step("produce", g.Bootstrap, "p.debug", talkative),
		plain.step("consume", g.Bootstrap, "group", classic, "members", "2", "p.debug", talkative),
		plain.step("transform", g.Bootstrap, "to", copied.topic, "group", classic+"-copy", "txn", app+"-copy",
			"per.txn", "4000", "abort.every", "3", "p.debug", talkative),
	))
	must(t, err)
	two, err := site.StartForeign(ctx, through.run(harness.Librdkafka,
		txn.step("produce", g.Bootstrap, "txn", txnID, "per.txn", "4000", "abort.every", "3", "p.debug", talkative),
		txn.step("consume", g.Bootstrap, "group", next, "protocol", protocol, "members", "2", "p.debug", talkative),
		other.step("consume", g.Bootstrap, "group", next+"-franz", "protocol", protocol, "p.debug", talkative),
	))
	must(t, err)
	did, err := one.Results(ctx)
	must(t, err)
	plain.judgeJava(t, "librdkafka, idempotent", did[0])
	plain.judgeJava(t, "librdkafka, classic group", did[1])
	plain.judgeJava(t, "librdkafka copies in transactions", did[2])
	if did[2].Values["aborted"] == "" {
		t.Error("no copy was aborted")
	}
	did, err = two.Results(ctx)
	must(t, err)
	txn.judgeJava(t, "librdkafka, transactions", did[0])
	txn.judgeJava(t, "librdkafka, "+protocol+" group, read_committed", did[1])
	other.judgeJava(t, "librdkafka reads franz-go's", did[2])
	knowsOnly(t, c, g, "librdkafka", one.Output())
	knowsOnly(t, c, g, "librdkafka", two.Output())

	for _, of := range []series{plain, txn, copied} {
		reader := franz(t, &dials, through.as, g.Bootstrap, kgo.FetchIsolationLevel(kgo.ReadCommitted()),
			kgo.ConsumeTopics(of.topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
		read, err := of.consume(ctx, reader)
		must(t, err)
		of.judge(t, "franz-go reads librdkafka's "+of.topic, read, false)
	}
	if n := stored(ctx, t, c, plain.topic); n != records {
		t.Errorf("%s holds %d records", plain.topic, n)
	}
	committed, err := c.Admin.FetchOffsets(ctx, classic+"-copy")
	must(t, err)
	total := 0
	for _, offset := range committed.Offsets()[plain.topic] {
		total += int(offset.At)
	}
	if total != records {
		t.Errorf("the transactions have committed %d offsets of %d", total, records)
	}
	kinds, err := c.Admin.ListGroups(ctx)
	must(t, err)
	if a, b := kinds[classic].GroupType, kinds[next].GroupType; !strings.EqualFold(a, "classic") || !strings.EqualFold(b, protocol) {
		t.Errorf("the groups were %q and %q", a, b)
	}
	noFaults(ctx, t, g)
}

// Case B04.
func TestLibrdkafkaAcksZeroCountsAsDirectly(t *testing.T) {
	c := cluster(t)
	ctx := within(t, 3*time.Minute)
	app := name(t, "app")
	must(t, c.Admin.Grant(ctx, harness.AppGrants("alice", app)...))
	g := gateway(t, c, harness.GatewayConfig{})
	counts := map[string]int{}
	for _, s := range bothSides(c, g, "alice") {
		of := series{app + s.topicSuffix, "z", 50_000}.make(ctx, t, c)
		did, _ := foreign(ctx, t, harness.Librdkafka, s, of.step("produce", s.bootstrap, "acks", "0", "idempotent", "false"))
		of.judgeJava(t, "librdkafka believes sent "+s.name, did[0])
		var dials harness.Dials
		reader := franz(t, &dials, s.as, s.bootstrap, kgo.ConsumeTopics(of.topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
		read, err := of.consume(within(t, time.Minute), reader)
		if err != nil {
			t.Error(err)
		}
		of.judge(t, "read "+s.name, read, false)
		counts[s.name] = stored(ctx, t, c, of.topic)
	}
	if a, b := counts["through the gateway"], counts["directly"]; a != b {
		t.Errorf("%d records came through the gateway, %d directly", a, b)
	}
	noFaults(ctx, t, g)
}

func TestLibrdkafkaAdministersAsDirectly(t *testing.T) {
	c := cluster(t)
	ctx := within(t, 3*time.Minute)
	app := name(t, "app")
	must(t, c.Admin.Grant(ctx, harness.AppGrants("dora", app)...))
	series{app, "d", 0}.make(ctx, t, c)
	var committed kadm.Offsets
	committed.AddOffset(app, 0, 0, -1)
	must(t, c.Admin.CommitAllOffsets(ctx, app, committed)) // so that there is the group
	g := gateway(t, c, harness.GatewayConfig{})
	through, directly := bothSides(c, g, "dora")[0], bothSides(c, g, "dora")[1]

	topics := func(s side, action string) harness.Step {
		return harness.Step{Mode: "topics", Settings: map[string]string{"bootstrap": s.bootstrap, "action": action, "topic": app + "-made"}}
	}
	look := func(s side) []harness.StepResult {
		did, ran := foreign(ctx, t, harness.Librdkafka, s,
			harness.Step{Mode: "describe", Settings: map[string]string{"bootstrap": s.bootstrap, "topic": app, "group": app, "p.debug": talkative}},
			topics(s, "create"), topics(s, "delete"),
		)
		if s.outside { // what knowsOnly looks for is what would be there
			if !strings.Contains(ran.Output(), site.LoopbackPrefix()) {
				t.Error("librdkafka does not log the brokers' addresses that it knows")
			}
		} else {
			knowsOnly(t, c, g, "librdkafka", ran.Output())
		}
		return did
	}
	a, b := look(through), look(directly)
	if !maps.Equal(a[0].Values, b[0].Values) || a[0].Values["topics"] != app || a[0].Values["brokers"] != "1 2 3" {
		t.Errorf("it sees through the gateway %v, directly %v", a[0].Values, b[0].Values)
	}
	for _, node := range a[0].Nodes {
		if !slices.Contains(g.Addresses(c), node) {
			t.Errorf("it was told of %s", node)
		}
	}
	if !slices.Equal(b[0].Nodes, c.ControlAddresses()) {
		t.Errorf("directly it was told of %v: what is not told through the gateway says nothing", b[0].Nodes)
	}
	for i, action := range map[int]string{1: "create", 2: "delete"} {
		if !maps.Equal(a[i].Errors, b[i].Errors) || len(a[i].Errors) == 0 {
			t.Errorf("%s without the right: through the gateway %v, directly %v", action, a[i].Messages, b[i].Messages)
		}
	}

	for _, op := range []kmsg.ACLOperation{kmsg.ACLOperationCreate, kmsg.ACLOperationDelete} {
		must(t, c.Admin.Grant(ctx, harness.Grant{Principal: "dora", Type: kmsg.ACLResourceTypeTopic, Name: app, Prefixed: true, Operation: op}))
	}
	did, _ := foreign(ctx, t, harness.Librdkafka, through, topics(through, "create"), topics(through, "create"), topics(through, "delete"))
	if did[0].Count != 1 || did[2].Count != 1 {
		t.Errorf("with the right: %v, %v", did[0].Messages, did[2].Messages)
	}
	if did[1].Errors["TOPIC_ALREADY_EXISTS"] != 1 {
		t.Errorf("the topic was not made: %v", did[1].Messages)
	}
	noFaults(ctx, t, g)
}

// Case B06.
func TestLibrdkafkaReadsOnWhileLeadersMove(t *testing.T) {
	c := cluster(t)
	ctx := within(t, 4*time.Minute)
	app := name(t, "app")
	must(t, c.Admin.Grant(ctx, harness.AppGrants("lena", app)...))
	of := series{app, "m", 4_000}.make(ctx, t, c)
	g := gateway(t, c, harness.GatewayConfig{})
	through := bothSides(c, g, "lena")[0]

	start := func(step harness.Step) *harness.ForeignClient {
		client, err := site.StartForeign(ctx, through.run(harness.Librdkafka, step))
		must(t, err)
		return client
	}
	readers := map[string]*harness.ForeignClient{}
	for group, protocol := range map[string]string{app + "-classic": "classic", app + "-next": nextProtocol(ctx, t, c)} {
		readers[group] = start(of.step("consume", g.Bootstrap, "group", group, "protocol", protocol, "p.debug", talkative))
	}
	writer := start(of.step("produce", g.Bootstrap, "rate", "1000", "p.debug", talkative+",eos"))
	for slices.Min(ends(ctx, t, c, of.topic)) == 0 { // see TestLeaksNothingWhileLeadersMove
		time.Sleep(100 * time.Millisecond)
	}
	var all errgroup.Group
	for p := range int32(partitions) {
		all.Go(func() error {
			for at := p + 1; writer.Alive() || at < p+3; at++ {
				if err := c.Admin.MoveLeader(ctx, of.topic, p, 1+at%3); err != nil {
					return err
				}
			}
			return nil
		})
	}
	must(t, all.Wait())
	wrote, err := writer.Results(ctx)
	must(t, err)
	of.judge(t, "written", wrote[0].Tally, false)
	t.Logf("the writer: %v %v", wrote[0].Values, wrote[0].Messages)
	knowsOnly(t, c, g, "the writer", writer.Output())
	again := map[string]int{} // how many records each group has read twice
	for group, reader := range readers {
		read, err := reader.Results(ctx)
		must(t, err)
		of.judge(t, "read by "+group, read[0].Tally, true)
		if read[0].Values["overtaken"] == "" {
			again[group] = read[0].Duplicates
		}
		t.Logf("%s: %v %v", group, read[0].Values, read[0].Messages)
		knowsOnly(t, c, g, group, reader.Output())
	}

	// When leaders move soon after one another, librdkafka may send a batch before the
	// one that it has to repeat. Told of the gap, it begins a new epoch and sends all
	// that is unanswered as if for the first time, so that what was stored is stored
	// twice. It does so directly too, and logs it: without that, nothing may be.
	twice := storedInTheEnd(ctx, t, c, of.topic) - of.records
	bumped := strings.Contains(writer.Output(), "epoch bump")
	t.Logf("%d records are stored twice, a new epoch: %t", twice, bumped)
	if twice < 0 || twice > 0 && !bumped {
		t.Errorf("%d records are stored twice, and the writer has begun no new epoch", twice)
	}
	for group, n := range again {
		if n > twice {
			t.Errorf("%s has read %d records twice, but %d are stored so", group, n, twice)
		}
	}
	noFaults(ctx, t, g)
}
