package tokens

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"
)

const (
	// failedKeep is how long a failed owner that nobody asks for is remembered
	// after its back-off: an owner that comes back sooner goes on with longer
	// delays.
	failedKeep = time.Minute
	// checkEvery is the least time between two checks of one owner's token.
	checkEvery = time.Second
	// checkBound is how long a check waits for the brokers.
	checkBound = 2 * time.Second
	// lostSoon is the age below which a token that is gone is a young one.
	lostSoon = 10 * time.Second
)

// action is what a task does next.
type action uint8

const (
	actWait    action = iota
	actCheck          // ask whether the published token still exists
	actLose           // its life is over
	actCreate         // there is none and somebody needs one
	actReplace        // it should have a successor
	actRetire         // a replaced token can be expired, or let go
	actForget         // nobody needs the owner
)

// view is what a task decides by.
type view struct {
	now       time.Time
	state     State
	leases    int
	idleSince time.Time
	idle      time.Duration
	suspect   bool
	token     *Token
	retryAt   time.Time
	retired   []*retired
}

// decide says what is due, or for how long nothing is (negative: until woken).
// It is pure but for the count of uses of the retired tokens.
func decide(v view) (action, time.Duration) {
	var due dues
	published := v.state == Live || v.state == Replacing

	switch {
	case published && v.suspect:
		return actCheck, 0
	case published && !v.token.usableAt(v.now):
		return actLose, 0
	}
	if v.leases > 0 {
		switch {
		case !published:
			if due.at(v.now, v.retryAt) {
				return actCreate, 0
			}
		default:
			if due.at(v.now, later(v.token.Asked.Add(v.token.plan.replace), v.retryAt)) {
				return actReplace, 0
			}
		}
	}
	for _, r := range v.retired {
		if r.due(v.now, &due) {
			return actRetire, 0
		}
	}
	if v.leases == 0 {
		forgetAt := v.idleSince.Add(v.idle)
		if !published {
			forgetAt = later(v.idleSince, v.retryAt).Add(failedKeep)
		}
		if due.at(v.now, forgetAt) {
			return actForget, 0
		}
	}
	if published {
		due.at(v.now, v.token.Asked.Add(v.token.plan.usable))
	}
	return actWait, due.wait()
}

// dues collects moments and keeps the wait until the nearest.
type dues struct {
	any     bool
	nearest time.Duration
}

// at reports whether t has come; if not, it is waited for.
func (d *dues) at(now, t time.Time) bool {
	left := t.Sub(now)
	if left <= 0 {
		return true
	}
	if !d.any || left < d.nearest {
		d.any, d.nearest = true, left
	}
	return false
}

func (d *dues) wait() time.Duration {
	if !d.any {
		return -1
	}
	return d.nearest
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// run is the token task of one owner. It returns when the owner is forgotten or
// the source has stopped.
func (e *entry) run(ctx context.Context) {
	for ctx.Err() == nil {
		act, wait := decide(e.view())
		if act != actWait {
			if e.do(ctx, act) {
				return
			}
			continue
		}
		e.sleep(ctx, wait)
	}
	e.stop()
}

func (e *entry) view() view {
	e.mu.Lock()
	defer e.mu.Unlock()
	return view{
		now:       time.Now(),
		state:     e.state,
		leases:    e.leases,
		idleSince: e.idleSince,
		idle:      e.source.cfg.Idle,
		suspect:   e.suspect,
		token:     e.current.Load(),
		retryAt:   e.retryAt,
		retired:   e.retired,
	}
}

// sleep waits until the time is over (negative: for ever), e is nudged or ctx ends.
func (e *entry) sleep(ctx context.Context, wait time.Duration) {
	var over <-chan time.Time
	if wait >= 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-over:
	case <-e.wake:
	case <-ctx.Done():
	}
}

// do carries out one action and reports whether the task is done.
func (e *entry) do(ctx context.Context, act action) bool {
	switch act {
	case actCheck:
		e.check(ctx)
	case actLose:
		e.lose("its life is over and it has no successor")
	case actCreate:
		e.move(evDemand, nil)
		e.fly(ctx)
	case actReplace:
		e.move(evDue, nil)
		e.fly(ctx)
	case actRetire:
		e.retire(ctx)
	case actForget:
		return e.forget()
	}
	return false
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
		e.lose("no broker knows it any more")
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

// lose gives up the published token; sessions that hold leases make the task
// create another. At once the first time, since an administrator may have expired
// it; not when young tokens vanish one after the other, since creating more is no
// answer to that.
func (e *entry) lose(why string) {
	t := e.current.Load()
	now := time.Now()
	if now.Sub(t.Asked) < lostSoon {
		e.gone++
	} else {
		e.gone = 0
	}
	e.move(evLost, func() {
		e.suspect = false
		if e.gone > 1 {
			e.failures++
			e.failure = &Error{
				Phase: PhaseAcquire, Reason: ReasonNotKnown, Owner: e.owner, Node: NoNode, Retry: true,
				Err:  fmt.Errorf("%d new tokens in a row were gone within %v", e.gone, lostSoon),
				Cure: "something expires the gateway's tokens, or the brokers' delegation.token.secret.key differ",
			}
			e.retryAt = later(e.retryAt, now.Add(retryDelay(e.backoff, true)))
		}
	})
	e.source.cfg.Logger.Warn("a token is lost", zap.Object("token", t), zap.String("why", why))
}
