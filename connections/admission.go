package connections

import "time"

// Unbounded is the Wait of requests that a broker may keep for as long as it likes,
// such as JoinGroup and SyncGroup.
const Unbounded time.Duration = -1

// Request is what a connection must know of a request before it is written.
type Request struct {
	// Wait is how long the request itself lets the broker wait before it answers:
	// fetch and share waits, produce and admin timeouts; 0 for most; any negative
	// value is Unbounded.
	Wait time.Duration
	// Answered is false for requests that have no answer: Produce with acks=0.
	Answered bool
	// Ties says that the broker ties to the leg what it keeps of this request: share
	// sessions (KIP-932) end with it. Such a leg is never swapped.
	Ties bool

	// own: a request of the connection's own, of which its users see nothing.
	own bool
}

// longWait is what counts as Unbounded. It is far above every sensible wait, and no
// sum of waits below it overflows.
const longWait = 24 * time.Hour

// maxUnanswered bounds the answers that may be outstanding. The gateway's own limit
// is far lower; beyond this one, Begin waits.
const maxUnanswered = 1 << 16

// admission keeps the books of what the broker owes, and tells whether another
// request may be written behind it. Everything is O(1), and nothing is allocated
// once the ring has its size.
//
// A broker handles the requests of a connection one at a time. It judges the session
// end when it reads a request, and it reads the next one when the last answer is
// fully sent. So a request that is written now is read when all those before it have
// been handled. The wait of each begins when it is read: when it was written, or when
// the one before it was handled, whichever is later.
type admission struct {
	// ring holds a batch for each answer that is due: the request that gets it, and
	// the acks=0 requests directly before it.
	ring  []batch
	first int
	due   int

	// silent are the acks=0 requests behind the last one that gets an answer.
	silent batch

	requests  int           // all that are unanswered
	unbounded int           // of them, those with an unbounded wait
	wait      time.Duration // the sum of the others' waits
	free      time.Time     // when the broker is done with all of them, if it takes as long as they ask for

	last Request // the newest, for abandon
}

// batch sums requests up.
type batch struct {
	requests  int
	unbounded int
	wait      time.Duration
	own       bool // the answer is the connection's own
}

// add counts a request; n is -1 to take it out again.
func (b *batch) add(r Request, n int) {
	b.requests += n
	if r.unbounded() {
		b.unbounded += n
	} else {
		b.wait += time.Duration(n) * r.Wait
	}
}

func (r Request) unbounded() bool { return r.Wait < 0 || r.Wait > longWait }

// begin counts a request that is about to be written.
func (a *admission) begin(r Request, now time.Time) {
	if a.free.Before(now) {
		a.free = now // no wait begins before its request is written
	}
	a.silent.add(r, 1)
	a.requests++
	if r.unbounded() {
		a.unbounded++
	} else {
		a.wait += r.Wait
		a.free = a.free.Add(r.Wait)
	}
	if r.Answered {
		if a.due == len(a.ring) {
			a.grow()
		}
		a.silent.own = r.own
		a.ring[(a.first+a.due)%len(a.ring)] = a.silent
		a.due++
		a.silent = batch{}
	}
	a.last = r
}

// ownNext tells whether the next answer is the connection's own.
func (a *admission) ownNext() bool { return a.due > 0 && a.ring[a.first].own }

// answered takes the oldest answer that is due off the books, with everything that
// the broker must have handled before it.
func (a *admission) answered(now time.Time) {
	b := a.ring[a.first]
	a.first = (a.first + 1) % len(a.ring)
	a.due--
	a.requests -= b.requests
	a.unbounded -= b.unbounded
	a.wait -= b.wait
	a.free = now.Add(a.wait)
}

// abandon takes the newest request off the books: it was begun and will never be
// complete. (A broker that answered it all the same has taken it off already.)
func (a *admission) abandon() {
	if a.last.Answered {
		if a.due == 0 {
			return
		}
		a.due--
		a.silent = a.ring[(a.first+a.due)%len(a.ring)]
	}
	a.silent.add(a.last, -1)
	a.requests--
	if a.last.unbounded() {
		a.unbounded--
	} else {
		a.wait -= a.last.Wait
		a.free = a.free.Add(-a.last.Wait)
	}
}

// room tells whether the books take another request at all.
func (a *admission) room() bool { return a.due < maxUnanswered }

// before tells whether a request that is written now is read by the broker before
// stop.
func (a *admission) before(stop, now time.Time) bool {
	switch {
	case !now.Before(stop), a.unbounded > 0:
		return false
	case a.requests == 0:
		return true
	}
	return a.free.Before(stop)
}

// grow doubles the ring.
func (a *admission) grow() {
	bigger := make([]batch, max(16, 2*len(a.ring)))
	for i := range a.due {
		bigger[i] = a.ring[(a.first+i)%len(a.ring)]
	}
	a.ring, a.first = bigger, 0
}
