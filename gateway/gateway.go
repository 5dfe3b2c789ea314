package gateway

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/semaphore"

	"doorkeeper/connections"
	"doorkeeper/internal/wire"
	"doorkeeper/nodestatus"
	"doorkeeper/tlsconf"
	"doorkeeper/tokens"
)

// Timeouts bounds waits. All have to be set.
type Timeouts struct {
	// Admission runs from accept to the first complete request.
	Admission time.Duration
	// Drain is how long answers that are due are waited for when a session or the
	// gateway ends.
	Drain time.Duration
	// Stall is how long a client may neither take nor deliver the next piece (at
	// most 64 KiB) of a frame under way.
	Stall time.Duration
}

// Config is what a Gateway is made of. Everything but Rack has to be set.
type Config struct {
	Listen    string // address of the bootstrap listener; its host is the nodes' too
	Advertise Advertise
	TLS       *tlsconf.Source
	Tokens    *tokens.Source
	Nodes     *nodestatus.Watcher
	Dialer    *connections.Dialer
	Buffers   *wire.Buffers
	Limits    Limits
	Timeouts  Timeouts
	Rack      string // the gateway's own, preferred for bootstrap sessions
	Observer  Observer
	Logger    *zap.Logger
}

// Budgets for messages that have to be held whole, in bytes over all sessions.
const (
	answerBudget  = 256 << 20
	requestBudget = 64 << 20
)

// Gateway accepts client legs and relays them. See the package comment for its
// goroutines.
type Gateway struct {
	cfg      Config
	policy   policy
	routes   *routes
	counters *counters
	answers  *semaphore.Weighted // holds answerBudget
	requests *semaphore.Weighted // holds requestBudget

	legs   sync.WaitGroup // accept loops and everything that serves a client leg
	nextID atomic.Uint64

	mu       sync.Mutex
	listens  bool
	draining bool
	sessions map[*session]struct{}
}

// New checks the configuration. It binds nothing and starts nothing.
func New(cfg Config) (*Gateway, error) {
	host, _, err := net.SplitHostPort(cfg.Listen)
	if err != nil {
		return nil, fmt.Errorf("gateway: listen.address: %w", err)
	}
	if cfg.Limits.InFlight < 1 || cfg.Limits.Frame < wire.MinRequest ||
		cfg.Timeouts.Admission <= 0 || cfg.Timeouts.Drain <= 0 || cfg.Timeouts.Stall <= 0 {
		return nil, errors.New("gateway: limits.in_flight, limits.frame and all timeouts must be positive")
	}
	g := &Gateway{
		cfg:      cfg,
		policy:   newPolicy(),
		counters: newCounters(cfg.Limits),
		answers:  semaphore.NewWeighted(answerBudget),
		requests: semaphore.NewWeighted(requestBudget),
		sessions: make(map[*session]struct{}),
	}
	g.routes = &routes{
		advertised: cfg.Advertise,
		bindHost:   host,
		logger:     cfg.Logger,
		byNode:     make(map[int32]*listener),
		failed:     make(map[int32]time.Time),
	}
	return g, nil
}

// Listen binds the bootstrap address and those of the configured nodes. Connections
// queue up there until Run. An error names the address that is taken.
func (g *Gateway) Listen(ctx context.Context) error {
	if err := g.routes.open(ctx, g.cfg.Listen); err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.listens = true
	return nil
}

// OwnListener tells whether addr is one of the gateway's own: dialling it would be
// a loop.
func (g *Gateway) OwnListener(addr net.Addr) bool { return g.routes.owns(addr) }

// Ready returns nil when a new client could be served now, else why not.
func (g *Gateway) Ready() error {
	g.mu.Lock()
	listens, draining := g.listens, g.draining
	g.mu.Unlock()
	switch {
	case draining:
		return errors.New("stopping: no new clients")
	case !listens:
		return errors.New("the listeners are not bound")
	case g.cfg.TLS.OwnPrincipal() == "":
		return errors.New("no delegation token of the gateway's own yet: see the log for the control listener")
	case g.cfg.Nodes.Table().Up() == 0:
		return errors.New("no broker is up on the token listener")
	}
	return g.cfg.TLS.Current().CertificateUsable(time.Now())
}

// Run serves until ctx ends, then drains: no new clients, requests under way are
// answered, for timeouts.drain at most, and everything is closed. It returns after
// the last of its goroutines has ended, and nil unless it was not listening.
func (g *Gateway) Run(ctx context.Context) error {
	g.mu.Lock()
	listens := g.listens
	g.mu.Unlock()
	if !listens {
		return errors.New("gateway: Run before Listen")
	}
	// Sessions end by draining, not with ctx.
	base := context.WithoutCancel(ctx)
	g.routes.serve = func(l *listener) {
		g.legs.Go(func() { g.accept(base, l) })
	}
	g.routes.start()
	for ctx.Err() == nil {
		changed := g.cfg.Nodes.Changed()
		for _, n := range g.cfg.Nodes.Table().Nodes() {
			g.routes.advertise(n.ID)
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
	g.drain()
	return nil
}

// drain ends all sessions and waits for their goroutines.
func (g *Gateway) drain() {
	g.routes.close()
	g.mu.Lock()
	g.draining = true
	under := make([]*session, 0, len(g.sessions))
	for s := range g.sessions {
		under = append(under, s)
	}
	g.mu.Unlock()
	g.cfg.Logger.Info("stopping: answering what is under way", zap.Int("sessions", len(under)), zap.Duration("at_most", g.cfg.Timeouts.Drain))
	for _, s := range under {
		s.end(ending(ReasonShutdown, SideGateway, nil))
	}
	force := time.AfterFunc(g.cfg.Timeouts.Drain, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		for s := range g.sessions {
			s.abort()
		}
	})
	defer force.Stop()
	g.legs.Wait()
}

// register adds a session, unless the gateway is draining.
func (g *Gateway) register(s *session) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.draining {
		return false
	}
	g.sessions[s] = struct{}{}
	return true
}

func (g *Gateway) unregister(s *session) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.sessions, s)
}
