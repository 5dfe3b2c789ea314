package tokens

import (
	"sync"
	"time"
)

// controllerClock is what is known of the controller's clock: the issue time in the
// answer to an own creation, held against the own monotonic clock. It serves to
// tell how much life is left of a token that was made before this process was
// started. No wall clock of this machine is ever compared with it.
type controllerClock struct {
	mu   sync.Mutex
	last reading
}

// reading is one answer: the controller's clock showed issue at some moment
// between asked and answered.
type reading struct {
	issue           time.Time
	asked, answered time.Time
}

// stepLeast is what two readings may be apart beyond what is unknown about them;
// clocks that are being slewed drift far less.
const stepLeast = time.Second

// learn takes the newest reading and returns by how much the clock has stepped
// since the one before (another controller counts as a step); 0 for less than
// stepLeast.
func (c *controllerClock) learn(r reading) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.last
	c.last = r
	if before.asked.IsZero() {
		return 0
	}
	return stepBetween(before, r)
}

// stepBetween is pure. The issue moments lie anywhere between asked and answered,
// so that the time between them is known up to both waits.
func stepBetween(before, after reading) time.Duration {
	shown := min(max(after.issue.Sub(before.issue), -longestLife), longestLife) // no difference overflows
	least, most := after.asked.Sub(before.answered), after.answered.Sub(before.asked)
	switch {
	case shown > most+stepLeast:
		return shown - most
	case shown < least-stepLeast:
		return shown - least
	}
	return 0
}

// now is the latest that the controller's clock can show at the own moment; false
// before the first reading. It may be ahead by up to the width, which is how long
// the creation took: what is left of a life is taken for a little less.
func (c *controllerClock) now(own time.Time) (shown time.Time, width time.Duration, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last.asked.IsZero() {
		return time.Time{}, 0, false
	}
	return c.last.issue.Add(own.Sub(c.last.asked)), c.last.answered.Sub(c.last.asked), true
}
