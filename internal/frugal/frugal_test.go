package frugal

import (
	"sync/atomic"
	"testing"
)

// fake takes what a failed check says.
type fake struct {
	testing.TB
	failed bool
}

func (f *fake) Helper()               {}
func (f *fake) Fatalf(string, ...any) { f.failed = true }

func TestCheck(t *testing.T) {
	var keep atomic.Pointer[[]byte]
	for size, fails := range map[int]bool{0: false, 9 << 10: false, 40 << 10: true} {
		var f fake
		Check(&f, 1<<10, func() {
			b := make([]byte, size)
			keep.Store(&b)
		})
		if f.failed != fails {
			t.Errorf("%d bytes for 1024: failed %v", size, f.failed)
		}
	}
}
