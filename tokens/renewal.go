package tokens

import (
	"time"

	"github.com/cenkalti/backoff/v5"
)

// Bounds of a token's life as scheduled here. Kafka accepts any 64-bit number of
// milliseconds, in its settings and in requests.
const (
	// shortestLife is the least life that a token may have: below it the wait for
	// metadata replication and one login would use it up, and the replacements
	// of one owner would be a load on the controller.
	shortestLife = 2 * time.Second
	// longestLife caps what is scheduled, so that no sum overflows.
	longestLife = 10 * 365 * 24 * time.Hour
)

// The share of a life after which its replacement begins lies between
// replaceFrom and replaceFrom+replaceSpread: replacements of tokens that were
// created together come apart, and none comes later than half life.
const (
	replaceFrom   = 0.4
	replaceSpread = 0.1
)

// The margin at the end of a life in which a token is no longer handed out: a
// login needs it for a while after it got it.
const (
	marginShare = 10 // one tenth of the life
	marginLeast = 500 * time.Millisecond
	marginMost  = 30 * time.Second
)

// schedule is what is planned for one token, as durations after the moment that
// its creation was asked for.
type schedule struct {
	replace time.Duration // the replacement begins
	usable  time.Duration // the token is not handed out any more
	dead    time.Duration // Kafka refuses it
}

// urgent is when the replacement no longer waits for the token before to be expired.
func (p schedule) urgent() time.Duration { return p.usable / 5 * 4 }

// plan computes the schedule of a token with the given life. jitter is in [0,1).
// It reports false for a life that is too short to work with.
func plan(life time.Duration, jitter float64) (schedule, bool) {
	if life < shortestLife {
		return schedule{}, false
	}
	life = min(life, longestLife)
	return schedule{
		replace: time.Duration(float64(life) * (replaceFrom + replaceSpread*jitter)),
		usable:  life - min(max(life/marginShare, marginLeast), marginMost),
		dead:    life,
	}, true
}

// planAdopted computes the schedule of a token that was made earlier, by what the
// controller's clock shows now. age is how much of its life is over: the schedule
// counts from that long ago. It reports false for a token that is no longer, or
// hardly, handed out; for an issue time in the future (the clock was set back) the
// token counts as new.
func planAdopted(issue, expiry, controller time.Time, jitter float64) (p schedule, age time.Duration, ok bool) {
	if p, ok = plan(lifeOf(issue, expiry), jitter); !ok {
		return schedule{}, 0, false
	}
	age = max(controller.Sub(issue), 0)
	// Both conditions: the life may be capped, and the sums saturate.
	if age >= p.usable || expiry.Sub(controller) <= p.dead-p.usable {
		return schedule{}, 0, false
	}
	return p, age, true
}

// lifeOf turns the controller's two timestamps into a duration. time.Time.Sub
// saturates, so absurd settings (a maximum lifetime of 2^63-1 ms) give the
// longest duration and an expiry before the issue gives a negative one.
func lifeOf(issued, expiry time.Time) time.Duration { return expiry.Sub(issued) }

// Back-off after a failed creation, per owner: exponential between the two
// intervals, each delay spread by backoffSpread either way. The last one is short
// enough that a client is served again within 5 s of the brokers' return.
const (
	backoffFirst  = 500 * time.Millisecond
	backoffLast   = 3 * time.Second
	backoffSpread = 0.25
	// refusalLeast is how long a refusal is believed at least: whatever Kafka
	// lacks, an operator has to add it.
	refusalLeast = 5 * time.Second
)

// backoffFloor is the least delay that retryDelay gives.
const backoffFloor = time.Duration(float64(backoffFirst) * (1 - backoffSpread))

func newBackoff() *backoff.ExponentialBackOff {
	b := &backoff.ExponentialBackOff{
		InitialInterval:     backoffFirst,
		MaxInterval:         backoffLast,
		Multiplier:          2,
		RandomizationFactor: backoffSpread,
	}
	b.Reset()
	return b
}

// retryDelay is the time until the next creation after one that failed.
func retryDelay(b *backoff.ExponentialBackOff, refused bool) time.Duration {
	d := max(b.NextBackOff(), backoffFloor)
	if refused {
		// The delay stays jittered above the least, so that the owners that were
		// refused together do not come back together.
		d = refusalLeast + d
	}
	return d
}

// Tokens that vanish while they should be good: the first is replaced at once, since
// an administrator may have expired it. Those that follow are replaced later and
// later, since creating more is no answer to whatever ends them.
const (
	vanishFirst = 5 * time.Second
	// vanishMost bounds the delay where the owner has no token meanwhile.
	vanishMost = 30 * time.Second
	// deadMost bounds it where the token still serves on other brokers.
	deadMost = 5 * time.Minute
)

// vanishDelay is the delay after the nth (from 1) token that vanished.
func vanishDelay(n int, most time.Duration, jitter float64) time.Duration {
	if n <= 1 {
		return 0
	}
	d := min(vanishFirst<<min(n-2, 8), most)
	return d + time.Duration(float64(d)*backoffSpread*jitter)
}

// warmBound is how long a new token is held back until the brokers know it on which
// the one before is in use. The one before serves meanwhile: never for more than a
// quarter of what is left of it.
func warmBound(left time.Duration) time.Duration {
	return max(min(time.Second, left/4), 0)
}

// Looking again for what lost answers left behind: a broker that hung while it held
// the request may yet pass it on, minutes later.
const (
	sweepFirst  = 10 * time.Second
	sweepSecond = time.Minute
	sweepLast   = 10 * time.Minute
)

// nextSweep is when to look again: lost is the moment of the last lost answer, last
// that of the last look. It reports false if nothing more is to be looked for.
func nextSweep(lost, last time.Time) (time.Time, bool) {
	if lost.IsZero() {
		return time.Time{}, false
	}
	for _, d := range [...]time.Duration{sweepFirst, sweepSecond, sweepLast} {
		if at := lost.Add(d); at.After(last) {
			return at, true
		}
	}
	return time.Time{}, false
}

// The stop waits for Kafka for stopLeast, and stopEach more for every token that has
// to be expired; with most it never waits longer than that.
const (
	stopLeast = 5 * time.Second
	stopEach  = 40 * time.Millisecond
)

func stopBound(tokens int, most time.Duration) time.Duration {
	return min(stopLeast+time.Duration(tokens)*stopEach, most)
}

// patientMost is the longest delay while a token still serves.
const patientMost = 30 * time.Second

// patientDelay is retryDelay where the published token serves for left more: ten
// attempts, or one every half minute, and never one sooner than d.
func patientDelay(d, left time.Duration, jitter float64) time.Duration {
	share := min(left/10, patientMost)
	return max(d, time.Duration(float64(share)*(1-backoffSpread*jitter)))
}

// attemptDelay is the pause before attempt n (from 2) of one flight.
func attemptDelay(n int, jitter float64) time.Duration {
	base := 200 * time.Millisecond << min(n-2, 4)
	return time.Duration(float64(base) * (0.75 + 0.5*jitter))
}

// askDelay is the pause after question n (from 1) whether a broker knows a token:
// replication takes some tens of milliseconds on an idle cluster.
func askDelay(n int, jitter float64) time.Duration {
	base := min(15*time.Millisecond<<min(n-1, 6), 500*time.Millisecond)
	return time.Duration(float64(base) * (0.75 + 0.5*jitter))
}
