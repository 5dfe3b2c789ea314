//go:build integration

package integration

// This file proves that producers without acknowledgements (acks=0) lose nothing
// more through the gateway than directly, with a direct run beside each: the same
// counts of 100,000 records by Java and by franz-go; everything written before a
// client closes at once is delivered; and a produce to a broker that is not the
// leader is told in the one way that Kafka has for it, a closed connection (B04).

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"doorkeeper/integration/harness"
)

// side is one of the two ways to the cluster.
type side struct {
	name        string
	as          *harness.Certificate
	bootstrap   string
	outside     bool
	node        func(id int32) string
	topicSuffix string
}

// bothSides are the gateway and, beside it, the brokers themselves.
func bothSides(c *harness.Cluster, g *harness.Gateway, user string) []side {
	return []side{
		{"through the gateway", site.Client(user), g.Bootstrap, false, g.NodeAddress, "-through"},
		{"directly", site.Direct(user), c.ControlAddresses()[0], true, func(id int32) string { return c.Node(id).ControlListener() }, "-direct"},
	}
}

func TestAcksZeroCountsAsDirectly(t *testing.T) {
	c := cluster(t)
	ctx := within(t, 5*time.Minute)
	app := name(t, "app")
	must(t, c.Admin.Grant(ctx, harness.AppGrants("alice", app)...))
	g := gateway(t, c, harness.GatewayConfig{})
	const records = 100_000

	counts := map[string]int{}
	for _, s := range bothSides(c, g, "alice") {
		byJava := series{app + "-java" + s.topicSuffix, "j", records}.make(ctx, t, c)
		byFranz := series{app + "-franz" + s.topicSuffix, "f", records}.make(ctx, t, c)
		java, err := site.StartJava(harness.JavaRun{Certificate: s.as, Outside: s.outside, Steps: []harness.JavaStep{
			byJava.step("produce", s.bootstrap, "acks", "0", "idempotent", "false"),
		}})
		must(t, err)

		var dials harness.Dials
		writer := franz(t, &dials, s.as, s.bootstrap, kgo.RequiredAcks(kgo.NoAck()), kgo.DisableIdempotentWrite())
		sent, err := byFranz.produce(ctx, writer, 0)
		must(t, err)
		byFranz.judge(t, "franz-go believes sent "+s.name, sent, false)
		writer.Close() // at once: nothing says that the broker has read it all

		results, err := java.Results(ctx)
		must(t, err)
		byJava.judgeJava(t, "Java believes sent "+s.name, results[0])

		for _, of := range []series{byJava, byFranz} {
			reader := franz(t, &dials, s.as, s.bootstrap, kgo.ConsumeTopics(of.topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
			read, err := of.consume(within(t, 2*time.Minute), reader)
			if err != nil {
				t.Error(err)
			}
			reader.Close()
			of.judge(t, "read "+s.name+" of "+of.topic, read, false)
			counts[s.name] += stored(ctx, t, c, of.topic)
		}
	}
	if a, b := counts["through the gateway"], counts["directly"]; a != b || a != 2*records {
		t.Errorf("%d records came through the gateway, %d directly", a, b)
	}
	noFaults(ctx, t, g)
}

func TestAcksZeroWhenTheClientClosesAtOnce(t *testing.T) {
	c := cluster(t)
	ctx := within(t, 5*time.Minute)
	app := name(t, "app")
	must(t, c.Admin.Grant(ctx, harness.AppGrants("alice", app)...))
	g := gateway(t, c, harness.GatewayConfig{})
	const records = 500 // of 100 bytes each: more than one socket buffer of frames

	for _, s := range bothSides(c, g, "alice") {
		of := series{app + s.topicSuffix, "z", records}.make(ctx, t, c)
		for leader := range int32(3) { // partitions leader and leader+3 are node leader+1's
			leg := rawLeg(ctx, t, s.node(leader+1), s.as, app)
			// Its answer also takes what TLS 1.3 sends after the handshake: unread, it
			// would turn the close into a reset.
			served(t, leg)
			for i := range records {
				if r := of.record(i); r.Partition%3 == leader {
					_, err := leg.Send(produceRequest(9, 0, [16]byte{}, r))
					must(t, err)
				}
			}
			must(t, leg.Close())
		}
		var dials harness.Dials
		reader := franz(t, &dials, s.as, s.bootstrap, kgo.ConsumeTopics(of.topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
		read, err := of.consume(within(t, 2*time.Minute), reader)
		if err != nil {
			t.Errorf("%s: %v", s.name, err)
		}
		of.judge(t, s.name, read, false)
	}
}

func TestAcksZeroToAnotherThanTheLeader(t *testing.T) {
	c := cluster(t)
	ctx := within(t, time.Minute)
	app := name(t, "app")
	must(t, c.Admin.Grant(ctx, harness.AppGrants("alice", app)...))
	g := gateway(t, c, harness.GatewayConfig{})
	of := series{app, "n", 1}.make(ctx, t, c) // partition 0 is node 1's

	for _, s := range bothSides(c, g, "alice") {
		leg := rawLeg(ctx, t, s.node(2), s.as, app)
		served(t, leg)
		_, err := leg.Send(produceRequest(9, 0, [16]byte{}, of.record(0)))
		must(t, err)
		must(t, leg.SetReadDeadline(time.Now().Add(30*time.Second)))
		if _, _, err := leg.Receive(); !errors.Is(err, io.EOF) {
			t.Errorf("%s: the connection was not closed: %v", s.name, err)
		}
	}
}

// B04: on one connection, without reading in between, produces that are not answered,
// some that are, and other requests: each answer comes to its own request, in order; all
// records are there; and in the end nothing is taken for unanswered.
func TestAcksZeroBetweenOthers(t *testing.T) {
	c := cluster(t)
	ctx := within(t, 2*time.Minute)
	app := name(t, "app")
	must(t, c.Admin.Grant(ctx, harness.AppGrants("alice", app)...))
	const rounds = 1500
	g := gateway(t, c, harness.GatewayConfig{})
	for _, s := range bothSides(c, g, "alice") {
		of := series{app + s.topicSuffix, "i", 0}.make(ctx, t, c)
		leg := rawLeg(ctx, t, s.node(1), s.as, app)
		served(t, leg)
		var wrote sync.WaitGroup
		wrote.Go(func() { // ahead of the answers, as far as the buffers go
			var all []byte
			for i := range int32(rounds) {
				r := of.record(int(i))
				r.Partition = 0 // node 1's
				all = append(all, leg.Frame(produceRequest(9, 0, [16]byte{}, r), 10*i)...)
				if i%3 == 1 {
					all = append(all, leg.Frame(produceRequest(9, 1, [16]byte{}, r), 10*i+1)...)
				}
				if i%5 == 2 {
					all = append(all, leg.Frame(metadata(), 10*i+2)...)
				}
			}
			if _, err := leg.Write(append(all, leg.Frame(metadata(), 10*rounds)...)); err != nil {
				t.Error(err)
			}
		})
		must(t, leg.SetReadDeadline(time.Now().Add(2*patience)))
		acked := 0
		for i := range int32(rounds) {
			if i%3 == 1 {
				wantAnswer(t, leg, produceRequest(9, 1, [16]byte{}, of.record(0)), 10*i+1)
				acked++
			}
			if i%5 == 2 {
				wantAnswer(t, leg, metadata(), 10*i+2)
			}
		}
		wantAnswer(t, leg, metadata(), 10*rounds)
		wrote.Wait()
		// Followers have what the leader has a moment later; before, nobody may read it.
		for end := time.Now().Add(patience); stored(ctx, t, c, of.topic) < rounds+acked && time.Now().Before(end); {
			time.Sleep(100 * time.Millisecond)
		}
		if n := stored(ctx, t, c, of.topic); n != rounds+acked {
			t.Errorf("%s: %d records are stored of %d", s.name, n, rounds+acked)
		}
		must(t, leg.Close())
		if !s.outside {
			oneLine(t, g, leg.LocalAddr(), map[string]string{
				"msg": "session ended", "reason": "client_closed", "unanswered": "0",
				"requests": fmt.Sprint(1 + rounds + acked + rounds/5 + 1), "answers": fmt.Sprint(1 + acked + rounds/5 + 1),
			})
		}
	}
	noFaults(ctx, t, g)
}
