package main

import (
	"runtime"
	"runtime/debug"
	"strings"
)

// By itself the collector runs each time that the heap has doubled, from 4 MiB on. Here
// nearly all garbage is of handshakes, some 170 KiB each: with few sessions the collector
// would run for every 15 new ones, and with many it would leave as much garbage as there
// is in use. So it runs sooner, and never before heapFloor has gathered a share of it.
// For 2000 idle sessions that is 44 KiB each instead of 52, and a new one costs a sixth
// less CPU time where few are open, a twelfth more at 2000.
const (
	collectAt = 30 // percent of the heap, as GOGC
	// heapFloor is memory that is counted and never touched, so that it takes up
	// addresses alone. Go has no other way to say how small a heap is not worth a
	// collection.
	heapFloor = 32 << 20
)

// tuneCollector sets the collector, unless the operator does, and returns what undoes it.
func tuneCollector(environ []string) (undo func()) {
	for _, e := range environ {
		if name, value, _ := strings.Cut(e, "="); value != "" && (name == "GOGC" || name == "GOMEMLIMIT") {
			return func() {}
		}
	}
	floor := make([]byte, heapFloor)
	before := debug.SetGCPercent(collectAt)
	return func() {
		debug.SetGCPercent(before)
		runtime.KeepAlive(floor)
	}
}
