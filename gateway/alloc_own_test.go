package gateway

import (
	"runtime"
	"strings"
	"testing"
)

// ownAllocations counts those that the gateway's own code makes for one frame, request or
// answer, of what a client leg sends and gets. Others are not for it to avoid: crypto/tls
// makes one for each TLS record that it reads, in whichever process. Buffers do not count
// that a pool has to make again because a collection has emptied it.
func ownAllocations(c *client, frame, answer []byte, trips int) (perFrame float64, where []string) {
	defer func(rate int) { runtime.MemProfileRate = rate }(runtime.MemProfileRate)
	runtime.MemProfileRate = 1
	before := profile()
	for range trips {
		c.roundTrip(frame, answer)
	}
	var made int64
	for stack, n := range profile() {
		if n -= before[stack]; n > 0 {
			if name := ownFunction(stack); name != "" {
				made += n
				where = append(where, name)
			}
		}
	}
	return float64(made) / float64(2*trips), where
}

// profile counts the allocations since the start by where they were made. The runtime
// counts what is smaller than 16 bytes and has no pointers in blocks of 16.
func profile() map[[32]uintptr]int64 {
	runtime.GC() // what was made is published by the second collection after it
	runtime.GC()
	records := make([]runtime.MemProfileRecord, 1<<14)
	n, _ := runtime.MemProfile(records, true)
	out := make(map[[32]uintptr]int64, n)
	for _, r := range records[:n] {
		out[r.Stack0] += r.AllocObjects
	}
	return out
}

// ownFunction is the function that has made an allocation if it is the gateway's own, and
// not a test's.
func ownFunction(stack [32]uintptr) string {
	end := 0
	for end < len(stack) && stack[end] != 0 {
		end++
	}
	for frames := runtime.CallersFrames(stack[:end]); ; {
		f, more := frames.Next()
		if !strings.HasPrefix(f.Function, "runtime.") && !strings.HasPrefix(f.Function, "internal/runtime/") {
			if !strings.HasPrefix(f.Function, "doorkeeper/") || strings.Contains(f.Function, ".NewBuffers.") || strings.HasSuffix(f.File, "_test.go") {
				return ""
			}
			return f.Function
		}
		if !more {
			return ""
		}
	}
}

// reportOwn adds to a benchmark what the gateway's own code allocates for a frame.
func reportOwn(b *testing.B, c *client, frame, answer []byte) {
	per, _ := ownAllocations(c, frame, answer, 300)
	b.ReportMetric(per, "own-allocs/frame")
}
