package faultrelay

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"
)

// dialWithin bounds the dial to the target.
const dialWithin = 10 * time.Second

// Relay passes TCP connections on to one target. All methods but Close return at once,
// and are safe for concurrent use.
type Relay struct {
	target string
	ln     net.Listener
	wg     sync.WaitGroup
	stop   context.CancelFunc

	mu       sync.Mutex
	conns    map[*net.TCPConn]struct{}
	links    map[*link]struct{}
	faults   [2]Faults // by Direction
	vary     func(n int) (toTarget, toClient Faults)
	watch    func(n int, d Direction, b []byte)
	changed  chan struct{} // closed with every change of the faults
	varied   int           // how many it was called for
	closed   bool
	refusing bool
	accepted int
	passed   [2]int64 // bytes, by Direction
	writes   [2]int64 // in how many writes
}

// New listens on address (host:0 for any port) and relays to target, which need not be
// there yet: each connection dials it, for 10 s at most, and is closed if that fails.
// The caller closes the Relay.
func New(address, target string) (*Relay, error) {
	ln, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	r := &Relay{target: target, ln: ln, conns: map[*net.TCPConn]struct{}{}, links: map[*link]struct{}{}, changed: make(chan struct{})}
	ctx, stop := context.WithCancel(context.Background())
	r.stop = stop
	r.wg.Go(func() { r.accept(ctx) })
	return r, nil
}

// Address is where it listens.
func (r *Relay) Address() string { return r.ln.Addr().String() }

// Set replaces the faults of a direction, for connections that are open and for all that
// come, unless they have their own.
func (r *Relay) Set(d Direction, f Faults) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.faults[d] = f
	close(r.changed)
	r.changed = make(chan struct{})
}

// Vary gives each connection that comes from now on faults of its own, which nothing
// changes any more; n counts them from 0. nil ends that. It is called by one goroutine.
func (r *Relay) Vary(faults func(n int) (toTarget, toClient Faults)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.vary, r.varied = faults, 0
}

// Watch has bytes shown before they are written on; n counts connections from 0. As long
// as watch does not return, those of that direction and connection wait. It is called by
// one goroutine for each direction of a connection, and must not keep b. nil ends that.
func (r *Relay) Watch(watch func(n int, d Direction, b []byte)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.watch = watch
}

// show hands bytes to whoever watches.
func (r *Relay) show(n int, d Direction, b []byte) {
	r.mu.Lock()
	watch := r.watch
	r.mu.Unlock()
	if watch != nil {
		watch(n, d, b)
	}
}

// SetBoth replaces the faults of both directions.
func (r *Relay) SetBoth(f Faults) {
	r.Set(ToTarget, f)
	r.Set(ToClient, f)
}

// Heal takes all faults away, but for Refuse. What was swallowed stays lost.
func (r *Relay) Heal() { r.SetBoth(Faults{}) }

// Refuse makes it close every new connection at once, or no more.
func (r *Relay) Refuse(refuse bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refusing = refuse
}

// Cut resets all connections, both sides of them.
func (r *Relay) Cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c := range r.conns {
		reset(c)
	}
}

// Accepted is how many connections it was asked for, refused ones too.
func (r *Relay) Accepted() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.accepted
}

// Passed is how many bytes it has written on in a direction, over all connections.
func (r *Relay) Passed(d Direction) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.passed[d]
}

// Open is a connection that is open.
type Open struct {
	N      int      // as Vary counted it; -1 for one that came without Vary
	Passed [2]int64 // bytes that were written on, by Direction
}

// Open lists the connections that are open, in no order.
func (r *Relay) Open() []Open {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]Open, 0, len(r.links))
	for l := range r.links {
		out = append(out, Open{l.n, l.passed})
	}
	return out
}

// Close ends all connections and waits until none of the Relay's goroutines is left.
// Further calls do nothing.
func (r *Relay) Close() error {
	err := r.ln.Close()
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.stop()
	r.Cut()
	r.wg.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

func (r *Relay) accept(ctx context.Context) {
	for {
		c, err := r.ln.Accept()
		if err != nil {
			return
		}
		r.mu.Lock()
		asked := r.accepted
		r.accepted++
		refuse, vary, n := r.refusing, r.vary, r.varied
		if vary != nil && !refuse {
			r.varied++
		}
		r.mu.Unlock()
		if refuse {
			_ = c.Close()
			continue
		}
		l := &link{relay: r, n: -1, asked: asked}
		if vary != nil {
			l.n = n
			var own [2]Faults
			own[ToTarget], own[ToClient] = vary(n)
			l.own = &own
		}
		r.wg.Go(func() { r.serve(ctx, l, c.(*net.TCPConn)) })
	}
}

// serve is one connection's life.
func (r *Relay) serve(ctx context.Context, l *link, client *net.TCPConn) {
	defer r.forget(client)
	r.remember(client)
	server, err := (&net.Dialer{Timeout: dialWithin}).DialContext(ctx, "tcp", r.target)
	if err != nil {
		return
	}
	target := server.(*net.TCPConn)
	defer r.forget(target)
	r.remember(target)
	l.ends = [2]*net.TCPConn{client, target}
	r.mu.Lock()
	r.links[l] = struct{}{}
	r.mu.Unlock()
	l.run(ctx)
	r.mu.Lock()
	delete(r.links, l)
	r.mu.Unlock()
}

// remember makes a connection one that Cut and Close end.
func (r *Relay) remember(c *net.TCPConn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.conns[c] = struct{}{}
	if r.closed { // Close has cut the others already
		reset(c)
	}
}

func (r *Relay) forget(c *net.TCPConn) {
	_ = c.Close()
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.conns, c)
}

// now is a direction's faults, and a channel that is closed once they are others.
func (r *Relay) now(d Direction) (Faults, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.faults[d], r.changed
}

func (r *Relay) count(l *link, d Direction, n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.passed[d] += int64(n)
	l.passed[d] += int64(n)
	r.writes[d]++
}

// reset closes a connection so that the other side sees a reset, not an end.
func reset(c *net.TCPConn) {
	_ = c.SetLinger(0)
	_ = c.Close()
}
