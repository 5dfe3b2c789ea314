package gateway

import (
	"encoding/binary"
	"errors"
	"io"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"doorkeeper/connections"
	"doorkeeper/internal/wire"
)

// maxWholeAnswer bounds an answer that is held whole to rewrite it, in bytes: a Metadata
// answer of half a million partitions.
const maxWholeAnswer = 32 << 20

// wholeForFree is the size up to which a whole answer does not count against the
// budget over all sessions.
const wholeForFree = 1 << 20

// answers is the answer loop. It ends with the broker leg.
func (s *session) answers() {
	defer close(s.answered)
	defer s.guard()
	conn := s.conn.Load()
	for {
		a, err := conn.NextAnswer()
		if err != nil {
			// After Finish the end of the broker's stream is the orderly end; the session
			// has its reason then, and this one does not count.
			s.end(s.brokerError(err))
			return
		}
		if e := s.answerOne(conn, a); e != nil {
			s.end(e)
			return
		}
	}
}

// answerOne passes one answer to the client, and those made here that are due
// behind it.
func (s *session) answerOne(conn *connections.KafkaConnection, a connections.Answer) *Error {
	p, due := s.queue.match(a.CorrelationID)
	if !due {
		return endingf(ReasonBrokerFault, SideBroker, "node %d answered with correlation id %d, which is not the one that is due", s.node, a.CorrelationID)
	}
	var err *Error
	switch p.rule.at(p.version) {
	case actionForward:
		err = s.stream(conn, a)
	case actionFront:
		err = s.front(conn, p, a)
	case actionTrail:
		err = s.trail(conn, p, a)
	default:
		err = s.whole(conn, p, a)
	}
	if err != nil {
		return err
	}
	s.nAnswers++
	s.queue.pop()
	for {
		p, ok := s.queue.head()
		if !ok || p.local == nil {
			return nil
		}
		if err := s.deliver(p.local); err != nil {
			return err
		}
		s.queue.pop()
	}
}

// answerFront is what lies before an answer's own bytes: its length, and its correlation
// id.
const answerFront = wire.LengthSize + 4

// putFront writes them for an answer of size bytes.
func putFront(b []byte, size int, correlationID int32) {
	binary.BigEndian.PutUint32(b, uint32(size+4))                          //nolint:gosec // G115: it came as 4 bytes, or little more than came was made
	binary.BigEndian.PutUint32(b[wire.LengthSize:], uint32(correlationID)) //nolint:gosec // G115: signed in the protocol
}

// stream passes an answer through a borrowed buffer, length, header and first bytes
// in one TLS record. A record of the broker's, whose first bytes may be the answer's
// front, fits the buffer.
func (s *session) stream(conn *connections.KafkaConnection, a connections.Answer) *Error {
	buffer := s.g.cfg.Buffers.GetRecord()
	defer s.g.cfg.Buffers.PutRecord(buffer)
	b := *buffer
	putFront(b, a.Size, a.CorrelationID)
	return s.rest(conn, b, answerFront, a.Size)
}

// front passes an answer of which only the beginning is rewritten, which does not grow by
// that. That much of it as a buffer holds is read before any of it is passed on: more than
// the longest error message has before it.
func (s *session) front(conn *connections.KafkaConnection, p pending, a connections.Answer) *Error {
	buffer := s.g.cfg.Buffers.Get()
	defer s.g.cfg.Buffers.Put(buffer)
	b := (*buffer)[:wire.BufferSize]
	have, end := answerFront, min(len(b), answerFront+a.Size)
	for have < end {
		n, err := conn.Read(b[have:end])
		if err != nil {
			return s.brokerError(unexpected(err))
		}
		have += n
	}
	out, _, err := rewriteAnswer(p, s.g.routes, b[answerFront:end])
	if err != nil {
		return ending(ReasonBrokerFault, SideBroker, err)
	}
	gone := end - answerFront - len(out)
	copy(b[answerFront:], out)
	putFront(b, a.Size-gone, a.CorrelationID)
	return s.rest(conn, b, end-gone, answerFront+a.Size-end)
}

// rest passes what is in b, and what is left to come of the answer.
func (s *session) rest(conn *connections.KafkaConnection, b []byte, have, left int) *Error {
	for {
		if left > 0 {
			n, err := conn.Read(b[have:min(len(b), have+left)])
			if err != nil {
				return s.brokerError(unexpected(err))
			}
			have += n
			left -= n
		}
		if left == 0 {
			conn.Answered()
		}
		if err := s.deliver(b[:have]); err != nil {
			return err
		}
		if left == 0 {
			return nil
		}
		have = 0
	}
}

// whole reads an answer to its end, replaces in it what its rule says and passes it on.
// Memory grows with what came, not with what was declared.
func (s *session) whole(conn *connections.KafkaConnection, p pending, a connections.Answer) *Error {
	if a.Size > maxWholeAnswer {
		return endingf(ReasonAnswerSize, SideGateway, "%s v%d answer of %d bytes: it carries addresses in the midst of it, and %d is the most that is held", kmsg.NameForKey(p.key), p.version, a.Size, maxWholeAnswer)
	}
	if a.Size > wholeForFree {
		if err := s.g.answers.Acquire(s.ctx, int64(a.Size)); err != nil {
			return s.ended.Load()
		}
		defer s.g.answers.Release(int64(a.Size))
	}
	buffer := s.g.cfg.Buffers.Get()
	defer s.g.cfg.Buffers.Put(buffer)
	b := (*buffer)[:answerFront]
	for len(b) < answerFront+a.Size {
		if len(b) == cap(b) {
			b = append(make([]byte, 0, min(2*cap(b), answerFront+a.Size)), b...)
		}
		n, err := conn.Read(b[len(b):min(cap(b), answerFront+a.Size)])
		if err != nil {
			return s.brokerError(unexpected(err))
		}
		b = b[:len(b)+n]
	}
	conn.Answered()
	out, changed, err := rewriteAnswer(p, s.g.routes, b[answerFront:])
	if err != nil {
		return ending(ReasonBrokerFault, SideBroker, err)
	}
	putFront(b, len(out), a.CorrelationID)
	switch {
	case !changed:
		return s.deliver(b)
	case answerFront+len(out) <= cap(b):
		b = b[:answerFront+len(out)]
		copy(b[answerFront:], out)
		return s.deliver(b)
	}
	if err := s.deliver(b[:answerFront]); err != nil {
		return err
	}
	return s.deliver(out)
}

// deliver writes to the client. A client that takes nothing for timeouts.stall ends
// the session; so does one that is gone, but then the broker is still read to the
// end, so that what the client had sent is delivered.
func (s *session) deliver(b []byte) *Error {
	if s.clientGone {
		return nil
	}
	if now := time.Now(); s.writeArmed.Sub(now) < s.g.cfg.Timeouts.Stall*3/4 {
		s.writeArmed = now.Add(s.g.cfg.Timeouts.Stall)
		_ = s.client.SetWriteDeadline(s.writeArmed)
	}
	if _, err := s.client.Write(b); err != nil {
		e := clientError(err)
		if e.cuts() {
			return e
		}
		s.clientGone = true
		s.end(ending(ReasonClientLost, SideClient, err))
		s.log.Debug("the client went away with answers due", zap.Error(err))
	}
	return nil
}

// unexpected is an end of the stream within an answer.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
