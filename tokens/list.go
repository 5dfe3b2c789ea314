package tokens

import (
	"context"
	"slices"
	"strings"
	"time"
)

// View is one owner as an operator sees it. It holds no secret.
type View struct {
	// Owner is the principal's name without "User:"; Own marks the gateway's own.
	Owner string
	Own   bool
	State State
	// TokenID is empty where no token is published; the durations are 0 then.
	TokenID string
	Adopted bool // made by an earlier run of this instance, or found after a lost answer
	Age     time.Duration
	Left    time.Duration // by our count
	// Ready are the ids of the brokers that were seen to know the token, in order.
	// A broker that nobody has asked for is not among them.
	Ready []int32
	// Leases is how many sessions, and callers that wait for a token, there are.
	Leases int
	// Held is how many tokens of the owner Kafka holds for this instance, as far as
	// known here: 1, 2 during a replacement.
	Held int
	// Failure is why the last creation failed, with what to change; empty after a
	// good one. RetryIn is when the next may be made.
	Failure string
	RetryIn time.Duration
}

// List returns what is held, sorted by owner. It looks at every owner and does not
// ask Kafka.
func (s *Source) List() []View {
	entries := s.all()
	now := time.Now()
	views := make([]View, 0, len(entries))
	for _, e := range entries {
		views = append(views, e.show(now))
	}
	slices.SortFunc(views, func(a, b View) int { return strings.Compare(a.Owner, b.Owner) })
	return views
}

func (s *Source) all() []*entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	entries := make([]*entry, 0, len(s.entries))
	for _, e := range s.entries {
		entries = append(entries, e)
	}
	return entries
}

func (e *entry) show(now time.Time) View {
	v := View{Owner: e.owner, Own: e.owner == ""}
	if v.Own {
		v.Owner = e.source.Own()
	}
	e.mu.Lock()
	v.State, v.Leases, v.Held = e.state, e.leases, e.heldLocked()
	t := e.current.Load()
	if e.state != Live && e.state != Replacing {
		t = nil
	}
	if e.failure != nil {
		v.Failure, v.RetryIn = e.failure.Error(), max(e.retryAt.Sub(now), 0)
	}
	e.mu.Unlock()
	if t != nil {
		v.TokenID, v.Adopted, v.Ready = t.ID, t.made.IsZero(), t.readyNodes()
		v.Age, v.Left = max(now.Sub(t.Asked), 0), t.plan.dead-now.Sub(t.Asked)
	}
	return v
}

// heldLocked is how many tokens Kafka holds for the owner, as far as known here.
func (e *entry) heldLocked() int {
	n := len(e.retired)
	if e.current.Load() != nil && !e.vanished {
		n++
	}
	return n
}

// ExpireOwner expires every token of owner that is held here, also while somebody
// logs in with it. It waits for a creation under way, and ends with an error, among
// whose causes is an *Error, when ctx or the source ends, when nothing of the owner is
// held (ReasonNotHeld), or when Kafka refuses. A call that ctx has ended while Kafka was
// being asked may still take effect; Lost says so.
//
// Sessions that have logged in with these tokens go on (Kafka ends none), and a broker
// that has not heard of the expiry yet still takes a login with them. Whoever has a
// lease may be about to make one: what was acquired before ExpireOwner returns is for
// the caller to end. What is acquired after it returned nil is none of these tokens.
func (s *Source) ExpireOwner(ctx context.Context, owner string) error {
	done := make(chan error, 1)
	key := owner
	if owner != "" && owner == s.Own() {
		key = ""
	}
	s.mu.Lock()
	e := s.entries[key]
	if e == nil || owner == "" || s.phase != phaseRunning {
		s.mu.Unlock()
		return s.notHeldError(owner)
	}
	e.mu.Lock()
	e.orders = append(e.orders, done)
	e.mu.Unlock()
	s.mu.Unlock()
	e.nudge()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return &Error{
			Phase: PhaseExpire, Reason: ReasonTimeout, Owner: owner, Node: NoNode, Retry: true, Err: ctx.Err(),
			Lost: !e.withdraw(done),
		}
	case <-s.stopped:
		return s.stoppedError(owner)
	}
}

// withdraw takes an order back; false: it is being carried out.
func (e *entry) withdraw(order chan error) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	before := len(e.orders)
	e.orders = slices.DeleteFunc(e.orders, func(o chan error) bool { return o == order })
	return len(e.orders) < before
}

func (s *Source) notHeldError(owner string) *Error {
	return &Error{Phase: PhaseExpire, Reason: ReasonNotHeld, Owner: owner, Node: NoNode, Cure: "this gateway holds no token of that owner; another instance may"}
}

// held is how many tokens Kafka holds for this instance, as far as known here.
func (s *Source) held() int {
	n := 0
	for _, e := range s.all() {
		e.mu.Lock()
		n += e.heldLocked()
		e.mu.Unlock()
	}
	return n
}

// registerGauges hands the observer what it reads when it is asked.
func (s *Source) registerGauges() {
	s.cfg.Observer.TokenGauge(GaugeHeld, func() float64 { return float64(s.held()) })
	s.cfg.Observer.TokenGauge(GaugeWaiting, func() float64 { return float64(s.waiting.Load()) })
	s.cfg.Observer.TokenGauge(GaugeMost, func() float64 {
		most := 0
		for _, e := range s.all() {
			e.mu.Lock()
			most = max(most, e.heldLocked())
			e.mu.Unlock()
		}
		return float64(most)
	})
	s.cfg.Observer.TokenGauge(GaugeOldestAge, func() float64 {
		oldest := time.Duration(0)
		for _, v := range s.lives() {
			oldest = max(oldest, v.age)
		}
		return oldest.Seconds()
	})
	s.cfg.Observer.TokenGauge(GaugeLeastLeft, func() float64 {
		least := time.Duration(0)
		for i, v := range s.lives() {
			if i == 0 || v.left < least {
				least = v.left
			}
		}
		return least.Seconds()
	})
}

type life struct{ age, left time.Duration }

// lives are the published tokens' ages and lives left.
func (s *Source) lives() []life {
	now := time.Now()
	var out []life
	for _, e := range s.all() {
		e.mu.Lock()
		published := e.state == Live || e.state == Replacing
		t := e.current.Load()
		e.mu.Unlock()
		if published {
			age := now.Sub(t.Asked)
			out = append(out, life{age: max(age, 0), left: t.plan.dead - age})
		}
	}
	return out
}
