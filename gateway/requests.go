package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"doorkeeper/connections"
	"doorkeeper/internal/wire"
)

// requests is the request loop. It returns the session's end.
func (s *session) requests() *Error {
	for {
		size, err := s.nextFrame()
		if err != nil {
			return s.cause(err)
		}
		if err := s.request(size); err != nil {
			return s.cause(err)
		}
	}
}

// cause is the session's end: an earlier one if there is one, since that is what
// made the call fail.
func (s *session) cause(err error) *Error {
	if e := s.ended.Load(); e != nil {
		return e
	}
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return clientError(err)
}

// request takes one request to where it belongs.
func (s *session) request(head [wire.LengthSize]byte) error {
	size, err := wire.RequestLength(head, s.g.cfg.Limits.Frame)
	if err != nil {
		return ending(ReasonBadRequest, SideClient, err)
	}
	f := frame{bytes: append(s.small[:0], head[:]...), size: size}
	defer s.letGo()
	s.begin()
	if err := s.classify(&f); err != nil {
		return err
	}
	if f.refuse != "" {
		return endingf(ReasonRefusedAPI, SideClient, "%s v%d: %s", kmsg.NameForKey(f.header.Key), f.header.Version, f.refuse)
	}
	s.nRequests++
	if f.rule.action == actionAnswer {
		return s.answerHere(&f)
	}
	if err := s.connect(&f); err != nil {
		return err
	}
	return s.forward(&f)
}

// classify reads as much of the frame as it takes to know its rule and what its
// body asks for: the header for most, all of it for some.
func (s *session) classify(f *frame) error {
	for {
		switch err := s.inspect(f); {
		case err == nil:
			return nil
		case !errors.Is(err, wire.ErrShort):
			return err
		case f.whole():
			return endingf(ReasonBadRequest, SideClient, "%w: the request ends within its header", wire.ErrFrame)
		}
		if len(f.bytes) >= wire.BufferSize {
			if f.rule != nil && f.rule.wait == waitField {
				// Not worth holding: nothing is written behind it for as long as it takes.
				f.inspection = inspection{answered: true, wait: connections.Unbounded}
				return nil
			}
			if f.size > maxWhole {
				return endingf(ReasonBadRequest, SideClient, "%w: %d bytes, and it has to be held whole, for which %d is the most", wire.ErrFrame, f.size, maxWhole)
			}
		}
		if err := s.fill(f); err != nil {
			return err
		}
	}
}

// inspect applies the policy to what is there of the frame.
func (s *session) inspect(f *frame) error {
	h, err := wire.Peek(f.payload())
	if err != nil {
		return err
	}
	r, served := s.g.policy.rule(h.Key, h.Version)
	if !served && !(h.Key == int16(kmsg.ApiVersions) && h.Version > r.max) {
		return endingf(ReasonRefusedAPI, SideClient, "API key %d version %d is not served: %s", h.Key, h.Version, r.refusal(h.Version))
	}
	f.rule = r
	if !served { // an ApiVersions that is too new is answered, whatever its header looks like
		f.header, f.inspection = h, inspection{answered: true}
		return s.wholeOrShort(f)
	}
	if f.header, err = wire.ParseHeader(f.payload(), r.flexibleAt(h.Version)); err != nil {
		if errors.Is(err, wire.ErrShort) {
			return err
		}
		return ending(ReasonBadRequest, SideClient, err)
	}
	switch {
	case r.action == actionAnswer, !s.started && r.action == actionTrim:
		if err := s.wholeOrShort(f); err != nil {
			return err
		}
	}
	f.inspection, err = r.inspect(h.Version, f.payload()[f.header.Size:], f.size-f.header.Size)
	if err != nil && !errors.Is(err, wire.ErrShort) {
		return endingf(ReasonBadRequest, SideClient, "%s v%d: %w", kmsg.NameForKey(h.Key), h.Version, err)
	}
	return err
}

func (s *session) wholeOrShort(f *frame) error {
	if f.whole() {
		return nil
	}
	return wire.ErrShort
}

// forward passes a request to the broker: what was read of it, then the rest as it
// comes.
func (s *session) forward(f *frame) error {
	conn := s.conn.Load()
	p := pending{correlationID: f.header.CorrelationID, key: f.header.Key, version: f.header.Version, rule: f.rule}
	if f.header.Version > f.rule.max { // only ApiVersions gets here with such a version
		p.local = tooNewVersions(f.header.CorrelationID, s.versionsRange(conn))
		s.started = true
		return s.answer(p)
	}
	if f.answered {
		if err := s.await(conn, p); err != nil {
			return err
		}
	}
	began := time.Now()
	if err := conn.Begin(connections.Request{Wait: f.wait, Answered: f.answered, Ties: f.rule.tie == tieShare}); err != nil {
		return s.brokerError(err)
	}
	if _, err := conn.Write(f.bytes); err != nil {
		return s.brokerError(err)
	}
	for left := f.size - len(f.payload()); left > 0; {
		s.blocked += time.Since(began)
		piece, err := s.piece(left)
		if err != nil {
			return err
		}
		left -= len(piece)
		began = time.Now()
		if _, err := conn.Write(piece); err != nil {
			return s.brokerError(err)
		}
	}
	s.started = true
	if err := conn.End(); err != nil {
		return s.brokerError(err)
	}
	return nil
}

// await queues a request for its answer. Where the queue is full, what was
// forwarded has to go out before waiting for room.
func (s *session) await(conn *connections.KafkaConnection, p pending) error {
	if s.queue.tryPush(p) {
		return nil
	}
	if err := conn.Flush(); err != nil {
		return s.brokerError(err)
	}
	return s.queue.push(s.ctx, p)
}

// makeRoom waits until the queue, which was full, has room, or the session ends.
func (s *session) makeRoom() error {
	if err := s.conn.Load().Flush(); err != nil {
		return s.brokerError(err)
	}
	select {
	case <-s.queue.room:
		return nil
	case <-s.ctx.Done():
		return context.Cause(s.ctx)
	}
}

// answerHere answers a request that no broker may see.
func (s *session) answerHere(f *frame) error {
	p := pending{correlationID: f.header.CorrelationID, key: f.header.Key, version: f.header.Version, rule: f.rule}
	p.local = localAnswer(p)
	s.started = true
	s.log.Debug("answered here", zap.String("api", kmsg.NameForKey(p.key)), zap.Int16("version", p.version))
	return s.answer(p)
}

// answer gives a client an answer made here, in its turn.
func (s *session) answer(p pending) error {
	for {
		queued, full := s.queue.pushLocal(p)
		if queued {
			return nil
		}
		if !full {
			break
		}
		// Once there is room, everything may have been answered: then it is not for the
		// queue any more, since nobody would come by to take it out.
		if err := s.makeRoom(); err != nil {
			return err
		}
	}
	// Nothing is awaited, so the answer goroutine writes nothing either.
	_ = s.client.SetWriteDeadline(time.Now().Add(s.g.cfg.Timeouts.Stall))
	if _, err := s.client.Write(p.local); err != nil {
		return clientError(err)
	}
	if err := s.client.Flush(); err != nil {
		return clientError(err)
	}
	return nil
}

// versionsRange is what ApiVersions versions the gateway and the broker share.
func (s *session) versionsRange(conn *connections.KafkaConnection) versionRange {
	r := versionRange{max: s.g.policy[kmsg.ApiVersions].max}
	for _, k := range conn.Versions().ApiKeys {
		if k.ApiKey == int16(kmsg.ApiVersions) {
			r.min, r.max = k.MinVersion, min(r.max, k.MaxVersion)
		}
	}
	return r
}

// brokerError names what a failed call on the broker leg means.
func (s *session) brokerError(err error) *Error {
	var e *connections.Error
	switch {
	case errors.Is(err, connections.ErrSessionEnding):
		return ending(ReasonSessionEnding, SideBroker, nil)
	case errors.As(err, &e) && (e.Phase == connections.PhaseMechanism || e.Phase == connections.PhaseAuthenticate):
		return ending(ReasonRenewal, SideBroker, err)
	case errors.Is(err, io.EOF):
		return endingf(ReasonBrokerLost, SideBroker, "node %d closed the connection", s.node)
	case errors.As(err, &e) && e.Fault == connections.Hostile:
		return ending(ReasonBrokerFault, SideBroker, err)
	case errors.Is(err, context.Canceled):
		return ending(ReasonShutdown, SideGateway, nil)
	}
	return ending(ReasonBrokerLost, SideBroker, fmt.Errorf("node %d: %w", s.node, err))
}
