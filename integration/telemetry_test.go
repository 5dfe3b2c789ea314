//go:build integration

package integration

// This file proves what takes a cluster with settings of its own: clients' metrics (KIP-714)
// get to a broker with a plugin for them as they do directly, over renewals of the session
// and up to the last push of librdkafka when it closes; 90 MB in one request and 120 MB in one
// answer pass, where brokers and limits.frame let them, and end with a line that says so
// where not; and readers that stop in the midst of 50 MB cost the gateway little, disturb
// nobody, and read on to the last byte.

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"

	"doorkeeper/integration/harness"
)

func TestMetricsAndLargeFrames(t *testing.T) {
	cfg, err := site.TelemetrySink(harness.ClusterConfig{
		Nodes: 1, Heap: "768m", Reauth: 3 * time.Second,
		Properties: map[string]string{"fetch.max.bytes": "140000000", "telemetry.max.bytes": "4194304"},
	})
	must(t, err)
	c := ownCluster(t, cfg)
	t.Run("telemetry", func(t *testing.T) { telemetryAsDirectly(t, c) })
	t.Run("large frames", func(t *testing.T) { largeFramesAsDirectly(t, c) })
	t.Run("paused readers", func(t *testing.T) { pausedReadersReadOn(t, c) })
}

// oneLeader makes a topic of one partition, on the only node, for messages of any size.
func oneLeader(ctx context.Context, t *testing.T, c *harness.Cluster, user, topic string) {
	t.Helper()
	must(t, c.Admin.Grant(ctx, harness.AppGrants(user, topic)...))
	must(t, c.Admin.SpreadTopic(ctx, topic, 1))
	largest, segment := "100000000", "1000000000"
	_, err := c.Admin.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Name: "max.message.bytes", Value: &largest}, {Name: "segment.bytes", Value: &segment}}, topic)
	must(t, err)
}

// B60.
func telemetryAsDirectly(t *testing.T, c *harness.Cluster) {
	ctx := within(t, 2*time.Minute)
	app := name(t, "app")
	must(t, c.Admin.Grant(ctx, harness.AppGrants("tom", app)...))
	of := series{app, "t", 300}.make(ctx, t, c)
	g := gateway(t, c, harness.GatewayConfig{})
	must(t, c.Admin.Subscribe(ctx, app, 500))
	sides := bothSides(c, g, "tom")
	for _, s := range sides {
		leg := rawLeg(ctx, t, s.node(1), s.as, app)
		if offered := served(t, leg); offered[71] != [2]int16{} || offered[72] != [2]int16{} {
			t.Errorf("%s: versions %v and %v of the APIs for metrics", s.name, offered[71], offered[72])
		} else if _, there := offered[71]; !there {
			t.Errorf("%s: the APIs for metrics are not offered", s.name)
		}
		// A client that asks before the broker knows of it asks again in five minutes only.
		eventually(t, func() error {
			resp, err := leg.Request(kmsg.NewPtrGetTelemetrySubscriptionsRequest())
			must(t, err)
			if len(resp.(*kmsg.GetTelemetrySubscriptionsResponse).RequestedMetrics) == 0 {
				return fmt.Errorf("%s: no subscription", s.name)
			}
			return nil
		})
	}

	// Java and librdkafka push for as long as a few lives of their sessions last, librdkafka
	// once more at its end (Java does so now and then). As directly, so through the gateway.
	var clients sync.WaitGroup
	outputs := make([]string, 4)
	for i, s := range sides { // pushes of both at the same time
		id := func(kind string) string { return kind + s.topicSuffix }
		clients.Go(func() {
			java, err := site.StartJava(harness.JavaRun{Certificate: s.as, Outside: s.outside, Steps: []harness.JavaStep{
				of.step("produce", s.bootstrap, "rate", "35", "p.client.id", id("java")),
			}})
			if err != nil {
				t.Error(err)
				return
			}
			results, err := java.Results(ctx)
			if err != nil {
				t.Error(err)
				return
			}
			of.judgeJava(t, "written by Java "+s.name, results[0])
			outputs[2*i] = java.Output()
		})
		clients.Go(func() {
			did, ran := foreign(ctx, t, harness.Librdkafka, s, of.step("produce", s.bootstrap, "rate", "35", "p.client.id", id("rdkafka"), "p.debug", "telemetry"))
			of.judge(t, "written by librdkafka "+s.name, did[0].Tally, false)
			outputs[2*i+1] = ran.Output()
		})
	}
	clients.Wait()
	if n := metricsOf(t, g).Sum("doorkeeper_renewals_total", `result="ok"`); n < 2 {
		t.Errorf("only %v renewals: nothing is shown about pushes over them", n)
	}
	for _, kind := range []string{"java", "rdkafka"} {
		got := map[string][]harness.Push{}
		eventually(t, func() error { // the log may be behind
			all, err := c.Node(1).Pushes()
			for _, s := range sides {
				got[s.name] = slices.DeleteFunc(slices.Clone(all), func(p harness.Push) bool { return p.Client != kind+s.topicSuffix })
				if last := len(got[s.name]) - 1; err == nil && (last < 0 || kind == "rdkafka" && !got[s.name][last].Terminating) {
					err = fmt.Errorf("%s %s: %d pushes, and not one from the end", kind, s.name, last+1)
				}
			}
			return err
		})
		through, directly := got["through the gateway"], got["directly"]
		t.Logf("%s: pushes through the gateway %+v, directly %+v", kind, through, directly)
		if len(through) < 3 || len(directly) < 3 || 2*len(through) < len(directly) {
			t.Errorf("%s: %d pushes through the gateway, %d directly", kind, len(through), len(directly))
		}
		for i, p := range through {
			if p.Principal != "tom" || p.Instance != through[0].Instance || p.Bytes == 0 || p.Terminating && i != len(through)-1 {
				t.Errorf("%s: push %d of %d is %+v, of the first one's instance %s", kind, i, len(through), p, through[0].Instance)
			}
		}
	}
	for _, output := range outputs {
		for _, line := range strings.Split(output, "\n") {
			if low := strings.ToLower(line); strings.Contains(low, "telemetry") && (strings.Contains(low, "warn") || strings.Contains(low, "error") || strings.Contains(low, "fail")) {
				t.Errorf("a client complains: %s", line)
			}
		}
	}

	// Without a subscription they ask and do not push.
	must(t, c.Admin.Subscribe(ctx, app, 0))
	before, err := c.Node(1).Pushes()
	must(t, err)
	quiet := series{of.topic, "q", 100}
	results, ran, err := site.Java(ctx, harness.JavaRun{Certificate: site.Client("tom"), Steps: []harness.JavaStep{quiet.step("produce", g.Bootstrap, "rate", "50")}})
	must(t, err)
	quiet.judgeJava(t, "written without a subscription", results[0])
	if strings.Contains(strings.ToLower(ran.Output()), "telemetry") {
		t.Errorf("it speaks of telemetry:\n%s", ran.Output())
	}
	if after, err := c.Node(1).Pushes(); err != nil || len(after) != len(before) {
		t.Errorf("%d pushes more, %v", len(after)-len(before), err)
	}
	noFaults(ctx, t, g)
}

// B52: what is large and legal, and what is above the limit that is set.
func largeFramesAsDirectly(t *testing.T, c *harness.Cluster) {
	ctx := within(t, 3*time.Minute)
	topic := name(t, "t")
	oneLeader(ctx, t, c, "max", topic)
	g := gateway(t, c, harness.GatewayConfig{Plain: true})
	sent := map[int]uint32{} // bytes → checksum
	offset := int64(0)
	for _, s := range bothSides(c, g, "max") {
		leg := rawLeg(ctx, t, s.node(1), s.as, topic)
		must(t, leg.SetDeadline(time.Now().Add(2*time.Minute)))
		write := func(megabytes int) {
			value := bytes.Repeat([]byte("0123456789abcdef"), megabytes<<20/16)
			copy(value, s.name)
			req := produce(topic, 0, -1, batch([]byte("k"), value))
			sent[megabytes] = crc32.ChecksumIEEE(value)
			correlation, err := leg.Send(req)
			must(t, err)
			r := wantAnswer(t, leg, req, correlation).(*kmsg.ProduceResponse)
			if got := r.Topics[0].Partitions[0].BaseOffset; got != offset {
				t.Errorf("%s: %d MB are at offset %d, not %d", s.name, megabytes, got, offset)
			}
			offset++
		}
		write(90)
		write(60)
		write(60)
		// The last two in one answer.
		req := fetch(topic, 0, offset-2, 140_000_000, 1, time.Second)
		correlation, err := leg.Send(req)
		must(t, err)
		r := wantAnswer(t, leg, req, correlation).(*kmsg.FetchResponse)
		if n := len(r.Topics[0].Partitions[0].RecordBatches); n < 120<<20 {
			t.Errorf("%s: the fetch brought %d bytes, not 120 MB", s.name, n)
		}
		req = fetch(topic, 0, offset-3, 100_000_000, 1, time.Second) // and the first by itself
		correlation, err = leg.Send(req)
		must(t, err)
		r = wantAnswer(t, leg, req, correlation).(*kmsg.FetchResponse)
		b := first(r.Topics[0].Partitions[0].RecordBatches)
		if n := len(b); n < 90<<20 || crc32.ChecksumIEEE(valueOf(b, 90<<20)) != sent[90] {
			t.Errorf("%s: the fetch brought %d bytes, or not those that were sent", s.name, n)
		}
		must(t, leg.Close())
	}
	resources := rss(t, g)
	t.Logf("the gateway's memory after 210 MB in and 210 MB out: %s", kib(resources))
	if resources > 96<<20 {
		t.Errorf("the gateway holds %s", kib(resources))
	}
	noFaults(ctx, t, g)

	low := gateway(t, c, harness.GatewayConfig{Change: func(d harness.Document) { d.Set("limits.frame", "1MiB") }})
	r := rawReady(t, low, low.NodeAddress(1), "max")
	_, _ = r.Write(frame(produce(topic, 0, -1, batch(nil, make([]byte, 2<<20))), 9))
	_ = ended(r, patience) // by a reset too: not all was read
	oneLine(t, low, r.LocalAddr(), map[string]string{"msg": "session ended", "reason": "bad_request", "cause": "limits.frame"})
}

// first is the first of several batches, of which the last may be cut.
func first(batches []byte) []byte {
	const before = 12 // its base offset and its length
	return batches[:min(len(batches), before+int(binary.BigEndian.Uint32(batches[8:])))]
}

// valueOf is the value of a batch's one record, whose headers, of which there are none,
// are its last byte.
func valueOf(batch []byte, size int) []byte {
	at := max(0, len(batch)-1-size)
	return batch[at : len(batch)-1]
}

// B32: many readers stop in the midst of an answer of 50 MB each, beside one that goes on.
func pausedReadersReadOn(t *testing.T, c *harness.Cluster) {
	const (
		size = 50 << 20
		most = 256 << 10 // of memory, for each
	)
	readers := 12
	if os.Getenv("DOORKEEPER_SLOW") != "" {
		readers = 200
	}
	ctx := within(t, 10*time.Minute)
	topic := name(t, "t")
	oneLeader(ctx, t, c, "max", topic)
	g := gateway(t, c, harness.GatewayConfig{Plain: true, Env: []string{"GOGC=20"}, Change: func(d harness.Document) {
		d.Set("limits.sessions_per_address", 2*readers+50)
		d.Set("timeouts.stall", "10m") // it takes this machine long to read what hundreds were sent
	}})
	address := g.NodeAddress(1)
	writer := rawReady(t, g, address, "max")
	must(t, writer.SetDeadline(time.Now().Add(time.Minute)))
	sent := produce(topic, 0, -1, batch([]byte("k"), bytes.Repeat([]byte("fedcba9876543210"), size/16)))
	correlation, err := writer.Send(sent)
	must(t, err)
	wantAnswer(t, writer, sent, correlation)
	ask := frame(fetch(topic, 0, 0, size+1<<20, 1, time.Second), 7)
	whole := func(r io.Reader) (size int, sum uint32, err error) {
		var length [4]byte
		if _, err := io.ReadFull(r, length[:]); err != nil {
			return 0, 0, err
		}
		h := crc32.NewIEEE()
		n, err := io.CopyN(h, r, int64(binary.BigEndian.Uint32(length[:])))
		return int(n), h.Sum32(), err
	}
	_, err = writer.Write(ask)
	must(t, err)
	n, want, err := whole(writer)
	must(t, err)
	if n < size {
		t.Fatalf("an answer of %d bytes", n)
	}

	paused := make([]*harness.Raw, readers)
	inTurn(readers, func(i int) { paused[i] = persistent(t, g, address, "max") })
	stop := witness(t, g, "innocent")
	defer stop()
	alone := slowest(t, g, address)
	idle := settled(t, g)
	for _, r := range paused {
		_, err := r.Write(ask)
		must(t, err)
	}
	grown := settled(t, g) - idle // all buffers are full by now
	beside := slowest(t, g, address)
	t.Logf("%d readers pause: each costs %d bytes; the slowest of 100 requests beside them took %v, before %v", readers, grown/readers, beside, alone)
	if grown > readers*most {
		t.Errorf("each paused reader costs %d bytes", grown/readers)
	}
	if beside > alone+2*time.Second {
		t.Errorf("a request beside them took %v, before %v", beside, alone)
	}
	inTurn(readers, func(i int) {
		_ = paused[i].SetReadDeadline(time.Now().Add(5 * time.Minute))
		if n, sum, err := whole(paused[i]); err != nil || sum != want {
			t.Errorf("reader %d: %d bytes, %v, checksum %x, not %x", i, n, err, sum, want)
		}
	})
	noFaults(ctx, t, g)
}

// slowest asks a hundred times for something small, and returns how long it took at most.
func slowest(t *testing.T, g *harness.Gateway, address string) (most time.Duration) {
	t.Helper()
	r := rawReady(t, g, address, "innocent")
	defer func() { _ = r.Close() }()
	for range 100 {
		began := time.Now()
		resp, err := r.Request(metadata())
		must(t, err)
		if n := len(resp.(*kmsg.MetadataResponse).Brokers); n != 1 {
			t.Errorf("%d brokers", n)
		}
		most = max(most, time.Since(began))
	}
	return most
}
