package tokens

import (
	"errors"
	"slices"
	"testing"
	"time"
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
			if d := b.stop(); d > stopBound {
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
		if d := b.stop(); d > stopBound {
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
		if d := b.stop(); d > stopBound {
			b.Errorf("the stop took %v", d)
		}
	})
}

// An absurd life neither spins nor overflows.
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
