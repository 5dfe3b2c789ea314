package tokens

import (
	"strings"
	"testing"
)

// Every (state, event) pair has its row; a pair that is missing here must be
// illegal, and leave the state as it is.
func TestEveryStateAndEvent(t *testing.T) {
	legal := map[State]map[event]State{
		Absent:    {evDemand: Creating, evAdopted: Live, evForget: Retiring, evStop: Retiring},
		Creating:  {evCreated: Live, evFailed: Failed, evStop: Retiring},
		Live:      {evDue: Replacing, evLost: Absent, evForget: Retiring, evStop: Retiring},
		Replacing: {evCreated: Live, evFailed: Live, evLost: Creating, evStop: Retiring},
		Retiring:  {evRetired: Absent},
		Failed:    {evDemand: Creating, evAdopted: Live, evForget: Retiring, evStop: Retiring},
	}
	for s := State(0); s < stateCount; s++ {
		for ev := event(0); ev < eventCount; ev++ {
			want, ok := legal[s][ev]
			got, err := s.next(ev)
			switch {
			case ok && (err != nil || got != want):
				t.Errorf("%s + %s = %s, %v; want %s", s, ev, got, err, want)
			case !ok && err == nil:
				t.Errorf("%s + %s = %s; want an error", s, ev, got)
			case !ok && got != s:
				t.Errorf("%s + %s moved to %s with an error", s, ev, got)
			case !ok && (!strings.Contains(err.Error(), s.String()) || !strings.Contains(err.Error(), ev.String())):
				t.Errorf("%s + %s: the error %q does not name both", s, ev, err)
			}
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
	for r := ReasonOther; r <= ReasonStopped; r++ {
		names["reason "+r.String()] = true
	}
	for p := PhaseAcquire; p <= PhaseExpire; p++ {
		names["phase "+p.String()] = true
	}
	if want := int(stateCount) + int(eventCount) + int(ReasonStopped) + 1 + int(PhaseExpire) + 1; len(names) != want {
		t.Errorf("%d different names, want %d: %v", len(names), want, names)
	}
	for n := range names {
		if strings.Contains(n, "(") {
			t.Errorf("no name for %s", n)
		}
	}
	for _, n := range []string{State(99).String(), event(99).String(), Reason(99).String(), Phase(99).String()} {
		if !strings.Contains(n, "99") {
			t.Errorf("unknown value printed as %q", n)
		}
	}
}
