// Package pause waits for a time that a context can end. It imports nothing of the
// project and starts no goroutine.
package pause

import (
	"context"
	"time"
)

// For waits for d, or until ctx ends, and tells whether ctx still lives.
func For(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
