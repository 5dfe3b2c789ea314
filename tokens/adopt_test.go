package tokens

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"doorkeeper/internal/secret"
)

// B33, rule 18: after a restart the tokens of before are used on: no creation for
// any owner, one for the gateway itself, whose answer gives its name and the
// controller's clock. Its predecessor, and whatever else is superfluous, is expired.
func TestRestartAdoptsWhatWasMadeBefore(t *testing.T) {
	withBed(t, func(k *fakeKafka, _ *Config) { k.lagList = 200 * time.Millisecond }, func(b *bed) {
		const owners = 200
		before := map[string]string{}
		for i := range owners {
			l := b.acquire(fmt.Sprint("user-", i))
			before[l.Token().Owner] = l.Token().ID
			l.Release()
		}
		b.sleep(10 * time.Minute)
		b.stop()
		b.sleep(time.Minute)
		creates := b.kafka.total()
		b.start(nil)
		var group sync.WaitGroup
		for i := range owners {
			group.Go(func() {
				l := b.acquire(fmt.Sprint("user-", i))
				defer l.Release()
				tok := l.Token()
				if tok.ID != before[tok.Owner] {
					b.Errorf("%s: %s instead of %s", tok.Owner, tok.ID, before[tok.Owner])
				}
				// 11 minutes of the hour are over, by the controller's clock.
				life, err := b.kafka.login(tok)
				if err != nil || tok.Left() > life || tok.Left() < life-time.Second {
					b.Errorf("%s: Kafka gives it %v (%v), we %v", tok.Owner, life, err, tok.Left())
				}
			})
		}
		group.Wait()
		if n := b.kafka.total() - creates; n != 1 {
			b.Errorf("%d creations after the restart, want 1, for the gateway itself", n)
		}
		b.sleep(time.Second) // what was handed out is counted a moment later
		if n := b.seen.result("adopted"); n != owners {
			b.Errorf("%d adopted", n)
		}
		if n := len(b.kafka.live(gatewayName)); n != 1 {
			b.Errorf("%d tokens of the gateway itself", n)
		}
		if held, most := b.seen.gauge(GaugeHeld), b.seen.gauge(GaugeMost); held != owners+1 || most != 1 {
			b.Errorf("held %v, most %v", held, most)
		}
	})
}

// Tokens made a moment before a crash: the broker that is asked may not list them
// yet. It is asked until it lists the own new token, which was made after them.
func TestRestartAdoptsWhatWasMadeAMomentBefore(t *testing.T) {
	withBed(t, func(k *fakeKafka, _ *Config) { k.lagList = 800 * time.Millisecond }, func(b *bed) {
		b.sleep(10 * time.Second)
		id := b.acquire("alice").Token().ID
		b.stop()
		b.start(nil)
		l := b.acquire("alice")
		defer l.Release()
		if l.Token().ID != id {
			b.Errorf("%v was created, %s was there", l.Token(), id)
		}
	})
}

// An adopted token is replaced, retired and forgotten like any other.
func TestAdoptedTokenLivesOn(t *testing.T) {
	withBed(t, func(k *fakeKafka, c *Config) { k.life, c.Idle = 10*time.Minute, 3*time.Minute }, func(b *bed) {
		id := b.acquire("alice").Token().ID
		b.acquire("bob").Release()
		b.sleep(time.Minute)
		b.stop()
		b.start(nil)
		l := b.acquire("alice")
		defer l.Release()
		b.sleep(3*time.Minute + time.Second)
		if len(b.kafka.live("bob")) != 0 {
			b.Error("an adopted token that nobody needs is not expired when it has been idle")
		}
		b.sleep(time.Minute)
		if l.Token().ID == id || b.kafka.hasExpired(l.Token().ID) {
			b.Errorf("not replaced at half of its life: %s", l.Token().ID)
		}
		b.sleep(retireGrace)
		if !b.kafka.hasExpired(id) {
			b.Error("the replaced one is not expired")
		}
	})
}

// S22: what is not this instance's own work is neither adopted nor expired, however
// like it looks.
func TestForeignTokensAreLeftAlone(t *testing.T) {
	both := []string{gatewayName, testMarker}
	for name, is := range map[string]Issued{
		"asked for by its owner":        {Owner: "alice", Requester: "alice", Renewers: both},
		"asked for by a third":          {Owner: "alice", Requester: "mallory", Renewers: both},
		"of a version without askers":   {Owner: "alice", Requester: "", Renewers: both},
		"of a sibling":                  {Owner: "alice", Requester: gatewayName, Renewers: []string{gatewayName, "doorkeeper-gw-2"}},
		"of an instance with the name":  {Owner: "alice", Requester: gatewayName, Renewers: []string{gatewayName, "doorkeeper-gw-10"}},
		"not for the gateway to expire": {Owner: "alice", Requester: gatewayName, Renewers: []string{testMarker}},
		"of another type":               {Owner: "alice", OwnerType: "Group", Requester: gatewayName, Renewers: both},
		"of another, as the gateway's":  {Owner: "mallory", Requester: "mallory", Renewers: []string{testMarker}},
	} {
		t.Run(name, func(t *testing.T) {
			withBed(t, func(k *fakeKafka, _ *Config) {
				is.ID, is.HMAC = "planted", secret.New("planted")
				if is.OwnerType == "" {
					is.OwnerType = "User"
				}
				k.plant(is)
			}, func(b *bed) {
				l := b.acquire("alice")
				defer l.Release()
				if l.Token().ID == "planted" || b.seen.result("adopted") != 0 {
					b.Errorf("adopted %v", l.Token())
				}
				b.sleep(time.Minute)
				if b.kafka.hasExpired("planted") {
					b.Error("expired a token of somebody else")
				}
			})
		})
	}
}

// S22, B38: a token is adopted by what is left of its life by the controller's clock,
// whatever the clocks of the machines show.
func TestAdoptionGoesByTheControllersClock(t *testing.T) {
	for name, c := range map[string]struct {
		age, life time.Duration
		adopted   bool
	}{
		"young":                 {time.Minute, time.Hour, true},
		"old":                   {50 * time.Minute, time.Hour, true},
		"in its margin":         {time.Hour - 20*time.Second, time.Hour, false},
		"over, and not swept":   {2 * time.Hour, time.Hour, false},
		"issued in the future":  {-10 * time.Minute, time.Hour, true},
		"too short":             {0, time.Second, false},
		"without an end":        {time.Hour, 1<<63 - 1, true},
		"before the beginning":  {time.Hour, -1 << 63, false},
		"a life, but long over": {1<<63 - 1, time.Hour, false},
	} {
		for _, skew := range []time.Duration{0, 10 * time.Minute, -10 * time.Minute, 50 * 365 * 24 * time.Hour} {
			t.Run(fmt.Sprint(name, skew), func(t *testing.T) {
				withBed(t, func(k *fakeKafka, _ *Config) {
					k.clock, k.unswept = skew, true
					issue := k.now().Add(-c.age)
					k.plant(Issued{ID: "before", OwnerType: "User", Owner: "alice", Requester: gatewayName, Renewers: []string{gatewayName, testMarker},
						HMAC: secret.New("before"), Issue: issue, Expiry: issue.Add(c.life)})
				}, func(b *bed) {
					l := b.acquire("alice")
					defer l.Release()
					if adopted := l.Token().ID == "before"; adopted != c.adopted {
						b.Errorf("adopted: %v", adopted)
					}
					if left := l.Token().Left(); left <= 0 {
						b.Errorf("%v left", left)
					}
					b.sleep(time.Minute)
					if n := b.kafka.total(); n > 3 {
						b.Errorf("%d creations in a minute", n)
					}
				})
			})
		}
	}
}

// A crash can leave two tokens of an owner: the newest is used on.
func TestNewestOfSeveralIsAdopted(t *testing.T) {
	withBed(t, nil, func(b *bed) {
		b.stop()
		for i, age := range []time.Duration{20, 5, 40} {
			b.kafka.plant(Issued{ID: fmt.Sprint("left-", i), OwnerType: "User", Owner: "alice", Requester: gatewayName, Renewers: []string{gatewayName, testMarker},
				HMAC: secret.New(fmt.Sprint("left-", i)), Issue: b.kafka.now().Add(-age * time.Minute), Expiry: b.kafka.now().Add((60 - age) * time.Minute)})
		}
		b.start(nil)
		l := b.acquire("alice")
		defer l.Release()
		if l.Token().ID != "left-1" {
			b.Errorf("adopted %v", l.Token())
		}
		b.sleep(time.Second)
		if !b.kafka.hasExpired("left-0") || !b.kafka.hasExpired("left-2") || len(b.kafka.live("alice")) != 1 {
			b.Errorf("left: %v", b.kafka.live("alice"))
		}
	})
}

// A list that cannot be had does not hold up the owners for ever; what it would have
// shown is expired later.
func TestStartWithoutAList(t *testing.T) {
	for name, change := range map[string]func(*fakeKafka){
		"hangs": func(k *fakeKafka) { k.hangFind = true },
		"fails": func(k *fakeKafka) { k.failFind = 1 << 30 },
		"lags":  func(k *fakeKafka) { k.lagList = 24 * time.Hour },
	} {
		t.Run(name, func(t *testing.T) {
			withBed(t, nil, func(b *bed) {
				old := b.acquire("alice").Token().ID
				bobs := b.acquire("bob").Token().ID
				b.stop()
				b.kafka.set(func() { change(b.kafka) })
				b.start(nil)
				begin := time.Now()
				l := b.acquire("alice")
				defer l.Release()
				if d := time.Since(begin); d > adoptBound+findBound+time.Second {
					b.Errorf("waited %v", d)
				}
				b.kafka.set(func() { b.kafka.hangFind, b.kafka.failFind, b.kafka.lagList = false, 0, 0 })
				b.sleep(sweepLast + time.Minute)
				if !b.kafka.hasExpired(old) || !b.kafka.hasExpired(bobs) || b.kafka.hasExpired(l.Token().ID) {
					b.Errorf("expired %v, in use %v", b.kafka.expired, l.Token())
				}
			})
		})
	}
}

// What does not fit under the limit is expired.
func TestAdoptionKeepsToTheLimit(t *testing.T) {
	withBed(t, nil, func(b *bed) {
		for i := range 20 {
			b.acquire(fmt.Sprint("user-", i)).Release()
		}
		b.stop()
		b.start(func(c *Config) { c.Limit = 5 })
		b.sleep(time.Minute)
		left := 0
		for i := range 20 {
			left += len(b.kafka.live(fmt.Sprint("user-", i)))
		}
		if left != 5 || len(b.source.List()) != 6 {
			b.Errorf("%d tokens left, %d owners held", left, len(b.source.List()))
		}
	})
}

// F40 (token part): a second instance under the same principal has its own tokens,
// and neither touches the other's, whichever stops and starts how.
func TestTwoInstancesLeaveEachOtherAlone(t *testing.T) {
	withBed(t, func(k *fakeKafka, _ *Config) { k.life = 2 * time.Minute }, func(a *bed) {
		b := &bed{T: a.T, kafka: a.kafka, seen: a.seen, ctx: a.ctx, config: a.config}
		b.start(func(c *Config) { c.Instance, c.ExpireOnStop = "gw-2", true })
		mine := a.acquire("alice")
		defer mine.Release()
		for range 20 {
			theirs := b.acquire("alice")
			for range 30 {
				for _, l := range []*Lease{mine, theirs} {
					if life, err := a.kafka.login(l.Token()); err != nil || life <= 0 {
						a.Errorf("%v is refused: %v, %v", l.Token(), life, err)
					}
				}
				a.sleep(time.Second)
			}
			theirs.Release()
			b.stop()
			if life, err := a.kafka.login(mine.Token()); err != nil || life <= 0 {
				a.Errorf("%v is refused after the other's stop: %v, %v", mine.Token(), life, err)
			}
			if n := len(a.kafka.live("alice")); n > 2 {
				a.Errorf("%d tokens", n)
			}
			b.start(nil)
		}
		b.stop()
	})
}
