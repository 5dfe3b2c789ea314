package gateway

import (
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"doorkeeper/connections"
	"doorkeeper/internal/wire"
)

// Answers with leaders' addresses at their end, behind what may be 100 MB of records. Up
// to wholeTrail they are read whole and rewritten in full. Beyond, they stream through
// the small buffer that every answer streams through: the walk says where the tail begins,
// the length is with the client already, and the tail has to fit.

// wholeTrail is the largest such answer that is rewritten in full, in bytes behind the
// correlation id: what one buffer holds.
const wholeTrail = wire.BufferSize - answerFront

// trail passes an answer whose end is rewritten.
func (s *session) trail(conn *connections.KafkaConnection, p pending, a connections.Answer) *Error {
	if a.Size > wholeTrail {
		return s.longTrail(conn, p, a)
	}
	buffer := s.g.cfg.Buffers.Get()
	defer s.g.cfg.Buffers.Put(buffer)
	b := (*buffer)[:wire.BufferSize]
	putFront(b, a.Size, a.CorrelationID)
	have := answerFront
	for have < answerFront+a.Size {
		n, err := conn.Read(b[have : answerFront+a.Size])
		if err != nil {
			return s.brokerError(unexpected(err))
		}
		have += n
	}
	conn.Answered()
	n, err := tailOf(p, b[answerFront:have])
	if err != nil {
		return s.badTrail(p, err)
	}
	tail := b[answerFront+n : have]
	if p.rule.trail.bare(tail) {
		return s.deliver(b[:have])
	}
	out, _, err := p.rule.trail.rewriteTail(tail, s.g.routes)
	if err != nil {
		return s.badTrail(p, err)
	}
	at := answerFront + n
	putFront(b, n+len(out), a.CorrelationID)
	if at+len(out) <= len(b) {
		return s.deliver(b[:at+copy(b[at:], out)])
	}
	if err := s.deliver(b[:at]); err != nil {
		return err
	}
	return s.deliver(out)
}

// longTrail streams an answer up to its tail. Nothing of a piece is passed on before the
// walk has been over it.
func (s *session) longTrail(conn *connections.KafkaConnection, p pending, a connections.Answer) *Error {
	buffer := s.g.cfg.Buffers.GetRecord()
	defer s.g.cfg.Buffers.PutRecord(buffer)
	b := *buffer
	putFront(b, a.Size, a.CorrelationID)
	var walk wire.Walk
	walk.Begin(p.rule.answers[p.version], a.Size)
	have := answerFront
	for left := a.Size; left > 0; {
		n, err := conn.Read(b[have:min(len(b), have+left)])
		if err != nil {
			return s.brokerError(unexpected(err))
		}
		left -= n
		passed, done, err := walk.Next(b[have : have+n])
		if err != nil {
			return s.badTrail(p, err)
		}
		if done {
			return s.tail(conn, p, b, have+passed, have+n, left)
		}
		if left == 0 {
			break
		}
		if err := s.deliver(b[:have+n]); err != nil {
			return err
		}
		have = 0
	}
	return s.badTrail(p, errEndsEarly)
}

// tail ends a streamed answer whose tail begins at b[at]; b[:have] was read, and left
// bytes are still to come.
func (s *session) tail(conn *connections.KafkaConnection, p pending, b []byte, at, have, left int) *Error {
	if have+left > len(b) { // what was walked over goes, to make room
		if err := s.deliver(b[:at]); err != nil {
			return err
		}
		have = copy(b, b[at:have])
		at = 0
	}
	if have+left > len(b) && have+left <= wire.BufferSize { // hundreds of addresses
		buffer := s.g.cfg.Buffers.Get()
		defer s.g.cfg.Buffers.Put(buffer)
		have = copy(*buffer, b[:have])
		b = (*buffer)[:wire.BufferSize]
	}
	if have+left > len(b) {
		return s.endlessTail(conn, p, b, have+left, left)
	}
	for left > 0 {
		n, err := conn.Read(b[have : have+left])
		if err != nil {
			return s.brokerError(unexpected(err))
		}
		have += n
		left -= n
	}
	conn.Answered()
	if tail := b[at:have]; !p.rule.trail.bare(tail) {
		out, fitted, err := p.rule.trail.fitTail(tail, s.g.routes)
		if err != nil {
			return s.badTrail(p, err)
		}
		if fitted {
			s.log.Debug("leaders' addresses rewritten at the end of a large answer",
				zap.String("api", kmsg.NameForKey(p.key)), zap.Int16("version", p.version), zap.Int("bytes", len(tail)))
		} else {
			s.overwritten(p, len(tail))
		}
		copy(tail, out)
	}
	return s.deliver(b[:have])
}

// endlessTail puts zeros in the place of a tail of size bytes, of which left are still
// to come: it is more than what leaders' addresses take, and more than is held.
func (s *session) endlessTail(conn *connections.KafkaConnection, p pending, b []byte, size, left int) *Error {
	s.overwritten(p, size)
	for left > 0 {
		n, err := conn.Read(b[:min(len(b), left)])
		if err != nil {
			return s.brokerError(unexpected(err))
		}
		left -= n
	}
	conn.Answered()
	head, zeros := p.rule.trail.emptyTailHead(b[:0], size)
	if err := s.deliver(head); err != nil {
		return err
	}
	clear(b)
	for zeros > 0 {
		n := min(zeros, len(b))
		if err := s.deliver(b[:n]); err != nil {
			return err
		}
		zeros -= n
	}
	return nil
}

func (s *session) overwritten(p pending, size int) {
	s.log.Debug("leaders' addresses left out of a large answer: the gateway's do not fit in their place",
		zap.String("api", kmsg.NameForKey(p.key)), zap.Int16("version", p.version), zap.Int("bytes", size))
}

// badTrail ends the session of a broker whose answer cannot be walked.
func (s *session) badTrail(p pending, err error) *Error {
	return ending(ReasonBrokerFault, SideBroker, unreadable(p, err))
}
