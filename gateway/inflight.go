package gateway

import (
	"context"
	"sync"
)

// pending is a request that awaits its answer.
type pending struct {
	correlationID int32
	key, version  int16
	rule          *rule
	// local is the whole answer, made here, of a request that no broker sees; nil
	// for all others.
	local []byte
}

// inflight is the queue of a session's requests in the order in which their answers
// are due: the client's order (Kafka answers a connection's requests in order).
// One goroutine pushes, one pops.
type inflight struct {
	mu    sync.Mutex
	ring  []pending // grows up to limit
	first int
	n     int
	limit int
	// room is signalled when the queue was full and is no longer.
	room chan struct{}
}

func newInflight(limit int) *inflight {
	return &inflight{limit: limit, room: make(chan struct{}, 1)}
}

// push adds a request. It waits while the queue is full: the client is not read
// meanwhile. It ends early with ctx.
func (q *inflight) push(ctx context.Context, p pending) error {
	for !q.tryPush(p) {
		select {
		case <-q.room:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

func (q *inflight) tryPush(p pending) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.n == q.limit {
		return false
	}
	q.addLocked(p)
	return true
}

// pushLocal adds an answer made here, unless nothing is awaited: then the caller
// has to write it itself, and may, since an entry stays in the queue until its
// answer is written.
func (q *inflight) pushLocal(p pending) (queued, full bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch q.n {
	case 0:
		return false, false
	case q.limit:
		return false, true
	}
	q.addLocked(p)
	return true, false
}

func (q *inflight) addLocked(p pending) {
	if q.n == len(q.ring) {
		grown := make([]pending, min(max(2*q.n, 8), q.limit))
		for i := range q.n {
			grown[i] = q.ring[(q.first+i)%len(q.ring)]
		}
		q.ring, q.first = grown, 0
	}
	q.ring[(q.first+q.n)%len(q.ring)] = p
	q.n++
}

// head returns the request whose answer is due next.
func (q *inflight) head() (pending, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.n == 0 {
		return pending{}, false
	}
	return q.ring[q.first], true
}

// pop removes the head, whose answer has been written.
func (q *inflight) pop() {
	q.mu.Lock()
	q.ring[q.first] = pending{}
	q.first = (q.first + 1) % len(q.ring)
	q.n--
	wasFull := q.n == q.limit-1
	q.mu.Unlock()
	if wasFull {
		select {
		case q.room <- struct{}{}:
		default:
		}
	}
}

// len returns how many answers are awaited.
func (q *inflight) len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.n
}

// match returns the request that an answer with this correlation id belongs to, and
// whether it is the one that is due.
func (q *inflight) match(correlationID int32) (pending, bool) {
	p, ok := q.head()
	return p, ok && p.local == nil && p.correlationID == correlationID
}
