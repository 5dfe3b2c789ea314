package nodestatus

import (
	"strings"
	"testing"
)

func TestEveryStateAndEvent(t *testing.T) {
	rows := map[State][eventCount]State{
		//         listed, not listed, failed, failed again, succeeded, forgiven
		Unknown: {Up, Down, Suspect, Suspect, Up, Unknown},
		Up:      {Up, Down, Suspect, Suspect, Up, Unknown},
		Suspect: {Up, Down, Suspect, Down, Up, Unknown},
		Down:    {Suspect, Down, Down, Down, Up, Unknown},
	}
	if len(rows) != int(stateCount) {
		t.Fatalf("%d rows for %d states", len(rows), stateCount)
	}
	for s, row := range rows {
		for ev := event(0); ev < eventCount; ev++ {
			if got, err := s.next(ev); err != nil || got != row[ev] {
				t.Errorf("%s + %s = %s, %v; want %s", s, ev, got, err, row[ev])
			}
		}
		if got, err := s.next(eventCount); err == nil || got != s || !strings.Contains(err.Error(), s.String()) {
			t.Errorf("%s + an unknown event = %s, %v", s, got, err)
		}
	}
}

func TestNamesOfStatesAndEvents(t *testing.T) {
	names := map[string]bool{}
	for s := State(0); s < stateCount; s++ {
		names[s.String()] = true
	}
	for ev := event(0); ev < eventCount; ev++ {
		names["event "+ev.String()] = true
	}
	for p := PhaseDial; p <= PhaseJudge; p++ {
		names["phase "+p.String()] = true
	}
	if want := int(stateCount) + int(eventCount) + 3; len(names) != want {
		t.Errorf("%d different names, want %d: %v", len(names), want, names)
	}
	for _, n := range []string{State(99).String(), event(99).String(), Phase(99).String()} {
		if !strings.Contains(n, "99") {
			t.Errorf("unknown value printed as %q", n)
		}
	}
}
