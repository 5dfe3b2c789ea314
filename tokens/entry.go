package tokens

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
	"go.uber.org/zap"
)

// entry is what the sessions of one owner share. Its task alone moves the state
// and stores the pointer.
type entry struct {
	source  *Source
	owner   string // empty: the gateway's own principal
	current atomic.Pointer[Token]
	wake    chan struct{} // capacity 1: the task should look again

	mu        sync.Mutex
	state     State
	leases    int       // sessions, and callers that wait for a token
	idleSince time.Time // of the moment that leases became 0
	failures  int       // flights that failed, ever
	failure   *Error    // of the last flight, nil after a good one
	retryAt   time.Time // no creation before it
	suspect   bool      // a login was refused: the token must be checked
	checkedAt time.Time // of the last such check
	changed   chan struct{}

	// The task's own.
	backoff *backoff.ExponentialBackOff
	retired []*retired
	lost    bool // the answer to a creation was lost: there may be an orphan
	gone    int  // young tokens lost in a row
}

func newEntry(s *Source, owner string) *entry {
	return &entry{
		source:    s,
		owner:     owner,
		wake:      make(chan struct{}, 1),
		idleSince: time.Now(),
		changed:   make(chan struct{}),
		backoff:   newBackoff(),
	}
}

// name is the owner for logs.
func (e *entry) name() string {
	if e.owner == "" {
		return "(the gateway itself)"
	}
	return e.owner
}

// nudge makes the task look again. It never blocks.
func (e *entry) nudge() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

func (e *entry) leave() {
	e.mu.Lock()
	e.leases--
	if e.leases == 0 {
		e.idleSince = time.Now()
	}
	e.mu.Unlock()
	e.nudge()
}

// await waits until a token can be handed out. It ends with an error when ctx
// ends, the source stops, or a flight fails that was under way or begun
// meanwhile; at once, if the last one failed and its back-off still runs.
func (e *entry) await(ctx context.Context) error {
	first := true
	var failures int
	for {
		e.mu.Lock()
		now := time.Now()
		if first {
			failures, first = e.failures, false
		}
		t := e.current.Load()
		published := e.state == Live || e.state == Replacing
		usable := published && !e.suspect && t != nil && t.usableAt(now)
		failed := e.failure != nil && (e.failures != failures || now.Before(e.retryAt)) && !(published && e.suspect)
		failure, changed := e.failure, e.changed
		e.mu.Unlock()

		switch {
		case usable:
			if now.Sub(t.Asked) >= t.plan.replace {
				e.nudge() // due, but put off while nobody held a lease
			}
			return nil
		case failed:
			return failure
		}
		e.nudge()
		select {
		case <-changed:
		case <-ctx.Done():
			return e.gaveUp(ctx.Err())
		case <-e.source.stopped:
			return e.source.stoppedError(e.owner)
		}
	}
}

func (e *entry) gaveUp(cause error) *Error {
	err := asError(PhaseAcquire, cause, e.owner)
	err.Lost = false
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.failure != nil {
		err.Cure = e.failure.Cure
	}
	return err
}

// move applies one event, tells those that wait, and reports the new state.
func (e *entry) move(ev event, change func()) State {
	e.mu.Lock()
	from := e.state
	to, err := from.next(ev)
	e.state = to
	if change != nil {
		change()
	}
	close(e.changed)
	e.changed = make(chan struct{})
	e.mu.Unlock()

	if err != nil {
		// A bug here; the state stays, so the owner is served as before.
		e.source.cfg.Logger.Error("token task", zap.Error(err), zap.String("owner", e.name()))
		return to
	}
	if from != to {
		e.source.cfg.Observer.TokenState(from.String(), to.String())
	}
	return to
}

// invalidate asks the task to check t, if it is the published one and was not
// checked a moment ago.
func (e *entry) invalidate(t *Token) {
	e.mu.Lock()
	ask := e.current.Load() == t && !e.suspect &&
		(e.state == Live || e.state == Replacing) &&
		(e.checkedAt.IsZero() || time.Since(e.checkedAt) >= checkEvery)
	if ask {
		e.suspect = true
	}
	e.mu.Unlock()
	if ask {
		e.nudge()
	}
}
