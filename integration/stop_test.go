//go:build integration

package integration

// This file proves that SIGTERM ends the gateway in order: no new clients, what is
// under way is answered, no record that was acknowledged is missing, and it exits
// with 0, whether under load, with a long poll, or with clients that are idle.

import (
	"context"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"doorkeeper/integration/harness"
)

// F39 (the first part of R22).
func TestStopUnderLoad(t *testing.T) {
	c := cluster(t)
	ctx := within(t, 3*time.Minute)
	topic := topicFor(t, c, "loader")
	g := gateway(t, c, harness.GatewayConfig{})
	works(t, g, "loader", topic)

	load := startLoad(t, g, topic, 4)
	enough, barriers := startUnacknowledged(t, g, topic)
	poll := rawReady(t, g, g.NodeAddress(1), "loader")
	time.Sleep(3 * time.Second)
	select {
	case <-enough:
	case <-ctx.Done():
		t.Fatal("acks=0 gets nowhere")
	}
	long := fetch(topic, 3, endOffset(ctx, t, c, topic, 3), 1<<20, 64<<20, 3*time.Second) // more than comes
	_, err := poll.Write(frame(long, 77))
	must(t, err)
	must(t, poll.SetReadDeadline(time.Now().Add(patience)))
	time.Sleep(200 * time.Millisecond)

	began := time.Now()
	must(t, g.Signal(syscall.SIGTERM))
	if got, _, err := poll.Receive(); err != nil || got != 77 {
		t.Errorf("the long poll got answer %d, %v", got, err)
	}
	if err := ended(poll, patience); err != nil {
		t.Errorf("the long poll's connection ended with %v", err)
	}
	code, err := g.Wait(time.Minute)
	if err != nil || code != 0 {
		t.Errorf("it ended with %d, %v", code, err)
	}
	t.Logf("it ended %s after SIGTERM", time.Since(began))

	acked := load()
	unacknowledged := barriers()
	stored := keysIn(ctx, t, c, topic)
	missing := 0
	for _, key := range append(acked, unacknowledged...) {
		if stored[key] == 0 {
			missing++
		}
	}
	twice := 0
	for _, key := range acked {
		if stored[key] > 1 {
			twice++
		}
	}
	t.Logf("%d records acknowledged, %d with acks=0 ahead of an answer, %d keys stored", len(acked), len(unacknowledged), len(stored))
	if missing > 0 || twice > 0 {
		t.Errorf("%d acknowledged records are missing, %d are there twice", missing, twice)
	}
	if len(acked) < 100 {
		t.Error("that was no load")
	}
	for _, l := range g.Lines() {
		if l["msg"] == "session ended" && l["unanswered"] != 0.0 {
			t.Errorf("a session ended with requests unanswered: %v", l)
		}
	}
}

// The same with clients that say nothing: there is nothing to wait for.
func TestStopWithIdleClients(t *testing.T) {
	c := cluster(t)
	g := gateway(t, c, harness.GatewayConfig{})
	idle := rawReady(t, g, g.Bootstrap, "sleeper")
	silent := rawClient(t, g, g.NodeAddress(2), "sleeper") // not one request
	began := time.Now()
	must(t, g.Signal(syscall.SIGTERM))
	for name, r := range map[string]*harness.Raw{"idle": idle, "silent": silent} {
		if err := ended(r, patience); err != nil {
			t.Errorf("the %s client's connection ended with %v, not in order", name, err)
		}
		_ = r.Close()
	}
	code, err := g.Wait(patience)
	must(t, err)
	if code != 0 {
		t.Errorf("it ended with %d", code)
	}
	if took := time.Since(began); took > 15*time.Second { // timeouts.drain is 30 s
		t.Errorf("it took %s, with nothing to wait for", took)
	}
}

// startLoad runs franz-go producers with acks=all, each on its own connections. The
// returned function waits for them and gives the keys of all acknowledged records.
func startLoad(t *testing.T, g *harness.Gateway, topic string, producers int) func() []string {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		acked []string
	)
	for p := range producers {
		var dials harness.Dials
		client, err := dials.Client(site.Client("loader"), kgo.SeedBrokers(g.Bootstrap), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
		must(t, err)
		wg.Go(func() {
			for i := 0; ctx.Err() == nil && g.Alive(); i++ {
				key := fmt.Sprintf("all-%d-%d", p, i)
				client.Produce(ctx, &kgo.Record{Topic: topic, Key: []byte(key), Value: make([]byte, 200)}, func(_ *kgo.Record, err error) {
					if err == nil {
						mu.Lock()
						acked = append(acked, key)
						mu.Unlock()
					}
				})
				if i%50 == 0 {
					time.Sleep(5 * time.Millisecond)
				}
			}
			client.Close()
		})
	}
	end := sync.OnceFunc(func() { stop(); wg.Wait() })
	t.Cleanup(end)
	return func() []string {
		end()
		mu.Lock()
		defer mu.Unlock()
		return acked
	}
}

// startUnacknowledged writes records with acks=0, and a request that is answered
// behind every ten: what was written before an answered one is due to be stored.
// enough is closed once that is a hundred.
func startUnacknowledged(t *testing.T, g *harness.Gateway, topic string) (enough chan struct{}, keys func() []string) {
	t.Helper()
	enough = make(chan struct{})
	r := rawReady(t, g, g.NodeAddress(1), "loader")
	must(t, r.SetDeadline(time.Now().Add(2*time.Minute)))
	var due []string
	done := make(chan struct{})
	go func() {
		defer close(done)
		for round := int32(1); ; round++ {
			var all []byte
			var keys []string
			for i := range 10 {
				key := fmt.Sprintf("none-%d-%d", round, i)
				keys = append(keys, key)
				all = append(all, frame(produce(topic, 0, 0, batch([]byte(key), []byte("x"))), 0)...)
			}
			if _, err := r.Write(append(all, frame(metadata(), round)...)); err != nil {
				return
			}
			if got, _, err := r.Receive(); err != nil || got != round {
				return
			}
			if due = append(due, keys...); len(due) == 100 {
				close(enough)
			}
			time.Sleep(10 * time.Millisecond)
		}
	}()
	t.Cleanup(func() { _ = r.Close(); <-done })
	return enough, func() []string { <-done; return due }
}

func endOffset(ctx context.Context, t *testing.T, c *harness.Cluster, topic string, partition int32) int64 {
	t.Helper()
	ends, err := c.Admin.ListEndOffsets(ctx, topic)
	must(t, err)
	return ends[topic][partition].Offset
}

// keysIn reads a topic straight from the brokers: key → how often.
func keysIn(ctx context.Context, t *testing.T, c *harness.Cluster, topic string) map[string]int {
	t.Helper()
	ends, err := c.Admin.ListEndOffsets(ctx, topic)
	must(t, err)
	total := int64(0)
	ends.Each(func(o kadm.ListedOffset) { total += o.Offset })
	var dials harness.Dials
	client, err := dials.Client(site.Direct("admin"), kgo.SeedBrokers(c.ControlAddresses()...),
		kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	must(t, err)
	defer client.Close()
	out := map[string]int{}
	for read := int64(0); read < total; {
		fetches := client.PollFetches(ctx)
		must(t, fetches.Err())
		fetches.EachRecord(func(r *kgo.Record) { out[string(r.Key)]++; read++ })
	}
	return out
}
