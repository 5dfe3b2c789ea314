package connections

import "time"

// maxLifetime bounds what is believed of a session lifetime. Believing less than the
// broker grants is always safe, and no duration overflows below.
const maxLifetime = 365 * 24 * time.Hour

// Bounds of the margin before a session end.
const (
	minMargin = time.Second
	maxMargin = 30 * time.Second
	// maxEarly bounds how much before the margin a connection becomes at risk.
	maxEarly = 10 * time.Minute
)

// sessionLifetime makes a duration of session_lifetime_ms (KIP-368). 0 means no end
// on a General connection; after a token login it means that the token has expired:
// a live token always has an end. What is too short to be used at all is the same.
func sessionLifetime(kind Kind, millis int64) (time.Duration, error) {
	switch {
	case millis < 0:
		return 0, hostile("a session lifetime of %d ms", millis)
	case millis == 0 && kind == General:
		return 0, nil
	case millis <= minMargin.Milliseconds():
		return 0, refuse(CredentialExpired, "", "the broker took the login, but the session would live for %d ms only: the token has expired", millis)
	case millis > maxLifetime.Milliseconds():
		return maxLifetime, nil
	}
	return time.Duration(millis) * time.Millisecond, nil
}

// moments is what the moments of a session follow from.
type moments struct {
	lifetime time.Duration // that the broker gave; above minMargin
	// renews: the leg can begin a new session. Else all that is left is to end it.
	renews bool
	login  time.Duration // what the last login took
	wait   time.Duration // the longest that requests under way have let the broker wait, where bounded
	jitter float64       // in [0,1): keeps what was opened together from looking together
}

// times tells after how much of a session the connection is at risk, and after how
// much nothing more may be written:
//
//	0 ──── begin ──────────────────────────── stop ──── lifetime
//	        a moment of the window, then need     margin
//
// The margin is a tenth of the lifetime, of 1 to 30 s: it covers what the broker takes
// to read a request that was written in time.
//
// A leg that renews needs, before stop, the time for the longest wait in front of it
// and for two logins, a fifth of the lifetime at most; the window before that is
// another fifth, of 10 minutes at most: ten thousand legs of one age on tokens of a
// minute renew over 12 s. One that can only end itself looks for a quiet moment for a
// twentieth to a tenth of the lifetime, of 10 minutes at most.
func (m moments) times() (begin, stop time.Duration) {
	jitter := min(max(m.jitter, 0), 1)
	stop = m.lifetime - min(max(m.lifetime/10, minMargin), maxMargin)
	window := min(m.lifetime/10, maxEarly) / 2
	need := window
	if m.renews {
		need = min(max(m.wait, 0)+2*max(m.login, 0), m.lifetime/5)
		window = min(m.lifetime/5, maxEarly)
	}
	early := need + window - time.Duration(float64(window)*jitter)
	return max(stop-early, 0), stop
}

// newerDelay is the time between a request that finds a newer credential published and
// the renewal with it, for a session that lives so long: one second, in which all
// brokers come to know of it, and up to a fifth of the lifetime, of 10 minutes at most,
// so that the legs of one owner do not renew together.
func newerDelay(lifetime time.Duration, jitter float64) time.Duration {
	window := min(max(lifetime, 0)/5, maxEarly)
	return time.Second + time.Duration(float64(window)*min(max(jitter, 0), 1))
}
