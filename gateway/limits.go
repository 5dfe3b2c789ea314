package gateway

import (
	"net/netip"
	"sync"
)

// Limits bounds what clients may take. Zero means no bound, except for Admission
// and Frame, which have to be set.
type Limits struct {
	Sessions             int
	SessionsPerOwner     int
	SessionsPerAddress   int
	HandshakesPerAddress int   // at a time
	InFlight             int   // requests of one session that await their answers
	Frame                int64 // bytes of one request
}

// counters counts client legs against the limits, from accept on.
type counters struct {
	limits Limits

	mu      sync.Mutex
	legs    int
	owners  map[string]int
	sources map[netip.Addr]source // one per address with a leg
}

type source struct{ legs, handshakes int }

func newCounters(l Limits) *counters {
	return &counters{limits: l, owners: make(map[string]int), sources: make(map[netip.Addr]source)}
}

func over(n, limit int) bool { return limit > 0 && n >= limit }

// accept takes a slot for a leg whose handshake begins, or says which limit is
// reached.
func (c *counters) accept(from netip.Addr) (Reason, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.sources[from]
	switch {
	case over(c.legs, c.limits.Sessions):
		return ReasonLimitSessions, false
	case over(s.legs, c.limits.SessionsPerAddress):
		return ReasonLimitAddress, false
	case over(s.handshakes, c.limits.HandshakesPerAddress):
		return ReasonLimitHandshake, false
	}
	c.legs++
	c.sources[from] = source{s.legs + 1, s.handshakes + 1}
	return "", true
}

// shaken gives the handshake's slot back; the leg keeps its own.
func (c *counters) shaken(from netip.Addr) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.sources[from]
	s.handshakes--
	c.sources[from] = s
}

// admit counts a session for its owner.
func (c *counters) admit(owner string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if over(c.owners[owner], c.limits.SessionsPerOwner) {
		return false
	}
	c.owners[owner]++
	return true
}

// release gives a session's slot of its owner back.
func (c *counters) release(owner string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.owners[owner]--; c.owners[owner] <= 0 {
		delete(c.owners, owner)
	}
}

// closed gives a leg's slot back.
func (c *counters) closed(from netip.Addr) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.legs--
	s := c.sources[from]
	if s.legs--; s.legs <= 0 {
		delete(c.sources, from)
		return
	}
	c.sources[from] = s
}
