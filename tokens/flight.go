package tokens

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"go.uber.org/zap"
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
			e.publish(t)
			return
		}
		if ctx.Err() != nil {
			return // the source stops; stop moves the state
		}
		delay := attemptDelay(attempt+1, rand.Float64())
		if !err.Retry || attempt == flightAttempts || time.Since(begun)+delay > flightBudget {
			e.fail(err)
			return
		}
		e.pause(ctx, delay)
	}
}

// pause waits without listening to nudges.
func (e *entry) pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// attempt asks for one token, at most once.
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

	var t *Token
	slotErr := s.inSlot(ctx, func() {
		callCtx, cancel := s.callContext(ctx, attemptBound)
		defer cancel()
		if err = e.clearOrphans(callCtx); err == nil {
			t, err = e.create(callCtx, want)
		}
	})
	if slotErr != nil {
		return nil, asError(PhaseCreate, slotErr, e.owner)
	}
	return t, err
}

// ownName gives the gateway's own principal, which must be named as a renewer
// (rule 18) and must not be the owner (rule 2). For the own token it may still be
// unknown: the owner of a token needs no renewer.
func (e *entry) ownName(ctx context.Context) (string, *Error) {
	s := e.source
	if e.owner == "" {
		return s.Own(), nil
	}
	if s.Own() == "" {
		bounded, cancel := context.WithTimeout(ctx, flightBudget)
		defer cancel()
		l, err := s.AcquireOwn(bounded)
		if err != nil {
			known := *asError(PhaseCreate, err, "")
			known.Lost = false // nothing was asked for this owner
			return "", &known
		}
		l.Release()
	}
	own := s.Own()
	if own == e.owner {
		return "", s.protectedError(e.owner)
	}
	return own, nil
}

// create makes the one request, and checks the answer.
func (e *entry) create(ctx context.Context, want Creation) (*Token, *Error) {
	asked := time.Now() // before the request: see "Time" in doc.go
	issued, err := e.source.cfg.Issuer.Create(ctx, want)
	if err != nil {
		known := asError(PhaseCreate, err, e.owner)
		e.lost = e.lost || known.Lost
		e.source.cfg.Observer.TokenCreated(known.Reason.String())
		return nil, known
	}
	p, known := e.verify(issued)
	if known != nil {
		e.source.cfg.Observer.TokenCreated(known.Reason.String())
		// Whatever it is, nobody may log in with it.
		if err := e.source.cfg.Issuer.Expire(ctx, issued.HMAC); err != nil {
			e.lost = true
		}
		return nil, known
	}
	return newToken(issued, p, asked, e.nudge), nil
}

// verify holds the answer against the question: rule 3.
func (e *entry) verify(is Issued) (schedule, *Error) {
	wrong := func(r Reason, cure, format string, args ...any) (schedule, *Error) {
		return schedule{}, &Error{
			Phase: PhaseAnswer, Reason: r, Owner: e.owner, Node: NoNode,
			Err: fmt.Errorf(format, args...), Cure: cure,
		}
	}
	const sameMapping = "the control listeners of all brokers must be of Kafka 3.6 or later and map the gateway's certificate to the same principal (ssl.principal.mapping.rules)"
	if is.OwnerType != "User" {
		return wrong(ReasonWrongAnswer, "principal.builder.class on the brokers must give principals of the type User", "the token's owner is of the type %q", is.OwnerType)
	}
	if is.ID == "" || is.HMAC.IsEmpty() {
		return wrong(ReasonWrongAnswer, "", "the token has no id or no secret")
	}
	if e.owner != "" {
		if is.Owner != e.owner {
			return wrong(ReasonWrongAnswer, sameMapping, "the token is for %q", is.Owner)
		}
		if own := e.source.Own(); is.Requester != "" && is.Requester != own {
			return wrong(ReasonWrongAnswer, sameMapping, "the token was asked for by %q, the gateway is %q", is.Requester, own)
		}
	} else {
		if is.Owner == "" || is.Owner == "ANONYMOUS" {
			return wrong(ReasonWrongAnswer, "the control listener does not know the gateway: give it a certificate (kafka.control.tls, ssl.client.auth=required) or a SCRAM user (kafka.control.sasl)", "the gateway's own principal is %q", is.Owner)
		}
		if err := e.source.learnOwn(is.Owner); err != nil {
			return wrong(ReasonWrongAnswer, sameMapping, "%w", err)
		}
	}
	p, ok := plan(lifeOf(is.Issue, is.Expiry), rand.Float64())
	if !ok {
		return wrong(ReasonLifeTooShort, "raise tokens.lifetime, and delegation.token.expiry.time.ms and delegation.token.max.lifetime.ms on every broker and controller",
			"a token that lives %v is of no use, %v is the least", lifeOf(is.Issue, is.Expiry), shortestLife)
	}
	return p, nil
}

// clearOrphans expires what an earlier creation may have made whose answer was
// lost. While it cannot be told, nothing new is created.
func (e *entry) clearOrphans(ctx context.Context) *Error {
	finder, can := e.source.cfg.Issuer.(Finder)
	if !e.lost || !can {
		e.lost = false
		return nil
	}
	found, err := finder.Find(ctx, e.owner, e.source.marker)
	if err != nil {
		known := asError(PhaseFind, err, e.owner)
		known.Lost = false
		return known
	}
	for _, is := range found {
		if !e.isOrphan(is) {
			continue
		}
		if err := e.source.cfg.Issuer.Expire(ctx, is.HMAC); err != nil {
			known := asError(PhaseExpire, err, e.owner)
			known.Lost = false
			return known
		}
		e.source.cfg.Logger.Info("a token whose creation went unanswered is expired",
			zap.String("owner", is.Owner), zap.String("token_id", is.ID))
	}
	e.lost = false
	return nil
}

// isOrphan: of this instance, for exactly this owner, and not in use here.
func (e *entry) isOrphan(is Issued) bool {
	owner := e.owner
	if owner == "" {
		if owner = e.source.Own(); owner == "" {
			owner = is.Requester // unknown yet: it made the token for itself
		}
	}
	if is.Owner != owner || !slices.Contains(is.Renewers, e.source.marker) {
		return false
	}
	if t := e.current.Load(); t != nil && t.ID == is.ID {
		return false
	}
	return !slices.ContainsFunc(e.retired, func(r *retired) bool { return r.token.ID == is.ID })
}

// publish makes t the owner's token and retires the one before.
func (e *entry) publish(t *Token) {
	old := e.current.Load()
	e.move(evCreated, func() {
		e.current.Store(t)
		e.failure, e.retryAt = nil, time.Time{}
		if old != nil {
			e.retired = append(e.retired, newRetired(old))
		}
	})
	e.backoff.Reset()
	s := e.source
	s.cfg.Observer.TokenCreated("created")
	fields := []zap.Field{zap.Object("token", t), zap.Duration("life", t.Life)}
	if old != nil {
		fields = append(fields, zap.String("replaces", old.ID), zap.Duration("replaced_left", old.Left()))
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
	delay := retryDelay(e.backoff, !err.Retry)
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

// inSlot runs f while holding one of the slots; it fails only when ctx ends first.
func (s *Source) inSlot(ctx context.Context, f func()) error {
	select {
	case s.calls <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-s.calls }()
	f()
	return nil
}

// callContext bounds one call. With ExpireOnStop a creation under way outlives
// the begin of the stop, for else its token would be left behind.
func (s *Source) callContext(ctx context.Context, bound time.Duration) (context.Context, context.CancelFunc) {
	if s.cfg.ExpireOnStop {
		return s.lateContext(bound)
	}
	return context.WithTimeout(ctx, bound)
}

var errNotExpired = errors.New("not expired in time")
