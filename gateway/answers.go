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

// maxDecoded bounds an answer that is decoded to rewrite it, in bytes: a Metadata
// answer of half a million partitions.
const maxDecoded = 32 << 20

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
	switch {
	case p.rule.action == actionForward:
		err = s.stream(conn, a)
	case a.Size > maxDecoded:
		err = endingf(ReasonAnswerSize, SideGateway, "%s v%d answer of %d bytes: it carries addresses, and %d is the most that is decoded", kmsg.NameForKey(p.key), p.version, a.Size, maxDecoded)
	default:
		err = s.decode(conn, p, a)
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

// stream passes an answer through a borrowed buffer, length, header and first bytes
// in one TLS record.
func (s *session) stream(conn *connections.KafkaConnection, a connections.Answer) *Error {
	buffer := s.g.cfg.Buffers.Get()
	defer s.g.cfg.Buffers.Put(buffer)
	b := (*buffer)[:wire.BufferSize]
	binary.BigEndian.PutUint32(b, uint32(a.Size+4))                          //nolint:gosec // G115: it came as 4 bytes
	binary.BigEndian.PutUint32(b[wire.LengthSize:], uint32(a.CorrelationID)) //nolint:gosec // G115: signed in the protocol
	have := wire.LengthSize + 4
	left := a.Size
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

// decode reads a whole answer, rewrites it and passes it on. Memory grows with what
// came, not with what was declared.
func (s *session) decode(conn *connections.KafkaConnection, p pending, a connections.Answer) *Error {
	if a.Size > wholeForFree {
		if err := s.g.answers.Acquire(s.ctx, int64(a.Size)); err != nil {
			return s.ended.Load()
		}
		defer s.g.answers.Release(int64(a.Size))
	}
	buffer := s.g.cfg.Buffers.Get()
	defer s.g.cfg.Buffers.Put(buffer)
	const front = wire.LengthSize + 4
	b := (*buffer)[:front]
	for len(b) < front+a.Size {
		if len(b) == cap(b) {
			b = append(make([]byte, 0, min(2*cap(b), front+a.Size)), b...)
		}
		n, err := conn.Read(b[len(b):min(cap(b), front+a.Size)])
		if err != nil {
			return s.brokerError(unexpected(err))
		}
		b = b[:len(b)+n]
	}
	conn.Answered()
	answer := b[front:]
	if untouched(p, answer) {
		binary.BigEndian.PutUint32(b, uint32(a.Size+4))                          //nolint:gosec // G115: bounded by maxDecoded
		binary.BigEndian.PutUint32(b[wire.LengthSize:], uint32(a.CorrelationID)) //nolint:gosec // G115: signed in the protocol
		return s.deliver(b)
	}
	var out []byte
	var err error
	if p.rule.action == actionTrim {
		out, err = trimVersions(nil, p, s.g.policy, answer)
	} else {
		out, err = rewriteAnswer(nil, p, s.g.routes, answer)
	}
	if err != nil {
		return ending(ReasonBrokerFault, SideBroker, err)
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
