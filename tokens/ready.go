package tokens

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"doorkeeper/internal/pause"
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
	// refusedAgain is the same for a refusal: somebody has to change something.
	refusedAgain = refusalLeast
	// freshly: a question begun so soon after the creation, or answered with no,
	// tells how long the broker took to learn of the token.
	freshly = 250 * time.Millisecond
	// longKnown is the age of a token that a broker is taken to have known for long if
	// it knows it when it is first asked.
	longKnown = 10 * time.Second
	// asksPerNode bounds the questions to one broker under way at a time.
	asksPerNode = 16
	// anyGrace is how long AwaitAny waits, once one broker knows the token, for
	// the first answers of the others: a broker that hangs must not hold it up.
	anyGrace = 300 * time.Millisecond
)

// readiness is which brokers know a token, and which are being asked.
type readiness struct {
	mu     sync.Mutex
	known  map[int32]time.Time // since when
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

// Ask begins, if that is needed, what Await waits for. It never blocks.
func (s *Source) Ask(t *Token, node int32) { s.question(t, node) }

// KnownSince is the moment from which on broker node is known to have t, as Await found
// it; false: it is not. A broker shows a token a moment before it accepts it: where a
// refusal cannot be made good by another attempt, that moment has to pass first.
func (t *Token) KnownSince(node int32) (time.Time, bool) {
	t.ready.mu.Lock()
	defer t.ready.mu.Unlock()
	since, known := t.ready.known[node]
	return since, known
}

// Accepted says that broker node, which Await knew to have t, has taken a login with it:
// that moment has passed.
func (t *Token) Accepted(node int32) {
	t.ready.mu.Lock()
	defer t.ready.mu.Unlock()
	if _, known := t.ready.known[node]; known {
		t.ready.known[node] = t.Asked
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
		if !known.Retry || !pause.For(bounded, askDelay(n, rand.Float64())) {
			return nil, &known
		}
	}
}

func (s *Source) nodesOnce(ctx context.Context) ([]int32, error) {
	ctx, cancel := context.WithTimeout(ctx, askOneBound)
	defer cancel()
	return s.cfg.Issuer.Nodes(ctx)
}

// readyNodes are the brokers that are known to know t, in order.
func (t *Token) readyNodes() []int32 {
	t.ready.mu.Lock()
	defer t.ready.mu.Unlock()
	return slices.Sorted(maps.Keys(t.ready.known))
}
