package gateway

import (
	"errors"
	"io"
	"time"

	"doorkeeper/internal/wire"
)

// smallFrame is what a session holds for a request's first bytes, at all times. Most
// requests fit; of large ones it is what is held while their sender keeps us waiting.
const smallFrame = 512

// maxWhole bounds a request that has to be held whole before it may pass, in bytes:
// a Fetch of 200,000 partitions.
const maxWhole = 8 << 20

// frame is a request under way: length and payload as they came, so that they leave
// in one TLS record too.
type frame struct {
	bytes  []byte // length and as much of the payload as was read
	size   int    // of the payload
	header wire.Header
	rule   *rule
	inspection
}

func (f *frame) payload() []byte { return f.bytes[wire.LengthSize:] }
func (f *frame) whole() bool     { return len(f.payload()) == f.size }

// nextFrame waits for a request and returns its length. Between requests a client
// may be silent for as long as it likes.
func (s *session) nextFrame() ([wire.LengthSize]byte, error) {
	var head [wire.LengthSize]byte
	rearmed := false
	for got := 0; got < len(head); {
		if got == 0 {
			if e := s.ended.Load(); e != nil {
				return head, e
			}
		}
		n, err := s.client.Read(head[got:])
		got += n
		switch {
		case err == nil:
		case !isTimeout(err):
			if got > 0 {
				err = cutShort(err)
			}
			return head, err
		case !s.started && s.ended.Load() == nil:
			return head, endingf(ReasonAdmission, SideClient, "no complete request within limits.admission of connecting")
		case got == 0:
			if s.ended.Load() == nil {
				s.arm(time.Time{}) // a leftover of the frame before
			}
		case !rearmed && s.ended.Load() == nil:
			rearmed = true // the deadline was the frame's before
			s.arm(time.Now().Add(s.g.cfg.Timeouts.Stall))
		default:
			if err := s.timeout(); err != nil {
				return head, err
			}
		}
	}
	return head, nil
}

// arm sets the client's read deadline. An end that was called meanwhile wins.
func (s *session) arm(t time.Time) {
	s.armed = t
	_ = s.client.SetReadDeadline(t)
	if e := s.ended.Load(); e != nil && !s.extended {
		_ = s.client.SetReadDeadline(past)
	}
}

// timeout decides about a read that timed out within a frame: nil means go on.
func (s *session) timeout() error {
	e := s.ended.Load()
	switch {
	case e == nil && s.blocked > 0:
		// The client gets the time back for which it had to wait for the broker.
		s.arm(time.Now().Add(min(s.blocked, s.g.cfg.Timeouts.Stall)))
		s.blocked = 0
		return nil
	case e == nil && !s.started:
		return endingf(ReasonAdmission, SideClient, "no complete request within limits.admission of connecting")
	case e != nil && e.Reason == ReasonShutdown && !s.extended:
		// What is under way when the gateway stops is taken in full and answered.
		s.extended = true
		s.arm(time.Now().Add(s.g.cfg.Timeouts.Drain))
		return nil
	case e != nil:
		return e
	}
	return endingf(ReasonClientStalled, SideClient, "a request under way did not go on for timeouts.stall")
}

// begin gives a request under way its first deadline. Re-arming costs a timer, so what
// is left of the last one will do if that is three quarters.
func (s *session) begin() {
	s.due, s.blocked = wire.BufferSize, 0
	if !s.started || s.extended {
		return
	}
	now, stall := time.Now(), s.g.cfg.Timeouts.Stall
	if left := s.armed.Sub(now); left < stall*3/4 || left > stall {
		s.arm(now.Add(stall))
	}
}

// came counts bytes of a request under way. Every 64 KiB earn it another
// timeouts.stall, single bytes do not; and what is held in memory has to come in one.
func (s *session) came(n int) {
	if s.due -= n; s.due <= 0 {
		s.due = wire.BufferSize
		if s.started && !s.extended && s.held == 0 {
			s.arm(time.Now().Add(s.g.cfg.Timeouts.Stall))
		}
	}
}

// read reads a piece of a request under way, and waits for it.
func (s *session) read(p []byte) (int, error) {
	for {
		n, err := s.client.Read(p)
		if n > 0 || err == nil {
			s.came(n)
			return n, nil
		}
		if !isTimeout(err) {
			return 0, cutShort(err)
		}
		if err := s.timeout(); err != nil {
			return 0, err
		}
	}
}

// fill reads another piece of a frame that has to be seen before it may pass. What has
// come already goes into a borrowed buffer; to wait for more, the frame moves to memory
// of the size of what came, since a sender may leave it at that.
func (s *session) fill(f *frame) error {
	end := f.size + wire.LengthSize
	if s.big == nil && len(f.bytes) == cap(f.bytes) && len(f.bytes) < wire.BufferSize {
		s.big = s.g.cfg.Buffers.Get()
		f.bytes = append((*s.big)[:0], f.bytes...)
	}
	if s.big != nil && len(f.bytes) < cap(f.bytes) {
		n, err := s.client.ReadAtHand(f.bytes[len(f.bytes):min(cap(f.bytes), end)])
		f.bytes = f.bytes[:len(f.bytes)+n]
		s.came(n)
		if n > 0 || err != nil {
			return cutShort(err)
		}
	}
	if s.big != nil || len(f.bytes) == cap(f.bytes) {
		if err := s.hold(f); err != nil {
			return err
		}
	}
	n, err := s.read(f.bytes[len(f.bytes):min(cap(f.bytes), end)])
	f.bytes = f.bytes[:len(f.bytes)+n]
	return err
}

// hold moves a frame to memory of its own, twice the size of what came. Beyond a
// buffer's size that counts against the budget over all sessions.
func (s *session) hold(f *frame) error {
	size := 2 * len(f.bytes)
	if size > wire.BufferSize {
		if !s.g.requests.TryAcquire(int64(size) - s.held) {
			return endingf(ReasonBadRequest, SideGateway, "too many large requests at a time that have to be held whole")
		}
		s.held = int64(size)
	}
	f.bytes = append(make([]byte, 0, size), f.bytes...)
	s.giveBack()
	return nil
}

// piece returns the next bytes of a frame that is passing, at most left; they are valid
// until the next call. What has come goes through a borrowed buffer; none is held while
// waiting.
func (s *session) piece(left int) ([]byte, error) {
	if s.big == nil {
		s.big = s.g.cfg.Buffers.Get()
	}
	b := (*s.big)[:min(left, wire.BufferSize)]
	n, err := s.client.ReadAtHand(b)
	if n > 0 {
		s.came(n)
		return b[:n], nil
	}
	if err != nil {
		return nil, cutShort(err)
	}
	s.giveBack()
	n, err = s.read(s.small[:min(left, len(s.small))])
	if err != nil || n < len(s.small) {
		return s.small[:n], err
	}
	// More of the same record: it leaves in one, too.
	s.big = s.g.cfg.Buffers.Get()
	b = (*s.big)[:min(left, wire.BufferSize)]
	copy(b, s.small[:])
	m, err := s.client.ReadAtHand(b[n:])
	s.came(m)
	return b[:n+m], cutShort(err)
}

func (s *session) giveBack() {
	if s.big != nil {
		s.g.cfg.Buffers.Put(s.big)
		s.big = nil
	}
}

// letGo gives back what a request took of memory and budget.
func (s *session) letGo() {
	s.giveBack()
	if s.held > 0 {
		s.g.requests.Release(s.held)
		s.held = 0
	}
}

// cutShort is an error within a frame.
func cutShort(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
