package wire

import (
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
	w := Cursor{b: b}
	if version >= 3 {
		w.String(version >= 9)
	}
	acks := w.Int16()
	timeout := w.Int32()
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
	w := Cursor{b: b}
	if version < 15 {
		replica := w.Int32()
		wait := w.Int32()
		return FetchPeek{ReplicaID: replica, MaxWait: time.Duration(wait) * time.Millisecond}, w.err
	}
	p := FetchPeek{ReplicaID: -1, MaxWait: time.Duration(w.Int32()) * time.Millisecond}
	w.Skip(4 + 4 + 1 + 4 + 4) // min and max bytes, isolation level, session id and epoch
	w.Each(w.Count(true), func() {
		w.Skip(16) // topic id
		w.Each(w.Count(true), func() {
			w.Skip(4 + 4 + 8 + 4 + 8 + 4) // partition, epochs, offsets, max bytes
			w.Tags()
		})
		w.Tags()
	})
	w.Each(w.Count(true), func() { // forgotten topics
		w.Skip(16)
		w.Skip(4 * w.Count(true))
		w.Tags()
	})
	w.String(true) // rack
	const replicaState = 1
	w.EachTag(func(tag int, value []byte) {
		if tag == replicaState {
			inner := Cursor{b: value}
			p.ReplicaID = inner.Int32()
			w.err = inner.err
		}
	})
	return p, w.Complete()
}
