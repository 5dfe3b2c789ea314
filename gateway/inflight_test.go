package gateway

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
)

func TestInflightKeepsTheOrder(t *testing.T) {
	q := newInflight(1000)
	next, due := int32(0), int32(0)
	for round := range 200 {
		for range round % 7 {
			if !q.tryPush(pending{correlationID: next}) {
				t.Fatal("full")
			}
			next++
		}
		for range round % 5 {
			if q.len() == 0 {
				break
			}
			if _, ok := q.match(due + 1); ok {
				t.Fatal("an answer out of turn was taken")
			}
			if _, ok := q.match(due); !ok {
				t.Fatalf("the answer %d that is due was not taken", due)
			}
			q.pop()
			due++
		}
	}
	if q.len() != int(next-due) {
		t.Fatalf("%d left, want %d", q.len(), next-due)
	}
}

func TestInflightWaitsForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newInflight(3)
		for i := range int32(3) {
			if err := q.push(t.Context(), pending{correlationID: i}); err != nil {
				t.Fatal(err)
			}
		}
		if q.tryPush(pending{}) {
			t.Fatal("a fourth was taken")
		}
		var wg sync.WaitGroup
		pushed := false
		wg.Go(func() {
			if err := q.push(t.Context(), pending{correlationID: 3}); err != nil {
				t.Error(err)
			}
			pushed = true
		})
		synctest.Wait()
		if pushed {
			t.Fatal("did not wait")
		}
		q.pop()
		wg.Wait()

		cause := errors.New("the session ended")
		ctx, cancel := context.WithCancelCause(t.Context())
		wg.Go(func() {
			if err := q.push(ctx, pending{}); !errors.Is(err, cause) {
				t.Errorf("got %v", err)
			}
		})
		synctest.Wait()
		cancel(cause)
		wg.Wait()
	})
}

func TestInflightLocalAnswers(t *testing.T) {
	q := newInflight(2)
	if queued, full := q.pushLocal(pending{local: []byte("x")}); queued || full {
		t.Fatal("queued although nothing is awaited")
	}
	q.tryPush(pending{correlationID: 1})
	if queued, _ := q.pushLocal(pending{correlationID: 2, local: []byte("x")}); !queued {
		t.Fatal("not queued behind an answer that is awaited")
	}
	if queued, full := q.pushLocal(pending{local: []byte("x")}); queued || !full {
		t.Fatal("the bound does not hold for answers made here")
	}
	q.pop()
	if _, due := q.match(2); due {
		t.Fatal("a broker's answer matched a request that it never saw")
	}
}

func TestInflightAllocatesNothingWhenWarm(t *testing.T) {
	q := newInflight(1000)
	step := func() {
		for i := range int32(5) {
			q.tryPush(pending{correlationID: i})
		}
		for range 5 {
			q.pop()
		}
	}
	step()
	if n := testing.AllocsPerRun(100, step); n != 0 {
		t.Fatalf("%v allocations", n)
	}
}
