package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// diary records what happened in which order.
type diary struct {
	mu    sync.Mutex
	lines []string
}

func (d *diary) write(line string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, line)
}

// until returns a task that runs until it is told to stop and takes a while then.
func (d *diary) until(name string) task {
	return task{name, func(ctx context.Context) error {
		<-ctx.Done()
		d.write(name + " stops")
		time.Sleep(time.Second)
		d.write(name + " has ended")
		return nil
	}}
}

func TestTasksStopOneAfterTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d diary
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Hour, cancel)
		if err := supervise(ctx, d.until("gateway"), d.until("tokens"), d.until("admin")); err != nil {
			t.Error(err)
		}
		want := []string{"gateway stops", "gateway has ended", "tokens stops", "tokens has ended", "admin stops", "admin has ended"}
		if !slices.Equal(d.lines, want) {
			t.Errorf("got %q", d.lines)
		}
	})
}

// TestFailureOfOneStopsAllInOrder: a part in the middle fails; the ones before it
// still find those after it alive to their end.
func TestFailureOfOneStopsAllInOrder(t *testing.T) {
	broken := errors.New("broken")
	rows := []struct {
		name string
		run  func(context.Context) error
		want string
	}{
		{"error", func(context.Context) error { return broken }, "tokens: broken"},
		{"early end", func(context.Context) error { return nil }, "tokens: ended by itself"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var d diary
				err := supervise(t.Context(), d.until("gateway"), task{"tokens", row.run}, d.until("admin"))
				if err == nil || !strings.Contains(err.Error(), row.want) {
					t.Errorf("got %v", err)
				}
				want := []string{"gateway stops", "gateway has ended", "admin stops", "admin has ended"}
				if !slices.Equal(d.lines, want) {
					t.Errorf("got %q", d.lines)
				}
			})
		})
	}
}
