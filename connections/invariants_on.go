//go:build race

package connections

// debug says that invariants are asserted: in builds with the race detector, which are
// for tests.
const debug = true
