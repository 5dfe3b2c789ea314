//go:build !race

package gateway

import (
	"runtime"
	"testing"
)

// A request that is not rewritten, and its answer, make no garbage in the gateway. What
// is counted is the whole process: four TLS writes with one allocation each by
// crypto/tls, and what the runtime does beside.
func TestForwardingAllocatesNothing(t *testing.T) {
	c, frame, answer := relayed(t, 100, 100)
	const n = 2000
	for range n / 4 {
		c.roundTrip(frame, answer)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range n {
		c.roundTrip(frame, answer)
	}
	runtime.ReadMemStats(&after)
	per := float64(after.Mallocs-before.Mallocs) / n
	t.Logf("%.2f allocations a round trip", per)
	if limit := 6.0; per > limit {
		t.Errorf("%.2f allocations a round trip, want at most %.0f", per, limit)
	}
}
