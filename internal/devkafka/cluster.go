package devkafka

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
)

// Cluster is a running cluster. All methods may be called by several at once.
type Cluster struct {
	cfg                  Config
	tokenTLS, controlTLS *tls.Config
	nodes                []*node // the i-th has id i+1
	tokens               *tokens
	acls                 *acls
	kfake                *kfake.Cluster
	nets                 *networks
	served               versions

	mu     sync.Mutex // one start or stop at a time
	closed bool
}

// New starts a cluster: when it returns, every listener takes connections. The error
// says what cannot be, such as an address that is taken; nothing is left running then.
// The caller closes the cluster.
func New(cfg Config) (c *Cluster, err error) {
	if cfg, err = cfg.complete(); err != nil {
		return nil, err
	}
	c = &Cluster{
		cfg:        cfg,
		tokenTLS:   &tls.Config{Certificates: []tls.Certificate{cfg.Certificate}, MinVersion: tls.VersionTLS12},
		controlTLS: &tls.Config{Certificates: []tls.Certificate{cfg.Certificate}, MinVersion: tls.VersionTLS12, ClientCAs: cfg.ClientCA, ClientAuth: tls.RequireAndVerifyClientCert},
		acls:       newACLs(cfg.SuperUsers),
	}
	defer func() {
		if err != nil {
			_ = c.Close()
			c = nil
		}
	}()
	var shown []net.Addr
	for i := range cfg.Brokers {
		n := &node{id: int32(i + 1), cluster: c}
		if err := n.listen(cfg.TokenListen[i], cfg.ControlListen[i]); err != nil {
			return c, err
		}
		c.nodes = append(c.nodes, n)
		shown = append(shown, n.listeners[0].Addr())
	}
	c.tokens = newTokens(cfg, c.Nodes(), time.Now())
	if c.kfake, c.nets, err = startKfake(shown, cfg.SuperUsers, cfg.Logger); err != nil {
		return c, fmt.Errorf("devkafka: kfake: %w", err)
	}
	if c.served, err = askVersions(c.nets.of(1)); err != nil {
		return c, err
	}
	for _, n := range c.nodes {
		n.accept()
	}
	return c, nil
}

// Nodes are the ids of all nodes, from 1 on.
func (c *Cluster) Nodes() []int32 {
	var out []int32
	for _, n := range c.nodes {
		out = append(out, n.id)
	}
	return out
}

// TokenAddresses are the token listeners (SASL_SSL) of all nodes, in order.
func (c *Cluster) TokenAddresses() []string {
	return c.each(func(n *node) string { return n.token })
}

// ControlAddresses are the control listeners (SSL) of all nodes, in order.
func (c *Cluster) ControlAddresses() []string {
	return c.each(func(n *node) string { return n.control })
}

func (c *Cluster) each(f func(*node) string) []string {
	var out []string
	for _, n := range c.nodes {
		out = append(out, f(n))
	}
	return out
}

// node is the node of that id, nil if there is none.
func (c *Cluster) node(id int32) *node {
	if id < 1 || int(id) > len(c.nodes) {
		return nil
	}
	return c.nodes[id-1]
}

// controller is the id of the node that is.
func (c *Cluster) controller() int32 { return c.nodes[len(c.nodes)-1].id }

// Stop ends a node as a crash would: its connections and ports are gone when it returns,
// other nodes lead its partitions, and the rest of the cluster lists it no more. Tokens
// and data stay. The last running node cannot be stopped; the one of the highest id is
// the controller, without which topics cannot be made.
func (c *Cluster) Stop(id int32) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.node(id)
	switch {
	case c.closed:
		return errClosed
	case n == nil:
		return fmt.Errorf("devkafka: there is no node %d", id)
	case !n.running():
		return nil
	}
	if err := c.kfake.RemoveNode(id); err != nil {
		return fmt.Errorf("devkafka: node %d cannot be stopped: %w", id, err)
	}
	n.stop()
	return nil
}

// Start starts a node again, on the addresses that it had.
func (c *Cluster) Start(id int32) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.node(id)
	switch {
	case c.closed:
		return errClosed
	case n == nil:
		return fmt.Errorf("devkafka: there is no node %d", id)
	case n.running():
		return nil
	}
	if err := n.listen(n.token, n.control); err != nil {
		return err
	}
	if _, _, err := c.kfake.AddNode(id, int(id)); err != nil {
		n.stop()
		return fmt.Errorf("devkafka: node %d cannot be started: %w", id, err)
	}
	n.accept()
	return nil
}

var errClosed = errors.New("devkafka: the cluster is closed")

// Close ends everything and waits until it has: no goroutine and no port is left. It may
// be called again; its error is always nil.
func (c *Cluster) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil
	}
	c.closed = true
	var all sync.WaitGroup
	for _, n := range c.nodes {
		all.Go(n.stop)
	}
	all.Wait()
	if c.kfake != nil {
		c.kfake.Close()
	}
	return nil
}

// SetExpiry changes Config.Expiry for tokens that are made or renewed from now on. d
// must be positive.
func (c *Cluster) SetExpiry(d time.Duration) { c.tokens.setExpiry(d) }
