package conformance

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// ran is a run over a broker that serves three keys, and a gateway that offers two of
// them as it should.
func ran() *run {
	w := &World{
		Served:  map[int16][2]int16{3: {0, 1}, 12: {0, 0}, 27: {1, 1}},
		Offered: map[int16][2]int16{3: {0, 1}, 12: {0, 0}},
	}
	r := &run{Suite: &Suite{World: w}, report: newReport(w)}
	for key, in := range map[int16][2]int16{3: {0, 1}, 12: {0, 0}} {
		for v := in[0]; v <= in[1]; v++ {
			r.report.row(key).Success[v], r.report.row(key).Failure[v] = true, true
		}
	}
	return r
}

func TestWhatIsOfferedIsHeldAgainstWhatMayBeWithheld(t *testing.T) {
	r := ran()
	r.offer()
	if r.report.Differences != nil {
		t.Errorf("%q", r.report.Differences)
	}
	for what, change := range map[string]func(w *World){
		"Metadata v1 is served by the broker and not offered by the gateway":        func(w *World) { w.Offered[3] = [2]int16{0, 0} },
		"Heartbeat v0 is served by the broker and not offered by the gateway":       func(w *World) { delete(w.Offered, 12) },
		"WriteTxnMarkers v1 is offered by the gateway, which should not":            func(w *World) { w.Offered[27] = [2]int16{1, 1} },
		"SyncGroup is offered by the gateway and not by the broker":                 func(w *World) { w.Offered[14] = [2]int16{0, 1} },
		"Metadata is offered in versions [0 2], by the broker in [0 1]":             func(w *World) { w.Offered[3] = [2]int16{0, 2} },
		"Metadata v0 is served by the broker and not offered by the gateway":        func(w *World) { w.Offered[3] = [2]int16{1, 1} },
		"AddPartitionsToTxn v3 is served by the broker and not offered by the gate": func(w *World) { w.Served[24], w.Offered[24] = [2]int16{0, 5}, [2]int16{0, 2} },
	} {
		r := ran()
		change(r.World)
		r.offer()
		if !strings.Contains(strings.Join(r.report.Differences, "\n"), what) {
			t.Errorf("found %q, not %q", r.report.Differences, what)
		}
	}
	// What kmsg does not know cannot be offered.
	r = ran()
	newest := kmsg.RequestForKey(3).MaxVersion()
	r.World.Served[3], r.World.Offered[3] = [2]int16{0, newest + 1}, [2]int16{0, newest}
	if r.offer(); r.report.Differences != nil {
		t.Errorf("of a broker that is newer than kmsg: %q", r.report.Differences)
	}
}

func TestEveryVersionNeedsBothKindsOfAnswer(t *testing.T) {
	r := ran()
	if r.report.cover(); r.report.Faults != nil {
		t.Errorf("%q", r.report.Faults)
	}
	for what, change := range map[string]func(*Report){
		"Metadata v1 was not asked at all":                                func(r *Report) { delete(r.row(3).Success, 1); delete(r.row(3).Failure, 1) },
		"Metadata v1 has no successful answer, and no reason for that":    func(r *Report) { delete(r.row(3).Success, 1) },
		"Heartbeat v0 has no error for an answer, and no reason for that": func(r *Report) { delete(r.row(12).Failure, 0) },
		"ListGroups v0 has no successful answer, and no reason for that": func(r *Report) {
			r.world.Served[16], r.world.Offered[16] = [2]int16{}, [2]int16{}
			r.row(16).Other[0] = true
		},
		"DescribeDelegationToken v1 has no error for an answer, and no reason for ": func(r *Report) { r.world.Served[41] = [2]int16{1, 1}; r.row(41).Other[1] = true },
	} {
		r := ran().report
		change(r)
		r.cover()
		if len(r.Faults) != 1 || !strings.Contains(r.Faults[0], what) {
			t.Errorf("found %q, not %q", r.Faults, what)
		}
	}
}

func TestTheReportSaysWhatWasFound(t *testing.T) {
	r := ran().report
	r.row(27).withheld(1, Withheld{Key: 27, Why: "it is for brokers alone"})
	text := func() string {
		var b strings.Builder
		if err := r.WriteMarkdown(&b, "4.4.0"); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	before := text()
	for _, want := range []string{
		"\nUnexplained differences: 0\n", "| 3 | Metadata | 0–1 | 0–1 | all | all | `Brokers[].Host`, `Brokers[].Port`, empty in all answers |  |",
		"| 27 | WriteTxnMarkers | 1 | – |  |  |  | [withheld](#withheld) |", "| 27 | WriteTxnMarkers | 1 | the connection is closed | it is for brokers alone |",
	} {
		if !strings.Contains(before, want) {
			t.Errorf("it lacks %q:\n%s", want, before)
		}
	}
	if again := text(); again != before {
		t.Error("the same run gives two reports")
	}
	r.differ(12, "Heartbeat v0, of a member: ErrorCode is 0 directly, 25 through the gateway")
	if after := text(); !strings.Contains(after, "\nUnexplained differences: 1\n\n- Heartbeat v0, of a member: ErrorCode is 0 directly") {
		t.Errorf("after a difference:\n%s", after)
	}
}

func TestSpans(t *testing.T) {
	for want, versions := range map[string][]int16{"–": nil, "0": {0}, "0–1": {0, 1}, "0, 2–4, 6": {0, 2, 3, 4, 6}} {
		if got := span(versions); got != want {
			t.Errorf("%v is %q, not %q", versions, got, want)
		}
	}
}
