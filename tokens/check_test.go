package tokens

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"doorkeeper/internal/secret"
)

// F10: a token that is over but not swept: brokers list it, and a login gives its
// session no life. It is given up without asking, and the next one serves within a
// second.
func TestTokenThatIsDeadAtLoginIsReplacedAtOnce(t *testing.T) {
	withBed(t, func(k *fakeKafka, _ *Config) { k.unswept = true }, func(b *bed) {
		l := b.acquire("alice")
		defer l.Release()
		b.sleep(time.Minute)
		b.kafka.set(func() { b.kafka.clock += 2 * time.Hour })
		dead := l.Token()
		if life, err := b.kafka.login(dead); err != nil || life != 0 {
			b.Fatalf("the token was meant to be dead: %v, %v", life, err)
		}
		begin := time.Now()
		for range 50 {
			b.source.ReportDead(dead)
		}
		if err := l.Settle(b.ctx); err != nil {
			b.Error(err)
		}
		if life, err := b.kafka.login(l.Token()); err != nil || life <= 0 || time.Since(begin) > time.Second {
			b.Errorf("after %v: %v has %v, %v", time.Since(begin), l.Token(), life, err)
		}
		for range 50 {
			b.source.ReportDead(dead) // late reports
		}
		b.sleep(time.Minute)
		if n := b.kafka.createsOf("alice"); n != 2 {
			b.Errorf("%d creations, want 2", n)
		}
		if n := b.kafka.askedOf(1); n != 0 {
			b.Errorf("broker 1 was asked %d times", n)
		}
		if !b.kafka.hasExpired(dead.ID) {
			b.Error("the dead one is not expired")
		}
	})
}

// B38: one broker whose clock is ahead finds every token dead. The others go on
// undisturbed, and there is no loop of creations.
func TestBrokerWithAnotherClockTroublesNobodyElse(t *testing.T) {
	withBed(t, nil, func(b *bed) {
		l := b.acquire("alice")
		defer l.Release()
		b.source.ReportDead(l.Token())
		b.acquire("alice").Release()
		for range 3600 { // an hour of clients that try that broker every second
			b.source.ReportDead(l.Token())
			begin := time.Now()
			b.acquire("alice").Release()
			if d := time.Since(begin); d > time.Millisecond {
				b.Fatalf("an owner waited %v", d)
			}
			b.sleep(time.Second)
		}
		if n := b.kafka.createsOf("alice"); n < 8 || n > 25 {
			b.Errorf("%d creations in an hour", n)
		}
		b.sleep(time.Minute)
		if n := len(b.kafka.live("alice")); n != 1 {
			b.Errorf("%d tokens", n)
		}
	})
}

// B37, "no storm": an administrator deletes all tokens together. Every owner is
// checked once and gets one new token.
func TestAllTokensDeletedTogether(t *testing.T) {
	withBed(t, nil, func(b *bed) {
		const owners = 300
		var leases []*Lease
		for i := range owners {
			leases = append(leases, b.acquire(fmt.Sprint("user-", i)))
		}
		b.sleep(time.Minute)
		b.kafka.set(func() { clear(b.kafka.tokens) })
		creates := b.kafka.total()
		var group sync.WaitGroup
		for i, l := range leases {
			for range 10 { // ten clients of each
				group.Go(func() {
					begin := time.Now()
					for {
						tok := l.Token()
						if _, err := b.kafka.login(tok); err == nil {
							break
						}
						b.source.Invalidate(tok)
						if again, err := b.source.Acquire(b.ctx, fmt.Sprint("user-", i)); err == nil {
							again.Release()
						}
						if time.Since(begin) > 20*time.Second {
							b.Errorf("not recovered after %v", time.Since(begin))
							return
						}
						time.Sleep(100 * time.Millisecond)
					}
				})
			}
		}
		group.Wait()
		if n := b.kafka.total() - creates; n != owners {
			b.Errorf("%d creations, want %d", n, owners)
		}
		for node := int32(1); node <= 3; node++ {
			if n := b.kafka.askedOf(node); n > owners {
				b.Errorf("broker %d was asked %d times", node, n)
			}
		}
	})
}

// A broker that hangs does not hold up the check.
func TestCheckDoesNotWaitForABrokerThatHangs(t *testing.T) {
	withBed(t, func(k *fakeKafka, _ *Config) { k.hung[2] = true }, func(b *bed) {
		l := b.acquire("alice")
		defer l.Release()
		_ = b.kafka.Expire(b.ctx, l.Token().hmac)
		begin := time.Now()
		b.source.Invalidate(l.Token())
		b.acquire("alice").Release()
		if d := time.Since(begin); d > checkGrace+100*time.Millisecond {
			b.Errorf("took %v", d)
		}
	})
}

// keyedKafka is a fake Kafka where one broker has another secret key.
type keyedKafka struct {
	*fakeKafka
	other int32
}

func (k keyedKafka) KnownAs(ctx context.Context, node int32, owner, id string, _ secret.Text) (bool, error) {
	known, err := k.Known(ctx, node, owner, id)
	if known && node == k.other {
		return false, &Error{Phase: PhaseReady, Reason: ReasonKeyDiffers, Owner: owner, Node: node, Cure: "delegation.token.secret.key"}
	}
	return known, err
}

// F11: the broker with another key is named at once, the others serve, and nothing
// is created anew, however many logins it refuses.
func TestBrokerWithAnotherKeyIsNamed(t *testing.T) {
	withBed(t, func(k *fakeKafka, c *Config) { c.Issuer = keyedKafka{k, 2} }, func(b *bed) {
		l := b.acquire("alice")
		defer l.Release()
		for range 60 {
			begin := time.Now()
			err := b.source.Await(b.ctx, l.Token(), 2)
			var e *Error
			if !errors.As(err, &e) || e.Reason != ReasonKeyDiffers || e.Node != 2 || !strings.Contains(e.Error(), "delegation.token.secret.key") {
				b.Fatalf("error %v", err)
			}
			if err := b.source.Await(b.ctx, l.Token(), 1); err != nil || time.Since(begin) > 10*time.Millisecond {
				b.Errorf("the other broker: %v after %v", err, time.Since(begin))
			}
			if err := b.source.AwaitAny(b.ctx, l.Token()); err != nil {
				b.Error(err)
			}
			b.source.Invalidate(l.Token())
			b.sleep(time.Second)
		}
		if n := b.kafka.createsOf("alice"); n != 1 {
			b.Errorf("%d creations", n)
		}
		if n := b.kafka.askedOf(2); n > 60+60/int(refusedAgain/time.Second)+2 {
			b.Errorf("it was asked %d times in a minute", n)
		}
	})
}

// F12: what is refused for every owner is asked once in a while, not once per owner.
func TestRefusalOfEverythingIsSharedByAllOwners(t *testing.T) {
	for _, code := range []int16{35, 61, 64} {
		withBed(t, nil, func(b *bed) {
			had := b.acquire("bob")
			defer had.Release()
			b.kafka.set(func() {
				b.kafka.onCreate = func(_ int, c Creation) error {
					return brokerError(PhaseCreate, code, errors.New("refused"), c.Owner, gatewayName)
				}
			})
			before := b.kafka.total()
			for i := range 600 { // a minute of new owners
				_, err := b.source.Acquire(b.ctx, fmt.Sprint("user-", i))
				var e *Error
				if !errors.As(err, &e) || e.Code != code || e.Cure == "" || e.Owner != fmt.Sprint("user-", i) {
					b.Fatalf("%d: %v", code, err)
				}
				b.acquire("bob").Release() // who has a token is served
				b.sleep(100 * time.Millisecond)
			}
			if n := b.kafka.total() - before; n < 8 || n > 20 {
				b.Errorf("%d: %d creations in a minute", code, n)
			}
			b.kafka.set(func() { b.kafka.onCreate = nil })
			b.sleep(2 * refusalLeast)
			b.acquire("user-1").Release()
		})
	}
}

// F12: a refusal of one owner is that owner's alone.
func TestRefusalOfOneOwnerLeavesTheOthersAlone(t *testing.T) {
	for _, code := range []int16{65, 66} {
		withBed(t, nil, func(b *bed) {
			b.kafka.set(func() {
				b.kafka.onCreate = func(_ int, c Creation) error {
					if c.Owner != "alice" {
						return nil
					}
					return brokerError(PhaseCreate, code, errors.New("refused"), c.Owner, gatewayName)
				}
			})
			for i := range 60 {
				_, err := b.source.Acquire(b.ctx, "alice")
				var e *Error
				if !errors.As(err, &e) || e.Code != code || e.Cure == "" {
					b.Fatalf("%d: %v", code, err)
				}
				b.acquire(fmt.Sprint("user-", i)).Release()
				b.sleep(time.Second)
			}
			if n := b.kafka.createsOf("alice"); n > 13 {
				b.Errorf("%d: %d creations in a minute", code, n)
			}
		})
	}
}
