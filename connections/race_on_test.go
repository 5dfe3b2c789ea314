//go:build race

package connections

// raceSlack: under the race detector sync.Pool drops what it is given now and then, so
// that allocations vary.
const raceSlack = 3
