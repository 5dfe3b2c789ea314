package tokens

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	gatewayName = "CN=gateway,O=Lab"
	testMarker  = "doorkeeper-gw-1"
)

// bed is a running source on a fake Kafka inside a synctest bubble.
type bed struct {
	*testing.T
	kafka  *fakeKafka
	config Config
	source *Source
	seen   *seen
	ctx    context.Context

	cancel context.CancelFunc // nil: stopped
	ended  chan error
}

// withBed runs test in a bubble, with Run going; all goroutines must end by the
// time the bubble does.
func withBed(t *testing.T, change func(*fakeKafka, *Config), test func(*bed)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, change)
		b.start(nil)
		test(b)
		b.stop()
		b.verdict()
	})
}

func newBed(t *testing.T, change func(*fakeKafka, *Config)) *bed {
	kafka := newFakeKafka()
	seen := &seen{states: map[string]int{}, results: map[string]int{}, gauges: map[string]func() float64{}}
	b := &bed{T: t, kafka: kafka, seen: seen, ctx: t.Context(), config: Config{Issuer: kafka, Instance: "gw-1", Observer: seen}}
	if change != nil {
		change(kafka, &b.config)
	}
	return b
}

// start begins a run; change, if any, is for this and the runs after it.
func (b *bed) start(change func(*Config)) {
	if change != nil {
		change(&b.config)
	}
	source := New(b.config)
	ctx, cancel := context.WithCancel(b.ctx)
	ended := make(chan error, 1)
	b.kafka.set(func() { b.kafka.opened++ })
	go func() { ended <- source.Run(ctx) }()
	b.source, b.cancel, b.ended = source, cancel, ended
}

// stop stops, waits, and returns how long that took.
func (b *bed) stop() time.Duration {
	if b.cancel == nil {
		return 0
	}
	begin := time.Now()
	b.cancel()
	b.cancel = nil
	if err := <-b.ended; err != nil {
		b.Errorf("Run: %v", err)
	}
	return time.Since(begin)
}

// verdict holds for every test.
func (b *bed) verdict() {
	if b.kafka.overlap {
		b.Error("two creations of one owner were under way at the same time")
	}
	if b.kafka.opened != 0 {
		b.Errorf("%d issuers were not closed", b.kafka.opened)
	}
	b.seen.mu.Lock()
	defer b.seen.mu.Unlock()
	for state, n := range b.seen.states {
		if state != "absent" && n != 0 {
			b.Errorf("state %s holds %d owners after the stop", state, n)
		}
	}
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
	known   []knownAfter
	gauges  map[string]func() float64
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

func (s *seen) TokenAdopted() { s.add("adopted") }

func (s *seen) TokenExpired(result string) { s.add("expiry " + result) }

func (s *seen) TokenFailed(request, reason string, code int16) {
	s.add(fmt.Sprint("failed ", request, " ", reason, " ", code))
}

func (s *seen) TokenKnown(node int32, after time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known = append(s.known, knownAfter{node, after})
}

func (s *seen) TokenGauge(name string, read func() float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gauges[name] = read
}

func (s *seen) add(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.results[what]++
}

type knownAfter struct {
	node  int32
	after time.Duration
}

func (s *seen) gauge(name string) float64 {
	s.mu.Lock()
	read := s.gauges[name]
	s.mu.Unlock()
	return read()
}

func (s *seen) result(r string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.results[r]
}
