package tokens

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// B11, R11: replaced between 40 % and 50 % of the life that the answer gave, the
// replaced one expired, never more than two.
func TestReplacedBeforeHalfLife(t *testing.T) {
	withBed(t, func(k *fakeKafka, c *Config) {
		k.life = time.Minute
		c.Lifetime = 24 * time.Hour // cut by Kafka: only the answer counts
	}, func(b *bed) {
		l := b.acquire("alice")
		defer l.Release()
		tok := l.Token()
		for range 20 {
			begin := tok.Asked
			for l.Token() == tok {
				b.sleep(100 * time.Millisecond)
			}
			next := l.Token()
			at := next.Asked.Sub(begin)
			if at < 24*time.Second || at > 31*time.Second {
				b.Errorf("replaced after %v", at)
			}
			if n := len(b.kafka.live("alice")); n != 2 {
				b.Errorf("%d live tokens during a replacement", n)
			}
			b.sleep(retireGrace)
			if live := b.kafka.live("alice"); !slices.Equal(live, []string{next.ID}) {
				b.Errorf("live tokens %v after the replacement by %s", live, next.ID)
			}
			if !next.Asked.After(tok.Asked) {
				b.Error("an older token was published")
			}
			tok = next
		}
		if d := b.kafka.creates[1].Lifetime; d != 24*time.Hour {
			b.Errorf("asked for %v", d)
		}
	})
}

// Rule 19: a replaced token is expired only when no login with it is under way.
func TestReplacedTokenIsExpiredAfterItsLastUse(t *testing.T) {
	withBed(t, func(k *fakeKafka, _ *Config) { k.life = time.Minute }, func(b *bed) {
		l := b.acquire("alice")
		defer l.Release()
		tok, first := l.Use()
		second := tok.Use()
		for l.Token() == tok {
			b.sleep(time.Second)
		}
		b.sleep(10 * time.Second)
		first()
		first() // a second call must not count
		b.sleep(time.Second)
		if b.kafka.hasExpired(tok.ID) {
			b.Fatal("expired while a login was under way")
		}
		if newest, release := l.Use(); newest == tok {
			b.Error("Use gave the replaced token")
		} else {
			release()
		}
		second()
		b.sleep(0)
		if !b.kafka.hasExpired(tok.ID) {
			b.Error("not expired after the last use")
		}
	})
}

func TestUseThatIsNeverReleasedEndsWithTheLife(t *testing.T) {
	withBed(t, func(k *fakeKafka, _ *Config) { k.life = time.Minute }, func(b *bed) {
		l := b.acquire("alice")
		defer l.Release()
		tok, _ := l.Use()
		b.sleep(2 * time.Minute)
		if b.kafka.hasExpired(tok.ID) || len(b.kafka.live("alice")) > 3 {
			b.Errorf("expired %v", b.kafka.expired)
		}
	})
}

func TestFailedExpiryIsRepeated(t *testing.T) {
	withBed(t, func(k *fakeKafka, _ *Config) { k.life, k.failExp = time.Minute, 2 }, func(b *bed) {
		l := b.acquire("alice")
		defer l.Release()
		tok := l.Token()
		b.sleep(31*time.Second + retireGrace)
		if b.kafka.hasExpired(tok.ID) {
			b.Error("the first expiry was meant to fail")
		}
		b.sleep(2 * retireRetry)
		if !b.kafka.hasExpired(tok.ID) {
			b.Error("not expired")
		}
	})
}

// F4: while the controller is away a valid token is served to its end, then the
// owner fails, and comes back by itself while a session waits for it.
func TestValidTokenIsServedWhileItsReplacementFails(t *testing.T) {
	withBed(t, func(k *fakeKafka, _ *Config) { k.life = 10 * time.Minute }, func(b *bed) {
		l := b.acquire("alice")
		defer l.Release()
		tok := l.Token()
		b.kafka.set(func() {
			b.kafka.onCreate = func(int, Creation) error { return errors.New("no controller") }
		})
		for range 9 {
			b.sleep(time.Minute)
			again := b.acquire("alice")
			if again.Token() != tok {
				b.Error("another token")
			}
			again.Release()
		}
		if n := b.kafka.createsOf("alice"); n < 4*flightAttempts || n > 35*flightAttempts {
			b.Errorf("%d creations while the controller was away", n)
		}
		b.sleep(35 * time.Second) // past the margin
		_, err := b.source.Acquire(b.ctx, "alice")
		var e *Error
		if !errors.As(err, &e) || !e.Retry {
			b.Errorf("past the margin: %v", err)
		}
		b.kafka.set(func() { b.kafka.onCreate = nil })
		b.sleep(backoffLast * 3 / 2)
		if l.Token() == tok {
			b.Error("not replaced although a session holds a lease")
		}
	})
}

func TestIdleOwnerIsForgottenAndItsTokenExpired(t *testing.T) {
	withBed(t, func(k *fakeKafka, c *Config) { k.life, c.Idle = 24*time.Hour, 10*time.Minute }, func(b *bed) {
		l := b.acquire("alice")
		id := l.Token().ID
		b.sleep(time.Hour / 3) // held: not idle
		l.Release()
		b.sleep(9 * time.Minute)
		again := b.acquire("alice")
		if again.Token().ID != id {
			b.Error("a new token before the owner was idle")
		}
		again.Release()
		b.sleep(10*time.Minute - time.Second)
		if b.kafka.hasExpired(id) {
			b.Error("expired too early")
		}
		b.sleep(time.Second)
		if !b.kafka.hasExpired(id) || len(b.kafka.live("alice")) != 0 {
			b.Errorf("expired %v", b.kafka.expired)
		}
		b.source.mu.Lock()
		n := len(b.source.entries)
		b.source.mu.Unlock()
		if n != 0 {
			b.Errorf("%d owners are still held", n)
		}
		b.acquire("alice").Release()
	})
}

func TestIdleOwnerIsNotReplaced(t *testing.T) {
	withBed(t, func(k *fakeKafka, c *Config) { k.life, c.Idle = time.Hour, 2*time.Hour }, func(b *bed) {
		b.acquire("alice").Release()
		b.sleep(50 * time.Minute)
		if n := b.kafka.createsOf("alice"); n != 1 {
			b.Errorf("%d creations for an owner without a session", n)
		}
		l := b.acquire("alice") // served at once with what there is, and replaced
		b.sleep(time.Second)
		if n := b.kafka.createsOf("alice"); n != 2 {
			b.Errorf("%d creations after it came back", n)
		}
		l.Release()
	})
}

// F8, B37: an administrator expires the token: asked once, created once.
func TestInvalidatedTokenThatIsGoneIsReplaced(t *testing.T) {
	withBed(t, nil, func(b *bed) {
		l := b.acquire("alice")
		defer l.Release()
		tok := l.Token()
		b.sleep(time.Minute)
		_ = b.kafka.Expire(b.ctx, tok.hmac)
		for range 50 {
			b.source.Invalidate(tok)
		}
		again := b.acquire("alice")
		defer again.Release()
		if again.Token() == tok || l.Token() == tok {
			b.Error("the token that is gone is still handed out")
		}
		for range 50 {
			b.source.Invalidate(tok) // late reports of the old one
		}
		b.sleep(time.Minute)
		if n := b.kafka.createsOf("alice"); n != 2 {
			b.Errorf("%d creations, want 2", n)
		}
		if n := b.kafka.askedOf(1); n > 1 {
			b.Errorf("broker 1 was asked %d times", n)
		}
	})
}

// A login refused for another cause than the token does not cost a token.
func TestInvalidatedTokenThatIsGoodIsKept(t *testing.T) {
	withBed(t, func(k *fakeKafka, _ *Config) { k.hung[2] = true }, func(b *bed) {
		l := b.acquire("alice")
		defer l.Release()
		for range 600 { // ten minutes of refused logins
			b.source.Invalidate(l.Token())
			begin := time.Now()
			b.acquire("alice").Release()
			if d := time.Since(begin); d > checkBound {
				b.Fatalf("Acquire waited %v for the check", d)
			}
			b.sleep(time.Second)
		}
		if n := b.kafka.createsOf("alice"); n != 1 {
			b.Errorf("%d creations, want 1", n)
		}
		b.kafka.set(func() { b.kafka.failList = true })
		b.source.Invalidate(l.Token())
		b.acquire("alice").Release() // nobody to ask: it is kept
	})
}

func TestTokensThatVanishAtOnceDoNotMakeAStorm(t *testing.T) {
	withBed(t, nil, func(b *bed) {
		l := b.acquire("alice")
		defer l.Release()
		b.sleep(time.Minute)
		for range 600 {
			_ = b.kafka.Expire(b.ctx, l.Token().hmac)
			b.source.Invalidate(l.Token())
			b.sleep(100 * time.Millisecond)
		}
		if n := b.kafka.createsOf("alice"); n < 4 || n > 15 {
			b.Errorf("%d creations in a minute", n)
		}
		b.sleep(time.Minute) // and it recovers
		b.acquire("alice").Release()
	})
}

func TestStopKeepsOrExpires(t *testing.T) {
	for _, expire := range []bool{false, true} {
		withBed(t, func(_ *fakeKafka, c *Config) { c.ExpireOnStop = expire }, func(b *bed) {
			b.acquire("alice").Release()
			l := b.acquire("bob")
			defer l.Release()
			if d := b.stop(); d > stopLeast+time.Second {
				b.Errorf("the stop took %v", d)
			}
			left := len(b.kafka.live("alice")) + len(b.kafka.live("bob")) + len(b.kafka.live(gatewayName))
			if want := map[bool]int{false: 3, true: 0}[expire]; left != want {
				b.Errorf("ExpireOnStop %v: %d tokens left, want %d", expire, left, want)
			}
			_, err := b.source.Acquire(b.ctx, "alice")
			var e *Error
			if !errors.As(err, &e) || e.Reason != ReasonStopped {
				b.Errorf("after the stop: %v", err)
			}
			if l.Token() == nil {
				b.Error("a lease lost its token at the stop")
			}
			if tok, release := l.Use(); tok == nil {
				b.Error("Use gave nothing after the stop")
			} else {
				release()
			}
		})
	}
}

// With ExpireOnStop a creation under way at the stop leaves nothing behind.
func TestStopDuringACreation(t *testing.T) {
	withBed(t, func(k *fakeKafka, c *Config) { k.latency, c.ExpireOnStop = time.Second, true }, func(b *bed) {
		ended := make(chan error, 1)
		go func() {
			_, err := b.source.Acquire(b.ctx, "alice")
			ended <- err
		}()
		b.sleep(1500 * time.Millisecond) // the own one is made, alice's under way
		if d := b.stop(); d > stopLeast+time.Second {
			b.Errorf("the stop took %v", d)
		}
		var e *Error
		if err := <-ended; !errors.As(err, &e) || e.Reason != ReasonStopped {
			b.Errorf("the waiter got %v", err)
		}
		if left := b.kafka.live("alice"); len(left) != 0 {
			b.Errorf("left behind: %v", left)
		}
	})
}

func TestStopIsBoundedWhenKafkaHangs(t *testing.T) {
	withBed(t, func(_ *fakeKafka, c *Config) { c.ExpireOnStop = true }, func(b *bed) {
		b.acquire("alice").Release()
		b.kafka.set(func() { b.kafka.latency = time.Hour })
		go func() { _, _ = b.source.Acquire(b.ctx, "bob") }()
		b.sleep(10 * time.Millisecond)
		if d := b.stop(); d > stopLeast+time.Second {
			b.Errorf("the stop took %v", d)
		}
	})
}

// With ExpireOnStop every token is expired, however many there are: they go side by
// side, and the bound grows with their number.
func TestStopExpiresThemAll(t *testing.T) {
	for _, n := range []int{103, 5000} {
		withBed(t, func(k *fakeKafka, c *Config) {
			c.ExpireOnStop, c.CreationRate = true, 1000
			k.slowExp = 80 * time.Millisecond // what the controllers take to agree
		}, func(b *bed) {
			var group sync.WaitGroup
			for i := range n {
				group.Go(func() {
					time.Sleep(time.Duration(i) * time.Millisecond)
					b.acquire(fmt.Sprint("user-", i)).Release()
				})
			}
			group.Wait()
			d := b.stop()
			if len(b.kafka.tokens) != 0 || d > DefaultStopWithin {
				b.Errorf("%d of %d tokens left after %v", len(b.kafka.tokens), n, d)
			}
			if b.seen.gauge(GaugeHeld) != 0 {
				b.Errorf("%v tokens are thought to be left", b.seen.gauge(GaugeHeld))
			}
		})
	}
}

// What the first try at the stop leaves, and what a lost answer made, is listed and
// expired before the end.
func TestStopLooksForWhatIsLeft(t *testing.T) {
	withBed(t, func(_ *fakeKafka, c *Config) { c.ExpireOnStop = true }, func(b *bed) {
		b.acquire("alice").Release()
		b.kafka.set(func() { b.kafka.loseAll = true })
		ctx, cancel := context.WithTimeout(b.ctx, 100*time.Millisecond)
		defer cancel()
		_, _ = b.source.Acquire(ctx, "bob")
		b.kafka.set(func() { b.kafka.failExp = 2 })
		b.stop()
		if len(b.kafka.tokens) != 0 {
			b.Errorf("left: %v", b.kafka.tokens)
		}
	})
}

// A Kafka that hangs bounds the stop all the same.
func TestStopIsBoundedWhenExpiriesHang(t *testing.T) {
	withBed(t, func(_ *fakeKafka, c *Config) { c.ExpireOnStop, c.StopWithin = true, 12*time.Second }, func(b *bed) {
		for i := range 300 {
			b.acquire(fmt.Sprint("user-", i)).Release()
			b.sleep(10 * time.Millisecond)
		}
		b.kafka.set(func() { b.kafka.slowExp, b.kafka.hangFind = time.Hour, true })
		if d := b.stop(); d > 12*time.Second {
			b.Errorf("the stop took %v", d)
		}
	})
}

// F3: the controller fails over 20 times. Whoever has a token is served, others get
// theirs when it is back, and nobody ends with two.
func TestControllerFailsOver(t *testing.T) {
	withBed(t, func(k *fakeKafka, _ *Config) { k.life = time.Minute }, func(b *bed) {
		old := b.acquire("old")
		defer old.Release()
		for n := range 20 {
			b.kafka.set(func() {
				b.kafka.onCreate = func(i int, c Creation) error {
					b.kafka.set(func() { b.kafka.loseAll = i%2 == 0 })
					if i%2 == 0 {
						return nil // made, and the answer lost
					}
					return brokerError(PhaseCreate, 41, errors.New("NOT_CONTROLLER"), c.Owner, "")
				}
			})
			for range 8 {
				if l := b.acquire("old"); !l.Token().usableAt(time.Now()) {
					b.Error("a token past its life")
				} else {
					l.Release()
				}
				if l, err := b.source.Acquire(b.ctx, fmt.Sprint("new-", n)); err == nil {
					l.Release()
				}
				b.sleep(time.Second)
			}
			b.kafka.set(func() { b.kafka.onCreate, b.kafka.loseAll = nil, false })
			b.sleep(backoffLast * 2)
			l := b.acquire(fmt.Sprint("new-", n))
			b.sleep(retireGrace + time.Second)
			if ids := b.kafka.live(fmt.Sprint("new-", n)); len(ids) != 1 {
				b.Errorf("%d tokens of one owner: %v", len(ids), ids)
			}
			l.Release()
		}
	})
}

// F4, F13: the control connection is gone for good, its certificate revoked, say.
// Existing tokens serve to their end, the alarm is in the log and the metrics, and
// all is well as soon as it is mended.
func TestControlConnectionIsGone(t *testing.T) {
	core, logs := observer.New(zap.WarnLevel)
	withBed(t, func(k *fakeKafka, c *Config) { k.life, c.Logger = time.Hour, zap.New(core) }, func(b *bed) {
		l := b.acquire("alice")
		defer l.Release()
		refused := transportError(PhaseCreate, &net.OpError{Op: "remote error", Err: errors.New("tls: revoked certificate")}, "alice", true)
		b.kafka.set(func() {
			b.kafka.onCreate = func(int, Creation) error { return refused }
			b.kafka.failFind, b.kafka.failList = 1<<30, true
			b.kafka.askErr = func(int32, int) (bool, error) { return true, refused }
		})
		for range 59 {
			b.source.Invalidate(l.Token()) // what a login is refused for meanwhile
			b.acquire("alice").Release()
			_, err := b.source.Acquire(b.ctx, "bob")
			var e *Error
			if !errors.As(err, &e) || e.Reason != ReasonTLS || !strings.Contains(e.Cure, "kafka.control.tls") {
				b.Fatalf("a new owner: %v", err)
			}
			b.sleep(time.Minute)
		}
		told := logs.FilterMessage("a token could not be replaced; the current one is served on").All()
		if len(told) < 5 || told[0].ContextMap()["current_token_serves_for"].(time.Duration) < 20*time.Minute {
			b.Errorf("told %d times: %v", len(told), told)
		}
		if b.seen.result("failed create tls 0") < 20 {
			b.Errorf("metrics: %v", b.seen.results)
		}
		b.kafka.set(func() { b.kafka.onCreate, b.kafka.askErr, b.kafka.failFind, b.kafka.failList = nil, nil, 0, false })
		b.sleep(time.Minute)
		b.acquire("alice").Release()
		b.acquire("bob").Release()
	})
}

// B33: after a restart late in the tokens' lives all come due at once. Their
// replacements keep to their rate, and everybody is served meanwhile.
func TestReplacementsDueTogetherKeepToTheirRate(t *testing.T) {
	withBed(t, nil, func(b *bed) {
		const owners = 200
		for i := range owners {
			b.acquire(fmt.Sprint("user-", i)).Release()
		}
		b.sleep(20 * time.Minute) // nobody is there, and nothing replaced
		b.stop()
		b.sleep(20 * time.Minute)
		b.start(func(c *Config) { c.CreationRate = 10 }) // 5 replacements a second
		b.sleep(time.Second)
		before := b.kafka.total()
		for i := range owners {
			begin := time.Now()
			l := b.acquire(fmt.Sprint("user-", i))
			defer l.Release()
			if d := time.Since(begin); d > 0 {
				b.Errorf("waited %v", d)
			}
		}
		for sec := range 40 {
			b.sleep(time.Second)
			if n := b.kafka.total() - before; n > 5*(sec+2) {
				b.Errorf("%d creations in %d s", n, sec+1)
			}
		}
		b.sleep(5 * time.Second)
		if n := b.kafka.total() - before; n != owners {
			b.Errorf("%d creations, want %d", n, owners)
		}
	})
}

// B37: tokens are replaced every 20 s while a hundred clients reconnect all the time:
// every login is with the newest token, and none is refused.
func TestReconnectingClientsNeverSeeAReplacement(t *testing.T) {
	withBed(t, func(k *fakeKafka, _ *Config) { k.life = 40 * time.Second }, func(b *bed) {
		var group sync.WaitGroup
		end := time.Now().Add(10 * time.Minute)
		for i := range 100 {
			group.Go(func() {
				owner := fmt.Sprint("user-", i%20)
				for n := i; time.Now().Before(end); n++ {
					l := b.acquire(owner)
					tok, release := l.Use()
					if err := b.source.Await(b.ctx, tok, int32(1+n%3)); err != nil {
						b.Error(err)
					}
					if life, err := b.kafka.login(tok); err != nil || life <= 0 {
						b.Errorf("%v is refused: %v, %v", tok, life, err)
					}
					if l.Token() != tok && l.Token().Asked.Before(tok.Asked) {
						b.Error("not the newest")
					}
					release()
					l.Release()
					time.Sleep(time.Duration(500+i) * time.Millisecond)
					if n%10 == 0 && len(b.kafka.live(owner)) > 2 {
						b.Errorf("%d tokens of %s", len(b.kafka.live(owner)), owner)
					}
				}
			})
		}
		group.Wait()
		// Each lives 0.4 to 0.5 of its life until its successor is there.
		if n := b.kafka.createsOf("user-0"); n < 600/21 || n > 600/16+2 {
			b.Errorf("%d creations for one owner", n)
		}
	})
}

// B11: absurd lives neither spin nor overflow: what cannot be used is refused, backed
// off from, and not left behind.
func TestAbsurdLivesDoNotSpin(t *testing.T) {
	for name, life := range map[string]time.Duration{
		"none": 0, "negative": -time.Hour, "the least": -1 << 63, "a millisecond": time.Millisecond, "just too short": shortestLife - 1, "the least that serves": shortestLife,
	} {
		t.Run(name, func(t *testing.T) {
			withBed(t, nil, func(b *bed) {
				b.sleep(time.Second)
				b.kafka.set(func() { b.kafka.onAnswer = func(is *Issued) { is.Expiry = is.Issue.Add(life) } })
				for range 60 {
					l, err := b.source.Acquire(b.ctx, "alice")
					var e *Error
					if life >= shortestLife && err != nil || life < shortestLife && (!errors.As(err, &e) || e.Reason != ReasonLifeTooShort || e.Cure == "") {
						b.Fatalf("error %v", err)
					}
					b.sleep(time.Second)
					if l != nil {
						l.Release()
					}
				}
				if n := b.kafka.createsOf("alice"); n > 13 && life < shortestLife || n > 75 {
					b.Errorf("%d creations in a minute", n)
				}
				if n := len(b.kafka.live("alice")); n > 2 {
					b.Errorf("%d tokens", n)
				}
			})
		})
	}
}

// A token that dies before the answer comes is of no use, and no reason to spin.
func TestAnswerThatTakesLongerThanTheTokenLives(t *testing.T) {
	withBed(t, nil, func(b *bed) {
		b.sleep(time.Second)
		b.kafka.set(func() { b.kafka.life, b.kafka.latency = shortestLife, 2*time.Second })
		begin := time.Now()
		_, err := b.source.Acquire(b.ctx, "alice")
		var e *Error
		if !errors.As(err, &e) || e.Reason != ReasonLifeTooShort || !e.Retry || time.Since(begin) > 8*time.Second {
			b.Errorf("%v after %v", err, time.Since(begin))
		}
	})
}

// B11: a life without end neither spins nor overflows.
func TestLifeWithoutEnd(t *testing.T) {
	withBed(t, func(k *fakeKafka, c *Config) {
		k.onAnswer = func(is *Issued) { is.Expiry = time.UnixMilli(1<<63 - 1) }
		c.Idle = 1 << 62
	}, func(b *bed) {
		l := b.acquire("alice")
		defer l.Release()
		b.sleep(365 * 24 * time.Hour)
		if n := b.kafka.createsOf("alice"); n != 1 {
			b.Errorf("%d creations in a year", n)
		}
	})
}
