package tokens

import (
	"context"
	"errors"
	"fmt"
	"io"
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
	// DefaultStopWithin is the longest stop where Config.StopWithin is 0.
	DefaultStopWithin = 20 * time.Second

	// callsAtOnce bounds the creations, checks and expiries under way at a time,
	// over all owners.
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
	// DefaultLimit. An owner has two tokens at most, so that twice as many tokens
	// can be live.
	Limit int
	// CreationRate is how many new owners get a token per second in the long run,
	// twice as many at once; 0: DefaultCreationRate. Replacements have half as much
	// for themselves. Creations beyond it wait for 3 s, and fail if that is not
	// enough.
	CreationRate int
	// ExpireOnStop expires the live tokens when Run ends; else they stay for the
	// next start, which adopts them.
	ExpireOnStop bool
	// StopWithin bounds the stop: it is given 5 s and 40 ms more for each token
	// that has to be expired, but never longer than this; 0: DefaultStopWithin.
	StopWithin time.Duration
	Observer   Observer    // may be nil
	Logger     *zap.Logger // may be nil
}

// Source holds the tokens. Its methods may be called from any goroutine, also
// before Run; what needs Kafka waits for Run.
type Source struct {
	cfg     Config
	marker  string
	calls   chan struct{} // slots, callsAtOnce
	firsts  *pace         // creations for owners without a token
	others  *pace         // replacements
	waiting atomic.Int64  // creations that wait for their turn
	asks    *perNode
	clock   controllerClock
	own     atomic.Pointer[string]
	refused atomic.Pointer[refusal]
	sweeps  sweeps
	adopted chan struct{} // closed when what was made before this start has been looked for
	stopped chan struct{} // closed when Run's context has ended

	mu      sync.Mutex
	phase   phase
	entries map[string]*entry
	pending []func(context.Context) // begun before Run
	group   sync.WaitGroup
	// launch begins a goroutine of Run, with Run's context. Set by Run.
	launch func(func(context.Context))
	// stopping outlives Run's context by the bound of the stop: for what must still
	// reach Kafka. Set by Run.
	stopping context.Context //nolint:containedctx // its life is Run's, which ends it
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
	if cfg.CreationRate <= 0 {
		cfg.CreationRate = DefaultCreationRate
	}
	if cfg.StopWithin <= 0 {
		cfg.StopWithin = DefaultStopWithin
	}
	if cfg.Observer == nil {
		cfg.Observer = noObserver{}
	}
	if cfg.Logger == nil {
		cfg.Logger = zap.NewNop()
	}
	replacements := max(cfg.CreationRate/replaceShare, 1)
	s := &Source{
		cfg:     cfg,
		marker:  MarkerPrefix + cfg.Instance,
		calls:   make(chan struct{}, callsAtOnce),
		firsts:  newPace(cfg.CreationRate, cfg.CreationRate*burstFactor),
		others:  newPace(replacements, replacements),
		asks:    newPerNode(),
		sweeps:  sweeps{wake: make(chan struct{}, 1)},
		adopted: make(chan struct{}),
		stopped: make(chan struct{}),
		entries: make(map[string]*entry),
	}
	s.registerGauges()
	return s
}

// Run serves until ctx ends, then stops: waiters get an error, replaced tokens
// are expired, live ones too with ExpireOnStop, all within Config.StopWithin; then
// it closes the Issuer, if that can be closed, and returns nil, and no goroutine of
// the source is left. It may be called once.
func (s *Source) Run(ctx context.Context) error {
	stopping, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()

	s.mu.Lock()
	if s.phase != phaseNew {
		s.mu.Unlock()
		return errors.New("tokens: Run called twice")
	}
	s.phase = phaseRunning
	s.launch = func(f func(context.Context)) { s.group.Go(func() { f(ctx) }) }
	s.stopping = stopping
	s.launch(s.keep)
	for _, f := range s.pending {
		s.launch(f)
	}
	s.pending = nil
	s.mu.Unlock()

	<-ctx.Done()
	s.mu.Lock()
	s.phase = phaseStopped
	s.mu.Unlock()
	begun, held := time.Now(), s.held()
	within := stopBound(held, s.cfg.StopWithin)
	bound := time.AfterFunc(within, cancel)
	defer bound.Stop()
	close(s.stopped)
	s.group.Wait()
	if s.cfg.ExpireOnStop {
		s.expireRest(stopping)
		s.cfg.Logger.Info("the tokens have been expired", zap.Int("tokens", held), zap.Int("left", s.held()),
			zap.Duration("took", time.Since(begun)), zap.Duration("bound", within))
	}
	if c, can := s.cfg.Issuer.(io.Closer); can {
		if err := c.Close(); err != nil {
			return fmt.Errorf("tokens: close the issuer: %w", err)
		}
	}
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

// late is a context that outlives Run's by the bound of the stop. For the tasks
// alone: they live only while it is set.
func (s *Source) late() context.Context {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stopping
}

// inSlot runs f while holding one of the slots; it fails only when ctx ends first.
func (s *Source) inSlot(ctx context.Context, f func()) error {
	select {
	case s.calls <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-s.calls }()
	f()
	return nil
}

// callContext bounds one call. With ExpireOnStop a creation under way outlives
// the begin of the stop, for else its token would be left behind.
func (s *Source) callContext(ctx context.Context, bound time.Duration) (context.Context, context.CancelFunc) {
	if s.cfg.ExpireOnStop {
		ctx = s.late()
	}
	return context.WithTimeout(ctx, bound)
}

// failed counts a request to Kafka that failed.
func (s *Source) failed(e *Error) {
	s.cfg.Observer.TokenFailed(e.Phase.request(), e.Reason.String(), e.Code)
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
