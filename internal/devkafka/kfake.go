package devkafka

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"

	"github.com/twmb/franz-go/pkg/kfake"
	"go.uber.org/zap"
)

// startKfake starts kfake with the given nodes, of ids from 1 on, and returns what each
// of them listens on: nothing that a network could reach.
//
// kfake counts from 0 and makes its last node the controller, so it gets one more, which
// goes before anybody has come.
func startKfake(tokenAddresses []net.Addr, superUsers []string, logger *zap.Logger) (*kfake.Cluster, *networks, error) {
	nets := &networks{byAddress: map[string]*network{}}
	spare := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}
	ports := []int{0}
	nets.add("127.0.0.1:0", spare)
	for i, a := range tokenAddresses {
		// Its port is only a name: kfake asks for it and gets the node's network.
		nets.add(fmt.Sprintf("127.0.0.1:%d", i+1), a)
		ports = append(ports, i+1)
	}
	options := []kfake.Opt{
		kfake.Ports(ports...),
		kfake.ListenFn(nets.listen),
		kfake.EnableSASL(),
		kfake.EnableACLs(),
		kfake.WithLogger(kfakeLogger{logger}),
	}
	for _, name := range superUsers {
		options = append(options, kfake.Superuser("PLAIN", name, ""))
	}
	c, err := kfake.NewCluster(options...)
	if err != nil {
		return nil, nil, err
	}
	if err := c.RemoveNode(0); err != nil {
		c.Close()
		return nil, nil, err
	}
	return c, nets, nil
}

// networks are what kfake's nodes listen on, by the addresses that kfake asks for.
type networks struct {
	mu        sync.Mutex
	byAddress map[string]*network
}

func (n *networks) add(asked string, shown net.Addr) {
	n.byAddress[asked] = newNetwork(shown)
}

// listen is kfake's net.Listen. A node that comes back gets a new network.
func (n *networks) listen(_, address string) (net.Listener, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	found := n.byAddress[address]
	if found == nil {
		return nil, fmt.Errorf("devkafka: kfake listens on %s", address)
	}
	select {
	case <-found.closed:
		found = newNetwork(found.shown)
		n.byAddress[address] = found
	default:
	}
	return found, nil
}

// of is a node's network.
func (n *networks) of(node int32) *network {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.byAddress[fmt.Sprintf("127.0.0.1:%d", node)]
}

// network is a net.Listener whose connections are made by dial. It shows the address of
// the node's token listener, which kfake then tells clients.
type network struct {
	shown    net.Addr
	incoming chan net.Conn
	closed   chan struct{}
	once     sync.Once
}

func newNetwork(shown net.Addr) *network {
	return &network{shown: shown, incoming: make(chan net.Conn), closed: make(chan struct{})}
}

// Accept implements net.Listener.
func (n *network) Accept() (net.Conn, error) {
	select {
	case c := <-n.incoming:
		return c, nil
	case <-n.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (n *network) Close() error {
	n.once.Do(func() { close(n.closed) })
	return nil
}

// Addr implements net.Listener.
func (n *network) Addr() net.Addr { return n.shown }

// dial makes a connection for somebody who came from remote, which ACLs may ask for. done
// ends the wait, and so does the network's end. ended is closed when kfake has let go.
func (n *network) dial(done <-chan struct{}, remote net.Addr) (conn net.Conn, ended <-chan struct{}, err error) {
	near, far := net.Pipe()
	kfakes := &farEnd{Conn: far, remote: remote, ended: make(chan struct{})}
	select {
	case n.incoming <- kfakes:
		return near, kfakes.ended, nil
	case <-n.closed:
		err = net.ErrClosed
	case <-done:
		err = net.ErrClosed
	}
	return nil, nil, errors.Join(err, near.Close(), far.Close())
}

// farEnd is kfake's end of a connection.
type farEnd struct {
	net.Conn
	remote net.Addr

	mu    sync.Mutex
	left  int
	ended chan struct{}
}

// RemoteAddr is where the client came from.
func (f *farEnd) RemoteAddr() net.Addr { return f.remote }

// Close is called by each of the two goroutines that kfake has for a connection, as the
// last thing that they do.
func (f *farEnd) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.left++; f.left == 2 {
		close(f.ended)
	}
	return f.Conn.Close()
}

// kfakeLogger takes what kfake says.
type kfakeLogger struct{ *zap.Logger }

// Logf implements kfake.Logger. Its levels are for a server of its own: nothing there is
// worth more than a debug line here.
func (l kfakeLogger) Logf(_ kfake.LogLevel, format string, args ...any) {
	if l.Core().Enabled(zap.DebugLevel) {
		l.Debug(strings.TrimSpace(fmt.Sprintf(format, args...)))
	}
}
