package tokens

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

// B09, B33 and "Done when" 4: one creation, however many come at once.
func TestManyFirstAcquiresShareOneCreation(t *testing.T) {
	withBed(t, nil, func(b *bed) {
		var group sync.WaitGroup
		tokens := make([]*Token, 500)
		for i := range tokens {
			group.Go(func() {
				l := b.acquire("alice")
				defer l.Release()
				tokens[i] = l.Token()
			})
		}
		group.Wait()
		for _, tok := range tokens {
			if tok == nil || tok != tokens[0] {
				b.Fatalf("different tokens: %v and %v", tok, tokens[0])
			}
		}
		if n := b.kafka.createsOf("alice"); n != 1 {
			b.Errorf("%d creations for alice, want 1", n)
		}
		if n := b.kafka.createsOf(""); n != 1 {
			b.Errorf("%d creations for the gateway itself, want 1", n)
		}
		// Rule 18: both renewers, and the own token before any other.
		first, second := b.kafka.creates[0], b.kafka.creates[1]
		if first.Owner != "" || strings.Join(first.Renewers, " ") != testMarker {
			b.Errorf("first creation %+v", first)
		}
		if second.Owner != "alice" || strings.Join(second.Renewers, " ") != gatewayName+" "+testMarker {
			b.Errorf("second creation %+v", second)
		}
		if own := b.source.Own(); own != gatewayName {
			b.Errorf("Own() = %q", own)
		}
		if tokens[0].Password.Reveal() != "aG1hYy0y" { // base64 of hmac-2
			b.Error("the password is not the base64 of the HMAC")
		}
	})
}

func TestAcquireBeforeRunWaitsForIt(t *testing.T) {
	kafka := newFakeKafka()
	source := New(Config{Issuer: kafka, Instance: "gw-1"})
	ctx, cancel := context.WithCancel(t.Context())
	short, cancelShort := context.WithTimeout(ctx, time.Millisecond)
	defer cancelShort()
	if _, err := source.Acquire(short, "alice"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Acquire before Run: %v", err)
	}
	got := make(chan error, 1)
	go func() {
		l, err := source.Acquire(ctx, "alice")
		if err == nil {
			l.Release()
		}
		got <- err
	}()
	ended := make(chan error, 1)
	go func() { ended <- source.Run(ctx) }()
	if err := <-got; err != nil {
		t.Error(err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := source.Run(ctx); err == nil {
		t.Error("a second Run is no error")
	}
}

func TestWaiterThatGivesUpDisturbsNobody(t *testing.T) {
	withBed(t, func(k *fakeKafka, _ *Config) { k.latency = 800 * time.Millisecond }, func(b *bed) {
		impatient, cancel := context.WithTimeout(b.ctx, 900*time.Millisecond)
		defer cancel()
		var group sync.WaitGroup
		group.Go(func() {
			begin := time.Now()
			_, err := b.source.Acquire(impatient, "alice")
			var e *Error
			if !errors.As(err, &e) || e.Reason != ReasonTimeout || !e.Retry || !errors.Is(err, context.DeadlineExceeded) {
				b.Errorf("the waiter that gave up got %v", err)
			}
			if d := time.Since(begin); d != 900*time.Millisecond {
				b.Errorf("it waited %v", d)
			}
		})
		group.Go(func() { b.acquire("alice").Release() })
		group.Wait()
		if n := b.kafka.createsOf("alice"); n != 1 {
			b.Errorf("%d creations, want 1", n)
		}
	})
}

// F12: a refusal is remembered for some seconds, and every waiter gets the same
// error with what to change; other owners are served.
func TestRefusalIsRememberedAndSaysTheCure(t *testing.T) {
	withBed(t, func(k *fakeKafka, _ *Config) {
		k.onCreate = func(_ int, c Creation) error {
			if c.Owner != "al'ice" {
				return nil
			}
			return brokerError(PhaseCreate, codeNotAuthorized, errors.New("DELEGATION_TOKEN_AUTHORIZATION_FAILED"), c.Owner, gatewayName)
		}
	}, func(b *bed) {
		errs := make([]error, 20)
		var group sync.WaitGroup
		for i := range errs {
			group.Go(func() { _, errs[i] = b.source.Acquire(b.ctx, "al'ice") })
		}
		group.Wait()
		var first *Error
		if !errors.As(errs[0], &first) {
			b.Fatalf("error %v", errs[0])
		}
		for _, err := range errs {
			if !errors.Is(err, first) {
				b.Errorf("another error: %v", err)
			}
		}
		want := `--add --allow-principal 'User:` + gatewayName + `' --operation CreateTokens --user-principal 'User:al'\''ice'`
		if first.Retry || !strings.Contains(first.Cure, want) {
			b.Errorf("cure %q, retry %v", first.Cure, first.Retry)
		}
		begin := time.Now()
		if _, err := b.source.Acquire(b.ctx, "al'ice"); !errors.Is(err, first) || time.Since(begin) != 0 {
			b.Errorf("while remembered: %v after %v", err, time.Since(begin))
		}
		b.acquire("bob").Release()
		if n := b.kafka.createsOf("al'ice"); n != 1 {
			b.Errorf("%d creations, want 1", n)
		}

		// The operator adds the grant: after some seconds the owner is served.
		b.kafka.set(func() { b.kafka.onCreate = nil })
		b.sleep(refusalLeast + 2*backoffFirst)
		b.acquire("al'ice").Release()
		if b.seen.result("not_authorized") != 1 {
			b.Errorf("results %v", b.seen.results)
		}
	})
}

// Transient failures: three quick attempts in one flight, then back-off with a
// floor and a bound, one flight at a time.
func TestTransientFailureBacksOff(t *testing.T) {
	withBed(t, func(k *fakeKafka, _ *Config) {
		k.latency = 0
		k.onCreate = func(_ int, c Creation) error {
			if c.Owner == "" {
				return nil
			}
			return brokerError(PhaseCreate, 41, errors.New("NOT_CONTROLLER"), c.Owner, "")
		}
	}, func(b *bed) {
		begin := time.Now()
		_, err := b.source.Acquire(b.ctx, "alice")
		var e *Error
		if !errors.As(err, &e) || e.Reason != ReasonBroker || !e.Retry {
			b.Fatalf("error %v", err)
		}
		if d := time.Since(begin); d > 3*time.Second {
			b.Errorf("the fault was told after %v", d)
		}
		if n := b.kafka.createsOf("alice"); n != flightAttempts {
			b.Errorf("%d creations, want %d", n, flightAttempts)
		}
		// A client that comes back ten times a second for 5 minutes.
		for range 3000 {
			_, _ = b.source.Acquire(b.ctx, "alice")
			b.sleep(100 * time.Millisecond)
		}
		n := b.kafka.createsOf("alice") / flightAttempts
		if n < 60 || n > 125 { // every 3 s ± 25 % and the flight itself
			b.Errorf("%d flights in 5 minutes", n)
		}
		b.kafka.set(func() { b.kafka.onCreate = nil })
		b.sleep(backoffLast * 5 / 4)
		b.acquire("alice").Release()
	})
}

// A lost answer: what it told of is found and used; nothing new is created.
func TestTokenOfALostAnswerIsAdopted(t *testing.T) {
	withBed(t, func(k *fakeKafka, _ *Config) { k.life = time.Minute }, func(b *bed) {
		b.sleep(time.Second)
		b.kafka.set(func() {
			b.kafka.onCreate = func(n int, _ Creation) error {
				b.kafka.set(func() { b.kafka.loseAll = n == 2 })
				return nil
			}
		})
		l := b.acquire("alice")
		defer l.Release()
		if n := b.kafka.createsOf("alice"); n != 1 {
			b.Errorf("%d creations, want 1", n)
		}
		if ids := b.kafka.live("alice"); len(ids) != 1 || ids[0] != l.Token().ID {
			b.Errorf("live tokens %v, published %s", ids, l.Token().ID)
		}
		if life, err := b.kafka.login(l.Token()); err != nil || life > l.Token().Left()+time.Second || life < l.Token().Left() {
			b.Errorf("Kafka gives it %v (%v), we %v", life, err, l.Token().Left())
		}
		b.sleep(0)
		if n := b.seen.result("adopted"); n != 1 {
			b.Errorf("adopted %d", n)
		}
	})
}

// A lost answer whose token shows only later: a new one is created, and the other is
// expired as soon as it is seen, also if the broker that hung passed it on minutes
// later.
func TestTokenThatShowsLateIsExpired(t *testing.T) {
	for _, late := range []time.Duration{5 * time.Second, 40 * time.Second, 9 * time.Minute} {
		withBed(t, func(*fakeKafka, *Config) {}, func(b *bed) {
			b.sleep(time.Second)
			b.kafka.set(func() {
				b.kafka.stuck = late
				b.kafka.onCreate = func(n int, _ Creation) error {
					b.kafka.set(func() { b.kafka.loseAll = n == 2 })
					return nil
				}
			})
			l := b.acquire("alice")
			defer l.Release()
			if n := b.kafka.createsOf("alice"); n != 2 {
				b.Errorf("%d creations, want 2", n)
			}
			b.sleep(2 * sweepLast)
			if ids := b.kafka.live("alice"); len(ids) != 1 || ids[0] != l.Token().ID || !b.kafka.hasExpired("id-2") {
				b.Errorf("late by %v: live tokens %v, published %s", late, ids, l.Token().ID)
			}
			finds := b.kafka.finds
			b.sleep(time.Hour)
			if b.kafka.finds != finds {
				b.Errorf("%d more looks although nothing was lost", b.kafka.finds-finds)
			}
		})
	}
}

// While it cannot be told what a lost answer left, nothing is created.
func TestNothingIsCreatedWhileALostAnswerIsInDoubt(t *testing.T) {
	withBed(t, nil, func(b *bed) {
		b.sleep(time.Second)
		b.kafka.set(func() { b.kafka.loseAll, b.kafka.failFind = true, 1<<30 })
		for range 20 {
			_, _ = b.source.Acquire(b.ctx, "alice")
			b.sleep(time.Second)
		}
		if n := b.kafka.createsOf("alice"); n != 1 {
			b.Errorf("%d creations, want 1", n)
		}
		b.kafka.set(func() { b.kafka.loseAll, b.kafka.failFind = false, 0 })
		b.sleep(backoffLast * 2)
		b.acquire("alice").Release()
		if n := b.kafka.createsOf("alice"); n != 1 {
			b.Errorf("%d creations, want 1: the first is there", n)
		}
	})
}

// Rule 3, S9 (token part): an answer for somebody else is never published, and
// the token is expired.
func TestAnswerForAnotherOwnerIsRefused(t *testing.T) {
	for name, change := range map[string]func(*Issued){
		"another owner":      func(is *Issued) { is.Owner = "Alice" },
		"the gateway itself": func(is *Issued) { is.Owner = gatewayName },
		"another type":       func(is *Issued) { is.OwnerType = "Group" },
		"another requester":  func(is *Issued) { is.Requester = "somebody" },
		"no secret":          func(is *Issued) { is.HMAC = Issued{}.HMAC },
		"no id":              func(is *Issued) { is.ID = "" },
		"no life":            func(is *Issued) { is.Expiry = is.Issue },
		"a life already over": func(is *Issued) {
			is.Expiry = is.Issue.Add(-time.Hour)
		},
	} {
		t.Run(name, func(t *testing.T) {
			withBed(t, nil, func(b *bed) {
				own, err := b.source.AcquireOwn(b.ctx)
				if err != nil {
					b.Fatal(err)
				}
				defer own.Release()
				b.kafka.set(func() { b.kafka.onAnswer = change })
				_, err = b.source.Acquire(b.ctx, "alice")
				var e *Error
				if !errors.As(err, &e) || e.Phase != PhaseAnswer || e.Retry {
					b.Fatalf("error %v", err)
				}
				if n := b.kafka.createsOf("alice"); n != 1 {
					b.Errorf("%d creations, want 1", n)
				}
				if ids := b.kafka.live("alice"); name != "no secret" && len(ids) != 0 {
					b.Errorf("tokens left behind: %v", ids)
				}
			})
		})
	}
}

func TestOwnPrincipalThatIsAnonymousIsRefused(t *testing.T) {
	withBed(t, func(k *fakeKafka, _ *Config) { k.self = "ANONYMOUS" }, func(b *bed) {
		_, err := b.source.Acquire(b.ctx, "alice")
		var e *Error
		if !errors.As(err, &e) || e.Reason != ReasonWrongAnswer || !strings.Contains(e.Cure, "kafka.control.tls") {
			b.Errorf("error %v", err)
		}
		if b.source.Own() != "" || b.kafka.createsOf("alice") != 0 {
			b.Error("a token was asked for while the own principal is unknown")
		}
	})
}

// Rule 2: the gateway's own principal and the markers are no owners, also when
// they are asked for before the own name is known.
func TestProtectedOwners(t *testing.T) {
	withBed(t, nil, func(b *bed) {
		for range 2 {
			for _, owner := range []string{gatewayName, "", "doorkeeper-gw-1", "doorkeeper-x"} {
				l, err := b.source.Acquire(b.ctx, owner)
				var e *Error
				if !errors.As(err, &e) || e.Reason != ReasonProtected {
					b.Errorf("Acquire(%q) = %v, %v", owner, l, err)
				}
			}
		}
		for _, c := range b.kafka.creates {
			if c.Owner != "" {
				b.Errorf("created %+v", c)
			}
		}
	})
}

func TestLimitOfOwners(t *testing.T) {
	withBed(t, func(_ *fakeKafka, c *Config) { c.Limit, c.Idle = 3, time.Minute }, func(b *bed) {
		var leases []*Lease
		for i := range 3 {
			leases = append(leases, b.acquire(fmt.Sprint("user-", i)))
		}
		_, err := b.source.Acquire(b.ctx, "one-more")
		var e *Error
		if !errors.As(err, &e) || e.Reason != ReasonLimit || !e.Retry || !strings.Contains(e.Cure, "limits.tokens") {
			b.Errorf("over the limit: %v", err)
		}
		b.acquire("user-1").Release() // those that are held are served
		for _, l := range leases {
			l.Release()
			l.Release() // a second call must not count
		}
		b.sleep(time.Minute)
		b.acquire("one-more").Release()
	})
}

// S16 (part): creations under way at a time are bounded over all owners.
func TestCreationsAtOnceAreBounded(t *testing.T) {
	var most, now int
	withBed(t, func(k *fakeKafka, _ *Config) {
		k.onCreate = func(int, Creation) error { return nil }
		k.latency = 100 * time.Millisecond
	}, func(b *bed) {
		own, err := b.source.AcquireOwn(b.ctx)
		if err != nil {
			b.Fatal(err)
		}
		own.Release()
		var group sync.WaitGroup
		for i := range 200 {
			group.Go(func() { b.acquire(fmt.Sprint("user-", i)).Release() })
		}
		done := make(chan struct{})
		go func() { group.Wait(); close(done) }()
		for open := true; open; {
			select {
			case <-done:
				open = false
			case <-time.After(10 * time.Millisecond):
				b.kafka.set(func() {
					now = 0
					for _, n := range b.kafka.inFlight {
						now += n
					}
					most = max(most, now)
				})
			}
		}
		if most == 0 || most > callsAtOnce {
			b.Errorf("%d creations at once, want at most %d", most, callsAtOnce)
		}
	})
}

func BenchmarkLeaseToken(b *testing.B) {
	e := newEntry(New(Config{Issuer: newFakeKafka(), Instance: "gw-1"}), "alice")
	e.current.Store(&Token{ID: "t"})
	l := &Lease{entry: e}
	b.ReportAllocs()
	for b.Loop() {
		if l.Token() == nil {
			b.Fatal("nil")
		}
	}
}

func TestReadingTheTokenAllocatesNothing(t *testing.T) {
	e := newEntry(New(Config{Issuer: newFakeKafka(), Instance: "gw-1"}), "alice")
	e.current.Store(&Token{ID: "t"})
	l := &Lease{entry: e}
	e.mu.Lock() // and takes no lock
	defer e.mu.Unlock()
	if n := testing.AllocsPerRun(100, func() { _ = l.Token() }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
