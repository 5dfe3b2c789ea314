package devkafka

import "testing"

// TestEveryStateAndEvent names all pairs that go on; every other one ends the connection.
func TestEveryStateAndEvent(t *testing.T) {
	type pair struct {
		s state
		e event
	}
	want := map[pair]state{
		{fresh, versionsAnswered}: versioned,
		{fresh, versionsRefused}:  fresh,
		{fresh, mechanismAgreed}:  conversing,

		{versioned, mechanismAgreed}: conversing,

		{conversing, firstAnswered}: conversing,
		{conversing, proved}:        ready,

		{ready, mechanismAgreed}:      conversing,
		{ready, mechanismChanged}:     mismatched,
		{ready, handshakeUntimely}:    ready,
		{ready, authenticateUntimely}: ready,
		{ready, versionsAnswered}:     ready,
		{ready, versionsRefused}:      ready,
		{ready, otherRequest}:         ready,
	}
	for s := range states {
		for e := range events {
			goal, goesOn := want[pair{s, e}]
			if !goesOn {
				goal = failed
			}
			if got := next(s, e); got != goal {
				t.Errorf("%s, %s: %s, not %s", s, e, got, goal)
			}
		}
	}
}
