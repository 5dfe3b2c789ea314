//go:build integration

package integration

// What the scenarios that produce and consume have in common: series of records
// that every client writes and reads alike, and how they are judged.

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"doorkeeper/integration/checker"
	"doorkeeper/integration/harness"
)

const (
	partitions = 6 // of every topic here: each of three brokers leads two
	recordSize = 100
)

// series is so many records of one prefix in one topic, in turn to all partitions.
type series struct {
	topic, prefix string
	records       int
}

// make makes the topic, led by all brokers, on three replicas.
func (s series) make(ctx context.Context, t *testing.T, c *harness.Cluster) series {
	t.Helper()
	must(t, c.Admin.SpreadTopic(ctx, s.topic, partitions))
	return s
}

func (s series) expected() harness.Tally { return harness.Expected(s.prefix, s.records, recordSize) }

func (s series) record(i int) *kgo.Record { return s.ledger().Record(i, int32(i%partitions)) }

// ledger is an empty one of the series' writer.
func (s series) ledger() *checker.Ledger {
	return &checker.Ledger{Topic: s.topic, Prefix: s.prefix, Size: recordSize}
}

// produce writes the series by franz-go and returns what was acknowledged. rate is
// in records a second, 0 for as many as go.
func (s series) produce(ctx context.Context, client *kgo.Client, rate int) (harness.Tally, error) {
	var tally harness.Tally
	l := s.ledger()
	err := l.Write(ctx, client, s.records, partitions, rate)
	l.EachAcked(func(i int) {
		key := checker.Key(s.prefix, i)
		tally.Add(s.prefix, recordSize, key, checker.Value(key, recordSize))
	})
	return tally, err
}

// consume reads by franz-go until it has seen every record of the series; ctx ends
// it, too, with what it has seen.
func (s series) consume(ctx context.Context, client *kgo.Client) (harness.Tally, error) {
	var tally harness.Tally
	for tally.Count < s.records {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return tally, fmt.Errorf("consume %s after %d records: %w", s.topic, tally.Count, err)
		}
		fetches.EachRecord(func(r *kgo.Record) { tally.Add(s.prefix, recordSize, r.Key, r.Value) })
	}
	return tally, nil
}

// step is one for the Java client, with more settings as pairs.
func (s series) step(mode, bootstrap string, more ...string) harness.JavaStep {
	settings := map[string]string{
		"bootstrap": bootstrap, "topic": s.topic, "prefix": s.prefix,
		"records": strconv.Itoa(s.records), "size": strconv.Itoa(recordSize),
	}
	if mode == "consume" { // it ends with the last record that is due; a slow machine gets its time
		settings["quiet.ms"], settings["deadline.s"] = "180000", "240"
	}
	for i := 0; i < len(more); i += 2 {
		settings[more[i]] = more[i+1]
	}
	return harness.JavaStep{Mode: mode, Settings: settings}
}

// judge compares what a client saw with what there is. Reading records again after
// a rebalance is every group's lot, so "overtaken" pardons duplicates.
func (s series) judge(t *testing.T, what string, got harness.Tally, overtaken bool) {
	t.Helper()
	want := s.expected()
	if overtaken {
		got.Duplicates = 0
	}
	if !got.Same(want) {
		t.Errorf("%s: %d records, sum %d, %d twice, %d foreign; wanted %d, sum %d, and neither",
			what, got.Count, got.Sum, got.Duplicates, got.Foreign, want.Count, want.Sum)
	}
}

// judgeJava does that to a step of the Java client, which must not have failed either.
func (s series) judgeJava(t *testing.T, what string, r harness.JavaResult) {
	t.Helper()
	t.Logf("%s: %d records in %d ms", what, r.Count, r.Millis)
	if len(r.Errors) > 0 || len(r.Fatal) > 0 {
		t.Errorf("%s: errors %v %v", what, r.Errors, r.Messages)
	}
	s.judge(t, what, r.Tally, r.Values["overtaken"] != "")
}

// stored is how many offsets a topic has, as the cluster says.
func stored(ctx context.Context, t *testing.T, c *harness.Cluster, topic string) int {
	t.Helper()
	n := 0
	for _, end := range ends(ctx, t, c, topic) {
		n += end
	}
	return n
}

// ends are the high watermarks of a topic's partitions, in their order, as the cluster
// says.
func ends(ctx context.Context, t *testing.T, c *harness.Cluster, topic string) []int {
	t.Helper()
	listed, err := c.Admin.ListEndOffsets(ctx, topic)
	must(t, errors.Join(err, listed.Error()))
	out := make([]int, len(listed[topic]))
	for _, p := range listed[topic] {
		out[p.Partition] = int(p.Offset)
	}
	return out
}

// franz is a client that is closed with the test, and places records as told.
func franz(t *testing.T, dials *harness.Dials, as *harness.Certificate, bootstrap string, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	client, err := dials.Client(as, append([]kgo.Opt{
		kgo.SeedBrokers(bootstrap), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		// What is read of a client that goes is delivered, so the gateway waits for its
		// last fetch: not for 5 s at the end of every test.
		kgo.FetchMaxWait(500 * time.Millisecond),
	}, opts...)...)
	must(t, err)
	t.Cleanup(client.Close)
	return client
}

// produceRequest is a Produce of one record at a version.
func produceRequest(version, acks int16, id [16]byte, r *kgo.Record) *kmsg.ProduceRequest {
	req := produce(r.Topic, r.Partition, acks, batch(r.Key, r.Value))
	req.Version, req.Topics[0].TopicID = version, id
	return req
}

// metadataRequest is a Metadata for topics at a version.
func metadataRequest(version int16, topics ...string) *kmsg.MetadataRequest {
	req := metadata(topics...)
	req.Version = version
	return req
}

// rawLeg is a connection that is closed with the test.
func rawLeg(ctx context.Context, t *testing.T, address string, as *harness.Certificate, clientID string) *harness.Raw {
	t.Helper()
	raw, err := harness.DialRaw(ctx, address, as.ClientTLS())
	must(t, err)
	raw.As(clientID)
	t.Cleanup(func() { _ = raw.Close() })
	return raw
}

// served is the range of versions of each API that the other side offers.
func served(t *testing.T, raw *harness.Raw) map[int16][2]int16 {
	t.Helper()
	req := kmsg.NewPtrApiVersionsRequest()
	req.Version, req.ClientSoftwareName, req.ClientSoftwareVersion = 3, "raw", "1"
	resp, err := raw.Request(req)
	must(t, err)
	versions := resp.(*kmsg.ApiVersionsResponse)
	must(t, kerr.ErrorForCode(versions.ErrorCode))
	out := map[int16][2]int16{}
	for _, k := range versions.ApiKeys {
		out[k.ApiKey] = [2]int16{k.MinVersion, k.MaxVersion}
	}
	return out
}

// metricsNow are a gateway's at this moment.
func metricsNow(ctx context.Context, t *testing.T, g *harness.Gateway) harness.Metrics {
	t.Helper()
	m, err := g.Metrics(ctx)
	must(t, err)
	return m
}

// noFaults checks that no session of a gateway ended by a fault of the gateway's, or
// by one that a broker or a client saw; nothing panicked either. A login that took a
// slow machine too long is none: the client came again.
func noFaults(ctx context.Context, t *testing.T, g *harness.Gateway) {
	t.Helper()
	m := metricsNow(ctx, t, g)
	faults := m.Sum("doorkeeper_panics_total")
	for _, reason := range []string{
		"panic", "broker_lost", "broker_protocol", "answer_too_large", "bad_request", "refused_api", "client_stalled", "unknown_node", "renewal_failed",
	} {
		faults += m.Sum("doorkeeper_session_ends_total", `reason="`+reason+`"`)
	}
	if faults == 0 {
		return
	}
	t.Errorf("%v sessions ended by faults:", faults)
	for series, v := range m {
		if strings.HasPrefix(series, "doorkeeper_") {
			t.Logf("  %s %v", series, v)
		}
	}
}
