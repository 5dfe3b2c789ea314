package connections

import (
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// pipeSize is what one direction of a pipe holds, as a socket's buffers do. net.Pipe
// holds nothing: there, a broker that is busy would stop a client's write.
const pipeSize = 64 << 10

// newPipe returns the two ends of a connection that works under testing/synctest.
func newPipe() (*pipe, *pipe) {
	a, b := newDirection(), newDirection()
	return &pipe{in: a, out: b}, &pipe{in: b, out: a}
}

type pipe struct {
	in, out *direction
}

// direction is one way: bytes, its end, and both sides' deadlines.
type direction struct {
	mu      sync.Mutex
	changed *sync.Cond
	buf     []byte
	written bool // the writer has ended
	unread  bool // the reader has ended
	late    [2]bool
	timers  [2]*time.Timer
}

const (
	reading = iota
	writing
)

func newDirection() *direction {
	d := new(direction)
	d.changed = sync.NewCond(&d.mu)
	return d
}

func (d *direction) deadline(side int, t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timers[side] != nil {
		d.timers[side].Stop()
	}
	d.timers[side] = nil
	d.late[side] = !t.IsZero() && !t.After(time.Now())
	if !t.IsZero() && !d.late[side] {
		var mine *time.Timer
		mine = time.AfterFunc(time.Until(t), func() {
			d.mu.Lock()
			defer d.mu.Unlock()
			if d.timers[side] == mine {
				d.late[side] = true
				d.changed.Broadcast()
			}
		})
		d.timers[side] = mine
	}
	d.changed.Broadcast()
}

func (d *direction) end(side int) {
	d.deadline(side, time.Time{})
	d.mu.Lock()
	defer d.mu.Unlock()
	if side == reading {
		d.unread = true
	} else {
		d.written = true
	}
	d.changed.Broadcast()
}

func (p *pipe) Read(b []byte) (int, error) {
	d := p.in
	d.mu.Lock()
	defer d.mu.Unlock()
	for {
		switch {
		case d.unread:
			return 0, net.ErrClosed
		case d.late[reading]:
			return 0, os.ErrDeadlineExceeded
		case len(d.buf) > 0:
			n := copy(b, d.buf)
			d.buf = d.buf[n:]
			d.changed.Broadcast()
			return n, nil
		case d.written:
			return 0, io.EOF
		}
		d.changed.Wait()
	}
}

func (p *pipe) Write(b []byte) (int, error) {
	d := p.out
	d.mu.Lock()
	defer d.mu.Unlock()
	n := 0
	for {
		switch {
		case d.written:
			return n, net.ErrClosed
		case d.late[writing]:
			return n, os.ErrDeadlineExceeded
		case d.unread:
			return n, io.ErrClosedPipe
		}
		k := min(len(b)-n, pipeSize-len(d.buf))
		d.buf = append(d.buf, b[n:n+k]...)
		n += k
		d.changed.Broadcast()
		if n == len(b) {
			return n, nil
		}
		d.changed.Wait()
	}
}

func (p *pipe) CloseWrite() error { p.out.end(writing); return nil }

func (p *pipe) Close() error {
	p.out.end(writing)
	p.in.end(reading)
	return nil
}

func (p *pipe) SetDeadline(t time.Time) error {
	_ = p.SetReadDeadline(t)
	return p.SetWriteDeadline(t)
}
func (p *pipe) SetReadDeadline(t time.Time) error  { p.in.deadline(reading, t); return nil }
func (p *pipe) SetWriteDeadline(t time.Time) error { p.out.deadline(writing, t); return nil }
func (p *pipe) LocalAddr() net.Addr                { return pipeAddr{} }
func (p *pipe) RemoteAddr() net.Addr               { return pipeAddr{} }

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "pipe" }
