//go:build integration

package integration

// This file proves that librdkafka reads what the gateway makes of leaders' addresses at
// the end of Fetch answers that are too large to be held: with the gateway's in their
// place, filled up by a longer varint or an unknown tag, and with nothing but an unknown
// tag, after which it asks for Metadata. Brokers' names are chosen so that each of the
// three is due to one of them, and large records are read while leaders move.

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"doorkeeper/integration/checker"
	"doorkeeper/integration/harness"
)

// What the gateway says about the end of a large answer.
const (
	tailRewritten = "leaders' addresses rewritten at the end of a large answer"
	tailLeftOut   = "leaders' addresses left out of a large answer: the gateway's do not fit in their place"
)

// tailBytes is how long the end of an answer with one leader is whose host has so many
// bytes: two counts, the tag's number and length, node, port, rack-N and its length, and
// no more tags.
func tailBytes(host string) int { return 21 + len(host) }

// B06, B17, S11
func TestLibrdkafkaReadsTheEndsOfLargeAnswers(t *testing.T) {
	const records, size = 3_000, 20_000
	front, err := site.Front()
	must(t, err)
	called := func(node int32) string {
		return map[int32]string{
			1: "q9x7",                                                           // shorter than the gateway's: left out
			2: "br0ker-2." + strings.Repeat("z", len(front)+1-len("br0ker-2.")), // by one byte longer: a longer varint
			3: "br0ker-3.unheard-of.internal",                                   // longer: a tag
		}[node]
	}
	c := ownCluster(t, site.Names(harness.ClusterConfig{}, called))
	ctx := within(t, 6*time.Minute)
	app := name(t, "app")
	must(t, c.Admin.Grant(ctx, harness.AppGrants("lena", app)...))
	of := series{app, "t", records}.make(ctx, t, c)
	g := gateway(t, c, harness.GatewayConfig{Hosts: c.Hosts(called), Change: func(d harness.Document) { d.Set("log.level", "debug") }})
	through := bothSides(c, g, "lena")[0]

	reader, err := site.StartForeign(ctx, through.run(harness.Librdkafka, of.step("consume", g.Bootstrap, "group", app,
		"size", fmt.Sprint(size), "p.debug", talkative+",topic",
		// Answers wait for so much, and come at once when a leader has moved: mostly with more than 64 KiB.
		"p.fetch.min.bytes", "200000", "p.fetch.wait.max.ms", "5000")))
	must(t, err)
	seen := func() bool {
		return tails(g, tailLeftOut, called(1)) > 0 && tails(g, tailRewritten, called(2)) > 0 && tails(g, tailRewritten, called(3)) > 0
	}
	hurry := make(chan struct{})
	all, allCtx := errgroup.WithContext(ctx)
	all.Go(func() error {
		var dials harness.Dials
		writer := franz(t, &dials, through.as, g.Bootstrap, kgo.ProducerBatchCompression(kgo.NoCompression()))
		return writePaced(allCtx, writer, of, size, hurry)
	})
	all.Go(func() error {
		defer close(hurry)
		for at := int32(0); !seen() && reader.Alive(); at++ {
			// Partition after partition, to each of the nodes.
			if err := c.Admin.MoveLeader(allCtx, of.topic, at%partitions, 1+(at+at/partitions)%3); err != nil {
				return err
			}
		}
		return nil
	})
	must(t, all.Wait())
	read, err := reader.Results(ctx)
	must(t, err)
	t.Logf("ends of large answers: %d left out, %d filled by a varint, %d by a tag; %v", tails(g, tailLeftOut, called(1)),
		tails(g, tailRewritten, called(2)), tails(g, tailRewritten, called(3)), read[0].Values)
	if !seen() {
		t.Error("not every kind of an end has come")
	}
	if got, want := read[0].Tally, harness.Expected(of.prefix, records, size); !got.Same(want) || len(read[0].Errors) > 0 {
		t.Errorf("it read %+v, not %+v; errors %v %v", got, want, read[0].Errors, read[0].Messages)
	}
	output := reader.Output()
	for _, node := range []int32{2, 3} { // by the answer's end, without asking
		if !strings.Contains(output, fmt.Sprintf(": updated with leader %d ", node)) {
			t.Errorf("it has taken over no leader from the end of an answer that named node %d", node)
		}
	}
	if !strings.Contains(output, "Requesting metadata for 1/1 topics: partition leader query") {
		t.Error("it has not asked for a leader that no answer named")
	}
	for _, never := range []string{"PROTOUFLOW", "PROTOERR", "Protocol parse failure", called(1), "br0ker-", site.LoopbackPrefix()} {
		if strings.Contains(output, never) {
			t.Errorf("librdkafka says:\n%s", grep(output, never, 10))
		}
	}
	knowsOnly(t, c, g, "librdkafka", output)
	noFaults(ctx, t, g)
}

// tails counts what the gateway has said of the ends of large answers with that one
// leader.
func tails(g *harness.Gateway, what, host string) int {
	n := 0
	for _, l := range g.Lines() {
		if l["msg"] == what && l["api"] == "Fetch" && l["bytes"] == float64(tailBytes(host)) {
			n++
		}
	}
	return n
}

// writePaced writes a series of records of size bytes, 75 a second until hurry is closed,
// then as fast as they go.
func writePaced(ctx context.Context, client *kgo.Client, of series, size int, hurry <-chan struct{}) error {
	failed := make(chan error, 1)
	tick := time.NewTicker(time.Second / 75)
	defer tick.Stop()
	for i := range of.records {
		r := of.record(i)
		r.Value = checker.Value(r.Key, size)
		client.Produce(ctx, r, func(_ *kgo.Record, err error) {
			if err != nil {
				select {
				case failed <- err:
				default:
				}
			}
		})
		select {
		case <-tick.C:
		case <-hurry:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	err := client.Flush(ctx)
	select {
	case lost := <-failed:
		return errors.Join(lost, err)
	default:
		return err
	}
}
