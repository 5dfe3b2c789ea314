package main

import (
	"runtime/debug"
	"testing"
)

// What the operator says about memory holds.
func TestTheCollectorIsTheOperatorsToSet(t *testing.T) {
	const before = 123
	defer debug.SetGCPercent(debug.SetGCPercent(before))
	for _, c := range []struct {
		environ []string
		want    int
	}{
		{nil, collectAt},
		{[]string{"GOGCX=50", "GOGC=", "GOMEMLIMIT="}, collectAt},
		{[]string{"GOGC=50"}, before},
		{[]string{"A=b", "GOMEMLIMIT=64MiB"}, before},
	} {
		undo := tuneCollector(c.environ)
		got := debug.SetGCPercent(before)
		debug.SetGCPercent(got)
		undo()
		if after := debug.SetGCPercent(before); got != c.want || after != before {
			t.Errorf("%v: %d, want %d; %d afterwards", c.environ, got, c.want, after)
		}
	}
}
