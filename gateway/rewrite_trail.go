package gateway

import (
	"encoding/binary"
	"fmt"

	"doorkeeper/internal/wire"
)

// trail is how an answer ends with leaders' addresses. Its tail is everything from where
// they begin to the end of the frame.
type trail uint8

const (
	// trailTag: the tail is the section of tagged fields behind the body, of which number
	// 0 are the addresses (KIP-951). Nearly all answers have none.
	trailTag trail = iota
	// trailField: the tail is an array of the addresses, and the section of tagged fields
	// (KIP-932).
	trailField
)

// tailOf walks over a whole answer, from behind its correlation id, and returns where its
// tail begins.
func tailOf(p pending, answer []byte) (int, error) {
	var walk wire.Walk
	walk.Begin(p.rule.answers[p.version], len(answer))
	n, done, err := walk.Next(answer)
	if err == nil && !done {
		err = errEndsEarly
	}
	return n, err
}

var errEndsEarly = fmt.Errorf("%w: the body ends too early", wire.ErrFrame)

// bare tells of a tail that holds nothing, as nearly all do.
func (t trail) bare(tail []byte) bool {
	if t == trailTag {
		return len(tail) == 1 && tail[0] == 0
	}
	return len(tail) == 2 && tail[0] == 1 && tail[1] == 0
}

// rewriteTail replaces the addresses in a tail. Brokers that have none at the gateway
// are left out. It returns the same bytes where nothing changes; where the section of
// tagged fields begins in them; and an error that wraps wire.ErrFrame when it cannot be
// read.
func (t trail) rewriteTail(tail []byte, at advertiser) (out []byte, tags int, err error) {
	s := newSplice(tail, at)
	if t == trailField {
		s.list(true, s.endpoint)
		tags = s.At() - s.copied + len(s.out)
		s.Tags()
		if err := s.Complete(); err != nil {
			return nil, 0, err
		}
		return s.result(), tags, nil
	}
	begin := s.At()
	n := s.Uvarint()
	end := s.At()
	kept := 0
	for i := 0; i < n && s.Err() == nil; i++ {
		if s.tag() {
			kept++
		}
	}
	if err := s.Complete(); err != nil {
		return nil, 0, err
	}
	if kept < n {
		s.recount(begin, end-begin, binary.AppendUvarint(nil, uint64(kept)))
	}
	return s.result(), 0, nil
}

// endpoint is one leader: node, host, port, rack.
func (s *splice) endpoint() (stays bool) {
	stays = s.address(s.Int32(), true)
	s.String(true) // rack
	s.Tags()
	return stays
}

// tag is one tagged field of a tail; number 0 holds the leaders. Where none of them
// stays it goes, as Kafka and its clients leave out an empty one.
func (s *splice) tag() (stays bool) {
	from := s.At()
	number := s.Uvarint()
	sizeAt := s.At()
	size := s.Uvarint()
	valueAt := s.At()
	value := s.Take(size)
	if s.Err() != nil || number != 0 {
		return true
	}
	inner := newSplice(value, s.at)
	kept := inner.list(true, inner.endpoint)
	if err := inner.Complete(); err != nil {
		s.Fail(err)
		return false
	}
	if kept == 0 {
		s.replace(from, s.At(), nil)
		return false
	}
	if inner.changed() {
		by := inner.result()
		s.replace(sizeAt, valueAt, binary.AppendUvarint(nil, uint64(len(by))))
		s.replace(valueAt, s.At(), by)
	}
	return true
}

// fitTail is rewriteTail for a tail whose length is already with the client. Where the
// gateway's addresses take as many bytes, they are in it; where they take less, it is
// filled up; where they take more, there are none in it, and clients ask for Metadata.
func (t trail) fitTail(tail []byte, at advertiser) (out []byte, fitted bool, err error) {
	out, tags, err := t.rewriteTail(tail, at)
	if err != nil {
		return nil, false, err
	}
	if out, ok := stretch(out, tags, len(tail)); ok {
		return out, true, nil
	}
	if out, tags, err = t.rewriteTail(tail, nobody{}); err != nil {
		return nil, false, err
	}
	if out, ok := stretch(out, tags, len(tail)); ok {
		return out, false, nil
	}
	return t.emptyTail(nil, len(tail)), false, nil
}

// nobody has no address for any broker.
type nobody struct{}

func (nobody) advertise(int32) (host string, port int32, ok bool) { return "", 0, false }

// filler is the number of the unknown tagged field that fills a tail: the highest of
// one byte, as far as can be from those that Kafka gives out, which count up from 0.
const filler = 0x7f

// stretch makes a tail size bytes long without changing what it says: by one byte with
// a number of tagged fields that is encoded longer than need be, by more with a tagged
// field that nobody knows. It fails where the tail is longer already, and where what it
// has is in the way.
func stretch(tail []byte, tags, size int) ([]byte, bool) {
	gap := size - len(tail)
	if gap <= 0 {
		return tail, gap == 0
	}
	c := wire.NewCursor(tail[tags:])
	n := c.Uvarint()
	width := c.At()
	if gap == 1 {
		if width >= maxVarint {
			return nil, false
		}
		return concat(size, tail[:tags], overlong(n, width+1), tail[tags+width:]), true
	}
	for range n {
		if c.Uvarint() == filler {
			return nil, false
		}
		c.Take(c.Uvarint())
	}
	count := binary.AppendUvarint(nil, uint64(n)+1) //nolint:gosec // G115: not negative
	if len(count) < width {
		count = overlong(n+1, width)
	}
	if gap -= len(count) - width; gap < 2 {
		return nil, false
	}
	return appendFiller(concat(size, tail[:tags], count, tail[tags+width:]), gap), true
}

// maxVarint is the longest encoding of a varint, in bytes.
const maxVarint = 5

// overlong encodes n in width bytes.
func overlong(n, width int) []byte {
	b := make([]byte, width)
	for i := range b {
		b[i] = byte(n>>(7*i)&0x7f) | 0x80
	}
	b[width-1] &= 0x7f
	return b
}

func concat(size int, parts ...[]byte) []byte {
	b := make([]byte, 0, size)
	for _, p := range parts {
		b = append(b, p...)
	}
	return b
}

// appendFiller appends a tagged field of size bytes, at least 2, all zeros inside.
func appendFiller(b []byte, size int) []byte {
	b, zeros := appendFillerHead(b, size)
	return append(b, make([]byte, zeros)...)
}

func appendFillerHead(b []byte, size int) (head []byte, zeros int) {
	width := 1
	for width < maxVarint && size-1-width >= 1<<(7*width) {
		width++
	}
	zeros = size - 1 - width
	return append(append(b, filler), overlong(zeros, width)...), zeros
}

// emptyTail appends a tail of size bytes that holds nothing but zeros: what takes the
// place of one that is too long to be held, or cannot be filled up.
func (t trail) emptyTail(b []byte, size int) []byte {
	b, zeros := t.emptyTailHead(b, size)
	return append(b, make([]byte, zeros)...)
}

// emptyTailHead appends what an empty tail of size bytes has before its zeros, and
// returns how many those are.
func (t trail) emptyTailHead(b []byte, size int) (head []byte, zeros int) {
	if t == trailField {
		b = append(b, 1) // no addresses
		size--
	}
	return appendFillerHead(append(b, 1), size-1)
}
