package wire

import (
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
)

// socket lies between crypto/tls and TCP. It reads whatever has arrived with one
// system call, holds no buffer while it waits, and gathers the records that
// crypto/tls writes until flush: crypto/tls alone makes one system call for each
// record of at most 16 KiB in either direction.
//
// One goroutine reads; any may write.
type socket struct {
	net.Conn
	raw     syscall.RawConn // nil where the connection has no file descriptor
	buffers *Buffers

	in     *[]byte // bytes read and not yet taken, nil when there are none
	lo, hi int
	// The reading goroutine's own; a closure made for every read would be garbage.
	tryRead func(fd uintptr) (done bool)
	readErr error
	told    bool // beforeWait has run for this read
	atHand  bool // read what was read from TCP already, nothing else
	// beforeWait runs in the reading goroutine whenever it is about to wait for
	// bytes: the moment at which whatever was made of earlier ones must go out.
	beforeWait func()

	mu     sync.Mutex // guards the fields below and the order of writes
	out    *[]byte    // records gathered and not yet written
	n      int
	gather bool
	err    error // the first error of a write; all later writes return it
}

func newSocket(c net.Conn, buffers *Buffers) *socket {
	s := &socket{Conn: c, buffers: buffers}
	if sc, ok := c.(syscall.Conn); ok {
		if raw, err := sc.SyscallConn(); err == nil {
			s.raw, s.tryRead = raw, s.readOnce
		}
	}
	return s
}

// Read implements net.Conn. It waits until bytes come, the connection ends or the
// read deadline passes.
func (s *socket) Read(p []byte) (int, error) {
	if s.in == nil {
		if err := s.fill(); err != nil {
			return 0, err
		}
	}
	n := copy(p, (*s.in)[s.lo:s.hi])
	s.lo += n
	if s.lo == s.hi {
		s.drop()
	}
	return n, nil
}

func (s *socket) drop() {
	s.buffers.Put(s.in)
	s.in = nil
}

// fill waits for bytes without a buffer and takes one when there are some.
func (s *socket) fill() error {
	if s.atHand {
		return notYet{}
	}
	if s.raw == nil {
		return s.fillPlain()
	}
	s.told, s.readErr = false, nil
	err := s.raw.Read(s.tryRead)
	switch {
	case err != nil:
		return err // already a *net.OpError: closed, or the deadline
	case s.readErr != nil:
		return &net.OpError{Op: "read", Net: "tcp", Source: s.LocalAddr(), Addr: s.RemoteAddr(), Err: s.readErr}
	case s.in == nil:
		return io.EOF
	}
	return nil
}

// notYet says that nothing is at hand. crypto/tls takes it for a deadline that passed,
// after which reading may go on.
type notYet struct{}

func (notYet) Error() string   { return "nothing is at hand" }
func (notYet) Timeout() bool   { return true }
func (notYet) Temporary() bool { return true }

// readOnce reads what is there; false means that there is nothing yet.
func (s *socket) readOnce(fd uintptr) (done bool) {
	b := s.buffers.Get()
	var n int
	var err error
	for {
		if n, err = syscall.Read(int(fd), *b); !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if n > 0 {
		s.in, s.lo, s.hi = b, 0, n
		return true
	}
	s.buffers.Put(b)
	if !errors.Is(err, syscall.EAGAIN) {
		s.readErr = err
		return true
	}
	if !s.told && s.beforeWait != nil {
		s.beforeWait()
		s.told = true
	}
	return false
}

// fillPlain serves connections that are no sockets, such as pipes in tests.
func (s *socket) fillPlain() error {
	if s.beforeWait != nil {
		s.beforeWait()
	}
	b := s.buffers.Get()
	n, err := s.Conn.Read(*b)
	if n > 0 {
		s.in, s.lo, s.hi = b, 0, n
		return nil // an error that came with bytes comes again
	}
	s.buffers.Put(b)
	return err
}

// Write implements net.Conn. While gathering it waits only when the gathered
// bytes fill a buffer; then, and else, until TCP takes them or the write deadline
// passes.
func (s *socket) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return 0, s.err
	}
	if !s.gather {
		n, err := s.Conn.Write(p)
		s.err = err
		return n, err
	}
	written := 0
	for written < len(p) {
		if s.out == nil {
			s.out, s.n = s.buffers.Get(), 0
		}
		k := copy((*s.out)[s.n:], p[written:])
		s.n += k
		written += k
		if s.n == len(*s.out) {
			if err := s.flushLocked(); err != nil {
				return written, err
			}
		}
	}
	return written, nil
}

// flush writes what was gathered.
func (s *socket) flush() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.flushLocked()
}

func (s *socket) flushLocked() error {
	if s.out == nil {
		return s.err
	}
	if s.err == nil {
		_, s.err = s.Conn.Write((*s.out)[:s.n])
	}
	s.buffers.Put(s.out)
	s.out = nil
	return s.err
}

// setGather switches gathering; what was gathered goes out first.
func (s *socket) setGather(on bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.flushLocked()
	s.gather = on
	return err
}

// closeWrite ends the sending direction of TCP.
func (s *socket) closeWrite() error {
	if c, ok := s.Conn.(interface{ CloseWrite() error }); ok {
		return c.CloseWrite()
	}
	return nil
}
