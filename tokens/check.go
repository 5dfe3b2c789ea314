package tokens

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"go.uber.org/zap"
)

const (
	// checkEvery is the least time between two checks of one owner's token.
	checkEvery = time.Second
	// checkBound is how long a check waits for the brokers.
	checkBound = 2 * time.Second
	// checkGrace is how long it waits for the others once one has answered that it
	// does not know the token: a broker that hangs must not hold it up.
	checkGrace = 500 * time.Millisecond
	// lostSoon is the age below which a token that is gone is a young one.
	lostSoon = 10 * time.Second
	// deathsKeep is how long a token that was dead at a login is remembered.
	deathsKeep = 10 * time.Minute
)

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

// reportDead has the task give up t, or replace it in a while; see
// Source.ReportDead.
func (e *entry) reportDead(t *Token) {
	now := time.Now()
	e.mu.Lock()
	fresh := e.current.Load() == t && !e.doomed && e.replaceBy.IsZero() && (e.state == Live || e.state == Replacing)
	if fresh {
		if now.Sub(e.diedAt) > deathsKeep {
			e.deaths = 0
		}
		e.deaths, e.diedAt = e.deaths+1, now
		if e.deaths == 1 {
			e.doomed = true
		} else {
			e.replaceBy = now.Add(vanishDelay(e.deaths, deadMost, rand.Float64()))
		}
	}
	deaths, replaceBy := e.deaths, e.replaceBy
	e.mu.Unlock()
	if !fresh {
		return
	}
	fields := []zap.Field{zap.Object("token", t), zap.Duration("left_by_our_count", t.Left()), zap.Int("in_a_row", deaths)}
	if deaths > 1 {
		fields = append(fields, zap.Duration("replaced_in", replaceBy.Sub(now)),
			zap.String("cure", "a broker's clock may be ahead of the controllers', by about the tokens' life: check the clocks of all nodes"))
	}
	e.source.cfg.Logger.Warn("a login with a token succeeded, but the broker gave it no life", fields...)
	e.nudge()
}

// check asks every broker whether it knows the published token. One that does
// settles it; the token is lost only if some answered and none knows it.
func (e *entry) check(ctx context.Context) {
	t := e.current.Load()
	known, answered := false, false
	err := e.source.inSlot(ctx, func() {
		bounded, cancel := context.WithTimeout(ctx, checkBound)
		defer cancel()
		known, answered = e.source.anyKnows(bounded, t)
	})
	if err != nil {
		return // stopping
	}
	e.mu.Lock()
	e.checkedAt = time.Now()
	e.mu.Unlock()

	if answered && !known {
		e.lose("no broker knows it any more", lossGone)
		return
	}
	e.mu.Lock()
	e.suspect = false
	close(e.changed)
	e.changed = make(chan struct{})
	e.mu.Unlock()
	e.source.cfg.Logger.Info("a login with a token was refused, but the token is good as far as can be told",
		zap.Object("token", t), zap.Bool("known", known), zap.Bool("answered", answered))
}

// loss is how a published token was lost.
type loss uint8

const (
	lossOver    loss = iota // its life is over
	lossGone                // Kafka does not have it any more, and nobody here knows why
	lossOrdered             // it was expired here, by an operator
)

// lose gives up the published token; sessions that hold leases make the task
// create another. At once the first time, since an administrator may have expired
// it; not when young tokens vanish one after the other.
func (e *entry) lose(why string, how loss) {
	t := e.current.Load()
	now := time.Now()
	if how == lossGone && now.Sub(t.Asked) < lostSoon {
		e.gone++
	} else {
		e.gone = 0
	}
	delay := vanishDelay(e.gone, vanishMost, rand.Float64())
	e.move(evLost, func() {
		e.suspect, e.wanted, e.doomed, e.replaceBy = false, false, false, time.Time{}
		e.vanished, e.ordered = how != lossOver, how == lossOrdered
		if delay > 0 {
			e.failures++
			e.failure = &Error{
				Phase: PhaseAcquire, Reason: ReasonNotKnown, Owner: e.owner, Node: NoNode, Retry: true,
				Err:  fmt.Errorf("%d new tokens in a row were gone within %v", e.gone, lostSoon),
				Cure: "something expires the gateway's tokens, or the brokers' delegation.token.secret.key differ",
			}
			e.retryAt = later(e.retryAt, now.Add(delay))
		}
	})
	e.source.cfg.Logger.Warn("a token is lost", zap.Object("token", t), zap.String("why", why), zap.Duration("next_in", delay))
}
