package tokens

import (
	"context"
	"time"
)

// failedKeep is how long a failed owner that nobody asks for is remembered after
// its back-off: an owner that comes back sooner goes on with longer delays. One that
// was not asked for at Kafka, since too many were waiting, is not kept: a flood must
// not fill the limit of owners.
const failedKeep = time.Minute

// action is what a task does next.
type action uint8

const (
	actWait    action = iota
	actObey           // an operator wants the tokens expired
	actSettle         // tokens of this instance came up: adopt or expire them
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
	wanted    bool
	idleSince time.Time
	idle      time.Duration
	suspect   bool
	doomed    bool
	replaceBy time.Time
	found     int
	orders    int
	token     *Token
	retryAt   time.Time
	crowded   bool // the last flight failed before Kafka was asked
	retired   []*retired
}

// decide says what is due, or for how long nothing is (negative: until woken).
// It is pure but for the count of uses of the retired tokens.
func decide(v view) (action, time.Duration) {
	var due dues
	published := v.state == Live || v.state == Replacing

	switch {
	case v.orders > 0:
		return actObey, 0
	case v.found > 0:
		return actSettle, 0
	case published && (v.doomed || !v.token.usableAt(v.now)):
		return actLose, 0
	case published && v.suspect:
		return actCheck, 0
	}
	if v.leases > 0 || v.wanted && published {
		switch {
		case !published:
			if due.at(v.now, v.retryAt) {
				return actCreate, 0
			}
		// No third token: the one before is expired first, or dead, which it is by
		// 0.6 of the life of its successor, if that lives as long. What is nearly
		// at its end waits for nothing.
		case due.at(v.now, later(v.replaceAt(), v.retryAt)) && (len(v.retired) == 0 || due.at(v.now, v.token.Asked.Add(v.token.plan.urgent()))):
			return actReplace, 0
		}
	}
	for _, r := range v.retired {
		if r.due(v.now, &due) {
			return actRetire, 0
		}
	}
	if v.leases == 0 {
		// Not while a back-off runs: whoever comes then must find it.
		forgetAt := later(v.idleSince.Add(v.idle), v.retryAt)
		if !published {
			forgetAt = later(v.idleSince, v.retryAt)
			if !v.crowded {
				forgetAt = forgetAt.Add(failedKeep)
			}
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

func (v *view) replaceAt() time.Time {
	planned := v.token.Asked.Add(v.token.plan.replace)
	if !v.replaceBy.IsZero() && v.replaceBy.Before(planned) {
		return v.replaceBy
	}
	return planned
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
		wanted:    e.wanted,
		idleSince: e.idleSince,
		idle:      e.source.cfg.Idle,
		suspect:   e.suspect,
		doomed:    e.doomed,
		replaceBy: e.replaceBy,
		found:     len(e.found),
		orders:    len(e.orders),
		token:     e.current.Load(),
		retryAt:   e.retryAt,
		crowded:   e.failure != nil && e.failure.Reason == ReasonBusy,
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
	case actObey:
		e.obey(ctx)
	case actSettle:
		e.settleFound()
	case actCheck:
		e.check(ctx)
	case actLose:
		e.mu.Lock()
		doomed := e.doomed
		e.mu.Unlock()
		if doomed {
			e.lose("a broker said that its life is over", lossOver)
		} else {
			e.lose("its life is over and it has no successor", lossOver)
		}
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
