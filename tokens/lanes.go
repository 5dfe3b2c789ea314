package tokens

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A broker answers the requests of one connection one at a time, and a creation or
// an expiry takes it as long as the controllers need to agree: some 80 ms. So each
// goes over a connection that nothing else waits on, as far as there are enough,
// and questions never wait behind them.
const (
	// lanesMost bounds the connections to one broker for creations and expiries.
	lanesMost = 8
	// probeAfter is how long a connection may have been idle and still carry a
	// creation unseen: what a dead connection, or a broker that hangs since, swallows
	// counts as lost, and takes the attempt's whole bound. A proof is one round trip.
	probeAfter = time.Second
	// probeBound is how long the proof that a connection lives may take.
	probeBound = time.Second
	// avoidFor is how long a broker that failed is asked only if all others have
	// failed too.
	avoidFor = 5 * time.Second
)

// lanes are the control connections: each lane is a client with one connection to
// every broker that it is used for.
type lanes struct {
	first *lane // the caller's client: questions and the list of brokers

	mu      sync.Mutex
	writers []*lane // for creations and expiries; made when they are needed
	turn    int     // spreads what is otherwise equal
	avoid   map[int32]time.Time
	closed  bool
}

type lane struct {
	client *kgo.Client
	admin  *kadm.Client

	// Under lanes.mu.
	busy  map[int32]int       // requests under way, by broker
	used  map[int32]time.Time // last answer, by broker
	known map[int32]struct{}  // brokers of the client's last list
	stale bool                // a request failed since: they may have moved
}

func newLane(client *kgo.Client) *lane {
	return &lane{client: client, admin: kadm.NewClient(client), busy: make(map[int32]int), used: make(map[int32]time.Time)}
}

// way is a lane to one broker, taken until release is called.
type way struct {
	*lane
	lanes   *lanes
	node    int32
	idle    bool // for longer than probeAfter, or never used
	release func(answered bool)
}

// take chooses a way for a write: a broker that was not tried and has not failed
// lately, over the connection with the least under way. It reports false if all
// have been tried.
func (l *lanes) take(nodes []int32, tried map[int32]bool) (way, bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if len(l.writers) == 0 {
		if err := l.addLocked(); err != nil {
			return way{}, false, err
		}
	}
	w, load := l.bestLocked(nodes, tried, now)
	if w.lane == nil {
		return way{}, false, nil
	}
	if load > 0 && len(l.writers) < lanesMost {
		if err := l.addLocked(); err != nil {
			return way{}, false, err
		}
		w, _ = l.bestLocked(nodes, tried, now)
	}
	l.turn++
	return l.claimLocked(w, now), true, nil
}

// read is the way to one broker for a question.
func (l *lanes) read(node int32) way {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.claimLocked(way{lane: l.first, node: node}, time.Now())
}

// bestLocked finds the least loaded way; brokers that failed lately come last.
func (l *lanes) bestLocked(nodes []int32, tried map[int32]bool, now time.Time) (best way, load int) {
	cost := -1
	for _, w := range l.writers {
		for i := range nodes {
			node := nodes[(i+l.turn)%len(nodes)]
			if tried[node] {
				continue
			}
			c := w.busy[node]
			if now.Before(l.avoid[node]) {
				c += 1 << 20
			}
			if cost < 0 || c < cost {
				best, cost = way{lane: w, node: node}, c
			}
		}
	}
	return best, cost
}

func (l *lanes) claimLocked(w way, now time.Time) way {
	w.lanes = l
	w.busy[w.node]++
	w.idle = now.Sub(w.used[w.node]) > probeAfter
	w.release = func(answered bool) {
		l.mu.Lock()
		defer l.mu.Unlock()
		w.busy[w.node]--
		if answered {
			w.used[w.node] = time.Now()
			delete(l.avoid, w.node)
		} else {
			w.stale = true
		}
	}
	return w
}

// blame makes a broker one to be avoided for a while.
func (l *lanes) blame(node int32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.avoid[node] = time.Now().Add(avoidFor)
}

// order sorts nodes so that those that failed lately come last, and spreads what is
// equal.
func (l *lanes) order(nodes []int32) []int32 {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	var good, bad []int32
	for i := range nodes {
		node := nodes[(i+l.turn)%len(nodes)]
		if now.Before(l.avoid[node]) {
			bad = append(bad, node)
		} else {
			good = append(good, node)
		}
	}
	return append(good, bad...)
}

// addLocked makes one more writing lane, with the caller's client's own settings.
func (l *lanes) addLocked() error {
	if l.closed {
		return kgo.ErrClientClosed
	}
	client, err := kgo.NewClient(l.first.client.Opts()...)
	if err != nil {
		return fmt.Errorf("make another control client: %w", err)
	}
	l.writers = append(l.writers, newLane(client))
	return nil
}

// close ends the lanes that were made here.
func (l *lanes) close() {
	l.mu.Lock()
	writers := l.writers
	l.writers, l.closed = nil, true
	l.mu.Unlock()
	for _, w := range writers {
		w.client.Close()
	}
}

// send makes one request. A client that does not know the broker, or failed with
// one, reads the list of brokers first.
func (w way) send(ctx context.Context, req kmsg.Request) (kmsg.Response, error) {
	w.lanes.mu.Lock()
	_, known := w.known[w.node]
	stale := w.stale
	w.lanes.mu.Unlock()
	if !known || stale {
		bounded, cancel := context.WithTimeout(ctx, nodesWait)
		_, err := w.discover(bounded)
		cancel()
		if err != nil && !known {
			return nil, err
		}
	}
	return w.client.Broker(int(w.node)).Request(ctx, req)
}

// discover has the lane's client read the list of brokers.
func (w way) discover(ctx context.Context) ([]int32, error) { return w.lanes.discover(ctx, w.lane) }

func (l *lanes) discover(ctx context.Context, w *lane) ([]int32, error) {
	meta, err := w.admin.BrokerMetadata(ctx)
	if err != nil {
		return nil, err
	}
	nodes := meta.Brokers.NodeIDs()
	known := make(map[int32]struct{}, len(nodes))
	for _, node := range nodes {
		known[node] = struct{}{}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	w.known, w.stale = known, false
	return nodes, nil
}

// prove shows that the way works, opening its connection anew where the old one has
// died: a bad connection is not a bad broker. Nothing that matters has been sent
// when it fails.
func (w way) prove(ctx context.Context) error {
	err := w.probe(ctx)
	if err != nil && ctx.Err() == nil && opensAnew(err) {
		err = w.probe(ctx)
	}
	return err
}

// opensAnew tells whether what comes after err goes over a new connection: not after a
// mere silence, which the next would share.
func opensAnew(err error) bool { return !errors.Is(err, context.DeadlineExceeded) }

func (w way) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeBound)
	defer cancel()
	_, err := w.send(ctx, apiVersions())
	return err
}

// apiVersions is a request that changes nothing and that every broker answers.
func apiVersions() *kmsg.ApiVersionsRequest {
	req := kmsg.NewPtrApiVersionsRequest()
	req.ClientSoftwareName, req.ClientSoftwareVersion = "doorkeeper", "1" // brokers refuse empty ones (KIP-511)
	return req
}
