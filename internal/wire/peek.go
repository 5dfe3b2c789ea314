package wire

import (
	"errors"
	"fmt"
	"time"
)

// What the gateway has to know of a request's body before it passes the bytes on.

// ProducePeek is the head of a Produce request's body.
type ProducePeek struct {
	Acks    int16
	Timeout time.Duration
}

// PeekProduce reads a Produce body (any version) up to its timeout. ErrShort: b
// ends before that.
func PeekProduce(b []byte, version int16) (ProducePeek, error) {
	w := walker{b: b}
	if version >= 3 {
		w.skipString(version >= 9)
	}
	acks := w.int16()
	timeout := w.int32()
	return ProducePeek{Acks: acks, Timeout: time.Duration(timeout) * time.Millisecond}, w.err
}

// FetchPeek is what matters of a Fetch request.
type FetchPeek struct {
	// ReplicaID is negative for consumers: -1, and -2 for the debug consumer.
	ReplicaID int32
	MaxWait   time.Duration
}

// PeekFetch reads a Fetch body. Up to version 14 the head is enough; from 15 on the
// replica id is a tag behind everything else (KIP-903), so the whole body has to be
// there: the whole is walked, and what does not end with it is an error.
func PeekFetch(b []byte, version int16) (FetchPeek, error) {
	w := walker{b: b}
	if version < 15 {
		replica := w.int32()
		wait := w.int32()
		return FetchPeek{ReplicaID: replica, MaxWait: time.Duration(wait) * time.Millisecond}, w.err
	}
	p := FetchPeek{ReplicaID: -1, MaxWait: time.Duration(w.int32()) * time.Millisecond}
	w.skip(4 + 4 + 1 + 4 + 4) // min and max bytes, isolation level, session id and epoch
	w.each(w.count(true), func() {
		w.skip(16) // topic id
		w.each(w.count(true), func() {
			w.skip(4 + 4 + 8 + 4 + 8 + 4) // partition, epochs, offsets, max bytes
			w.tags()
		})
		w.tags()
	})
	w.each(w.count(true), func() { // forgotten topics
		w.skip(16)
		w.skip(4 * w.count(true))
		w.tags()
	})
	w.skipString(true) // rack
	const replicaState = 1
	w.eachTag(func(tag int, value []byte) {
		if tag == replicaState {
			inner := walker{b: value}
			p.ReplicaID = inner.int32()
			w.err = inner.err
		}
	})
	return p, w.complete()
}

// complete tells whether exactly all bytes were walked.
func (w *walker) complete() error {
	if errors.Is(w.err, ErrShort) {
		return fmt.Errorf("%w: the body ends too early", ErrFrame)
	}
	if w.err == nil && w.at != len(w.b) {
		return fmt.Errorf("%w: %d bytes behind the body's end", ErrFrame, len(w.b)-w.at)
	}
	return w.err
}

// ProduceHasEndpoints tells whether a whole Produce answer, version 10 to 12,
// carries tagged fields behind its body, which is where brokers put the leaders'
// addresses (KIP-951). Nearly all answers carry none and can pass as they are.
func ProduceHasEndpoints(b []byte, version int16) (bool, error) {
	w := walker{b: b}
	w.each(w.count(true), func() {
		if version >= 13 {
			w.skip(16) // topic id (KIP-516)
		} else {
			w.skipString(true)
		}
		w.each(w.count(true), func() {
			w.skip(4 + 2 + 8 + 8 + 8) // index, error, base offset, append time, start offset
			w.each(w.count(true), func() {
				w.skip(4)
				w.skipString(true)
				w.tags()
			})
			w.skipString(true)
			w.tags()
		})
		w.tags()
	})
	w.skip(4) // throttle time
	n := 0
	w.eachTag(func(int, []byte) { n++ })
	return n > 0, w.complete()
}
