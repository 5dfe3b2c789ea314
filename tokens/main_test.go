package tokens

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"doorkeeper/internal/secret"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	gatewayName = "CN=gateway,O=Lab"
	testMarker  = "doorkeeper-gw-1"
)

// fakeKafka is an Issuer and Finder in memory, three brokers and one controller
// whose clock is far from ours.
type fakeKafka struct {
	mu       sync.Mutex
	self     string
	life     time.Duration
	latency  time.Duration                             // of every creation
	onCreate func(n int, c Creation) error             // n from 1; the token is made only on nil
	onAnswer func(is *Issued)                          // changes the answer
	loseAll  bool                                      // creations happen, answers are lost
	lag      map[int32]time.Duration                   // a broker knows tokens that much later
	hung     map[int32]bool                            // a broker that answers nothing
	askErr   func(node int32, asked int) (bool, error) // overrides a broker's answer where it returns true
	failList bool
	failExp  int // so many expiries fail

	creates  []Creation
	at       []time.Time
	tokens   map[string]*fakeToken
	expired  []string
	asked    map[int32]int
	finds    int
	inFlight map[string]int
	lost     []string // made, but the answer was lost
	overlap  bool     // two creations of one owner at the same time
}

type fakeToken struct {
	is   Issued
	made time.Time
}

func newFakeKafka() *fakeKafka {
	return &fakeKafka{
		self: gatewayName, life: time.Hour, latency: 50 * time.Millisecond,
		lag: map[int32]time.Duration{}, hung: map[int32]bool{}, tokens: map[string]*fakeToken{},
		asked: map[int32]int{}, inFlight: map[string]int{},
	}
}

func (k *fakeKafka) Create(ctx context.Context, c Creation) (Issued, error) {
	k.mu.Lock()
	k.creates = append(k.creates, c)
	k.at = append(k.at, time.Now())
	n := len(k.creates)
	k.inFlight[c.Owner]++
	k.overlap = k.overlap || k.inFlight[c.Owner] > 1
	hook, latency := k.onCreate, k.latency
	k.mu.Unlock()
	defer func() {
		k.mu.Lock()
		k.inFlight[c.Owner]--
		k.mu.Unlock()
	}()
	if !pauseFor(ctx, latency) {
		return Issued{}, ctx.Err()
	}
	if hook != nil {
		if err := hook(n, c); err != nil {
			return Issued{}, err
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	owner := c.Owner
	if owner == "" {
		owner = k.self
	}
	issue := time.Now().Add(-7 * 365 * 24 * time.Hour)
	is := Issued{
		ID: fmt.Sprintf("id-%d", n), OwnerType: "User", Owner: owner, Requester: k.self, Renewers: c.Renewers,
		HMAC: secret.New(fmt.Sprintf("hmac-%d", n)), Issue: issue, Expiry: issue.Add(k.life),
	}
	k.tokens[is.ID] = &fakeToken{is: is, made: time.Now()}
	if k.onAnswer != nil {
		k.onAnswer(&is)
	}
	if k.loseAll {
		k.lost = append(k.lost, is.ID)
		return Issued{}, errors.New("connection reset")
	}
	return is, nil
}

func (k *fakeKafka) Known(ctx context.Context, node int32, owner, id string) (bool, error) {
	k.mu.Lock()
	k.asked[node]++
	n, hung, hook := k.asked[node], k.hung[node], k.askErr
	k.mu.Unlock()
	if hung {
		<-ctx.Done()
		return false, ctx.Err()
	}
	if !pauseFor(ctx, time.Millisecond) {
		return false, ctx.Err()
	}
	if hook != nil {
		if over, err := hook(node, n); over {
			return false, err
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	t, ok := k.tokens[id]
	return ok && t.is.Owner == owner && time.Since(t.made) >= k.lag[node], nil
}

func (k *fakeKafka) Nodes(context.Context) ([]int32, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.failList {
		return nil, errors.New("no broker")
	}
	return []int32{1, 2, 3}, nil
}

func (k *fakeKafka) Expire(ctx context.Context, hmac secret.Text) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.failExp > 0 {
		k.failExp--
		return errors.New("broker away")
	}
	for id, t := range k.tokens {
		if t.is.HMAC.Equal(hmac) {
			delete(k.tokens, id)
			k.expired = append(k.expired, id)
		}
	}
	return nil
}

func (k *fakeKafka) Find(_ context.Context, owner, renewer string) ([]Issued, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.finds++
	var found []Issued
	for _, t := range k.tokens {
		if (t.is.Owner == owner || owner == "" && t.is.Owner == t.is.Requester) && slices.Contains(t.is.Renewers, renewer) {
			found = append(found, t.is)
		}
	}
	return found, nil
}

func (k *fakeKafka) set(change func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	change()
}

// createsOf counts the creations for one owner.
func (k *fakeKafka) createsOf(owner string) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	n := 0
	for _, c := range k.creates {
		if c.Owner == owner {
			n++
		}
	}
	return n
}

func (k *fakeKafka) live(owner string) (ids []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for id, t := range k.tokens {
		if t.is.Owner == owner {
			ids = append(ids, id)
		}
	}
	return ids
}

func (k *fakeKafka) hasExpired(id string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Contains(k.expired, id)
}

// wasLost is called with mu held.
func (k *fakeKafka) wasLost(id string) bool { return slices.Contains(k.lost, id) }

func (k *fakeKafka) askedOf(node int32) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.asked[node]
}

// bed is a running source on a fake Kafka inside a synctest bubble.
type bed struct {
	*testing.T
	kafka  *fakeKafka
	source *Source
	seen   *seen
	ctx    context.Context
	stop   func() time.Duration // stops, waits, returns how long that took
}

// withBed runs test in a bubble, with Run going; all goroutines must end by the
// time the bubble does.
func withBed(t *testing.T, change func(*fakeKafka, *Config), test func(*bed)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		kafka, seen := newFakeKafka(), &seen{states: map[string]int{}, results: map[string]int{}}
		cfg := Config{Issuer: kafka, Instance: "gw-1", Observer: seen}
		if change != nil {
			change(kafka, &cfg)
		}
		source := New(cfg)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- source.Run(ctx) }()
		b := &bed{T: t, kafka: kafka, source: source, seen: seen, ctx: t.Context()}
		stopped := false
		b.stop = func() time.Duration {
			if stopped {
				return 0
			}
			stopped = true
			begin := time.Now()
			cancel()
			if err := <-ended; err != nil {
				t.Errorf("Run: %v", err)
			}
			return time.Since(begin)
		}
		test(b)
		b.stop()
		if kafka.overlap {
			t.Error("two creations of one owner were under way at the same time")
		}
		seen.mu.Lock()
		defer seen.mu.Unlock()
		for state, n := range seen.states {
			if state != "absent" && n != 0 {
				t.Errorf("state %s holds %d owners after the stop", state, n)
			}
		}
	})
}

func (b *bed) acquire(owner string) *Lease {
	b.Helper()
	l, err := b.source.Acquire(b.ctx, owner)
	if err != nil {
		b.Fatalf("Acquire(%q): %v", owner, err)
	}
	return l
}

// sleep lets the bubble's time pass and everything due in it happen.
func (b *bed) sleep(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// seen is an Observer that keeps what a gauge and a counter would.
type seen struct {
	mu      sync.Mutex
	states  map[string]int
	results map[string]int
}

func (s *seen) TokenState(from, to string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.states[from]--
	s.states[to]++
}

func (s *seen) TokenCreated(result string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.results[result]++
}

func (s *seen) result(r string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.results[r]
}
