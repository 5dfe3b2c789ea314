package gateway

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"doorkeeper/connections"
	"doorkeeper/internal/pause"
	"doorkeeper/tokens"
)

const (
	// renewWithin bounds the wait for a token that a session needs now: its requests
	// wait meanwhile, as the first one does for the login.
	renewWithin = connectWithin
	// askWithin bounds the question whether the broker knows a token that a session
	// would rather have but can do without for a while.
	askWithin = 100 * time.Millisecond
	// settled is how long a broker must have known a token before a session may be
	// renewed with it: it shows a token a moment before it accepts it, and a refusal
	// would end the session.
	settled = time.Second
	// lookAgain is the pause between two looks at the owner's newest token.
	lookAgain = 100 * time.Millisecond
)

// successors is what a session's broker leg renews itself with: its owner's newest
// token, as connections.Credentials. The request goroutine uses it, and a swap beside it.
type successors struct {
	s      *session
	node   int32
	latest atomic.Pointer[tokens.Token] // that the leg logged in with, or that was taken since
}

func newSuccessors(s *session, node int32, token *tokens.Token) *successors {
	n := &successors{s: s, node: node}
	n.latest.Store(token)
	return n
}

// Newer implements connections.Credentials: one atomic load.
func (n *successors) Newer() bool { return n.s.lease.Token() != n.latest.Load() }

// Prepare implements connections.Credentials.
func (n *successors) Prepare() { n.s.g.cfg.Tokens.Ask(n.s.lease.Token(), n.node) }

// Take implements connections.Credentials. It waits renewWithin or askWithin at most,
// and ends with the session.
func (n *successors) Take(patient bool, longer time.Duration) (*connections.Credential, func(error), error) {
	within := askWithin
	if patient {
		within = renewWithin
	}
	ctx, cancel := context.WithTimeout(n.s.ctx, within)
	defer cancel()
	for {
		token, release := n.s.lease.Use()
		err := n.fit(ctx, token, longer)
		if err == nil {
			before := n.latest.Swap(token)
			return Credential(token), func(err error) { n.done(token, before, release, err) }, nil
		}
		release()
		if !patient || !pause.For(ctx, lookAgain) {
			return nil, nil, err
		}
	}
}

// fit tells whether the leg may be renewed with a token, nil if so.
func (n *successors) fit(ctx context.Context, token *tokens.Token, longer time.Duration) error {
	if left := token.Left(); left <= longer {
		return fmt.Errorf("the newest token of %q has %v to live, and more than %v would be needed", token.Owner, left.Round(time.Millisecond), longer.Round(time.Millisecond))
	}
	if token == n.latest.Load() {
		return nil // the broker has taken it before
	}
	if err := n.s.g.cfg.Tokens.Await(ctx, token, n.node); err != nil {
		return err
	}
	since, known := token.KnownSince(n.node)
	if rest := settled - time.Since(since); known && rest > 0 {
		return fmt.Errorf("node %d has known the newest token of %q for less than %v", n.node, token.Owner, settled)
	}
	return nil
}

// done hears how the renewal with a token went.
func (n *successors) done(token, before *tokens.Token, release func(), err error) {
	release()
	if err == nil {
		token.Accepted(n.node)
		return
	}
	n.latest.CompareAndSwap(token, before)
	RefusedToken(n.s.g.cfg.Tokens, token, err)
}

// Where implements connections.Credentials: what node status knows at this moment.
func (n *successors) Where() (connections.Target, bool) {
	node, known := n.s.g.cfg.Nodes.Table().Node(n.node)
	return connections.Target{Node: node.ID, Host: node.Host, Port: node.Port}, known && node.Refused == ""
}

// Renewed implements connections.Credentials.
func (n *successors) Renewed(r connections.Renewal) {
	n.report(r)
	what, fields := "session renewed", []zap.Field{
		zap.Stringer("kind", r.Kind), zap.String("result", r.Result()), zap.Int32("node", n.node),
		zap.Duration("wait", r.Wait), zap.Duration("took", r.Took), zap.Duration("left", r.Left), zap.Int("unanswered", r.Unanswered),
	}
	if r.Err != nil {
		what, fields = "session not renewed", append(fields, zap.NamedError("cause", r.Err))
	}
	n.s.log.Debug(what, fields...)
}

// report tells node status whether the broker could be reached, where that was tried.
func (n *successors) report(r connections.Renewal) {
	var e *connections.Error
	switch {
	case r.Kind != connections.Swap:
	case r.Err == nil:
		n.s.g.cfg.Nodes.ReportSuccess(n.node)
	case errors.As(r.Err, &e) && (e.Fault == connections.Unreachable || e.Fault == connections.Timeout || e.Fault == connections.PeerClosed):
		n.s.g.cfg.Nodes.ReportFailure(n.node)
	}
}
