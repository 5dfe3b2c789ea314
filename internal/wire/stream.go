package wire

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"time"
)

// Stream is a TLS connection whose writes are gathered until Flush. One goroutine
// may read and one may write at a time; Flush, Close and the deadlines may be
// called by any.
type Stream struct {
	tls  *tls.Conn
	sock *socket
}

// Server wraps an accepted connection. It does nothing on the network yet.
func Server(c net.Conn, cfg *tls.Config, buffers *Buffers) *Stream {
	s := newSocket(c, buffers)
	return &Stream{tls: tls.Server(s, cfg), sock: s}
}

// Client wraps a dialled connection. It does nothing on the network yet.
func Client(c net.Conn, cfg *tls.Config, buffers *Buffers) *Stream {
	s := newSocket(c, buffers)
	return &Stream{tls: tls.Client(s, cfg), sock: s}
}

// Handshake runs the TLS handshake, bounded by ctx and by the deadlines, and
// switches gathering on. When it fails, the alert that says why has been written;
// the connection still has to be closed.
func (s *Stream) Handshake(ctx context.Context) error {
	if err := s.tls.HandshakeContext(ctx); err != nil {
		return err
	}
	return s.sock.setGather(true)
}

// ConnectionState is crypto/tls's, valid after Handshake.
func (s *Stream) ConnectionState() tls.ConnectionState { return s.tls.ConnectionState() }

// BeforeWait has f called, in the reading goroutine, each time that a read is
// about to wait for bytes. It must be set before the first read.
func (s *Stream) BeforeWait(f func()) { s.sock.beforeWait = f }

// Read returns at most one TLS record's payload. It waits until there is some, the
// peer ends the connection (io.EOF) or the read deadline passes.
func (s *Stream) Read(p []byte) (int, error) { return s.tls.Read(p) }

// ReadAtHand is Read of what came from TCP with earlier reads. It never waits and makes
// no system call; (0, nil) means that there is nothing, which is when the caller should
// let go of its memory before it calls Read.
func (s *Stream) ReadAtHand(p []byte) (int, error) {
	s.sock.atHand = true
	n, err := s.tls.Read(p)
	s.sock.atHand = false
	if errors.Is(err, notYet{}) {
		err = nil
	}
	return n, err
}

// ReadFull fills p. io.EOF means that not one byte came, io.ErrUnexpectedEOF that
// the connection ended in between.
func (s *Stream) ReadFull(p []byte) error {
	_, err := io.ReadFull(s.tls, p)
	return err
}

// Write encrypts p and gathers it. It waits only when a buffer is full and TCP
// does not take it, at most until the write deadline.
func (s *Stream) Write(p []byte) (int, error) { return s.tls.Write(p) }

// Flush hands everything gathered to TCP; it waits as Write does.
func (s *Stream) Flush() error { return s.sock.flush() }

// SetReadDeadline bounds reads, those under way included.
func (s *Stream) SetReadDeadline(t time.Time) error { return s.tls.SetReadDeadline(t) }

// SetWriteDeadline bounds writes. After a write has run into it, the sending
// direction is unusable: part of a TLS record may be out.
func (s *Stream) SetWriteDeadline(t time.Time) error { return s.tls.SetWriteDeadline(t) }

// CloseWrite flushes, sends close_notify and ends the sending direction of TCP.
// Reading goes on.
func (s *Stream) CloseWrite() error {
	if err := s.sock.setGather(false); err != nil {
		return err
	}
	if err := s.tls.CloseWrite(); err != nil {
		return err
	}
	return s.sock.closeWrite()
}

// Linger ends the connection so that the peer can read the last bytes sent to it:
// with bytes of the peer still unread, a plain close makes TCP throw away what the
// peer has not read yet, an alert for example. It half-closes, then reads and
// drops until the peer closes too, for the given time and 1 MiB at most, and
// closes. Nobody else may be reading.
func (s *Stream) Linger(patience time.Duration) {
	deadline := time.Now().Add(patience)
	_ = s.sock.SetDeadline(deadline)
	_ = s.CloseWrite()
	_ = s.sock.closeWrite() // also where TLS never came about
	b := s.sock.buffers.Get()
	for left := 1 << 20; left > 0; {
		n, err := s.sock.Conn.Read(*b)
		left -= n
		if err != nil {
			break
		}
	}
	s.sock.buffers.Put(b)
	_ = s.Close()
}

// Close flushes, says close_notify and closes. It waits 5 s at most for a peer
// that takes no bytes; a write under way is ended. Closing twice is harmless.
func (s *Stream) Close() error {
	_ = s.sock.SetWriteDeadline(time.Now().Add(5 * time.Second))
	_ = s.sock.setGather(false)
	return s.tls.Close()
}

// Abort closes the socket at once, without a word. It may be called while other
// goroutines read and write; they get net.ErrClosed.
func (s *Stream) Abort() error { return s.sock.Conn.Close() }

// LocalAddr is the socket's.
func (s *Stream) LocalAddr() net.Addr { return s.sock.LocalAddr() }

// RemoteAddr is the socket's.
func (s *Stream) RemoteAddr() net.Addr { return s.sock.RemoteAddr() }
