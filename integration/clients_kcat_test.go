//go:build integration

package integration

// This file proves that kcat, with Debian's older librdkafka, works through the
// gateway: it lists the gateway's addresses and no others, and writes and reads, alone,
// as a group and in a transaction, exact by count and checksum.

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"doorkeeper/integration/harness"
)

// kcat runs it from one of the two sides; it must end with 0.
func kcat(ctx context.Context, t *testing.T, s side, stdin string, args ...string) harness.Ended {
	t.Helper()
	began := time.Now()
	ended, err := site.Kcat(ctx, harness.KcatRun{Certificate: s.as, Bootstrap: s.bootstrap, Outside: s.outside, Args: args, Stdin: stdin})
	must(t, err)
	if err := ended.OK(); err != nil {
		t.Fatalf("kcat %v: %v", args, err)
	}
	t.Logf("kcat %v: %v", args, time.Since(began).Round(time.Millisecond))
	return ended
}

// lines are the series as kcat reads and writes it with -K ":".
func (s series) lines() string {
	var b strings.Builder
	for i := range s.records {
		r := s.record(i)
		fmt.Fprintf(&b, "%s:%s\n", r.Key, r.Value)
	}
	return b.String()
}

// tally counts such lines.
func (s series) tally(lines string) harness.Tally {
	var tally harness.Tally
	for line := range strings.Lines(lines) {
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		tally.Add(s.prefix, recordSize, []byte(key), []byte(value))
	}
	return tally
}

func TestKcatListsTheGatewayAlone(t *testing.T) {
	c := cluster(t)
	ctx := within(t, time.Minute)
	app := name(t, "app")
	must(t, c.Admin.Grant(ctx, harness.AppGrants("kim", app)...))
	series{app, "k", 0}.make(ctx, t, c)
	g := gateway(t, c, harness.GatewayConfig{})

	for _, s := range bothSides(c, g, "kim") {
		listed, err := kcat(ctx, t, s, "", "-L", "-J").Metadata()
		must(t, err)
		var names, wanted []string
		for _, b := range listed.Brokers {
			names = append(names, fmt.Sprint(b.ID, " ", b.Name))
		}
		for _, n := range c.Nodes {
			wanted = append(wanted, fmt.Sprint(n.ID, " ", s.node(n.ID)))
		}
		slices.Sort(names)
		if !slices.Equal(names, wanted) {
			t.Errorf("%s: the brokers are %v, not %v", s.name, names, wanted)
		}
		if len(listed.Topics) != 1 || listed.Topics[0].Topic != app || len(listed.Topics[0].Partitions) != partitions {
			t.Errorf("%s: the topics are %v", s.name, listed.Topics)
			continue
		}
		for _, p := range listed.Topics[0].Partitions {
			if p.Leader != 1+p.Partition%3 || len(p.Replicas) != 3 {
				t.Errorf("%s: partition %d is led by %d and has the replicas %v", s.name, p.Partition, p.Leader, p.Replicas)
			}
		}
	}
	noFaults(ctx, t, g)
}

func TestKcatWritesAndReads(t *testing.T) {
	c := cluster(t)
	ctx := within(t, 3*time.Minute)
	app := name(t, "app")
	must(t, c.Admin.Grant(ctx, harness.AppGrants("kim", app)...))
	const records = 10_000
	plain := series{app + "-plain", "k", records}.make(ctx, t, c)
	txn := series{app + "-txn", "x", records}.make(ctx, t, c)
	g := gateway(t, c, harness.GatewayConfig{})
	through := bothSides(c, g, "kim")[0]
	var said strings.Builder
	run := func(stdin string, args ...string) string {
		ended := kcat(ctx, t, through, stdin, append(args, "-d", talkative)...)
		said.WriteString(ended.Stderr)
		return ended.Stdout
	}

	run(plain.lines(), "-P", "-t", plain.topic, "-K", ":", "-X", "enable.idempotence=true")
	run(txn.lines(), "-P", "-t", txn.topic, "-K", ":", "-X", "transactional.id="+app)
	plain.judge(t, "kcat reads to the end", plain.tally(run("", "-C", "-t", plain.topic, "-K", ":", "-q", "-o", "beginning", "-e")), false)
	plain.judge(t, "kcat reads as a group", plain.tally(run("", "-G", app, "-K", ":", "-q", "-o", "beginning", "-c", strconv.Itoa(records), plain.topic)), false)
	txn.judge(t, "kcat reads its transaction", txn.tally(run("", "-C", "-t", txn.topic, "-K", ":", "-q", "-o", "beginning", "-e")), false)
	knowsOnly(t, c, g, "kcat", said.String())

	var dials harness.Dials
	for _, of := range []series{plain, txn} {
		reader := franz(t, &dials, through.as, g.Bootstrap, kgo.FetchIsolationLevel(kgo.ReadCommitted()),
			kgo.ConsumeTopics(of.topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
		read, err := of.consume(ctx, reader)
		must(t, err)
		of.judge(t, "franz-go reads kcat's "+of.topic, read, false)
	}
	noFaults(ctx, t, g)
}
