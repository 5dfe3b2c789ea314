package tokens

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
)

const (
	// MarkerPrefix begins the name of the marker renewer of every instance.
	MarkerPrefix = "doorkeeper-"
	// DefaultLimit is how many owners are held where Config.Limit is 0.
	DefaultLimit = 5000
	// DefaultIdle is how long an owner is kept where Config.Idle is 0.
	DefaultIdle = time.Hour

	// stopBound is how long the stop waits for Kafka.
	stopBound = 5 * time.Second
	// callsAtOnce bounds the creations, checks and expiries under way at a time,
	// over all owners: the controller makes every token on one thread.
	callsAtOnce = 32
)

// Config is what a Source needs. Issuer and Instance must be set.
type Config struct {
	Issuer Issuer
	// Instance is this gateway's name, the same after a restart and no other
	// running gateway's.
	Instance string
	// Lifetime is the life asked for; 0: Kafka's maximum.
	Lifetime time.Duration
	// Idle is how long an owner without a lease is kept; 0: DefaultIdle.
	Idle time.Duration
	// Limit is how many owners are held at a time, the gateway itself apart; 0:
	// DefaultLimit.
	Limit int
	// ExpireOnStop expires the live tokens when Run ends; else they stay until
	// their lives end.
	ExpireOnStop bool
	Observer     Observer    // may be nil
	Logger       *zap.Logger // may be nil
}

// Source holds the tokens. Its methods may be called from any goroutine, also
// before Run; what needs Kafka waits for Run.
type Source struct {
	cfg     Config
	marker  string
	calls   chan struct{} // slots, callsAtOnce
	asks    *perNode
	own     atomic.Pointer[string]
	stopped chan struct{} // closed when Run's context has ended

	mu      sync.Mutex
	phase   phase
	entries map[string]*entry
	pending []func(context.Context) // begun before Run
	group   sync.WaitGroup
	// launch begins a goroutine of Run, with Run's context. Set by Run.
	launch func(func(context.Context))
	// late gives a context that outlives Run's by stopBound, and ends after d: for
	// what must still reach Kafka. Set by Run.
	late func(d time.Duration) (context.Context, context.CancelFunc)
}

type phase uint8

const (
	phaseNew phase = iota
	phaseRunning
	phaseStopped
)

// New makes a Source. Nothing is asked of Kafka before Run. It panics without an
// Issuer or an Instance: those are mistakes of the program.
func New(cfg Config) *Source {
	if cfg.Issuer == nil || cfg.Instance == "" {
		panic("tokens: Config needs an Issuer and an Instance")
	}
	if cfg.Idle <= 0 {
		cfg.Idle = DefaultIdle
	}
	if cfg.Limit <= 0 {
		cfg.Limit = DefaultLimit
	}
	if cfg.Observer == nil {
		cfg.Observer = noObserver{}
	}
	if cfg.Logger == nil {
		cfg.Logger = zap.NewNop()
	}
	return &Source{
		cfg:     cfg,
		marker:  MarkerPrefix + cfg.Instance,
		calls:   make(chan struct{}, callsAtOnce),
		asks:    newPerNode(),
		stopped: make(chan struct{}),
		entries: make(map[string]*entry),
	}
}

// Run serves until ctx ends, then stops: waiters get an error, replaced tokens
// are expired, live ones too with ExpireOnStop, all within 5 s; then it returns
// nil, and no goroutine of the source is left. It may be called once.
func (s *Source) Run(ctx context.Context) error {
	stopCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()

	s.mu.Lock()
	if s.phase != phaseNew {
		s.mu.Unlock()
		return errors.New("tokens: Run called twice")
	}
	s.phase = phaseRunning
	s.launch = func(f func(context.Context)) { s.group.Go(func() { f(ctx) }) }
	s.late = func(d time.Duration) (context.Context, context.CancelFunc) { return context.WithTimeout(stopCtx, d) }
	for _, f := range s.pending {
		s.launch(f)
	}
	s.pending = nil
	s.mu.Unlock()

	<-ctx.Done()
	bound := time.AfterFunc(stopBound, cancel)
	defer bound.Stop()

	s.mu.Lock()
	s.phase = phaseStopped
	s.mu.Unlock()
	close(s.stopped)
	s.group.Wait()
	return nil
}

// spawnLocked runs f in a goroutine of Run, now or when Run begins. It reports
// false after the stop.
func (s *Source) spawnLocked(f func(context.Context)) bool {
	switch s.phase {
	case phaseNew:
		s.pending = append(s.pending, f)
	case phaseRunning:
		s.launch(f)
	default:
		return false
	}
	return true
}

// lateContext is late, for the tasks, which live only while it is set.
func (s *Source) lateContext(d time.Duration) (context.Context, context.CancelFunc) {
	s.mu.Lock()
	late := s.late
	s.mu.Unlock()
	return late(d)
}

// Own is the name of the gateway's own principal, as Kafka gave it when the own
// token was created; empty before.
func (s *Source) Own() string {
	if p := s.own.Load(); p != nil {
		return *p
	}
	return ""
}

// Acquire gives a lease on owner's token. The caller has verified owner and calls
// Release on the lease. All callers of one owner share one creation; it waits
// until a token is published, and ends with an *Error when ctx ends, when that
// creation fails (after at most 8 s), or when the source stops. While the
// back-off of a failed creation runs, it fails at once with the same *Error. A
// caller that gives up does not disturb the others.
//
// No token is created before the gateway's own principal is known: its own token
// comes first. The gateway's own principal and the markers are refused as owners.
func (s *Source) Acquire(ctx context.Context, owner string) (*Lease, error) {
	if owner == "" || owner == s.Own() || strings.HasPrefix(owner, MarkerPrefix) {
		return nil, s.protectedError(owner)
	}
	return s.acquire(ctx, owner)
}

// AcquireOwn gives a lease on the token of the gateway's own principal, whose
// name it learns by it. Else it is as Acquire.
func (s *Source) AcquireOwn(ctx context.Context) (*Lease, error) {
	return s.acquire(ctx, "")
}

func (s *Source) acquire(ctx context.Context, owner string) (*Lease, error) {
	e, err := s.join(owner)
	if err != nil {
		return nil, err
	}
	l := &Lease{entry: e}
	if err := e.await(ctx); err != nil {
		l.Release()
		return nil, err
	}
	if owner != "" && owner == s.Own() {
		// Asked for before the own name was known, and the task created nothing.
		l.Release()
		return nil, s.protectedError(owner)
	}
	return l, nil
}

// join finds or makes the entry and counts one lease on it.
func (s *Source) join(owner string) (*entry, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.phase == phaseStopped {
		return nil, s.stoppedError(owner)
	}
	e, known := s.entries[owner]
	if !known {
		if owner != "" && s.ownersLocked() >= s.cfg.Limit {
			return nil, &Error{
				Phase: PhaseAcquire, Reason: ReasonLimit, Owner: owner, Node: NoNode, Retry: true,
				Err:  fmt.Errorf("%d owners are held", s.cfg.Limit),
				Cure: "raise limits.tokens, or lower tokens.idle (each token costs every broker about 5 ms at its start)",
			}
		}
		e = newEntry(s, owner)
		s.entries[owner] = e
		s.spawnLocked(e.run)
	}
	e.mu.Lock()
	e.leases++
	e.mu.Unlock()
	return e, nil
}

func (s *Source) ownersLocked() int {
	n := len(s.entries)
	if _, own := s.entries[""]; own {
		n--
	}
	return n
}

// forget takes e out and keeps further logins off its token, unless somebody came
// meanwhile or a login outlives its session's lease.
func (s *Source) forget(e *entry) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.leases > 0 {
		return false
	}
	if t := e.current.Load(); t != nil && !t.seal() {
		e.idleSince = time.Now() // looked at again after as long once more
		return false
	}
	delete(s.entries, e.owner)
	return true
}

// Invalidate says that a broker refused a login with t. If t is the published
// token of its owner, the brokers are asked once whether they know it, and it is
// replaced if none does; Acquire waits for the outcome. Invalidate never blocks.
// Calls within a second of the last check of that owner do nothing.
func (s *Source) Invalidate(t *Token) {
	s.mu.Lock()
	e := s.entries[t.Owner]
	if t.Owner == s.Own() {
		e = s.entries[""]
	}
	s.mu.Unlock()
	if e != nil {
		e.invalidate(t)
	}
}

// learnOwn takes the owner of the gateway's own token. A name that changes means
// that the brokers do not agree on who the gateway is.
func (s *Source) learnOwn(name string) error {
	if s.own.CompareAndSwap(nil, &name) {
		s.cfg.Logger.Info("the gateway's own principal is known", zap.String("principal", name))
		return nil
	}
	if known := s.Own(); known != name {
		return fmt.Errorf("the gateway is %q now and was %q before", name, known)
	}
	return nil
}

func (s *Source) stoppedError(owner string) *Error {
	return &Error{Phase: PhaseAcquire, Reason: ReasonStopped, Owner: owner, Node: NoNode}
}

func (s *Source) protectedError(owner string) *Error {
	return &Error{
		Phase: PhaseAcquire, Reason: ReasonProtected, Owner: owner, Node: NoNode,
		Err: errors.New("a client must not become this principal"),
	}
}
