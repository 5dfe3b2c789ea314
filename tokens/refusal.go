package tokens

import "time"

// refusal is an answer that every owner would get: tokens are disabled, say. While
// it is fresh no more of them are asked for, whatever the owner, so that the reason
// is told at once and nobody's creation waits for its turn in vain.
type refusal struct {
	err   *Error
	until time.Time
}

// refuse remembers a refusal that concerns every owner.
func (s *Source) refuse(e *Error) {
	if e.everywhere() {
		s.refused.Store(&refusal{err: e, until: time.Now().Add(refusalLeast)})
	}
}

// refusal is what owner would be told if it were asked for now; nil: nothing is
// known.
func (s *Source) refusal(owner string) *Error {
	r := s.refused.Load()
	if r == nil || !time.Now().Before(r.until) {
		return nil
	}
	e := *r.err
	e.Owner = owner
	return &e
}

// refusedFor is the delay after err: one that concerns every owner is not believed
// for longer because another owner met it first.
func (s *Source) refusedFor(err *Error, now time.Time, delay time.Duration) time.Duration {
	if r := s.refused.Load(); r != nil && err.everywhere() {
		return delay - refusalLeast + max(r.until.Sub(now), 0)
	}
	return delay
}
