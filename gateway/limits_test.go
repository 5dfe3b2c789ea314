package gateway

import (
	"net/netip"
	"testing"
)

func TestCountersHoldEveryLimit(t *testing.T) {
	a, b := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")
	c := newCounters(Limits{Sessions: 5, SessionsPerOwner: 2, SessionsPerAddress: 3, HandshakesPerAddress: 2})
	take := func(from netip.Addr, want Reason) {
		t.Helper()
		if got, ok := c.accept(from); got != want || ok != (want == "") {
			t.Fatalf("got %q, %v; want %q", got, ok, want)
		}
	}
	take(a, "")
	take(a, "")
	take(a, ReasonLimitHandshake)
	c.shaken(a)
	take(a, "")
	c.shaken(a)
	take(a, ReasonLimitAddress)
	take(b, "")
	c.shaken(b)
	take(b, "")
	take(b, ReasonLimitSessions)
	c.closed(a)
	c.shaken(b)
	take(b, "")

	for i, want := range []bool{true, true, false} {
		if got := c.admit("alice"); got != want {
			t.Fatalf("alice's session %d: %v", i+1, got)
		}
	}
	if !c.admit("bob") {
		t.Fatal("one owner's limit holds for another")
	}
	c.release("alice")
	if !c.admit("alice") {
		t.Fatal("a released slot is not free")
	}
}

func TestCountersForgetWhoLeft(t *testing.T) {
	c := newCounters(Limits{})
	from := netip.MustParseAddr("192.0.2.1")
	for range 100 {
		if _, ok := c.accept(from); !ok {
			t.Fatal("a limit of 0 bounds")
		}
		c.shaken(from)
		c.admit("alice")
	}
	for range 100 {
		c.release("alice")
		c.closed(from)
	}
	if len(c.sources) != 0 || len(c.owners) != 0 || c.legs != 0 {
		t.Fatalf("left: %v %v %d", c.sources, c.owners, c.legs)
	}
}
