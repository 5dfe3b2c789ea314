//go:build integration

package harness

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// Relay passes TCP connections on to one target, until told otherwise: what a
// network does to a broker.
type Relay struct {
	target string
	ln     net.Listener
	wg     sync.WaitGroup
	ctx    context.Context // ends with Close
	stop   context.CancelFunc

	mu       sync.Mutex
	conns    map[net.Conn]struct{}
	silent   chan struct{} // closed while bytes flow
	refusing bool
	accepted int
}

// NewRelay listens on address (host:0 for any port) and relays to target. The
// caller closes it.
func NewRelay(address, target string) (*Relay, error) {
	ln, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	r := &Relay{target: target, ln: ln, conns: map[net.Conn]struct{}{}, silent: make(chan struct{})}
	close(r.silent)
	r.ctx, r.stop = context.WithCancel(context.Background())
	r.wg.Go(r.accept)
	return r, nil
}

// Address is where it listens.
func (r *Relay) Address() string { return r.ln.Addr().String() }

// Silence stops all bytes, both ways, without a word to anybody; Speak lets them
// flow again.
func (r *Relay) Silence() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open() {
		r.silent = make(chan struct{})
	}
}

// Speak ends a Silence.
func (r *Relay) Speak() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.open() {
		close(r.silent)
	}
}

// Refuse makes it close every new connection at once, or no more.
func (r *Relay) Refuse(refuse bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refusing = refuse
}

// Cut resets all connections.
func (r *Relay) Cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c := range r.conns {
		_ = c.(*net.TCPConn).SetLinger(0)
		_ = c.Close()
	}
}

// Accepted is how many connections it was asked for.
func (r *Relay) Accepted() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.accepted
}

// Close ends all connections and waits until none is left.
func (r *Relay) Close() error {
	err := r.ln.Close()
	r.stop()
	r.Cut()
	r.wg.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

func (r *Relay) open() bool {
	select {
	case <-r.silent:
		return true
	default:
		return false
	}
}

func (r *Relay) accept() {
	for {
		c, err := r.ln.Accept()
		if err != nil {
			return
		}
		r.mu.Lock()
		r.accepted++
		refuse := r.refusing
		r.mu.Unlock()
		if refuse {
			_ = c.Close()
			continue
		}
		r.wg.Go(func() { r.serve(c) })
	}
}

func (r *Relay) serve(client net.Conn) {
	defer r.forget(client)
	r.remember(client)
	server, err := (&net.Dialer{Timeout: 10 * time.Second}).DialContext(r.ctx, "tcp", r.target)
	if err != nil {
		return
	}
	defer r.forget(server)
	r.remember(server)
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.pump(server, client)
	}()
	r.pump(client, server)
	<-done
}

// pump copies until an end, which it passes on; half-closed connections stay so.
func (r *Relay) pump(to, from net.Conn) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		r.mu.Lock()
		gate := r.silent
		r.mu.Unlock()
		select {
		case <-gate:
		case <-r.ctx.Done():
			return
		}
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				_ = from.Close()
				return
			}
		}
		if err != nil {
			if errors.Is(err, io.EOF) {
				_ = to.(*net.TCPConn).CloseWrite()
			} else {
				_ = to.Close()
			}
			return
		}
	}
}

func (r *Relay) remember(c net.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.conns[c] = struct{}{}
	if r.ctx.Err() != nil { // Close has cut the others already
		_ = c.Close()
	}
}

func (r *Relay) forget(c net.Conn) {
	_ = c.Close()
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.conns, c)
}
