package wire

import (
	"fmt"
)

// Layout is the order of the fields of one message at one version, as far as a Walk
// has to go into it. It is made once and never changes.
//
// Kafka's own message definitions read the same, top to bottom; the functions that make
// layouts (layouts.go) can be held against them line by line.
type Layout struct {
	steps    []step
	flexible bool // strings, arrays and bytes have the compact form (KIP-482)
}

// step is one thing that a Walk does: it moves over bytes that are always as many, or
// reads a number and does with it what it stands for.
type step struct {
	read number
	do   deed
	n    int // of fixed: bytes; of times: bytes of an element; of loop and again: a step
}

// number is how a step's number is written.
type number uint8

const (
	none    number = iota
	short          // int16
	long           // int32
	varint         // unsigned varint, at most 5 bytes
	compact        // the same, one above what it stands for; 0 is null
)

// deed is what a step does.
type deed uint8

const (
	fixed  deed = iota // moves over n bytes
	length             // moves over as many bytes as the number says
	times              // moves over as many elements of n bytes
	loop               // does the steps up to its again as many times; else goes to n
	again              // ends a loop's turn; n is its first step
	forget             // does nothing with the number
	keep               // keeps it as Walk.Value
)

// maxLoops bounds how deep arrays and tags lie in each other.
const maxLoops = 6

func (l *Layout) sized(classic, flexible number) number {
	if l.flexible {
		return flexible
	}
	return classic
}

// fixed is a run of fields that together take n bytes at all times.
func (l *Layout) fixed(n int) {
	if last := len(l.steps) - 1; last >= 0 && l.steps[last].read == none && l.steps[last].do == fixed {
		l.steps[last].n += n
		return
	}
	l.steps = append(l.steps, step{none, fixed, n})
}

// string is a string, null or not.
func (l *Layout) string() { l.steps = append(l.steps, step{l.sized(short, compact), length, 0}) }

// bytes is a field such as records: bytes behind their number, null or not.
func (l *Layout) bytes() { l.steps = append(l.steps, step{l.sized(long, compact), length, 0}) }

// fixedArray is an array of elements that take n bytes each at all times.
func (l *Layout) fixedArray(n int) {
	l.steps = append(l.steps, step{l.sized(long, compact), times, n})
}

// array is an array whose elements have these fields.
func (l *Layout) array(fields func()) { l.loop(l.sized(long, compact), fields) }

// tags is a section of tagged fields, where the version has any.
func (l *Layout) tags() {
	if !l.flexible {
		return
	}
	l.loop(varint, func() {
		l.steps = append(l.steps, step{varint, forget, 0}, step{varint, length, 0})
	})
}

func (l *Layout) loop(count number, body func()) {
	begin := len(l.steps)
	l.steps = append(l.steps, step{count, loop, 0})
	body()
	l.steps = append(l.steps, step{none, again, begin + 1})
	l.steps[begin].n = len(l.steps)
}

// value is an int32 that the Walk keeps.
func (l *Layout) value() { l.steps = append(l.steps, step{long, keep, 0}) }

// Walk moves through one message along a Layout, however the bytes are cut into pieces.
// It holds none of them, looks at no record, and allocates nothing but errors. Its zero
// value is of no use; Begin makes it ready, again and again.
type Walk struct {
	layout *Layout
	// Value is what the layout has the Walk keep.
	Value int32

	at    int // the next step
	pass  int // bytes to be moved over before it
	left  int // bytes of the message that were not given yet
	num   uint32
	have  int // bytes of the number that is being read
	err   error
	depth int
	loops [maxLoops]int // turns that each open loop has left, this one included
}

// Begin starts with a message of size bytes.
func (w *Walk) Begin(l *Layout, size int) { *w = Walk{layout: l, left: size} }

// Next takes the next bytes of the message. It returns how many of them belong to what
// the layout describes, and whether that ended with them; then what is left of p, and
// of the message, lies behind it. After an error, which wraps ErrFrame, there is no
// going on: a length in the message leads out of it, or is none.
func (w *Walk) Next(p []byte) (n int, done bool, err error) {
	for w.err == nil {
		if k := min(w.pass, len(p)-n); k > 0 {
			w.pass -= k
			n += k
			w.left -= k
		}
		switch {
		case w.pass > 0:
			return n, false, nil
		case w.at == len(w.layout.steps):
			return n, true, nil
		}
		s := &w.layout.steps[w.at]
		if s.read == none {
			w.move(s)
			continue
		}
		for more := true; more && w.err == nil; {
			if n == len(p) {
				return n, false, nil
			}
			w.left--
			more = w.number(s.read, p[n])
			n++
		}
		if w.err == nil {
			w.act(s)
		}
		w.num, w.have = 0, 0
	}
	return n, false, w.err
}

// move does a step without a number.
func (w *Walk) move(s *step) {
	w.at++
	if s.do == fixed {
		w.skip(s.n)
		return
	}
	if w.loops[w.depth-1]--; w.loops[w.depth-1] > 0 {
		w.at = s.n
		return
	}
	w.depth--
}

// number takes another byte of a number, and tells whether there are more.
func (w *Walk) number(form number, b byte) (more bool) {
	w.have++
	switch form {
	case short:
		w.num = w.num<<8 | uint32(b)
		return w.have < 2
	case long:
		w.num = w.num<<8 | uint32(b)
		return w.have < 4
	}
	if w.have == 5 && b > 0x0f {
		w.err = fmt.Errorf("%w: over-long varint", ErrFrame)
		return false
	}
	w.num |= uint32(b&0x7f) << (7 * (w.have - 1))
	return b >= 0x80
}

// act does a step whose number has been read.
func (w *Walk) act(s *step) {
	w.at++
	var n int
	switch s.read {
	case short:
		n = int(int16(w.num)) //nolint:gosec // G115: signed in the protocol
	case long:
		n = int(int32(w.num)) //nolint:gosec // G115: signed in the protocol
	case compact:
		n = uncompact(w.num)
	default:
		n = int(w.num)
	}
	switch s.do {
	case keep:
		w.Value = int32(n) //nolint:gosec // G115: it was read as one
		return
	case forget:
		return
	}
	n = max(n, 0) // null, which is -1, or whatever is negative: so Kafka reads it
	switch {
	case s.do == length:
		w.skip(n)
	case s.do == times:
		w.skip(n * s.n)
	case n > w.left: // each element takes a byte at least
		w.err = fmt.Errorf("%w: an array of %d elements with %d bytes to come", ErrFrame, n, w.left)
	case n == 0:
		w.at = s.n
	default:
		w.loops[w.depth] = n
		w.depth++
	}
}

// skip moves over bytes that have to be there.
func (w *Walk) skip(n int) {
	if n > w.left {
		w.err = fmt.Errorf("%w: a field of %d bytes with %d to come", ErrFrame, n, w.left)
		return
	}
	w.pass = n
}
