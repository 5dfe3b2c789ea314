package tokens

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"go.uber.org/zap"

	"doorkeeper/internal/pause"
)

// One flight: attempts to create one token. A broker that hangs costs one
// attempt, and the next goes to another broker; a fault that is known at once
// fails the flight in less than a second.
const (
	flightAttempts = 3
	// flightBudget is how long after its begin a flight may begin an attempt.
	flightBudget = 5 * time.Second
	// attemptBound is how long one attempt may wait for Kafka.
	attemptBound = 2500 * time.Millisecond
)

// fly makes one flight and moves on to evCreated or evFailed.
func (e *entry) fly(ctx context.Context) {
	begun := time.Now()
	for attempt := 1; ; attempt++ {
		t, err := e.attempt(ctx)
		if err == nil {
			e.warm(ctx, t)
			e.publish(t, evCreated)
			return
		}
		switch {
		case ctx.Err() != nil:
			return // the source stops; stop moves the state
		case errors.Is(err, errOrdered):
			e.move(evFailed, nil)
			return
		}
		delay := attemptDelay(attempt+1, rand.Float64())
		if !err.Retry || err.Reason == ReasonBusy || attempt == flightAttempts || time.Since(begun)+delay > flightBudget {
			e.fail(err)
			return
		}
		if !pause.For(ctx, delay) { // without listening to nudges
			return
		}
	}
}

// attempt gets one token, and asks for its creation at most once.
func (e *entry) attempt(ctx context.Context) (*Token, *Error) {
	s := e.source
	want := Creation{Owner: e.owner, Renewers: []string{s.marker}, Lifetime: s.cfg.Lifetime}
	own, err := e.ownName(ctx)
	if err != nil {
		return nil, err
	}
	if own != "" {
		want.Renewers = []string{own, s.marker}
	}
	if err := s.refusal(e.owner); err != nil {
		return nil, err
	}

	// While this owner waited for the own token, one of its own may have come up.
	if t := e.inherited(); t != nil {
		return t, nil
	}
	t, err := e.recall(ctx)
	if t != nil || err != nil {
		return t, err
	}
	if err := e.takeTurn(ctx); err != nil {
		return nil, err
	}
	slotErr := s.inSlot(ctx, func() {
		if err = stopping(ctx, e.owner); err != nil {
			return // nothing is begun at the stop
		}
		callCtx, cancel := s.callContext(ctx, attemptBound)
		defer cancel()
		t, err = e.create(callCtx, want)
	})
	if slotErr != nil {
		return nil, asError(PhaseCreate, slotErr, e.owner)
	}
	return t, err
}

// stopping is an error once ctx has ended.
func stopping(ctx context.Context, owner string) *Error {
	if ctx.Err() == nil {
		return nil
	}
	err := asError(PhaseCreate, ctx.Err(), owner)
	err.Lost = false
	return err
}

// ownName gives the gateway's own principal, which must be named as a renewer
// (rule 18) and must not be the owner (rule 2), once what was made before this
// start has been looked for. For the own token it may still be unknown: the owner of
// a token needs no renewer.
func (e *entry) ownName(ctx context.Context) (string, *Error) {
	s := e.source
	if e.owner == "" {
		return s.Own(), nil
	}
	bounded, cancel := context.WithTimeout(ctx, flightBudget)
	defer cancel()
	if s.Own() == "" {
		l, err := s.AcquireOwn(bounded)
		if err != nil {
			known := *asError(PhaseCreate, err, "")
			known.Lost = false // nothing was asked for this owner
			return "", &known
		}
		l.Release()
	}
	select {
	case <-s.adopted:
	case <-bounded.Done():
		known := asError(PhaseFind, bounded.Err(), e.owner)
		known.Lost = false
		return "", known
	}
	own := s.Own()
	if own == e.owner {
		return "", s.protectedError(e.owner)
	}
	return own, nil
}

// takeTurn waits until the rate of creations allows one more.
func (e *entry) takeTurn(ctx context.Context) *Error {
	s := e.source
	e.mu.Lock()
	replacing := e.state == Replacing
	e.mu.Unlock()
	p, most := s.firsts, queueNew
	switch {
	case e.owner == "":
		return nil // everything waits for it, and it is one
	case replacing:
		// As many can wait as there are owners, one each.
		p, most = s.others, -1
	}
	wait, ok := p.reserve(time.Now(), most)
	if !ok {
		err := &Error{
			Phase: PhaseCreate, Reason: ReasonBusy, Owner: e.owner, Node: NoNode, Retry: true,
			Cure: "more new owners come than get a token per second; if that is to be expected, raise limits.token_creations, which costs every broker about 5 ms of its metadata thread per token",
		}
		s.failed(err)
		return err
	}
	s.waiting.Add(1)
	defer s.waiting.Add(-1)
	if replacing {
		return e.awaitTurn(ctx, wait)
	}
	if wait > 0 && !pause.For(ctx, wait) {
		return asError(PhaseCreate, ctx.Err(), e.owner)
	}
	return nil
}

// errOrdered ends the wait for a turn: an operator wants the owner's tokens expired.
var errOrdered = errors.New("an operator wants the tokens expired")

// awaitTurn waits for a replacement's turn, which may take minutes while many owners
// are due. An operator's order does not wait for it.
func (e *entry) awaitTurn(ctx context.Context, wait time.Duration) *Error {
	due := time.Now().Add(wait)
	for {
		e.mu.Lock()
		ordered := len(e.orders) > 0
		e.mu.Unlock()
		left := time.Until(due)
		switch {
		case ctx.Err() != nil:
			return asError(PhaseCreate, ctx.Err(), e.owner)
		case ordered && left > 0:
			return &Error{Phase: PhaseCreate, Reason: ReasonOther, Owner: e.owner, Node: NoNode, Err: errOrdered}
		case left <= 0:
			return nil
		}
		e.sleep(ctx, left)
	}
}

// create makes the one request, and checks the answer.
func (e *entry) create(ctx context.Context, want Creation) (*Token, *Error) {
	s := e.source
	asked := time.Now() // before the request: see "Time" in doc.go
	issued, err := s.cfg.Issuer.Create(ctx, want)
	answered := time.Now()
	if err != nil {
		known := asError(PhaseCreate, err, e.owner)
		if known.Lost {
			e.inDoubt(asked)
		}
		s.cfg.Observer.TokenCreated(known.Reason.String())
		s.failed(known)
		s.refuse(known)
		return nil, known
	}
	p, known := e.verify(issued)
	if took := answered.Sub(asked); known == nil && took >= p.usable {
		known = &Error{
			Phase: PhaseAnswer, Reason: ReasonLifeTooShort, Owner: e.owner, Node: NoNode, Retry: true,
			Err:  fmt.Errorf("the answer took %v, and the token lives for %v", took, p.dead),
			Cure: "raise tokens.lifetime, and see why the controllers are slow",
		}
	}
	if known != nil {
		s.cfg.Observer.TokenCreated(known.Reason.String())
		s.failed(known)
		// Whatever it is, nobody may log in with it.
		if err := s.cfg.Issuer.Expire(ctx, issued.HMAC); err != nil {
			e.inDoubt(asked)
		}
		return nil, known
	}
	s.refused.Store(nil)
	s.cfg.Observer.TokenCreated("created")
	if step := s.clock.learn(reading{issue: issued.Issue, asked: asked, answered: answered}); step != 0 {
		s.cfg.Logger.Warn("the controller's clock has stepped, or another controller's differs; tokens made before may end earlier or later than planned, and are replaced when a login shows it",
			zap.Duration("step", step))
	}
	return newToken(issued, p, asked, answered, e.nudge), nil
}

// inDoubt says that a creation asked for then may have made a token all the same.
func (e *entry) inDoubt(asked time.Time) {
	if e.lostAt.IsZero() {
		e.lostAt = asked
	}
	e.source.sweeps.lost(time.Now())
}

// warm holds a replacement back until the brokers know it on which its predecessor
// is in use: until then that one serves there, so that nobody waits for a broker
// that lags.
func (e *entry) warm(ctx context.Context, t *Token) {
	e.mu.Lock()
	old := e.current.Load()
	serving := e.state == Replacing && !e.suspect && !e.doomed
	e.mu.Unlock()
	if !serving {
		return
	}
	bound := time.NewTimer(warmBound(min(old.plan.usable-time.Since(old.Asked), t.plan.usable-time.Since(t.Asked))))
	defer bound.Stop()
	for _, node := range old.readyNodes() {
		q := e.source.question(t, node)
		if q == nil {
			continue
		}
		select {
		case <-q.done:
		case <-bound.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// publish makes t the owner's token and retires the one before.
func (e *entry) publish(t *Token, ev event) {
	old := e.current.Load()
	e.move(ev, func() {
		e.current.Store(t)
		e.failure, e.retryAt = nil, time.Time{}
		e.suspect, e.wanted, e.doomed, e.replaceBy, e.vanished = false, false, false, time.Time{}, false
		if old != nil && !e.ordered {
			e.retired = append(e.retired, newRetired(old))
		}
		e.ordered = false
	})
	e.backoff.Reset()
	s := e.source
	fields := []zap.Field{zap.Object("token", t), zap.Duration("life", t.Life)}
	if old != nil {
		fields = append(fields, zap.String("replaces", old.ID), zap.Duration("replaced_left", old.Left()))
	}
	if t.made.IsZero() {
		s.cfg.Observer.TokenAdopted()
		s.cfg.Logger.Info("a token made earlier is adopted", append(fields, zap.Duration("left", t.Left()))...)
		return
	}
	if want := s.cfg.Lifetime; want > 0 && t.Life < want-time.Second {
		fields = append(fields, zap.Duration("cut_from", want))
	}
	s.cfg.Logger.Info("a token is created", fields...)
}

// fail ends the flight. A token that still lives is served on.
func (e *entry) fail(err *Error) {
	now := time.Now()
	old := e.current.Load()
	delay := e.source.refusedFor(err, now, retryDelay(e.backoff, !err.Retry))
	e.mu.Lock()
	replacing := e.state == Replacing
	e.mu.Unlock()
	if replacing {
		if old.usableAt(now) {
			delay = patientDelay(delay, old.plan.usable-now.Sub(old.Asked), rand.Float64())
		} else {
			e.move(evLost, nil)
		}
	}
	to := e.move(evFailed, func() {
		e.failures++
		e.failure, e.retryAt = err, now.Add(delay)
	})

	fields := []zap.Field{zap.String("owner", e.name()), zap.String("reason", err.Reason.String()),
		zap.Duration("next_attempt_in", delay), zap.Error(err)}
	if to == Live {
		fields = append(fields, zap.Duration("current_token_serves_for", old.plan.usable-now.Sub(old.Asked)))
		e.source.cfg.Logger.Warn("a token could not be replaced; the current one is served on", fields...)
		return
	}
	e.source.cfg.Logger.Warn("no token could be had", fields...)
}
