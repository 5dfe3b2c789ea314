package gateway

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"go.uber.org/zap"
)

// bootstrapNode stands for "any broker" where a node id is expected.
const bootstrapNode int32 = -1

// Advertise says how clients reach the brokers through the gateway: node n at
// Host:(BasePort+n).
type Advertise struct {
	Host     string
	BasePort int32
	Nodes    []int32 // listened for before the cluster was ever seen
}

// port returns a node's port, the same on every instance and after every restart.
func (a Advertise) port(node int32) (int32, error) {
	port := int64(a.BasePort) + int64(node)
	if node < 0 || port < 1 || port > 65535 {
		return 0, fmt.Errorf("node %d has no port: listen.advertise.base_port %d plus the node id is not within 1 to 65535", node, a.BasePort)
	}
	return int32(port), nil
}

// bindAgain is how long a node's address that could not be bound is left alone.
const bindAgain = 10 * time.Second

// routes holds a listener for bootstrap and one for every node. A node that was
// seen once keeps its listener: its clients come back to it.
type routes struct {
	advertised Advertise
	bindHost   string
	// serve starts accepting on a new listener.
	serve  func(*listener)
	config net.ListenConfig
	logger *zap.Logger

	mu        sync.Mutex      // held over bind calls, which do not wait
	ctx       context.Context //nolint:containedctx // bounds listeners that answers bring about
	closed    bool
	byNode    map[int32]*listener
	failed    map[int32]time.Time
	bootstrap *listener
}

// listener accepts client legs meant for one node.
type listener struct {
	net.Listener
	node int32
}

// open binds bootstrap and every node that is known by configuration. On an error
// nothing stays bound.
func (r *routes) open(ctx context.Context, address string) (err error) {
	defer func() {
		if err != nil {
			r.close()
		}
	}()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ctx = ctx
	l, err := r.config.Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("bind listen.address: %w", err)
	}
	r.bootstrap = &listener{Listener: l, node: bootstrapNode}
	for _, node := range r.advertised.Nodes {
		if err := r.bindLocked(node); err != nil {
			return err
		}
	}
	return nil
}

// start begins to accept everywhere.
func (r *routes) start() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.serve(r.bootstrap)
	for _, l := range r.byNode {
		r.serve(l)
	}
}

func (r *routes) bindLocked(node int32) error {
	port, err := r.advertised.port(node)
	if err != nil {
		return err
	}
	l, err := r.config.Listen(r.ctx, "tcp", net.JoinHostPort(r.bindHost, strconv.Itoa(int(port))))
	if err != nil {
		return fmt.Errorf("bind the address of node %d: %w", node, err)
	}
	r.byNode[node] = &listener{Listener: l, node: node}
	return nil
}

// advertise implements advertiser. A node that is met for the first time gets its
// listener before its address is told to anybody.
func (r *routes) advertise(node int32) (host string, port int32, ok bool) {
	port, err := r.advertised.port(node)
	if err != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.refuseLocked(node, err)
		return "", 0, false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byNode[node] != nil {
		return r.advertised.Host, port, true
	}
	if r.closed || time.Since(r.failed[node]) < bindAgain {
		return "", 0, false
	}
	if err := r.bindLocked(node); err != nil {
		r.refuseLocked(node, err)
		return "", 0, false
	}
	r.logger.Info("listening for a new broker", zap.Int32("node", node), zap.Int32("port", port))
	delete(r.failed, node)
	r.serve(r.byNode[node])
	return r.advertised.Host, port, true
}

// maxRefusedNodes bounds what is remembered of nodes that cannot be served.
const maxRefusedNodes = 1024

func (r *routes) refuseLocked(node int32, err error) {
	if time.Since(r.failed[node]) < bindAgain {
		return
	}
	if len(r.failed) >= maxRefusedNodes {
		clear(r.failed)
	}
	r.failed[node] = time.Now()
	r.logger.Error("a broker has no address at the gateway and is left out of answers", zap.Int32("node", node), zap.Error(err))
}

// owns tells whether addr is one that this gateway listens on.
func (r *routes) owns(addr net.Addr) bool {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range append(make([]*listener, 0, len(r.byNode)+1), r.bootstrap) {
		if l != nil && sameSocket(l.Addr(), tcp) {
			return true
		}
	}
	for _, l := range r.byNode {
		if sameSocket(l.Addr(), tcp) {
			return true
		}
	}
	return false
}

// sameSocket tells whether a connection to addr would arrive at a listener bound to
// bound on this machine.
func sameSocket(bound net.Addr, addr *net.TCPAddr) bool {
	b, ok := bound.(*net.TCPAddr)
	if !ok || b.Port != addr.Port {
		return false
	}
	if !b.IP.IsUnspecified() {
		return b.IP.Equal(addr.IP)
	}
	if addr.IP.IsLoopback() {
		return true
	}
	local, err := net.InterfaceAddrs()
	if err != nil {
		return false
	}
	for _, a := range local {
		if n, ok := a.(*net.IPNet); ok && n.IP.Equal(addr.IP) {
			return true
		}
	}
	return false
}

// close ends all listeners; their accept loops return.
func (r *routes) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	if r.bootstrap != nil {
		_ = r.bootstrap.Close()
	}
	for _, l := range r.byNode {
		_ = l.Close()
	}
}

// isClosed tells of an accept error whether it means the end of the listener.
func isClosed(err error) bool { return errors.Is(err, net.ErrClosed) }
