package tokens

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"go.uber.org/zap"

	"doorkeeper/internal/pause"
)

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
		t.ready.known, t.ready.asking = make(map[int32]time.Time), make(map[int32]*question)
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
	var since time.Time
	watched := !t.made.IsZero() && time.Since(t.made) <= freshly
	for n := 1; ; n++ {
		known, err := s.askOnce(bounded, t, node)
		if known {
			failure, since = nil, time.Now()
			if n == 1 && time.Since(t.Asked) > longKnown {
				since = t.Asked
			}
			break
		}
		if err != nil && bounded.Err() != nil && failure != nil {
			break // the bound cut this question short; the answer before it tells more
		}
		failure = notReady(t, node, err)
		if err != nil && ctx.Err() == nil {
			s.failed(failure)
		}
		if err == nil {
			watched = !t.made.IsZero()
		}
		if n == 1 {
			close(q.asked)
		}
		if !failure.Retry || !pause.For(bounded, askDelay(n, rand.Float64())) {
			break
		}
	}
	if failure != nil && ctx.Err() != nil {
		failure = s.stoppedError(t.Owner)
	}

	t.ready.mu.Lock()
	q.err = failure
	if failure == nil {
		t.ready.known[node] = since
		delete(t.ready.asking, node)
	} else {
		q.until = time.Now().Add(askAgain)
		if !failure.Retry {
			q.until = time.Now().Add(refusedAgain)
		}
	}
	t.ready.mu.Unlock()
	close(q.done)

	if failure == nil && watched {
		s.cfg.Observer.TokenKnown(node, time.Since(t.made))
	}
	if failure != nil && failure.Reason == ReasonKeyDiffers {
		s.cfg.Logger.Error("a broker cannot accept the gateway's tokens", zap.Int32("node", node), zap.Object("token", t), zap.Error(failure))
	}

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
	if c, can := s.cfg.Issuer.(Comparer); can {
		return c.KnownAs(ctx, node, t.Owner, t.ID, t.hmac)
	}
	return s.cfg.Issuer.Known(ctx, node, t.Owner, t.ID)
}

// anyKnows asks all brokers at once: does any know t, and did any answer. It
// returns at the first that knows it, or checkGrace after the first that does not.
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
	var grace <-chan time.Time
	for range nodes {
		var a answer
		select {
		case a = <-answers:
		case <-grace:
			return false, true
		}
		if e, ok := errors.AsType[*Error](a.err); ok && e.Reason == ReasonKeyDiffers {
			a = answer{known: true} // it lists it
		}
		switch {
		case a.err != nil:
		case a.known:
			return true, true
		case !answered:
			answered = true
			timer := time.NewTimer(checkGrace)
			defer timer.Stop()
			grace = timer.C
		}
	}
	return false, answered
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
