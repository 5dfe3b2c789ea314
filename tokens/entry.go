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
	wanted    bool      // somebody came when the token was due for replacement
	doomed    bool      // a login showed that the token is over: it must be given up
	replaceBy time.Time // the token should be replaced by then; zero: as planned
	vanished  bool      // the token in current is gone at Kafka
	ordered   bool      // it was expired here, and Kafka has confirmed it
	retired   []*retired
	found     []Issued     // tokens of this instance that came up at Kafka
	inherit   bool         // they are of an earlier run, and may be adopted
	orders    []chan error // of those who want the owner's tokens expired now
	changed   chan struct{}

	// The task's own.
	backoff *backoff.ExponentialBackOff
	lostAt  time.Time // the first creation was asked for whose answer was lost since; zero: none
	gone    int       // young tokens lost in a row

	deaths int       // tokens reported dead, with less than deathsKeep between them; under mu
	diedAt time.Time // when the last one was; under mu
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
		doubtful := published && (e.suspect || e.doomed)
		usable := published && !doubtful && t != nil && t.usableAt(now)
		failed := e.failure != nil && (e.failures != failures || now.Before(e.retryAt)) && !doubtful
		failure, changed := e.failure, e.changed
		e.mu.Unlock()

		switch {
		case usable:
			if now.Sub(t.Asked) >= t.plan.replace {
				e.want() // due, but put off while nobody held a lease
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

// want has the token replaced although whoever wanted it may have let it go again.
func (e *entry) want() {
	e.mu.Lock()
	e.wanted = true
	e.mu.Unlock()
	e.nudge()
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
