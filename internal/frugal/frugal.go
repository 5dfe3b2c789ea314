// Package frugal is for tests of decoders: what they take of memory follows the bytes
// that came, not what those declare.
package frugal

import (
	"runtime"
	"testing"
)

// Allowance is what small messages may cost beyond eight times their size, in bytes.
const Allowance = 16 << 10

// Check has f take at most eight times as much memory as the bytes that it is about, and
// the allowance. The whole process is measured: another goroutine may have taken it, but
// not each of five times. f is called once or more often.
func Check(t testing.TB, size int, f func()) {
	t.Helper()
	var before, after runtime.MemStats
	for range 5 {
		runtime.ReadMemStats(&before)
		f()
		runtime.ReadMemStats(&after)
		if after.TotalAlloc-before.TotalAlloc <= 8*uint64(size)+Allowance { //nolint:gosec // G115: a length
			return
		}
	}
	t.Fatalf("%d bytes taken for %d", after.TotalAlloc-before.TotalAlloc, size)
}
