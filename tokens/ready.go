package tokens

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// A broker learns of a token by metadata replication, some tens of milliseconds
// after the controller answered on an idle cluster. A login before that is
// refused, and costs the broker's failed-authentication delay; so it is asked.
const (
	// askBound is how long one broker is asked about one token.
	askBound = 5 * time.Second
	// askOneBound is how long one question waits for its answer.
	askOneBound = 2 * time.Second
	// askAgain is how long a failure is believed before that broker is asked anew.
	askAgain = time.Second
	// asksPerNode bounds the questions to one broker under way at a time.
	asksPerNode = 16
	// anyGrace is how long AwaitAny waits, once one broker knows the token, for
	// the first answers of the others: a broker that hangs must not hold it up.
	anyGrace = 300 * time.Millisecond
)

// readiness is which brokers know a token, and which are being asked.
type readiness struct {
	mu     sync.Mutex
	known  map[int32]struct{}
	asking map[int32]*question
}

// question is one flight: a broker is asked until it knows the token.
type question struct {
	asked chan struct{} // closed after the first answer
	done  chan struct{} // closed at the end; err and until are set before
	err   *Error        // nil: known
	until time.Time     // a failure counts until then
}

// Await waits until broker node knows t. All callers for one token and broker
// share the questions (DescribeDelegationToken on that broker, with growing
// pauses), and the outcome is remembered. It ends with an *Error when ctx ends,
// when the broker has not known the token for 5 s, when it refuses the question,
// or when the source stops; a broker that is down or hangs holds up nobody who
// waits for another.
//
// A login right after Await can still be refused: the broker shows a token a
// moment before it accepts it.
func (s *Source) Await(ctx context.Context, t *Token, node int32) error {
	q := s.question(t, node)
	if q == nil {
		return nil
	}
	select {
	case <-q.done:
		if q.err != nil {
			return q.err
		}
		return nil
	case <-ctx.Done():
		return &Error{Phase: PhaseReady, Reason: ReasonTimeout, Owner: t.Owner, Node: node, Retry: true, Err: ctx.Err()}
	}
}

// AwaitAny waits until at least one broker knows t and all that answer within
// 300 ms more were asked once: for a login through an address behind which any
// broker may be. Else it is as Await.
func (s *Source) AwaitAny(ctx context.Context, t *Token) error {
	nodes, err := s.nodes(ctx, t)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	type news struct {
		done bool
		err  error
	}
	reports := make(chan news, 2*len(nodes))
	var group sync.WaitGroup
	for _, node := range nodes {
		group.Go(func() {
			if q := s.question(t, node); q != nil {
				select {
				case <-q.asked:
				case <-q.done:
				case <-ctx.Done():
				}
			}
			reports <- news{}
			reports <- news{done: true, err: s.Await(ctx, t, node)}
		})
	}
	defer group.Wait()
	defer cancel()

	var grace <-chan time.Time
	var last error
	asked, ended, known := 0, 0, 0
	for {
		select {
		case r := <-reports:
			switch {
			case !r.done:
				asked++
			case r.err == nil:
				ended++
				known++
				if grace == nil {
					timer := time.NewTimer(anyGrace)
					defer timer.Stop()
					grace = timer.C
				}
			default:
				ended++
				last = r.err
			}
		case <-grace:
			return nil
		}
		if known > 0 && asked == len(nodes) {
			return nil
		}
		if ended == len(nodes) {
			return last
		}
	}
}

// nodes reads the brokers' ids, again and again within the bound.
func (s *Source) nodes(ctx context.Context, t *Token) ([]int32, error) {
	bounded, cancel := context.WithTimeout(ctx, askBound)
	defer cancel()
	for n := 1; ; n++ {
		nodes, err := s.nodesOnce(bounded)
		if err == nil && len(nodes) > 0 {
			return nodes, nil
		}
		if err == nil {
			err = errors.New("the list of brokers is empty")
		}
		known := *asError(PhaseNodes, err, t.Owner)
		known.Lost = false
		if !known.Retry || !pauseFor(bounded, askDelay(n, rand.Float64())) {
			return nil, &known
		}
	}
}

func (s *Source) nodesOnce(ctx context.Context) ([]int32, error) {
	ctx, cancel := context.WithTimeout(ctx, askOneBound)
	defer cancel()
	return s.cfg.Issuer.Nodes(ctx)
}

// question finds or begins the flight for t and node; nil: already known.
func (s *Source) question(t *Token, node int32) *question {
	t.ready.mu.Lock()
	defer t.ready.mu.Unlock()
	if _, known := t.ready.known[node]; known {
		return nil
	}
	if q, asking := t.ready.asking[node]; asking && (q.until.IsZero() || time.Now().Before(q.until)) {
		return q
	}
	q := &question{asked: make(chan struct{}), done: make(chan struct{})}
	if t.ready.asking == nil {
		t.ready.known, t.ready.asking = make(map[int32]struct{}), make(map[int32]*question)
	}
	s.mu.Lock()
	begun := s.spawnLocked(func(ctx context.Context) { s.ask(ctx, t, node, q) })
	s.mu.Unlock()
	if !begun {
		q.err = s.stoppedError(t.Owner)
		close(q.asked)
		close(q.done)
		return q
	}
	t.ready.asking[node] = q
	return q
}

// ask is one flight's goroutine.
func (s *Source) ask(ctx context.Context, t *Token, node int32, q *question) {
	bounded, cancel := context.WithTimeout(ctx, askBound)
	defer cancel()
	var failure *Error
	for n := 1; ; n++ {
		known, err := s.askOnce(bounded, t, node)
		if known {
			failure = nil
			break
		}
		if err != nil && bounded.Err() != nil && failure != nil {
			break // the bound cut this question short; the answer before it tells more
		}
		failure = notReady(t, node, err)
		if n == 1 {
			close(q.asked)
		}
		if !failure.Retry || !pauseFor(bounded, askDelay(n, rand.Float64())) {
			break
		}
	}
	if failure != nil && ctx.Err() != nil {
		failure = s.stoppedError(t.Owner)
	}

	t.ready.mu.Lock()
	q.err = failure
	if failure == nil {
		t.ready.known[node] = struct{}{}
		delete(t.ready.asking, node)
	} else {
		q.until = time.Now().Add(askAgain)
	}
	t.ready.mu.Unlock()
	close(q.done)

	if failure != nil && failure.Reason == ReasonNotKnown {
		// Lagging, or gone everywhere: the other brokers tell.
		s.Invalidate(t)
	}
}

// notReady makes the error of one question; err is nil if the broker answered
// that it does not know the token.
func notReady(t *Token, node int32, err error) *Error {
	if err == nil {
		return &Error{
			Phase: PhaseReady, Reason: ReasonNotKnown, Owner: t.Owner, Node: node, Retry: true,
			Err:  fmt.Errorf("broker %d does not know the token %s", node, t.ID),
			Cure: "if other brokers know it, this one lags behind the controller or has another delegation.token.secret.key",
		}
	}
	e := *asError(PhaseReady, err, t.Owner)
	e.Node, e.Lost = node, false
	return &e
}

// askOnce asks one broker once, within its share.
func (s *Source) askOnce(ctx context.Context, t *Token, node int32) (bool, error) {
	slots := s.asks.slots(node)
	select {
	case slots <- struct{}{}:
	case <-ctx.Done():
		return false, ctx.Err()
	}
	defer func() { <-slots }()
	ctx, cancel := context.WithTimeout(ctx, askOneBound)
	defer cancel()
	return s.cfg.Issuer.Known(ctx, node, t.Owner, t.ID)
}

// anyKnows asks all brokers at once: does any know t, and did any answer. It
// returns at the first that knows it.
func (s *Source) anyKnows(ctx context.Context, t *Token) (known, answered bool) {
	nodes, err := s.nodesOnce(ctx)
	if err != nil {
		return false, false
	}
	ctx, cancel := context.WithCancel(ctx)
	type answer struct {
		known bool
		err   error
	}
	answers := make(chan answer, len(nodes))
	var group sync.WaitGroup
	for _, node := range nodes {
		group.Go(func() {
			k, err := s.askOnce(ctx, t, node)
			answers <- answer{k, err}
		})
	}
	defer group.Wait()
	defer cancel()
	for range nodes {
		a := <-answers
		if a.err == nil {
			answered = true
			if a.known {
				return true, true
			}
		}
	}
	return false, answered
}

// pauseFor waits for d and reports whether ctx still lives.
func pauseFor(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// perNode gives each broker its slots. Ids come from the brokers and from
// configuration, so the map is as small as the cluster.
type perNode struct {
	mu    sync.Mutex
	nodes map[int32]chan struct{}
}

func newPerNode() *perNode { return &perNode{nodes: make(map[int32]chan struct{})} }

func (p *perNode) slots(node int32) chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	c, ok := p.nodes[node]
	if !ok {
		c = make(chan struct{}, asksPerNode)
		p.nodes[node] = c
	}
	return c
}
