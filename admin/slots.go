package admin

import (
	"net"
	"sync"
)

// maxConnections bounds the connections to the admin address.
const maxConnections = 128

// slotted is a listener that closes what comes beyond its slots.
type slotted struct {
	net.Listener
	slots chan struct{}
}

func newSlotted(l net.Listener, most int) *slotted {
	return &slotted{Listener: l, slots: make(chan struct{}, most)}
}

// Accept implements net.Listener.
func (l *slotted) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		select {
		case l.slots <- struct{}{}:
			return &slottedConn{Conn: c, release: sync.OnceFunc(func() { <-l.slots })}, nil
		default:
			_ = c.Close()
		}
	}
}

type slottedConn struct {
	net.Conn
	release func()
}

// Close implements net.Conn.
func (c *slottedConn) Close() error {
	defer c.release()
	return c.Conn.Close()
}
