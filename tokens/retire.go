package tokens

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"doorkeeper/internal/secret"
)

const (
	// retireGrace is how long a replaced token is kept at least: a session may
	// have loaded it a moment before its successor was published, and not said
	// yet that it logs in with it (Token.Use). For short lives it is a tenth.
	retireGrace = 2 * time.Second
	// retireRetry is the pause after an expiry that failed.
	retireRetry = 5 * time.Second
	// expireBound is how long one expiry waits for Kafka, once it has its slot.
	expireBound = 5 * time.Second
)

// retired is a token that was replaced and is to be expired.
type retired struct {
	token *Token
	next  time.Time // no attempt before it
}

func newRetired(t *Token) *retired {
	return &retired{token: t, next: time.Now().Add(min(retireGrace, t.plan.dead/10))}
}

// due reports whether something can be done about r now.
func (r *retired) due(now time.Time, d *dues) bool {
	if r.token.deadAt(now) {
		return true
	}
	if !r.next.After(now) {
		// Once sealed it stays so; until then the last release nudges the task.
		if r.token.seal() {
			return true
		}
	} else {
		d.at(now, r.next)
	}
	d.at(now, r.token.Asked.Add(r.token.plan.dead))
	return false
}

// retire expires the first token that can be.
func (e *entry) retire(ctx context.Context) {
	now := time.Now()
	for _, r := range e.retired {
		if !r.due(now, new(dues)) {
			continue
		}
		if r.token.deadAt(now) || e.expire(ctx, r.token) == nil {
			e.dropRetired(r)
		} else {
			r.next = time.Now().Add(retireRetry)
		}
		return
	}
}

func (e *entry) dropRetired(gone *retired) {
	e.mu.Lock()
	defer e.mu.Unlock()
	// A new slice: view handed the old one out.
	kept := make([]*retired, 0, len(e.retired))
	for _, r := range e.retired {
		if r != gone {
			kept = append(kept, r)
		}
	}
	e.retired = kept
}

// expire ends one token at Kafka.
func (e *entry) expire(ctx context.Context, t *Token) error {
	if err := e.source.expireOne(ctx, t.hmac); err != nil {
		e.source.cfg.Logger.Warn("a token could not be expired", zap.Object("token", t),
			zap.Duration("ends_by_itself_in", t.Left()), zap.Error(err))
		return err
	}
	e.source.cfg.Logger.Info("a token is expired", zap.Object("token", t))
	return nil
}

// expireOne makes one expiry in a slot. It waits for the slot for as long as ctx
// lives.
func (s *Source) expireOne(ctx context.Context, hmac secret.Text) error {
	var err error
	slotErr := s.inSlot(ctx, func() {
		bounded, cancel := context.WithTimeout(ctx, expireBound)
		defer cancel()
		err = s.cfg.Issuer.Expire(bounded, hmac)
	})
	if slotErr != nil {
		err = slotErr
	}
	if err == nil {
		s.cfg.Observer.TokenExpired("expired")
		return nil
	}
	known := asError(PhaseExpire, err, "")
	s.cfg.Observer.TokenExpired(known.Reason.String())
	s.failed(known)
	return known
}

// forget takes the owner out of the source, then expires its tokens. From the
// first step on, a new session of that owner gets an entry of its own. It reports
// whether the task is done.
func (e *entry) forget() bool {
	if !e.source.forget(e) {
		return false
	}
	e.move(evForget, nil)
	e.expireAll(true)
	e.move(evRetired, nil)
	return true
}

// stop ends the task: what was replaced is expired, and with ExpireOnStop the
// live token too.
func (e *entry) stop() {
	e.move(evStop, nil)
	e.expireAll(e.source.cfg.ExpireOnStop)
	e.move(evRetired, nil)
}

// expireAll tries once for each token; at a stop within its bound. What fails is
// looked for again, or ends by itself.
func (e *entry) expireAll(live bool) {
	ctx := e.source.late()
	for _, r := range e.retired {
		if r.token.deadAt(time.Now()) || e.expireSealed(ctx, r.token) == nil {
			e.dropRetired(r)
		}
	}
	t := e.current.Load()
	if t == nil || !live {
		return
	}
	if t.deadAt(time.Now()) || e.expireSealed(ctx, t) == nil {
		e.mu.Lock()
		e.vanished = true
		e.mu.Unlock()
	}
}

func (e *entry) expireSealed(ctx context.Context, t *Token) error {
	t.seal()
	err := e.expire(ctx, t)
	if err != nil {
		e.source.sweeps.lost(time.Now())
	}
	return err
}

// obey expires everything of the owner at once, logins under way or not, because an
// operator wants it so. What has just come up at Kafka is among it, and not adopted.
func (e *entry) obey(ctx context.Context) {
	e.mu.Lock()
	orders, found := e.orders, e.found
	e.orders, e.found, e.inherit = nil, nil, false
	published := e.state == Live || e.state == Replacing
	t := e.current.Load()
	held := t != nil && !e.vanished // one that was given up may be good on some broker
	e.mu.Unlock()
	e.settle(found, false, time.Time{})

	some := held || len(e.retired) > 0
	var errs []error
	for _, r := range e.retired {
		if err := e.expire(ctx, r.token); err != nil {
			errs = append(errs, err)
		} else {
			e.dropRetired(r)
		}
	}
	if held {
		switch err := e.expire(ctx, t); {
		case err != nil:
			errs = append(errs, err)
		case published:
			e.lose("an operator expired it", lossOrdered)
		default:
			e.mu.Lock()
			e.vanished, e.ordered = true, true
			e.mu.Unlock()
		}
	}
	err := errors.Join(errs...)
	if !some {
		err = e.source.notHeldError(e.owner)
	}
	for _, o := range orders {
		o <- err
	}
}
