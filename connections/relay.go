package connections

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"
)

// answerHead is what every answer begins with: its length and its correlation id.
const answerHead = 4 + 4

// Answer is the head of a broker's answer.
type Answer struct {
	Size          int // bytes behind the correlation id
	CorrelationID int32
}

// Begin announces a request and waits until it may be written. On a connection with
// a session end that is when all requests before it are sure to have been handled by
// then; behind one with an unbounded wait, when that is answered. Before it waits, it
// flushes. Where the session is to be renewed on its leg, Begin does that first: it
// waits for all that is unanswered, then for the broker, which has 30 s for each of
// three answers, and for Credentials. Where it is to be renewed by a swap, Begin sets
// that going; it waits while the old leg drains, and where that may take no more, for
// the new one, for swapPatience. The wait ends with ErrSessionEnding when the
// connection has ended itself, and with an *Error when it failed, was closed or
// aborted, or when the broker refused the renewal: then Phase is PhaseMechanism or
// PhaseAuthenticate.
//
// After a nil error the whole frame, length included, has to be written, then End
// called.
func (c *KafkaConnection) Begin(r Request) error {
	flushed := false
	if c.credentials != nil && c.credentials.Newer() {
		c.noteNewer()
	}
	c.mu.Lock()
	for {
		if err := c.refusalLocked(); err != nil {
			c.mu.Unlock()
			return err
		}
		if c.inFrame {
			c.mu.Unlock()
			panic("connections: Begin inside a frame")
		}
		now := time.Now()
		switch {
		case !c.renewLocked(now):
		case c.swapsLocked():
			c.beginSwapLocked()
		default:
			c.mu.Unlock()
			if err := c.renew(); err != nil {
				return err
			}
			c.mu.Lock()
			continue
		}
		if c.state != Draining && c.books.room() && (c.stop.IsZero() || c.books.before(c.stop, now)) {
			c.assertBeginLocked(r, now)
			c.books.begin(r, now)
			break
		}
		if !flushed {
			// The answers that are to be waited for may be to requests that have not
			// gone out yet.
			flushed = true
			c.mu.Unlock()
			if err := c.Flush(); err != nil {
				return err
			}
			c.mu.Lock()
			continue
		}
		if c.renewal.waiting.IsZero() {
			c.renewal.waiting = now
		}
		c.changed.Wait()
	}
	c.renewal.waiting = time.Time{}
	c.renewal.tied = c.renewal.tied || r.Ties
	c.out = c.leg
	c.writing = true
	if c.books.wait > c.longest && c.renewal.able {
		c.longest = c.books.wait
		if c.state == Open { // the moment of risk moves ahead
			c.disarmLocked()
			c.watchSessionLocked(c.renewal.jitter)
		}
	}
	c.mu.Unlock()
	c.inFrame = true
	return nil
}

// refusalLocked is why no request can begin, nil if one can, perhaps later.
func (c *KafkaConnection) refusalLocked() error {
	switch {
	case c.state == Closed:
		return c.closedLocked()
	case c.drain == sessionEnding:
		return ErrSessionEnding
	case c.drain == finished:
		return c.fault(PhaseRelay, refuse(LocallyClosed, "", "%w", errFinished))
	}
	return nil
}

// Write adds bytes to the frame that Begin announced. They are gathered: it waits only
// when much has gathered and the broker takes nothing, for Config.Stall at most. An
// error means that the connection takes no more requests; answers may still come.
func (c *KafkaConnection) Write(p []byte) (int, error) {
	if !c.inFrame {
		panic("connections: Write outside a frame")
	}
	c.assertWrite()
	c.extendWriteDeadline(c.out)
	n, err := c.out.stream.Write(p)
	if err != nil {
		return n, c.fail(err, false)
	}
	return n, nil
}

// End says that the frame is complete. It does not flush. Its error is one that the
// connection had before.
func (c *KafkaConnection) End() error {
	if !c.inFrame {
		panic("connections: End outside a frame")
	}
	c.inFrame = false
	c.mu.Lock()
	c.writing = false
	if c.state == Closed {
		err := c.closedLocked()
		c.mu.Unlock()
		return err
	}
	quiet := c.endIfQuietLocked()
	if c.renewal.swapping {
		c.changed.Broadcast() // it waits for the frame's end
	}
	c.mu.Unlock()
	if quiet {
		c.halfClose()
	}
	return nil
}

// Flush hands what was gathered to TCP. It waits as Write does.
func (c *KafkaConnection) Flush() error {
	c.extendWriteDeadline(c.out)
	if err := c.out.stream.Flush(); err != nil && !c.superseded(c.out) {
		return c.fail(err, false)
	}
	return nil
}

// superseded tells whether another leg has taken that one's place: then nothing was left
// to do on it.
func (c *KafkaConnection) superseded(l *leg) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.leg != l
}

// extendWriteDeadline keeps at least stall ahead of the writes. It moves the deadline
// by a quarter more at a time, since that costs more than looking at the clock.
func (c *KafkaConnection) extendWriteDeadline(l *leg) {
	now := time.Now()
	if l.writeDeadline.Sub(now) >= c.stall {
		return
	}
	l.writeDeadline = now.Add(c.stall + c.stall/4)
	_ = l.stream.SetWriteDeadline(l.writeDeadline)
}

// NextAnswer waits for the head of the next answer. The wait has no bound of its own,
// since fetches and joins have none either: a broker that is gone is noticed by TCP
// within a minute. It returns io.EOF after Finish and ErrSessionEnding after the
// connection ended itself, when everything is answered; else an *Error, after which
// the connection is dead.
func (c *KafkaConnection) NextAnswer() (Answer, error) {
	if c.unread > 0 {
		panic(fmt.Sprintf("connections: NextAnswer with %d bytes of the last one unread", c.unread))
	}
	for {
		c.mu.Lock()
		ended, leg := c.endedQuietlyLocked(), c.leg
		c.boundOwnLocked()
		c.mu.Unlock()
		if ended {
			return Answer{}, ErrSessionEnding
		}
		if c.in != leg {
			c.in = leg
			leg.stream.BeforeWait(c.beforeWait)
		}
		err := leg.stream.ReadFull(c.head[:])
		c.mu.Lock()
		current, asked, own := c.leg == leg, c.books.due > 0, c.books.ownNext()
		c.mu.Unlock()
		switch {
		case !current: // whatever came of a leg that owed nothing
			continue
		case err != nil:
			return Answer{}, c.lastAnswer(err)
		}
		length := int32(binary.BigEndian.Uint32(c.head[:]))       //nolint:gosec // G115: the protocol's length is signed
		correlation := int32(binary.BigEndian.Uint32(c.head[4:])) //nolint:gosec // G115: signed in the protocol
		if length < 4 {
			return Answer{}, c.fail(hostile("an answer of %d bytes", length), true)
		}
		switch {
		case !asked:
			return Answer{}, c.fail(hostile("an answer that nobody asked for"), true)
		case own:
			if err := c.takeOwn(length, correlation); err != nil {
				return Answer{}, err
			}
			c.awaitJudgement()
		default:
			c.unread = int(length) - 4
			return Answer{Size: c.unread, CorrelationID: correlation}, nil
		}
	}
}

// endedQuietly tells whether the connection ended itself with nothing outstanding.
func (c *KafkaConnection) endedQuietly() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.endedQuietlyLocked()
}

func (c *KafkaConnection) endedQuietlyLocked() bool {
	return c.drain == sessionEnding && c.books.requests == 0
}

// lastAnswer judges the error that reading a head gave.
func (c *KafkaConnection) lastAnswer(err error) error {
	if c.endedQuietly() {
		return ErrSessionEnding // the broker's own end, or halfClose waking us
	}
	c.mu.Lock()
	drain, due := c.drain, c.books.due
	c.mu.Unlock()
	if errors.Is(err, io.EOF) && due == 0 {
		switch drain {
		case sessionEnding:
			return ErrSessionEnding
		case finished:
			return io.EOF
		}
	}
	if errors.Is(err, io.EOF) && due > 0 {
		err = fmt.Errorf("the broker closed with %d answers outstanding: %w", due, err)
	}
	return c.fail(err, true)
}

// Read reads from the current answer: at most one TLS record at a time, io.EOF at its
// end. It waits as NextAnswer does; an error other than io.EOF is an *Error.
func (c *KafkaConnection) Read(p []byte) (int, error) {
	if c.unread == 0 {
		return 0, io.EOF
	}
	if len(p) > c.unread {
		p = p[:c.unread]
	}
	n, err := c.in.stream.Read(p)
	c.unread -= n
	if n == 0 && err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return 0, c.fail(err, true)
	}
	return n, nil
}

// Answered says that the current answer has been read in full. A connection at risk
// may take that moment to end itself; then it waits as Flush does.
func (c *KafkaConnection) Answered() {
	if c.unread > 0 {
		panic(fmt.Sprintf("connections: Answered with %d bytes unread", c.unread))
	}
	c.mu.Lock()
	c.books.assert()
	c.books.answered(time.Now())
	quiet := c.endIfQuietLocked()
	c.changed.Broadcast()
	c.mu.Unlock()
	if quiet {
		c.halfClose()
	}
}
