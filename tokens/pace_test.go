package tokens

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestPaceKeepsToItsRateAndBurst(t *testing.T) {
	for _, c := range []struct{ rate, burst int }{{1, 1}, {10, 1}, {50, 100}, {1000, 5}, {0, 0}} {
		p, now := newPace(c.rate, c.burst), time.Now()
		rate, burst := max(c.rate, 1), max(c.burst, 1)
		var waits []time.Duration
		for range 3 * burst {
			wait, ok := p.reserve(now, -1)
			if !ok {
				t.Fatal("refused without a bound")
			}
			waits = append(waits, wait)
		}
		gap := time.Second / time.Duration(rate)
		for i, wait := range waits {
			if want := time.Duration(max(i-burst+1, 0)) * gap; wait != want {
				t.Fatalf("rate %d, burst %d: the %dth waits %v, want %v", c.rate, c.burst, i+1, wait, want)
			}
		}
		// After a long pause the whole burst is there again, and no more.
		now = now.Add(time.Hour)
		for i := range burst + 1 {
			wait, _ := p.reserve(now, -1)
			if (wait == 0) != (i < burst) {
				t.Fatalf("rate %d, burst %d: after a pause the %dth waits %v", c.rate, c.burst, i+1, wait)
			}
		}
	}
}

func TestPaceRefusesWhatWouldWaitTooLong(t *testing.T) {
	p, now := newPace(10, 1), time.Now()
	taken := 0
	for range 1000 {
		if wait, ok := p.reserve(now, time.Second); ok {
			taken++
			if wait > time.Second {
				t.Fatalf("waits %v", wait)
			}
		}
	}
	if taken != 11 { // at once, and one for each tenth of the second
		t.Errorf("%d taken", taken)
	}
	if wait, ok := p.reserve(now.Add(100*time.Millisecond), time.Second); !ok || wait != time.Second {
		t.Errorf("what was refused took something: %v, %v", wait, ok)
	}
}

// S16: 5,000 new owners in a minute. Creations keep to their rate, those who cannot
// be served are told soon, and owners that have tokens are served and their tokens
// replaced as ever.
func TestFloodOfNewOwnersDoesNotTouchTheOthers(t *testing.T) {
	withBed(t, func(k *fakeKafka, c *Config) { k.life, c.CreationRate = 2*time.Minute, 20 }, func(b *bed) {
		var old []*Lease
		for i := range 20 {
			old = append(old, b.acquire(fmt.Sprint("old-", i)))
		}
		b.sleep(40 * time.Second) // they come due in the next 20 s
		var group sync.WaitGroup
		var served, busy atomic.Int64
		var waited atomic.Int64
		stop := make(chan struct{})
		group.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(time.Second):
				}
				if n := b.seen.gauge(GaugeWaiting); n > 20*float64(queueNew/time.Second)+25 {
					b.Errorf("%v creations wait", n)
				}
				for _, l := range old {
					if l.Token().Left() < time.Minute-retireGrace {
						b.Errorf("%v has %v left", l.Token(), l.Token().Left())
					}
				}
			}
		})
		var clients sync.WaitGroup
		for i := range 5000 {
			clients.Go(func() {
				time.Sleep(time.Duration(i) * 12 * time.Millisecond)
				begin := time.Now()
				l, err := b.source.Acquire(b.ctx, fmt.Sprint("new-", i))
				if d := int64(time.Since(begin)); d > waited.Load() {
					waited.Store(d)
				}
				var e *Error
				switch {
				case err == nil:
					served.Add(1)
					l.Release()
				case errors.As(err, &e) && e.Reason == ReasonBusy && e.Retry && e.Cure != "":
					busy.Add(1)
				default:
					b.Errorf("%v", err)
				}
			})
		}
		clients.Wait()
		close(stop)
		group.Wait()
		made := 0
		for _, c := range b.kafka.creates {
			if strings.HasPrefix(c.Owner, "new-") {
				made++
			}
		}
		if most := 20*63 + 40; made > most || served.Load() != int64(made) || served.Load()+busy.Load() != 5000 {
			b.Errorf("%d creations for new owners, at most %d; served %d, busy %d", made, most, served.Load(), busy.Load())
		}
		if d := time.Duration(waited.Load()); d > queueNew+time.Second {
			b.Errorf("somebody waited %v", d)
		}
		for _, l := range old {
			l.Release()
		}
	})
}
