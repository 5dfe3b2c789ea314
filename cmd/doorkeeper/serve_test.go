package main

import (
	"context"
	"errors"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
)

// atWork returns running tasks of which one takes the given time to stop.
func atWork(toStop time.Duration) (r running, signals chan os.Signal, loops chan error, release func()) {
	signals, loops = make(chan os.Signal, 4), make(chan error, 1)
	freed := make(chan struct{})
	slow := task{"gateway", func(ctx context.Context) error {
		<-ctx.Done()
		select {
		case <-time.After(toStop):
		case <-freed:
		}
		return nil
	}}
	return running{tasks: []task{slow}, signals: signals, loops: loops, drain: toStop, log: zap.NewNop()}, signals, loops, func() { close(freed) }
}

func TestFirstSignalDrains(t *testing.T) {
	for _, s := range []os.Signal{syscall.SIGTERM, syscall.SIGINT} {
		synctest.Test(t, func(t *testing.T) {
			r, signals, _, _ := atWork(30 * time.Second)
			signals <- syscall.SIGHUP // does not count
			signals <- s
			begun := time.Now()
			if err := r.wait(t.Context()); err != nil || time.Since(begun) != 30*time.Second {
				t.Errorf("%v: %v after %v", s, err, time.Since(begun))
			}
		})
	}
}

func TestSecondSignalEndsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, signals, _, release := atWork(time.Hour)
		defer release()
		signals <- syscall.SIGTERM
		time.AfterFunc(time.Second, func() { signals <- syscall.SIGINT })
		begun := time.Now()
		if err := r.wait(t.Context()); !errors.Is(err, errForced) || time.Since(begun) != time.Second {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
	})
}

// TestLoopEndsWithinASecond is S23, also while something is slow to stop.
func TestLoopEndsWithinASecond(t *testing.T) {
	loop := errors.New("pointed at itself")
	for _, toStop := range []time.Duration{0, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			r, _, loops, release := atWork(toStop)
			defer release()
			loops <- loop
			begun := time.Now()
			if err := r.wait(t.Context()); !errors.Is(err, loop) || time.Since(begun) >= time.Second {
				t.Errorf("%v after %v", err, time.Since(begun))
			}
		})
	}
}

func TestFailureOfAPartIsTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _, _, _ := atWork(time.Second)
		broken := errors.New("broken")
		r.tasks = append(r.tasks, task{"admin", func(context.Context) error { return broken }})
		if err := r.wait(t.Context()); !errors.Is(err, broken) {
			t.Errorf("got %v", err)
		}
	})
}
