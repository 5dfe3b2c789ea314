package pause

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestForEndsWithTheTimeOrTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if !For(t.Context(), time.Minute) || time.Since(began) != time.Minute {
			t.Errorf("the time: %v", time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began = time.Now()
		if For(ctx, time.Minute) || time.Since(began) != time.Second {
			t.Errorf("the context: %v", time.Since(began))
		}
		if For(ctx, 0) {
			t.Error("a context that is over lives")
		}
	})
}
