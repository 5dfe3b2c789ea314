package connections

import (
	"fmt"
	"time"
)

// What must hold at every step of a connection, whatever came before. Debug builds assert
// it and panic where it does not hold; others pay nothing, since debug is a constant there.

// broken is called where an invariant does not hold.
func broken(format string, args ...any) {
	panic("connections: invariant broken: " + fmt.Sprintf(format, args...))
}

// assertBeginLocked: a request is about to be counted, and then written. None begins on a
// leg that is left, or where only SaslAuthenticate may follow; none that the broker could
// read after the session end; and what is owed is bounded.
func (c *KafkaConnection) assertBeginLocked(r Request, now time.Time) {
	if !debug {
		return
	}
	c.books.assert()
	end := c.leg.begin.Add(c.leg.lifetime)
	switch c.state {
	case Unopened, Connecting, Closed:
		broken("a request begins in state %s", c.state)
	case Reauthenticating:
		if !r.own {
			broken("a client's request between SaslHandshake and the end of the login")
		}
	case Draining:
		if !r.own || c.drain != notDraining {
			broken("a request on a leg that is left")
		}
	case Open, AtRiskOfAuthTokenExpiry, Refreshing, RefreshTimeout:
		switch {
		case r.own && !c.renewal.fencing:
			broken("an own request in state %s", c.state)
		case c.leg.lifetime == 0:
		case !now.Before(end):
			broken("a request is written %v after the session end", now.Sub(end))
		case !r.own && c.books.requests > 0 && (c.books.unbounded > 0 || !c.books.free.Before(c.stop)):
			broken("a request is written behind one that may outlast the session")
		}
	}
	if !r.own && !c.books.room() {
		broken("%d answers are due", c.books.due)
	}
}

// assertReauthLocked: a re-authentication begins, a second after the last at the earliest,
// beside no swap, and in the midst of no request.
func (c *KafkaConnection) assertReauthLocked(now time.Time) {
	switch {
	case !debug:
	case c.writing:
		broken("SaslHandshake within a request")
	case now.Before(c.renewal.notBefore):
		broken("a re-authentication %v early", c.renewal.notBefore.Sub(now))
	case c.renewal.swapping:
		broken("a re-authentication beside a swap")
	}
}

// assertSwitchLocked: fresh is about to take the place of the leg in use, which owes nothing
// and on which nothing hangs.
func (c *KafkaConnection) assertSwitchLocked(fresh *leg) {
	if !debug {
		return
	}
	c.books.assert()
	switch {
	case c.books.requests > 0 || c.writing:
		broken("a swap with %d requests unanswered", c.books.requests)
	case c.renewal.tied:
		broken("a swap of a leg that has share sessions")
	case fresh == c.leg:
		broken("a swap of a leg for itself")
	}
}

// assertWrite: bytes of a request are about to be written, to the leg in use alone.
func (c *KafkaConnection) assertWrite() {
	if !debug {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.out != c.leg {
		broken("a request is written to a leg that is not in use")
	}
}

// assert holds the sums against what they are sums of.
func (a *admission) assert() {
	if !debug {
		return
	}
	sum := a.silent
	for i := range a.due {
		b := a.ring[(a.first+i)%len(a.ring)]
		if b.requests < 1 {
			broken("an answer is due to no request")
		}
		sum.requests, sum.unbounded, sum.wait = sum.requests+b.requests, sum.unbounded+b.unbounded, sum.wait+b.wait
	}
	if sum.requests != a.requests || sum.unbounded != a.unbounded || sum.wait != a.wait {
		broken("the books say %d requests, %d of them unbounded, and %v; their sum is %d, %d and %v",
			a.requests, a.unbounded, a.wait, sum.requests, sum.unbounded, sum.wait)
	}
	if a.silent.requests < 0 || a.silent.unbounded < 0 || a.silent.wait < 0 {
		broken("less than nothing is unanswered")
	}
}
