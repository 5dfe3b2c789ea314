package devkafka

import "time"

// minReauth is how long after the start of a re-authentication the next may start.
const minReauth = time.Second

// session is what a login fixed. Its zero value has no end, as on a listener without
// SASL.
type session struct {
	mechanism string
	owner     string
	limited   bool
	end       time.Time
	// again is when the last re-authentication began; the first login does not count.
	again time.Time
}

// lifetime is what a login now is worth (session_lifetime_ms): the token's life that is
// left, or maxReauth if that is less and not 0; never below 0, and whole milliseconds.
func lifetime(now, expiry time.Time, maxReauth time.Duration) time.Duration {
	left := time.Duration(expiry.UnixMilli()-now.UnixMilli()) * time.Millisecond
	if maxReauth > 0 {
		left = min(left, maxReauth)
	}
	return max(left, 0)
}

// begin fixes the session that a login at now begins.
func (s *session) begin(now time.Time, lifetime time.Duration) {
	s.limited, s.end = true, now.Add(lifetime)
}

// over tells whether a request that is read now comes too late. With a lifetime of 0
// every request does.
func (s *session) over(now time.Time) bool { return s.limited && now.After(s.end) }

// mayReauthenticate tells whether a SaslHandshake that is read now starts a
// re-authentication. It does so after the session's end too.
func (s *session) mayReauthenticate(now time.Time) bool {
	return s.limited && (s.again.IsZero() || now.Sub(s.again) >= minReauth)
}
