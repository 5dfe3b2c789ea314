package tokens

import (
	"sync"
	"time"
)

// DefaultCreationRate is how many new owners get a token per second in the long
// run, where Config.CreationRate is 0. Every token makes every broker derive two
// keys on its metadata thread, about 5 ms together.
const DefaultCreationRate = 50

const (
	// burstFactor: a gateway that has been quiet serves so many seconds' worth of
	// new owners at once.
	burstFactor = 2
	// replaceShare: replacements have a rate of their own, so that a flood of new
	// owners cannot delay them. One replaceShare-th of the rate of new owners.
	replaceShare = 2
	// queueNew is how long a new owner's creation may wait for its turn. It
	// bounds the queue to so many seconds' worth, and leaves the client enough of
	// its own patience for the rest of the way.
	queueNew = 3 * time.Second
)

// pace spreads creations: rate in the long run, burst at once. The zero value is
// of no use; see newPace.
type pace struct {
	gap   time.Duration // 1/rate
	slack time.Duration // how far ahead of the gaps a burst may run

	mu   sync.Mutex
	next time.Time // when the next would be due without slack
}

func newPace(rate, burst int) *pace {
	gap := time.Second / time.Duration(max(rate, 1))
	return &pace{gap: gap, slack: time.Duration(max(burst, 1)-1) * gap}
}

// reserve takes the next turn and returns the wait until it; false, and nothing is
// taken, if that would be longer than most (negative: no bound).
func (p *pace) reserve(now time.Time, most time.Duration) (time.Duration, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	wait, next := turn(p.next, now, p.gap, p.slack)
	if most >= 0 && wait > most {
		return 0, false
	}
	p.next = next
	return wait, true
}

// turn is the generic cell rate algorithm, pure: when may the next go, and when
// would the one after it be due.
func turn(due, now time.Time, gap, slack time.Duration) (wait time.Duration, next time.Time) {
	if due.Before(now) {
		due = now
	}
	return max(due.Sub(now)-slack, 0), due.Add(gap)
}
