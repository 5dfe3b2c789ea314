package connections

import (
	"bytes"
	"errors"
	"io"
	"time"

	"doorkeeper/internal/wire"
)

// This file is the way of an own request in the midst of its user's: written by whoever
// renews the session, while no request can begin, and answered to the response side,
// which hands the answer back.

// ownPatience bounds the wait for each answer to an own request, from the moment on at
// which nothing else is in front of it. It covers the time for which a broker leaves a
// throttled connection alone.
const ownPatience = 30 * time.Second

// ownAnswer is the answer that an own request waits for.
type ownAnswer struct {
	correlationID, limit int32
	body                 []byte
	came                 bool
}

// carry sends an own request and waits for its answer. Its errors are the
// connection's end.
func (c *KafkaConnection) carry(frame []byte, correlationID, limit int32) ([]byte, error) {
	c.mu.Lock()
	if !c.ownAllowedLocked() {
		defer c.mu.Unlock()
		return nil, c.closedLocked()
	}
	stream := c.leg.stream
	c.renewal.own = ownAnswer{correlationID: correlationID, limit: limit}
	request, now := Request{Answered: true, own: true}, time.Now()
	c.assertBeginLocked(request, now)
	c.books.begin(request, now)
	c.changed.Broadcast()
	c.mu.Unlock()

	if err := c.sendOwn(stream, frame); err != nil {
		return nil, c.fail(err, true)
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	c.boundOwnLocked()
	for !c.renewal.own.came {
		if !c.ownAllowedLocked() {
			return nil, c.closedLocked()
		}
		c.changed.Wait()
	}
	return c.renewal.own.body, nil
}

// sendOwn writes an own request, which no other may be half written in front of.
func (c *KafkaConnection) sendOwn(stream *wire.Stream, frame []byte) error {
	_ = stream.SetWriteDeadline(time.Now().Add(c.stall + c.stall/4)) // no earlier than the request side believes
	if _, err := stream.Write(frame); err != nil {
		return err
	}
	return stream.Flush()
}

// ownAllowedLocked tells whether the connection is in the midst of a renewal: on the leg,
// or of one that drains it.
func (c *KafkaConnection) ownAllowedLocked() bool {
	return c.state == Reauthenticating || c.state == Draining && c.drain == notDraining
}

// boundOwnLocked bounds the wait for an own answer, once nothing else is in front of
// it. Whoever is about to wait for it calls this, so that the time in which a slow
// client keeps the response side from reading does not count.
func (c *KafkaConnection) boundOwnLocked() {
	if c.books.ownNext() && (c.ownAllowedLocked() || c.renewal.fencing) {
		_ = c.leg.stream.SetReadDeadline(time.Now().Add(ownPatience))
	}
}

// awaitJudgement keeps the response side from reading on while the request side acts on
// an own answer: a broker that refuses closes behind its answer, and the refusal is the
// cause, not the close.
func (c *KafkaConnection) awaitJudgement() {
	waited := false
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.state == Reauthenticating && c.renewal.own.came {
		if !waited && c.beforeWait != nil {
			waited = true
			c.mu.Unlock()
			c.beforeWait()
			c.mu.Lock()
			continue
		}
		c.changed.Wait()
	}
}

// takeOwn reads an answer to an own request and hands it to the request side.
func (c *KafkaConnection) takeOwn(length, correlationID int32) error {
	c.mu.Lock()
	own := c.renewal.own
	c.mu.Unlock()
	switch {
	case length > own.limit:
		return c.fail(hostile("an answer of %d bytes (%q): 4 to %d are taken here", length, c.head[:4], own.limit), true)
	case correlationID != own.correlationID:
		return c.fail(hostile("correlation id %d where %d is due", correlationID, own.correlationID), true)
	}
	var body bytes.Buffer // grows with the bytes that come
	if _, err := io.CopyN(&body, readOnly{c.in.stream}, int64(length)-4); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return c.fail(err, true)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.in.stream.SetReadDeadline(time.Time{})
	c.books.answered(time.Now())
	c.renewal.own.body, c.renewal.own.came = body.Bytes(), true
	c.renewal.fencing = false
	c.changed.Broadcast()
	return nil
}
