package tokens

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"
)

// F9, B09: the broker that lags is waited for, the others are not held up, and
// nothing is asked twice at a time.
func TestAwaitSharesOneFlightPerBroker(t *testing.T) {
	withBed(t, func(k *fakeKafka, _ *Config) { k.lag[2] = 3 * time.Second }, func(b *bed) {
		l := b.acquire("alice")
		defer l.Release()
		tok := l.Token()
		begin := time.Now()
		var group sync.WaitGroup
		for range 100 {
			for node := int32(1); node <= 3; node++ {
				group.Go(func() {
					if err := b.source.Await(b.ctx, tok, node); err != nil {
						b.Errorf("broker %d: %v", node, err)
					}
					d := time.Since(begin)
					if node == 2 && (d < 2900*time.Millisecond || d > 3700*time.Millisecond) || node != 2 && d > 10*time.Millisecond {
						b.Errorf("broker %d took %v", node, d)
					}
				})
			}
		}
		group.Wait()
		if n := b.kafka.askedOf(1); n != 1 {
			b.Errorf("broker 1 was asked %d times", n)
		}
		if n := b.kafka.askedOf(2); n < 5 || n > 20 {
			b.Errorf("broker 2 was asked %d times", n)
		}
		for node := int32(1); node <= 3; node++ { // remembered
			asked := b.kafka.askedOf(node)
			if err := b.source.Await(b.ctx, tok, node); err != nil || b.kafka.askedOf(node) != asked {
				b.Errorf("broker %d asked again: %v", node, err)
			}
		}
		if n := b.kafka.createsOf("alice"); n != 1 {
			b.Errorf("%d creations", n)
		}
	})
}

func TestAwaitGivesUpAtItsBound(t *testing.T) {
	withBed(t, func(k *fakeKafka, _ *Config) { k.lag[2] = 8 * time.Second }, func(b *bed) {
		l := b.acquire("alice")
		defer l.Release()
		begin := time.Now()
		err := b.source.Await(b.ctx, l.Token(), 2)
		var e *Error
		if !errors.As(err, &e) || e.Reason != ReasonNotKnown || e.Node != 2 || !e.Retry || !strings.Contains(e.Error(), "on broker 2") {
			b.Fatalf("error %v", err)
		}
		if d := time.Since(begin); d != askBound {
			b.Errorf("gave up after %v", d)
		}
		asked, begin := b.kafka.askedOf(2), time.Now()
		if again := b.source.Await(b.ctx, l.Token(), 2); !errors.Is(again, err) || time.Since(begin) != 0 || b.kafka.askedOf(2) > asked+1 {
			b.Errorf("right after a failure: %v", again)
		}
		b.sleep(askAgain)
		if err := b.source.Await(b.ctx, l.Token(), 2); err != nil { // it caught up
			b.Error(err)
		}
		if n := b.kafka.createsOf("alice"); n != 1 { // the others know it: no new token
			b.Errorf("%d creations", n)
		}
	})
}

// F2 (token part): a broker that hangs delays nobody who waits for another one.
func TestHungBrokerDelaysNobodyElse(t *testing.T) {
	withBed(t, func(k *fakeKafka, _ *Config) { k.hung[3] = true }, func(b *bed) {
		var group sync.WaitGroup
		for _, owner := range []string{"alice", "bob", "carol"} {
			group.Go(func() {
				l := b.acquire(owner)
				defer l.Release()
				var inner sync.WaitGroup
				inner.Go(func() {
					begin := time.Now()
					var e *Error
					if err := b.source.Await(b.ctx, l.Token(), 3); !errors.As(err, &e) || e.Reason != ReasonTimeout || !e.Retry {
						b.Errorf("the hung broker: %v", err)
					}
					if d := time.Since(begin); d != askBound {
						b.Errorf("the hung broker took %v", d)
					}
				})
				for _, node := range []int32{1, 2} {
					begin := time.Now()
					if err := b.source.Await(b.ctx, l.Token(), node); err != nil || time.Since(begin) > 5*time.Millisecond {
						b.Errorf("broker %d: %v after %v", node, err, time.Since(begin))
					}
				}
				inner.Wait()
			})
		}
		group.Wait()
	})
}

func TestAwaitEndsWithItsContextAndTheStop(t *testing.T) {
	withBed(t, func(k *fakeKafka, _ *Config) { k.hung[3] = true }, func(b *bed) {
		l := b.acquire("alice")
		defer l.Release()
		ctx, cancel := context.WithTimeout(b.ctx, 100*time.Millisecond)
		defer cancel()
		begin := time.Now()
		if err := b.source.Await(ctx, l.Token(), 3); !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != 100*time.Millisecond {
			b.Errorf("%v after %v", err, time.Since(begin))
		}
		ended := make(chan error, 1)
		go func() { ended <- b.source.Await(b.ctx, l.Token(), 3) }()
		b.sleep(time.Millisecond)
		if d := b.stop(); d != 0 {
			b.Errorf("the stop took %v", d)
		}
		var e *Error
		if err := <-ended; !errors.As(err, &e) || e.Reason != ReasonStopped {
			b.Errorf("at the stop: %v", err)
		}
		if err := b.source.Await(b.ctx, l.Token(), 1); !errors.As(err, &e) || e.Reason != ReasonStopped {
			b.Errorf("after the stop: %v", err)
		}
	})
}

func TestRefusedQuestionEndsTheWaitAtOnce(t *testing.T) {
	withBed(t, func(k *fakeKafka, _ *Config) {
		k.askErr = func(int32, int) (bool, error) {
			return true, brokerError(PhaseReady, codeRequestNotAllowed, errors.New("DELEGATION_TOKEN_REQUEST_NOT_ALLOWED"), "alice", "")
		}
	}, func(b *bed) {
		l := b.acquire("alice")
		defer l.Release()
		begin := time.Now()
		err := b.source.Await(b.ctx, l.Token(), 1)
		var e *Error
		if !errors.As(err, &e) || e.Retry || !strings.Contains(e.Cure, "ssl.client.auth=required") || time.Since(begin) > 5*time.Millisecond {
			b.Errorf("%v after %v", err, time.Since(begin))
		}
	})
}

func TestTransientErrorOfAQuestionIsRepeated(t *testing.T) {
	withBed(t, func(k *fakeKafka, _ *Config) {
		k.askErr = func(_ int32, asked int) (bool, error) { return asked < 4, errors.New("connection reset") }
	}, func(b *bed) {
		l := b.acquire("alice")
		defer l.Release()
		if err := b.source.Await(b.ctx, l.Token(), 1); err != nil {
			b.Error(err)
		}
	})
}

func TestAwaitAny(t *testing.T) {
	for _, c := range []struct {
		name    string
		change  func(*fakeKafka)
		most    time.Duration
		reason  Reason
		failing bool
	}{
		{"all know it", func(*fakeKafka) {}, 5 * time.Millisecond, 0, false},
		{"one lags", func(k *fakeKafka) { k.lag[1] = time.Hour }, 5 * time.Millisecond, 0, false},
		{"one hangs", func(k *fakeKafka) { k.hung[1] = true }, anyGrace + 5*time.Millisecond, 0, false},
		{"one knows it late, one hangs", func(k *fakeKafka) {
			k.lag = map[int32]time.Duration{1: 500 * time.Millisecond, 2: time.Hour}
			k.hung[3] = true
		}, 1500 * time.Millisecond, 0, false},
		{"none knows it", func(k *fakeKafka) { k.lag = map[int32]time.Duration{1: time.Hour, 2: time.Hour, 3: time.Hour} }, askBound, ReasonNotKnown, true},
		{"all hang", func(k *fakeKafka) { k.hung = map[int32]bool{1: true, 2: true, 3: true} }, askBound, ReasonTimeout, true},
		{"no list of brokers", func(k *fakeKafka) { k.failList = true }, askBound, ReasonOther, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			withBed(t, func(k *fakeKafka, _ *Config) { c.change(k) }, func(b *bed) {
				l := b.acquire("alice")
				defer l.Release()
				begin := time.Now()
				err := b.source.AwaitAny(b.ctx, l.Token())
				if d := time.Since(begin); d > c.most {
					b.Errorf("took %v, at most %v", d, c.most)
				}
				var e *Error
				if c.failing != (err != nil) || err != nil && (!errors.As(err, &e) || e.Reason != c.reason || !e.Retry) {
					b.Errorf("error %v", err)
				}
			})
		})
	}
}

// S16 (part): questions to one broker are bounded, whatever the number of owners.
func TestQuestionsToOneBrokerAreBounded(t *testing.T) {
	withBed(t, func(k *fakeKafka, _ *Config) { k.hung[1] = true }, func(b *bed) {
		var group sync.WaitGroup
		for i := range 100 {
			group.Go(func() {
				l := b.acquire(strings.Repeat("x", i+1))
				defer l.Release()
				ctx, cancel := context.WithTimeout(b.ctx, time.Second)
				defer cancel()
				_ = b.source.Await(ctx, l.Token(), 1)
			})
		}
		group.Wait()
		if n := b.kafka.askedOf(1); n > asksPerNode {
			b.Errorf("%d questions under way to a broker that hangs", n)
		}
	})
}

// A broker that knows a token when it is first asked, long after that was made, has known
// it for long; else the moment at which it was found to know it counts.
func TestKnownSince(t *testing.T) {
	withBed(t, func(k *fakeKafka, _ *Config) { k.lag[2] = 3 * time.Second }, func(b *bed) {
		l := b.acquire("alice")
		defer l.Release()
		tok, made := l.Token(), time.Now()
		if _, known := tok.KnownSince(2); known {
			b.Error("known before anybody asked")
		}
		b.source.Ask(tok, 2)
		b.sleep(time.Second)
		if _, known := tok.KnownSince(2); known {
			b.Error("known before the broker knows it")
		}
		b.sleep(3 * time.Second)
		if since, known := tok.KnownSince(2); !known || since.Sub(made) < 2900*time.Millisecond || since.Sub(made) > 3700*time.Millisecond {
			b.Errorf("known: %v, after %v", known, since.Sub(made))
		}
		tok.Accepted(1) // nobody has asked it
		tok.Accepted(2)
		if _, known := tok.KnownSince(1); known {
			b.Error("known since it was accepted")
		}
		if since, known := tok.KnownSince(2); !known || since.After(made) {
			b.Errorf("accepted, known: %v, after %v", known, since.Sub(made))
		}
		b.sleep(longKnown)
		b.source.Ask(tok, 3)
		b.sleep(time.Second)
		if since, known := tok.KnownSince(3); !known || since.After(made) {
			b.Errorf("known: %v, after %v", known, since.Sub(made))
		}
		if n := b.kafka.askedOf(3); n != 1 {
			b.Errorf("asked %d times", n)
		}
	})
}
