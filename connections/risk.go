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

// riskTimes tells, for a session that lives so long, after how much of it the
// connection is at risk and after how much nothing more may be written:
//
//	0 ───────────── begin ────── stop ── lifetime
//	                      ≥ 1/20    margin
//
// The margin is a tenth of the lifetime, of 1 to 30 s: it covers what the broker
// takes to read a request that was written in time. Between begin and stop, which is
// a twentieth to a tenth of the lifetime and 10 minutes at most, the connection looks
// for a quiet moment; jitter, in [0,1), keeps connections that were opened together
// from looking together. lifetime is above minMargin.
func riskTimes(lifetime time.Duration, jitter float64) (begin, stop time.Duration) {
	margin := min(max(lifetime/10, minMargin), maxMargin)
	stop = lifetime - margin
	early := min(lifetime/10, maxEarly)
	early -= time.Duration(float64(early) / 2 * min(max(jitter, 0), 1))
	return max(stop-early, 0), stop
}
