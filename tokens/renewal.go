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
