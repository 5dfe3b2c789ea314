package gateway

import "testing"

// A missing case is a red row: every phase meets every step.
func TestPhases(t *testing.T) {
	want := map[phase]map[step]phase{
		phaseAdmitted:   {stepRequest: phaseConnecting, stepClose: phaseClosed},
		phaseConnecting: {stepConnected: phaseRelaying, stepClose: phaseClosed},
		phaseRelaying:   {stepDrain: phaseDraining, stepClose: phaseClosed},
		phaseDraining:   {stepClose: phaseClosed},
		phaseClosed:     {stepClose: phaseClosed},
	}
	for p := phaseAdmitted; p <= phaseClosed; p++ {
		for e := stepRequest; e <= stepClose; e++ {
			next, legal := want[p][e]
			got, err := p.next(e)
			if (err == nil) != legal || legal && got != next {
				t.Errorf("%v + %v: %v, %v; want %v (%v)", p, e, got, err, next, legal)
			}
			if p.String() == "" || e.String() == "" {
				t.Error("a name is missing")
			}
		}
	}
}
