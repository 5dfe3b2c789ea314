package tokens

import (
	"context"
	"time"

	"go.uber.org/zap"
)

const (
	// retireGrace is how long a replaced token is kept at least: a session may
	// have loaded it a moment before its successor was published, and not said
	// yet that it logs in with it (Token.Use).
	retireGrace = 2 * time.Second
	// retireRetry is the pause after an expiry that failed.
	retireRetry = 5 * time.Second
	// expireBound is how long one expiry waits for Kafka.
	expireBound = 5 * time.Second
)

// retired is a token that was replaced and is to be expired.
type retired struct {
	token *Token
	next  time.Time // no attempt before it
}

func newRetired(t *Token) *retired {
	return &retired{token: t, next: time.Now().Add(retireGrace)}
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
	for i, r := range e.retired {
		if !r.due(now, new(dues)) {
			continue
		}
		if r.token.deadAt(now) || e.expire(ctx, r.token) == nil {
			e.dropRetired(i)
		} else {
			r.next = time.Now().Add(retireRetry)
		}
		return
	}
}

func (e *entry) dropRetired(i int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	// A new slice: view handed the old one out.
	kept := make([]*retired, 0, len(e.retired)-1)
	kept = append(kept, e.retired[:i]...)
	e.retired = append(kept, e.retired[i+1:]...)
}

// expire ends one token at Kafka.
func (e *entry) expire(ctx context.Context, t *Token) error {
	err := errNotExpired
	if slotErr := e.source.inSlot(ctx, func() {
		bounded, cancel := context.WithTimeout(ctx, expireBound)
		defer cancel()
		err = e.source.cfg.Issuer.Expire(bounded, t.hmac)
	}); slotErr != nil {
		err = slotErr
	}
	if err != nil {
		e.source.cfg.Logger.Warn("a token could not be expired", zap.Object("token", t),
			zap.Duration("ends_by_itself_in", t.Left()), zap.Error(asError(PhaseExpire, err, e.owner)))
		return err
	}
	e.source.cfg.Logger.Info("a token is expired", zap.Object("token", t))
	return nil
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

// expireAll tries once for each token, within the bound of one.
func (e *entry) expireAll(live bool) {
	ctx, cancel := e.source.lateContext(expireBound)
	defer cancel()
	tokens := make([]*Token, 0, len(e.retired)+1)
	for _, r := range e.retired {
		tokens = append(tokens, r.token)
	}
	if t := e.current.Load(); t != nil && live {
		tokens = append(tokens, t)
	}
	for _, t := range tokens {
		if !t.deadAt(time.Now()) {
			t.seal()
			_ = e.expire(ctx, t) // logged; it ends by itself
		}
	}
}
