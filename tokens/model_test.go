package tokens

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

// Random schedules of everything that can happen to a few owners: sessions come
// and go, logins take time, answers are late, lost or refused, an administrator
// expires tokens, brokers lag. The invariants: one creation at a time per owner; a
// published token is never older than one before, never for another owner, and
// never past its life when handed out; with Kafka well at the end, the stop leaves
// nothing behind but what went unanswered last.
func TestRandomSchedules(t *testing.T) {
	seeds := 150
	if testing.Short() {
		seeds = 20
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { runSchedule(t, uint64(seed)) })
	}
}

func runSchedule(t *testing.T, seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, 1))
	var mu sync.Mutex // rnd is used from several goroutines
	roll := func(n int) int { mu.Lock(); defer mu.Unlock(); return rnd.IntN(n) }
	well := false

	withBed(t, func(k *fakeKafka, c *Config) {
		k.life = time.Duration(5+roll(120)) * time.Second
		k.latency = time.Duration(roll(3000)) * time.Millisecond
		k.lag[1] = time.Duration(roll(2000)) * time.Millisecond
		k.onCreate = func(int, Creation) error {
			r := roll(10)
			k.set(func() { k.loseAll = !well && r == 1 })
			switch {
			case well:
			case r == 2:
				return brokerError(PhaseCreate, codeNotAuthorized, errors.New("refused"), "x", "")
			case r == 3:
				return brokerError(PhaseCreate, 41, errors.New("not controller"), "x", "")
			}
			return nil
		}
		c.Idle = time.Duration(1+roll(60)) * time.Second
		c.ExpireOnStop = true
	}, func(b *bed) {
		var group sync.WaitGroup
		for i := range 3 {
			owner := fmt.Sprint("user-", i)
			newest := struct {
				sync.Mutex
				asked time.Time
			}{}
			for range 4 {
				group.Go(func() {
					for range 30 {
						time.Sleep(time.Duration(roll(20_000)) * time.Millisecond)
						called := time.Now()
						l, err := b.source.Acquire(b.ctx, owner)
						if err != nil {
							if d := time.Since(called); d > 20*time.Second {
								b.Errorf("Acquire failed after %v: %v", d, err)
							}
							continue
						}
						for range 1 + roll(4) {
							newest.Lock()
							tok, release := l.Use()
							if tok.Owner != owner {
								b.Errorf("token of %q for %q", tok.Owner, owner)
							}
							if tok.Asked.Before(newest.asked) {
								b.Errorf("a token from %v after one from %v", tok.Asked, newest.asked)
							}
							newest.asked = tok.Asked
							newest.Unlock()
							switch roll(12) {
							case 0:
								_ = b.kafka.Expire(b.ctx, tok.hmac)
								b.source.Invalidate(tok)
							case 1:
								b.source.Invalidate(tok)
							case 2:
								_ = b.source.Await(b.ctx, tok, int32(1+roll(3)))
							}
							time.Sleep(time.Duration(roll(4000)) * time.Millisecond)
							release()
						}
						l.Release()
					}
				})
			}
		}
		group.Wait()
		b.kafka.set(func() { well, b.kafka.loseAll, b.kafka.latency = true, false, 10*time.Millisecond })
		b.sleep(time.Minute)
		for i := range 3 { // a creation after the last lost answer clears what that left
			l := b.acquire(fmt.Sprint("user-", i))
			if !l.Token().usableAt(time.Now()) {
				b.Error("a token past its life was handed out")
			}
			l.Release()
		}
		b.stop()
		b.kafka.mu.Lock()
		defer b.kafka.mu.Unlock()
		for id, tok := range b.kafka.tokens {
			// A token counts as dead from before its creation was asked for.
			const latency = 3 * time.Second
			if time.Since(tok.made)+latency < b.kafka.life && !b.kafka.wasLost(id) {
				b.Errorf("token %s of %q is left behind", id, tok.is.Owner)
			}
		}
	})
}
