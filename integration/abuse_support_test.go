//go:build integration

package integration

// What the tests of abuse, bad input and trouble share: connections byte by byte,
// requests made by hand, and a look into the gateway's log.

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"doorkeeper/integration/checker"
	"doorkeeper/integration/harness"
)

// patience is for what should take no time and must not fail on a slow machine.
const patience = 30 * time.Second

// rawClient is a connection of user's to one of the gateway's addresses, after the TLS
// handshake and before any Kafka byte. It ends with the test.
func rawClient(t *testing.T, g *harness.Gateway, address, user string) *harness.Raw {
	t.Helper()
	r, err := harness.DialRaw(within(t, patience), address, g.TLS(site.Client(user)))
	must(t, err)
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// rawReady is rawClient with its first request answered: it has its broker leg.
func rawReady(t *testing.T, g *harness.Gateway, address, user string) *harness.Raw {
	t.Helper()
	r := rawClient(t, g, address, user)
	_, err := r.Request(metadata())
	must(t, err)
	return r
}

// metadata asks for the brokers, and for these topics.
func metadata(topics ...string) *kmsg.MetadataRequest {
	req := kmsg.NewPtrMetadataRequest()
	req.Version = 9
	req.Topics = []kmsg.MetadataRequestTopic{}
	for _, name := range topics {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = kmsg.StringPtr(name)
		req.Topics = append(req.Topics, t)
	}
	return req
}

// produce is one batch for one partition.
func produce(topic string, partition int32, acks int16, batch []byte) *kmsg.ProduceRequest {
	p := kmsg.NewProduceRequestTopicPartition()
	p.Partition, p.Records = partition, batch
	t := kmsg.NewProduceRequestTopic()
	t.Topic, t.Partitions = topic, append(t.Partitions, p)
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks, req.TimeoutMillis = 9, acks, 20_000
	req.Topics = append(req.Topics, t)
	return req
}

// fetch reads one partition from offset on; with minBytes it waits for so many,
// but no longer than wait.
func fetch(topic string, partition int32, offset int64, maxBytes, minBytes int32, wait time.Duration) *kmsg.FetchRequest {
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.FetchOffset, p.PartitionMaxBytes = partition, offset, maxBytes
	t := kmsg.NewFetchRequestTopic()
	t.Topic, t.Partitions = topic, append(t.Partitions, p)
	req := kmsg.NewPtrFetchRequest()
	req.Version, req.MaxBytes, req.MinBytes, req.MaxWaitMillis = 12, maxBytes, minBytes, int32(wait.Milliseconds())
	req.Topics = append(req.Topics, t)
	return req
}

// batch is a record batch (magic 2) of one record.
func batch(key, value []byte) []byte { return origin{-1, -1, -1, false}.batch(key, value) }

// origin is the producer that a batch says it comes from.
type origin struct {
	id       int64
	epoch    int16
	sequence int32
	txn      bool
}

func (o origin) batch(key, value []byte) []byte {
	record := kmsg.Record{Key: key, Value: value}
	record.Length = int32(len(record.AppendTo(nil)) - 1) // its own varint of 0 takes one byte
	b := kmsg.RecordBatch{
		PartitionLeaderEpoch: -1, Magic: 2, FirstTimestamp: time.Now().UnixMilli(), MaxTimestamp: time.Now().UnixMilli(),
		ProducerID: o.id, ProducerEpoch: o.epoch, FirstSequence: o.sequence, NumRecords: 1, Records: record.AppendTo(nil),
	}
	if o.txn {
		b.Attributes = 1 << 4
	}
	const beforeLength, beforeChecked = 12, 21
	out := b.AppendTo(nil)
	binary.BigEndian.PutUint32(out[8:], uint32(len(out)-beforeLength))
	binary.BigEndian.PutUint32(out[17:], crc32.Checksum(out[beforeChecked:], crc32.MakeTable(crc32.Castagnoli)))
	return out
}

// frame is a whole request as it goes over the wire.
func frame(req kmsg.Request, correlation int32) []byte {
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID("raw")).AppendRequest(nil, req, correlation)
}

// length is a frame's length by itself.
func length(n uint32) []byte { return binary.BigEndian.AppendUint32(nil, n) }

// ended waits until the peer closes and returns how: nil for an orderly end
// without a word. Answers that come before are dropped.
func ended(conn net.Conn, within time.Duration) error {
	if err := conn.SetReadDeadline(time.Now().Add(within)); err != nil {
		return err
	}
	_, err := io.Copy(io.Discard, conn)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("the gateway has not closed within %s: %w", within, err)
	}
	return err
}

// logged are the gateway's lines about the client at that address.
func logged(g *harness.Gateway, client net.Addr) []map[string]any {
	var out []map[string]any
	for _, l := range g.Lines() {
		if l["client"] == client.String() {
			out = append(out, l)
		}
	}
	return out
}

// oneLine waits for the line about that client, checks that it is the only one,
// and that its fields say what they should: values are parts of the whole.
func oneLine(t *testing.T, g *harness.Gateway, client net.Addr, fields map[string]string) {
	t.Helper()
	var lines []map[string]any
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if lines = logged(g, client); len(lines) > 0 {
			break
		}
	}
	if len(lines) != 1 {
		t.Errorf("%d lines about client %s, not one: %v", len(lines), client, lines)
		return
	}
	for k, want := range fields {
		if got := fmt.Sprint(lines[0][k]); !strings.Contains(got, want) {
			t.Errorf("the log's %s is %q, without %q: %v", k, got, want, lines[0])
		}
	}
}

// witness is a session of its own that asks something again and again, on one
// connection, until stop: what others do must not touch it.
func witness(t *testing.T, g *harness.Gateway, user string) (stop func()) {
	t.Helper()
	r := rawReady(t, g, g.Bootstrap, user)
	quit := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for n := 1; ; n++ {
			select {
			case <-quit:
				return
			case <-time.After(50 * time.Millisecond):
			}
			if _, err := r.Request(metadata()); err != nil {
				t.Errorf("the abuse of others broke an innocent session, at its request %d: %v", n, err)
				return
			}
		}
	})
	return sync.OnceFunc(func() { close(quit); wg.Wait() })
}

// works has a client of user's produce and read a record through the gateway, and
// returns how long it took from the first dial on.
func works(t *testing.T, g *harness.Gateway, user, topic string) time.Duration {
	t.Helper()
	took, err := produceOnce(within(t, 2*time.Minute), g, site.Client(user), topic)
	must(t, err)
	return took
}

// produceOnce makes a client, writes a record with it, and tells how long that
// took.
func produceOnce(ctx context.Context, g *harness.Gateway, c *harness.Certificate, topic string) (time.Duration, error) {
	began := time.Now()
	var dials harness.Dials
	client, err := dials.Client(c, kgo.SeedBrokers(g.Bootstrap))
	if err != nil {
		return 0, err
	}
	defer client.Close()
	err = checker.Send(ctx, client, &kgo.Record{Topic: topic, Value: []byte("x")})
	return time.Since(began), err
}

// topicFor makes a topic of this test's that user may use.
func topicFor(t *testing.T, c *harness.Cluster, user string) string {
	t.Helper()
	ctx := within(t, time.Minute)
	topic := name(t, "t")
	must(t, c.Admin.SpreadTopic(ctx, topic, 6))
	must(t, c.Admin.Grant(ctx, harness.AppGrants(user, topic)...))
	return topic
}

// clientHello is the first message of a TLS client to the gateway.
func clientHello(t *testing.T, c *tls.Config) []byte {
	t.Helper()
	ours, theirs := net.Pipe()
	defer func() { _ = ours.Close(); _ = theirs.Close() }()
	go func() { _ = tls.Client(theirs, c).Handshake() }()
	head := make([]byte, 5)
	_, err := io.ReadFull(ours, head)
	must(t, err)
	body := make([]byte, binary.BigEndian.Uint16(head[3:]))
	_, err = io.ReadFull(ours, body)
	must(t, err)
	return append(head, body...)
}

// metricsOf looks at the gateway's metrics.
func metricsOf(t *testing.T, g *harness.Gateway) harness.Metrics {
	t.Helper()
	m, err := g.Metrics(within(t, patience))
	must(t, err)
	return m
}

// eventually waits until f returns nil.
func eventually(t *testing.T, f func() error) {
	t.Helper()
	var err error
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if err = f(); err == nil {
			return
		}
	}
	t.Error(err)
}

// rss is the gateway's resident memory, in bytes.
func rss(t *testing.T, g *harness.Gateway) int {
	t.Helper()
	r, err := g.Resources()
	must(t, err)
	return r.RSS
}

func kib(n int) string { return fmt.Sprintf("%d KiB", n/1024) }
