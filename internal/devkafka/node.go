package devkafka

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

const (
	// maxConnections bounds the connections of a node.
	maxConnections = 4096
	// acceptPause is how long a listener rests after it could not take a connection.
	acceptPause = 10 * time.Millisecond
)

// node is one broker: two listeners and what has come to them.
type node struct {
	id      int32
	cluster *Cluster
	// token and control are the addresses of the listeners, as clients are told.
	token, control string

	// all counts the goroutines of the node since its start.
	all sync.WaitGroup

	mu        sync.Mutex
	starts    int            // how often it was started: each time salts its credentials anew
	listeners []net.Listener // nil while it is stopped
	conns     map[*conn]struct{}
}

// listen takes the node's addresses, those that it had before if it is not new.
func (n *node) listen(token, control string) (err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	var open []net.Listener
	defer func() {
		if err != nil {
			for _, l := range open {
				_ = l.Close()
			}
		}
	}()
	for _, address := range []string{token, control} {
		l, err := net.Listen("tcp", address)
		if err != nil {
			return fmt.Errorf("devkafka: node %d cannot listen: %w", n.id, err)
		}
		open = append(open, l)
	}
	n.listeners = open
	if n.starts == 0 { // never written again: they are read without the lock
		n.token, n.control = open[0].Addr().String(), open[1].Addr().String()
	}
	n.conns = map[*conn]struct{}{}
	n.starts++
	return nil
}

// accept starts to take connections.
func (n *node) accept() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for i, l := range n.listeners {
		n.all.Go(func() { n.acceptOn(l, i == 0) })
	}
}

func (n *node) acceptOn(l net.Listener, withTokens bool) {
	for {
		plain, err := l.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			<-time.After(acceptPause) // out of files, say: it passes
			continue
		}
		c := newConn(n, plain, withTokens)
		if !n.add(c) {
			_ = plain.Close()
			continue
		}
		n.all.Go(func() {
			defer n.remove(c)
			c.serve()
		})
	}
}

// add takes a connection unless the node is stopped or full.
func (n *node) add(c *conn) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.listeners == nil || len(n.conns) >= maxConnections {
		return false
	}
	n.conns[c] = struct{}{}
	return true
}

func (n *node) remove(c *conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.conns, c)
}

// stop gives the ports back, ends all connections and waits until nothing of the node
// runs. It may be called again.
func (n *node) stop() {
	n.mu.Lock()
	listeners, conns := n.listeners, n.conns
	n.listeners, n.conns = nil, nil
	n.mu.Unlock()
	for _, l := range listeners {
		_ = l.Close()
	}
	var closing sync.WaitGroup
	for c := range conns {
		closing.Go(c.close)
	}
	closing.Wait()
	n.all.Wait()
}

func (n *node) started() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.starts
}

func (n *node) running() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.listeners != nil
}
