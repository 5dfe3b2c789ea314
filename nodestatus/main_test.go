package nodestatus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeBroker is one broker of a fakeCluster.
type fakeBroker struct {
	host    string
	port    int32
	rack    string
	fenced  bool // and not in Metadata
	gone    bool // not registered
	refuses bool // connections
	hangs   bool // on requests
}

// fakeCluster answers the three requests that a Watcher makes.
type fakeCluster struct {
	mu          sync.Mutex
	id          string
	brokers     map[int32]*fakeBroker
	describeMax int16 // -1: no DescribeCluster
	change      func(kmsg.Response)
	boot        map[Address]int32 // addresses that lead to a broker besides its own

	dialled []Address
	reads   int
	open    int
	busy    int
	overlap bool
	seen    []string // request names and versions of the last reading
}

func newFakeCluster() *fakeCluster {
	c := &fakeCluster{id: "cluster-1", describeMax: 2, brokers: map[int32]*fakeBroker{}, boot: map[Address]int32{{"boot", 9094}: 1}}
	for id := int32(1); id <= 3; id++ {
		c.brokers[id] = &fakeBroker{host: fmt.Sprintf("b%d.kafka.internal", id), port: 9094, rack: fmt.Sprintf("r%d", id)}
	}
	return c
}

func (c *fakeCluster) set(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
}

func (c *fakeCluster) readCount() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.reads
}

func (c *fakeCluster) dials() []Address {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.dialled)
}

func (c *fakeCluster) requests() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.seen)
}

func (c *fakeCluster) dial(_ context.Context, a Address) (Conn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dialled = append(c.dialled, a)
	id, ok := c.boot[a]
	for i, b := range c.brokers {
		if (Address{b.host, b.port}) == a {
			id, ok = i, true
		}
	}
	if !ok || c.brokers[id].refuses {
		return nil, errors.New("connection refused")
	}
	c.open++
	return &fakeConn{cluster: c, node: id}, nil
}

type fakeConn struct {
	cluster *fakeCluster
	node    int32
	closed  bool
}

func (f *fakeConn) Close() error {
	f.cluster.mu.Lock()
	defer f.cluster.mu.Unlock()
	if !f.closed {
		f.closed = true
		f.cluster.open--
	}
	return nil
}

func (f *fakeConn) Request(ctx context.Context, req kmsg.Request) (kmsg.Response, error) {
	c := f.cluster
	c.mu.Lock()
	c.busy++
	c.overlap = c.overlap || c.busy > 1
	b := c.brokers[f.node]
	hangs, refuses, closed := b.hangs, b.refuses, f.closed
	c.mu.Unlock()
	defer c.set(func() { c.busy-- })
	if hangs {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if refuses || closed {
		return nil, errors.New("connection reset")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	resp := c.answer(req)
	if c.change != nil {
		c.change(resp)
	}
	return resp, nil
}

func (c *fakeCluster) answer(req kmsg.Request) kmsg.Response {
	switch r := req.(type) {
	case *kmsg.ApiVersionsRequest:
		resp := kmsg.NewPtrApiVersionsResponse()
		add := func(key kmsg.Key, most int16) {
			k := kmsg.NewApiVersionsResponseApiKey()
			k.ApiKey, k.MaxVersion = int16(key), most
			resp.ApiKeys = append(resp.ApiKeys, k)
		}
		add(kmsg.Metadata, 99)
		if c.describeMax >= 0 {
			add(kmsg.DescribeCluster, c.describeMax)
		}
		return resp
	case *kmsg.MetadataRequest:
		c.reads++
		c.seen = append([]string(nil), fmt.Sprintf("Metadata v%d topics=%v", r.Version, r.Topics != nil && len(r.Topics) == 0))
		resp := kmsg.NewPtrMetadataResponse()
		resp.ClusterID = kmsg.StringPtr(c.id)
		for id, b := range c.brokers {
			if b.fenced || b.gone {
				continue
			}
			m := kmsg.NewMetadataResponseBroker()
			m.NodeID, m.Host, m.Port, m.Rack = id, b.host, b.port, kmsg.StringPtr(b.rack)
			resp.Brokers = append(resp.Brokers, m)
		}
		return resp
	case *kmsg.DescribeClusterRequest:
		c.seen = append(c.seen, fmt.Sprintf("DescribeCluster v%d fenced=%v", r.Version, r.IncludeFencedBrokers))
		resp := kmsg.NewPtrDescribeClusterResponse()
		resp.ClusterID = c.id
		for id, b := range c.brokers {
			if b.gone || b.fenced && !r.IncludeFencedBrokers {
				continue
			}
			m := kmsg.NewDescribeClusterResponseBroker()
			m.NodeID, m.Host, m.Port, m.Rack, m.IsFenced = id, b.host, b.port, kmsg.StringPtr(b.rack), b.fenced
			resp.Brokers = append(resp.Brokers, m)
		}
		return resp
	default:
		panic(fmt.Sprintf("unexpected request %T", req))
	}
}

// bed is a running watcher in a synctest bubble.
type bed struct {
	*testing.T
	cluster *fakeCluster
	watcher *Watcher
	counts  *counts
	stop    func()
}

// counts is an Observer that keeps what a gauge and a counter would.
type counts struct {
	mu     sync.Mutex
	states map[string]int
	reads  map[string]int
}

func (o *counts) NodeState(from, to string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.states[from]--
	o.states[to]++
}

func (o *counts) StatusRead(result string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.reads[result]++
}

func withBed(t *testing.T, change func(*fakeCluster, *Config), test func(*bed)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		cluster, o := newFakeCluster(), &counts{states: map[string]int{}, reads: map[string]int{}}
		cfg := Config{Bootstrap: []Address{{"boot", 9094}}, Dial: cluster.dial, Observer: o}
		if change != nil {
			change(cluster, &cfg)
		}
		w, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- w.Run(ctx) }()
		stopped := false
		b := &bed{T: t, cluster: cluster, watcher: w, counts: o}
		b.stop = func() {
			if stopped {
				return
			}
			stopped = true
			begin := time.Now()
			cancel()
			if err := <-ended; err != nil || time.Since(begin) != 0 {
				t.Errorf("Run: %v after %v", err, time.Since(begin))
			}
		}
		synctest.Wait()
		test(b)
		b.stop()
		if cluster.open != 0 {
			t.Errorf("%d connections are left open", cluster.open)
		}
		if cluster.overlap {
			t.Error("two requests at the same time")
		}
		inTable := map[string]int{}
		for _, n := range w.Table().Nodes() {
			inTable[n.State.String()]++
		}
		for s := State(0); s < stateCount; s++ {
			if o.states[s.String()] != inTable[s.String()] {
				t.Errorf("the observer counts %d brokers %s, the table has %d", o.states[s.String()], s, inTable[s.String()])
			}
		}
	})
}

func (b *bed) sleep(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (b *bed) expect(id int32, want State) {
	b.Helper()
	if n, ok := b.watcher.Table().Node(id); !ok || n.State != want {
		b.Errorf("node %d is %s (known %v), want %s", id, n.State, ok, want)
	}
}
