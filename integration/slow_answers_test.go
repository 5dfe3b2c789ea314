//go:build integration

package integration

// This file proves that large answers cost the gateway no memory to speak of, whoever
// reads them: many clients at once read one answer each, slowly, with the address of a
// broker at its very end, since half of what they ask for is led elsewhere, and leaders
// move meanwhile. What grows is at most 256 KiB a session over the idle figure, and not
// one byte of a broker's address gets through; the same answer of a broker directly shows
// that it would be found. It also measures how long writers are held up by a leader's
// move, directly and through the gateway (figures, not a judgement).
//
// In short 32 clients read 16 MB each; DOORKEEPER_SLOW=full is 50 clients and 100 MB.

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"doorkeeper/integration/checker"
	"doorkeeper/integration/harness"
)

// slowLoad is how much is read.
type slowLoad struct {
	clients int
	size    int           // of one answer, in bytes
	takes   time.Duration // to read it
	moves   int           // of leaders, for the figures
}

func slowLoadNow(t *testing.T) (slowLoad, *harness.Cluster) {
	if os.Getenv("DOORKEEPER_SLOW") == "full" {
		// Of its own accord a broker gives no more than 55 MiB.
		return slowLoad{50, 100_000_000, 2 * time.Minute, 12},
			ownCluster(t, harness.ClusterConfig{Properties: map[string]string{"fetch.max.bytes": "110000000"}})
	}
	return slowLoad{32, 16_000_000, 6 * time.Second, 2}, cluster(t)
}

const (
	slowSessionMost = 256 << 10
	slowRecord      = 990_000 // bytes; each is a batch of its own
	slowVersion     = 16      // of Fetch: the first whose answers end with leaders' addresses (KIP-951)
)

func TestSlowReadersOfLargeAnswersCostLittle(t *testing.T) {
	load, c := slowLoadNow(t)
	ctx := within(t, load.takes+5*time.Minute)
	topic := topicFor(t, c, "slow")
	whole := "1073741824" // no answer goes over the end of a segment
	_, err := c.Admin.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Name: "segment.bytes", Value: &whole}}, topic)
	must(t, err)
	var dials harness.Dials
	writer := franz(t, &dials, site.Direct("slow"), c.ControlAddresses()[0], kgo.ProducerBatchCompression(kgo.NoCompression()))
	for p := range int32(3) {
		for range load.size/slowRecord + 1 {
			value := bytes.Repeat([]byte("slow and steady "), slowRecord/16)
			writer.Produce(ctx, &kgo.Record{Topic: topic, Partition: p, Value: value}, func(_ *kgo.Record, err error) {
				if err != nil {
					t.Error(err)
				}
			})
		}
	}
	must(t, writer.Flush(ctx))
	// Who asks with the epoch of an earlier leader is told of the new one.
	for p, leader := range map[int32]int32{3: 1, 4: 2} {
		must(t, c.Admin.MoveLeader(ctx, topic, p, leader+1))
		must(t, c.Admin.MoveLeader(ctx, topic, p, leader))
	}

	g := gateway(t, c, harness.GatewayConfig{Plain: true})
	readers := make([]*slowReader, load.clients)
	inTurn(load.clients, func(i int) {
		node := int32(1 + i%3)
		if raw := persistent(t, g, g.NodeAddress(node), "slow"); raw != nil {
			readers[i] = &slowReader{raw: raw, cluster: c, node: node, pace: load}
		}
	})
	if t.Failed() {
		t.FailNow()
	}
	id := topicID(t, readers[0].raw, topic)
	idle := settled(t, g)
	peak := peakOf(t, g)

	var reading sync.WaitGroup
	var done atomic.Int32
	for _, r := range readers {
		reading.Go(func() {
			defer done.Add(1)
			must := func(err error) {
				if err != nil {
					t.Errorf("a reader at node %d: %v", r.node, err)
				}
			}
			must(r.large(topic, id))
			must(r.raw.Close())
		})
	}
	moved := 0
	for at := int32(1); done.Load() == 0; at++ {
		for p := range int32(3) {
			must(t, c.Admin.MoveLeader(ctx, topic, p, 1+(p+at)%3))
			moved++
		}
		time.Sleep(load.takes / 10)
	}
	reading.Wait()
	grown := peak() - idle
	t.Logf("%d answers of %d MB, read in %v, %d moves of leaders: %s idle, %s a session more at most", load.clients, load.size/1_000_000, load.takes, moved, kib(idle), kib(grown/load.clients))
	if most := load.clients * slowSessionMost; grown > most {
		t.Errorf("memory grew by %s, %s is the most", kib(grown), kib(most))
	}
	ended := 0
	for _, r := range readers {
		if r.leaked != "" {
			t.Errorf("an answer of node %d has a broker's address in it: %q", r.node, r.leaked)
		}
		if bytes.Contains(r.tail, []byte(g.Host)) {
			ended++
		}
	}
	if ended != load.clients { // which is no longer than a broker's, so that it fits
		t.Errorf("%d of %d answers end with an address of the gateway's", ended, load.clients)
	}
	noFaults(ctx, t, g)

	node := int32(2)
	direct := &slowReader{raw: rawLeg(ctx, t, c.Node(node).ControlListener(), site.Direct("slow"), "slow"), cluster: c, node: node, pace: slowLoad{size: 0}}
	must(t, direct.large(topic, id))
	if direct.leaked == "" {
		t.Error("the search does not find a broker in an answer of a broker's own")
	}
	recoveries(ctx, t, c, g, topic, load.moves)
}

// slowReader is one connection to the leader of a partition, and what came over it.
type slowReader struct {
	raw     *harness.Raw
	cluster *harness.Cluster
	node    int32
	pace    slowLoad

	leaked string // bytes with a broker's address, if there were any
	tail   []byte // the answer's end
}

// large asks for a partition that the node leads, and for one that it does not lead,
// with the epoch of a leader that is gone. It reads the answer at the pace that is set.
func (r *slowReader) large(topic string, id [16]byte) error {
	req := fetch(topic, r.node-1, 0, int32(r.pace.size+slowRecord), 1, time.Second)
	req.Version, req.SessionEpoch, req.Topics[0].TopicID = slowVersion, -1, id
	led, other := req.Topics[0].Partitions[0], kmsg.NewFetchRequestTopicPartition()
	led.CurrentLeaderEpoch = -1
	other.Partition, other.PartitionMaxBytes, other.CurrentLeaderEpoch = 3, 1, 0
	if r.node == 1 { // which leads partition 3
		other.Partition = 4
	}
	req.Topics[0].Partitions = []kmsg.FetchRequestTopicPartition{led, other}
	// A small buffer of the kernel's, so that it is the gateway that has to wait.
	if tcp, ok := r.raw.NetConn().(*net.TCPConn); ok {
		if err := tcp.SetReadBuffer(64 << 10); err != nil {
			return err
		}
	}
	if err := r.raw.SetDeadline(time.Now().Add(r.pace.takes + 2*patience)); err != nil {
		return err
	}
	if _, err := r.raw.Send(req); err != nil {
		return err
	}
	var head [4]byte
	if _, err := io.ReadFull(r.raw, head[:]); err != nil {
		return err
	}
	size := int(binary.BigEndian.Uint32(head[:]))
	if size < r.pace.size {
		answer := make([]byte, size)
		_, err := io.ReadFull(r.raw, answer)
		return errors.Join(err, fmt.Errorf("an answer of %d bytes, %d are wanted: %s", size, r.pace.size, fetchErrors(req, answer[4:])))
	}
	return r.read(size)
}

// read reads so many bytes as slowly as it is meant to, and looks for brokers in them.
func (r *slowReader) read(size int) error {
	const overlap = 64 // of what is looked at: no address is longer
	window := make([]byte, 0, overlap+32<<10)
	began := time.Now()
	for got := 0; got < size; {
		window = append(window[:0], window[max(0, len(window)-overlap):]...)
		kept := len(window)
		n, err := r.raw.Read(window[kept:min(cap(window), kept+size-got)])
		if err != nil {
			return fmt.Errorf("after %d of %d bytes: %w", got, size, err)
		}
		window = window[:kept+n]
		got += n
		if r.leaked == "" && holdsBroker(window, r.cluster) {
			r.leaked = string(window)
		}
		if left := size - got; left < 512 {
			r.tail = slices.Clone(window)
		}
		time.Sleep(time.Until(began.Add(time.Duration(float64(r.pace.takes) * float64(got) / float64(size)))))
	}
	return nil
}

// fetchErrors says what a Fetch answer complains about.
func fetchErrors(req kmsg.Request, answer []byte) string {
	resp, err := harness.Parse(req, answer)
	if err != nil {
		return err.Error()
	}
	out := ""
	for _, t := range resp.(*kmsg.FetchResponse).Topics {
		for _, p := range t.Partitions {
			out += fmt.Sprintf("partition %d: %v, %d bytes; ", p.Partition, kerr.ErrorForCode(p.ErrorCode), len(p.RecordBatches))
		}
	}
	return out
}

// recoveries moves a partition's leader again and again while one writer writes to it
// directly and another through the gateway, one record after the other, and logs for how
// long each was held up: the longest time between two acknowledgements around a move.
func recoveries(ctx context.Context, t *testing.T, c *harness.Cluster, g *harness.Gateway, topic string, moves int) {
	t.Helper()
	const partition = 5
	quit, stop := context.WithCancel(ctx)
	defer stop()
	var writing sync.WaitGroup
	held := map[string]*longest{}
	for _, s := range bothSides(c, g, "slow") {
		var dials harness.Dials
		client := franz(t, &dials, s.as, s.bootstrap)
		must(t, checker.Send(ctx, client, &kgo.Record{Topic: topic, Partition: partition, Value: []byte("first")}))
		gap := &longest{}
		held[s.name] = gap
		writing.Go(func() {
			for quit.Err() == nil {
				began := time.Now()
				if err := checker.Send(quit, client, &kgo.Record{Topic: topic, Partition: partition, Value: []byte("more")}); err != nil && quit.Err() == nil {
					t.Errorf("%s: %v", s.name, err)
					return
				}
				gap.note(time.Since(began))
			}
		})
	}
	all := map[string][]time.Duration{}
	for i := range moves {
		time.Sleep(time.Second) // what the move before has left is over
		for _, gap := range held {
			gap.take()
		}
		must(t, c.Admin.MoveLeader(ctx, topic, partition, int32(1+i%3)))
		time.Sleep(time.Second)
		for name, gap := range held {
			all[name] = append(all[name], gap.take())
		}
	}
	stop()
	writing.Wait()
	through, direct := middle(all["through the gateway"]), middle(all["directly"])
	t.Logf("held up by a leader's move, median of %d: %v directly, %v through the gateway (%.2f times)", moves, direct, through, float64(through)/float64(direct))
}

// longest is the longest of some times.
type longest struct{ atomic.Int64 }

func (l *longest) note(d time.Duration) {
	for {
		was := l.Load()
		if int64(d) <= was || l.CompareAndSwap(was, int64(d)) {
			return
		}
	}
}

func (l *longest) take() time.Duration { return time.Duration(l.Swap(0)) }

func middle(all []time.Duration) time.Duration {
	all = slices.Sorted(slices.Values(all))
	return all[len(all)/2].Round(time.Microsecond)
}
