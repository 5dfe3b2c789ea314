package tokens

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"doorkeeper/internal/secret"
)

func TestListShowsEveryOwner(t *testing.T) {
	withBed(t, func(k *fakeKafka, _ *Config) {
		k.onCreate = func(_ int, c Creation) error {
			if c.Owner == "carol" {
				return brokerError(PhaseCreate, codeNotAuthorized, errors.New("refused"), c.Owner, gatewayName)
			}
			return nil
		}
	}, func(b *bed) {
		l := b.acquire("bob")
		defer l.Release()
		for _, node := range []int32{3, 1} {
			if err := b.source.Await(b.ctx, l.Token(), node); err != nil {
				b.Fatal(err)
			}
		}
		_, _ = b.source.Acquire(b.ctx, "carol")
		b.sleep(10 * time.Second)
		list := b.source.List()
		if len(list) != 3 {
			b.Fatalf("%+v", list)
		}
		own, bob, carol := list[0], list[1], list[2]
		if !own.Own || own.Owner != gatewayName || own.State != Live {
			b.Errorf("the gateway itself: %+v", own)
		}
		if bob.Owner != "bob" || bob.Own || bob.State != Live || bob.TokenID != l.Token().ID || bob.Adopted ||
			bob.Age < 10*time.Second || bob.Age > 11*time.Second || bob.Age+bob.Left != time.Hour ||
			!slices.Equal(bob.Ready, []int32{1, 3}) || bob.Leases != 1 || bob.Held != 1 || bob.Failure != "" {
			b.Errorf("bob: %+v", bob)
		}
		if carol.State != Failed || carol.TokenID != "" || carol.Held != 0 || !strings.Contains(carol.Failure, "CreateTokens") || carol.RetryIn > 10*time.Second {
			b.Errorf("carol: %+v", carol)
		}
		if out := fmt.Sprintf("%+v %#v", list, list); strings.Contains(out, "hmac") || strings.Contains(out, l.Token().Password.Reveal()) {
			b.Errorf("the list shows a secret: %s", out)
		}
		if oldest, least := b.seen.gauge(GaugeOldestAge), b.seen.gauge(GaugeLeastLeft); oldest < 10 || oldest > 12 || least < 3588 || least > 3590 {
			b.Errorf("oldest %v s, least left %v s", oldest, least)
		}
	})
}

func TestExpireOwner(t *testing.T) {
	withBed(t, nil, func(b *bed) {
		l := b.acquire("alice")
		defer l.Release()
		other := b.acquire("bob")
		defer other.Release()
		tok, release := l.Use() // a login under way does not keep an operator
		defer release()
		if err := b.source.ExpireOwner(b.ctx, "alice"); err != nil {
			b.Fatal(err)
		}
		if !b.kafka.hasExpired(tok.ID) || b.kafka.hasExpired(other.Token().ID) {
			b.Errorf("expired %v", b.kafka.expired)
		}
		again := b.acquire("alice")
		defer again.Release()
		if again.Token() == tok {
			b.Error("the expired token is handed out")
		}
		for _, owner := range []string{"nobody", ""} {
			var e *Error
			if err := b.source.ExpireOwner(b.ctx, owner); !errors.As(err, &e) || e.Reason != ReasonNotHeld || e.Cure == "" {
				b.Errorf("%q: %v", owner, err)
			}
		}
		if err := b.source.ExpireOwner(b.ctx, gatewayName); err != nil {
			b.Errorf("the gateway's own: %v", err)
		}
		b.kafka.set(func() { b.kafka.failExp = 1 })
		if err := b.source.ExpireOwner(b.ctx, "bob"); err == nil || other.Token().ID != b.source.List()[2].TokenID {
			b.Errorf("an expiry that failed: %v", err)
		}
		b.stop()
		var e *Error
		if err := b.source.ExpireOwner(b.ctx, "bob"); !errors.As(err, &e) {
			b.Errorf("after the stop: %v", err)
		}
	})
}

// An order does not wait for a replacement that waits for its turn behind many others.
func TestExpireOwnerDoesNotWaitForATurn(t *testing.T) {
	withBed(t, nil, func(b *bed) {
		l := b.acquire("alice")
		defer l.Release()
		tok := l.Token()
		for range 100_000 {
			b.source.others.reserve(time.Now(), -1)
		}
		for b.source.List()[1].State != Replacing {
			b.sleep(time.Minute)
		}
		begin := time.Now()
		if err := b.source.ExpireOwner(b.ctx, "alice"); err != nil || !b.kafka.hasExpired(tok.ID) || time.Since(begin) > time.Second {
			b.Errorf("%v after %v", err, time.Since(begin))
		}
		b.acquire("alice").Release()
		if v := b.source.List()[1]; v.State != Live || l.Token() == tok || v.Failure != "" {
			b.Errorf("%+v", v)
		}
	})
}

// A token that was given up, since one broker gave it no life, may be good on another.
func TestExpireOwnerOfATokenGivenUp(t *testing.T) {
	withBed(t, nil, func(b *bed) {
		l := b.acquire("alice")
		defer l.Release()
		tok := l.Token()
		b.kafka.set(func() {
			b.kafka.onCreate = func(int, Creation) error { return errors.New("the controller is away") }
		})
		b.source.ReportDead(tok)
		b.sleep(time.Minute)
		if v := b.source.List()[1]; v.TokenID != "" || v.Held != 1 {
			b.Fatalf("%+v", v)
		}
		if err := b.source.ExpireOwner(b.ctx, "alice"); err != nil || !b.kafka.hasExpired(tok.ID) {
			b.Errorf("%v, expired %v", err, b.kafka.expired)
		}
		var e *Error
		if err := b.source.ExpireOwner(b.ctx, "alice"); !errors.As(err, &e) || e.Reason != ReasonNotHeld || b.source.List()[1].Held != 0 {
			b.Errorf("again: %v", err)
		}
	})
}

// An operator who repeats himself is no sign that something else expires tokens: the
// next one comes at once each time.
func TestExpireOwnerAgainAndAgain(t *testing.T) {
	withBed(t, nil, func(b *bed) {
		begin := time.Now()
		for range 5 {
			l := b.acquire("alice")
			tok := l.Token()
			if err := b.source.ExpireOwner(b.ctx, "alice"); err != nil || !b.kafka.hasExpired(tok.ID) {
				b.Fatalf("%v, expired %v", err, b.kafka.expired)
			}
			l.Release()
		}
		l := b.acquire("alice")
		defer l.Release()
		if n := b.source.List()[1].Held; n != 1 {
			b.Errorf("%d tokens are held, though all but one are gone for certain", n)
		}
		if took := time.Since(begin); took > time.Second {
			b.Errorf("six creations took %v", took)
		}
	})
}

// What an earlier run left, and comes up just then, is expired too and not handed out.
func TestExpireOwnerBeforeAnAdoption(t *testing.T) {
	withBed(t, func(k *fakeKafka, _ *Config) {
		k.onCreate = func(_ int, c Creation) error {
			if c.Owner == "alice" {
				return brokerError(PhaseCreate, codeNotAuthorized, errors.New("refused"), c.Owner, gatewayName)
			}
			return nil
		}
	}, func(b *bed) {
		_, _ = b.source.Acquire(b.ctx, "alice")
		now := time.Now()
		before := Issued{ID: "before", OwnerType: "User", Owner: "alice", Requester: gatewayName, Renewers: []string{gatewayName, testMarker},
			HMAC: secret.New("hmac before"), Issue: now.Add(b.kafka.clock), Expiry: now.Add(b.kafka.clock + time.Hour)}
		b.kafka.plant(before)
		e, done := b.source.find("alice"), make(chan error, 1)
		e.mu.Lock()
		e.found, e.inherit = append(e.found, before), true
		e.orders = append(e.orders, done)
		e.mu.Unlock()
		e.nudge()
		if err := <-done; err != nil || !b.kafka.hasExpired("before") {
			b.Errorf("%v, expired %v", err, b.kafka.expired)
		}
		b.sleep(time.Second)
		if v := b.source.List()[1]; v.TokenID != "" || v.Held != 0 {
			b.Errorf("%+v", v)
		}
	})
}

// An order that was not begun is taken back; one that is under way may take effect.
func TestExpireOwnerEndsWithItsContext(t *testing.T) {
	withBed(t, nil, func(b *bed) {
		l := b.acquire("alice")
		defer l.Release()
		ends := func(lost bool) {
			b.Helper()
			ctx, cancel := context.WithTimeout(b.ctx, 100*time.Millisecond)
			defer cancel()
			begin := time.Now()
			var e *Error
			err := b.source.ExpireOwner(ctx, "alice")
			if !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != 100*time.Millisecond || !errors.As(err, &e) || e.Lost != lost {
				b.Errorf("%v after %v", err, time.Since(begin))
			}
		}
		b.kafka.set(func() { b.kafka.slowExp = time.Second })
		ends(true)
		ends(false) // waits for the other
		b.sleep(10 * time.Second)
		if n := len(b.kafka.expired); n != 1 {
			b.Errorf("%d expiries", n)
		}
	})
}

// A replacement is published only once the brokers know it on which its predecessor
// is in use; one that lags holds it back for a second at most. The metrics show two
// tokens meanwhile, and how long each broker took.
func TestReplacementIsHeldBackUntilItIsKnown(t *testing.T) {
	for lag, within := range map[time.Duration]time.Duration{
		0:                      20 * time.Millisecond,
		400 * time.Millisecond: time.Second,
		time.Hour:              time.Second,
	} {
		withBed(t, nil, func(b *bed) {
			l := b.acquire("alice")
			defer l.Release()
			first := l.Token()
			for _, node := range []int32{1, 2} {
				if err := b.source.Await(b.ctx, first, node); err != nil {
					b.Fatal(err)
				}
			}
			b.kafka.set(func() { b.kafka.lag[2], b.kafka.lag[3] = lag, time.Hour })
			creates := b.kafka.createsOf("alice")
			for b.kafka.createsOf("alice") == creates {
				b.sleep(time.Second / 10)
			}
			b.kafka.mu.Lock()
			asked := b.kafka.at[len(b.kafka.at)-1]
			b.kafka.mu.Unlock()
			for l.Token() == first {
				b.sleep(5 * time.Millisecond)
			}
			if d := time.Since(asked) - 50*time.Millisecond; d > within+110*time.Millisecond || lag > 0 && d < min(lag, time.Second)-50*time.Millisecond {
				b.Errorf("lag %v: published %v after the answer", lag, d)
			}
			if most := b.seen.gauge(GaugeMost); most != 2 {
				b.Errorf("most %v", most)
			}
			b.sleep(retireGrace + time.Second)
			if most := b.seen.gauge(GaugeMost); most != 1 {
				b.Errorf("most %v when the replaced one is expired", most)
			}
			b.seen.mu.Lock()
			defer b.seen.mu.Unlock()
			took := map[int32]time.Duration{}
			for _, k := range b.seen.known[2:] {
				took[k.node] = k.after
			}
			if lag < time.Second && (took[2] < lag || took[2] > lag+time.Second) || took[3] != 0 || took[1] > 10*time.Millisecond || took[1] == 0 {
				b.Errorf("lag %v: %v", lag, took)
			}
		})
	}
}
