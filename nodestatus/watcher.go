package nodestatus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
	"go.uber.org/zap"

	"doorkeeper/internal/pause"
)

const (
	// DefaultRefresh is how often the brokers are asked where Config.Refresh is 0.
	DefaultRefresh = 30 * time.Second

	// dialBound is how long one Dial may take, its login and token included.
	dialBound = 8 * time.Second
	// readBound is how long one reading may take.
	readBound = 4 * time.Second
	// earlyLeast is the least time between two readings.
	earlyLeast = time.Second
	// Between two rounds over all addresses: exponential from backoffFirst to
	// backoffLast, spread by a quarter, so that the first request after an outage
	// of all brokers does not wait long for us.
	backoffFirst = 200 * time.Millisecond
	backoffLast  = 2 * time.Second
	// sayAgain is how often the same trouble is logged.
	sayAgain = 30 * time.Second
)

// Observer is told what happens; its methods must not block.
type Observer interface {
	// NodeState: a broker changed its state. from is empty for one that is new, to
	// for one that is gone.
	NodeState(from, to string)
	// StatusRead: a reading ended; "ok", "dial" (no connection), or "failed".
	StatusRead(result string)
}

type noObserver struct{}

func (noObserver) NodeState(string, string) {}
func (noObserver) StatusRead(string)        {}

// Config is what a Watcher needs. Bootstrap and Dial must be set.
type Config struct {
	// Bootstrap are addresses of the token listener.
	Bootstrap []Address
	// Dial opens a connection that is logged in and that the watcher owns. It ends
	// when ctx does.
	Dial func(ctx context.Context, a Address) (Conn, error)
	// Rack is the gateway's own: its brokers are asked first.
	Rack string
	// Allowed are networks and name patterns that the brokers' addresses must
	// match; empty: any. Bootstrap addresses need not match.
	Allowed []string
	// Refresh is the time between two readings, jittered by a tenth; 0:
	// DefaultRefresh.
	Refresh  time.Duration
	Observer Observer    // may be nil
	Logger   *zap.Logger // may be nil
}

// Watcher keeps the table.
type Watcher struct {
	cfg     Config
	allowed allowed
	table   atomic.Pointer[Table]
	early   chan struct{} // capacity 1: read again soon

	mu        sync.Mutex
	clusterID string
	nodes     map[int32]Node // as in the table; replaced, never changed
	health    map[int32]*health
	changed   chan struct{}

	// Run's own.
	outage bool // the last round over all addresses failed
	saidAt time.Time
}

// New checks the configuration and reports every problem in it. Nothing is dialled
// before Run.
func New(cfg Config) (*Watcher, error) {
	var errs []error
	if len(cfg.Bootstrap) == 0 {
		errs = append(errs, errors.New("kafka.bootstrap: at least one address of the brokers' token listener is needed"))
	}
	for i, a := range cfg.Bootstrap {
		if err := a.check(); err != nil {
			errs = append(errs, fmt.Errorf("kafka.bootstrap[%d]: %w", i, err))
		}
	}
	allow, err := parseAllowed(cfg.Allowed)
	if err != nil {
		errs = append(errs, fmt.Errorf("kafka.addresses: %w", err))
	}
	if cfg.Dial == nil {
		errs = append(errs, errors.New("node status: no Dial function"))
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	if cfg.Refresh <= 0 {
		cfg.Refresh = DefaultRefresh
	}
	if cfg.Observer == nil {
		cfg.Observer = noObserver{}
	}
	if cfg.Logger == nil {
		cfg.Logger = zap.NewNop()
	}
	w := &Watcher{
		cfg:     cfg,
		allowed: allow,
		early:   make(chan struct{}, 1),
		nodes:   map[int32]Node{},
		health:  map[int32]*health{},
		changed: make(chan struct{}),
	}
	w.table.Store(newTable("", w.nodes))
	return w, nil
}

// Run keeps the table until ctx ends, then closes its connection and returns nil.
// Trouble does not end it: it goes from address to address, with back-off, and the
// last table stands.
func (w *Watcher) Run(ctx context.Context) error {
	again := &backoff.ExponentialBackOff{
		InitialInterval: backoffFirst, MaxInterval: backoffLast, Multiplier: 2, RandomizationFactor: 0.25,
	}
	again.Reset()
	for ctx.Err() == nil {
		r := w.connect(ctx)
		if r == nil {
			pause.For(ctx, again.NextBackOff())
			continue
		}
		again.Reset()
		w.keepReading(ctx, r)
		_ = r.conn.Close()
	}
	return nil
}

// connect tries every address once, until one gives a first answer.
func (w *Watcher) connect(ctx context.Context) *reader {
	var errs []error
	for _, a := range w.candidates() {
		r, err := w.try(ctx, a)
		if err == nil {
			return r
		}
		if ctx.Err() != nil {
			return nil
		}
		errs = append(errs, err)
		if id, known := w.nodeAt(a); known {
			w.failed(id, err.Error())
		}
	}
	if !w.outage || time.Since(w.saidAt) >= sayAgain {
		w.saidAt = time.Now()
		w.cfg.Logger.Warn("no broker tells which brokers there are; trying on", zap.Error(errors.Join(errs...)))
	}
	w.outage = true
	return nil
}

// try opens one connection and reads over it. The connection is closed on error.
func (w *Watcher) try(ctx context.Context, a Address) (_ *reader, err error) {
	bounded, cancel := context.WithTimeout(ctx, dialBound)
	defer cancel()
	conn, err := w.cfg.Dial(bounded, a)
	if err != nil {
		w.cfg.Observer.StatusRead("dial")
		return nil, &Error{Phase: PhaseDial, Address: a, Err: err}
	}
	r := &reader{conn: conn, address: a}
	defer func() {
		if err != nil {
			_ = conn.Close()
		}
	}()
	return r, w.readInto(ctx, r)
}

// readInto makes one reading and takes it over.
func (w *Watcher) readInto(ctx context.Context, r *reader) error {
	bounded, cancel := context.WithTimeout(ctx, readBound)
	defer cancel()
	a, err := r.read(bounded)
	if err == nil {
		err = w.judge(r, a)
	}
	if err != nil {
		w.cfg.Observer.StatusRead("failed")
		return err
	}
	w.cfg.Observer.StatusRead("ok")
	if w.outage {
		w.cfg.Logger.Info("the brokers tell again which brokers there are", zap.Stringer("address", r.address))
	}
	w.apply(a, w.outage)
	w.outage = false
	return nil
}

// judge refuses the answer of another cluster: an address that leads elsewhere must
// not move all clients there.
func (w *Watcher) judge(r *reader, a answer) error {
	if known := w.Table().ClusterID; known != "" && a.clusterID != known {
		return &Error{
			Phase: PhaseJudge, Address: r.address,
			Err:  fmt.Errorf("it is the cluster %q, not %q", a.clusterID, known),
			Cure: "take that address out of kafka.bootstrap; if the cluster was made anew, restart the gateway",
		}
	}
	return nil
}

// keepReading reads again and again until the connection fails or ctx ends. A
// connection that has come to its session end is such a failure too, and nothing
// to speak of.
func (w *Watcher) keepReading(ctx context.Context, r *reader) {
	for {
		last := time.Now()
		if !w.waitToRead(ctx, last) {
			return
		}
		if err := w.readInto(ctx, r); err != nil {
			if ctx.Err() != nil {
				return
			}
			w.cfg.Logger.Debug("the status connection ended; another is opened", zap.Error(err))
			if id, known := w.nodeAt(r.address); known && errors.Is(err, context.DeadlineExceeded) {
				w.failed(id, "it does not answer the status connection")
			}
			return
		}
	}
}

// waitToRead waits until the next reading is due; false: ctx ended.
func (w *Watcher) waitToRead(ctx context.Context, last time.Time) bool {
	regular := w.cfg.Refresh
	if w.unwell() {
		regular = min(regular, failureFresh)
	}
	timer := time.NewTimer(time.Duration(float64(regular) * (0.9 + 0.2*rand.Float64())))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-w.early:
		alive := pause.For(ctx, earlyLeast-time.Since(last))
		select {
		case <-w.early: // the reading that begins now serves these reports too
		default:
		}
		return alive
	case <-ctx.Done():
		return false
	}
}

// unwell: some broker has failures on its account, so its state should move soon.
func (w *Watcher) unwell() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.health) > 0
}

// candidates are the addresses to try, each once: those of bootstrap, then those of
// known brokers; among each, what is believed to be well and in the own rack first,
// else in random order.
func (w *Watcher) candidates() []Address {
	t := w.Table()
	known := t.Nodes()
	at := make(map[Address]Node, len(known))
	var rest []Address
	for _, n := range known {
		at[n.Address] = n
		if n.Refused == "" && !n.Fenced {
			rest = append(rest, n.Address)
		}
	}
	rank := func(a Address) int {
		if n, ok := at[a]; ok {
			return bootstrapRank(n, w.cfg.Rack)
		}
		return bootstrapRank(Node{}, "")
	}
	var all []Address
	seen := make(map[Address]bool)
	for _, group := range [][]Address{slices.Clone(w.cfg.Bootstrap), rest} {
		rand.Shuffle(len(group), func(i, j int) { group[i], group[j] = group[j], group[i] })
		slices.SortStableFunc(group, func(a, b Address) int { return cmp.Compare(rank(a), rank(b)) })
		for _, a := range group {
			if !seen[a] {
				seen[a] = true
				all = append(all, a)
			}
		}
	}
	return all
}

func (w *Watcher) nodeAt(a Address) (int32, bool) {
	for _, n := range w.Table().sorted {
		if n.Address == a {
			return n.ID, true
		}
	}
	return 0, false
}
