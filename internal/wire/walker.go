package wire

import (
	"encoding/binary"
	"fmt"
)

// walker steps over Kafka's primitive types without decoding what it does not
// need. After an error it stands still and every further step returns zero. It
// allocates nothing but errors.
type walker struct {
	b   []byte
	at  int
	err error
}

// skip moves over n bytes; n may come from the bytes themselves.
func (w *walker) skip(n int) {
	switch {
	case w.err != nil:
	case n < 0:
		w.err = fmt.Errorf("%w: negative length %d at byte %d", ErrFrame, n, w.at)
	case n > len(w.b)-w.at:
		w.err = ErrShort
	default:
		w.at += n
	}
}

// take is skip that returns the bytes, or nil after an error.
func (w *walker) take(n int) []byte {
	from := w.at
	w.skip(n)
	if w.err != nil {
		return nil
	}
	return w.b[from:w.at]
}

func (w *walker) int16() int16 {
	if b := w.take(2); b != nil {
		return int16(binary.BigEndian.Uint16(b)) //nolint:gosec // G115: signed in the protocol
	}
	return 0
}

func (w *walker) int32() int32 {
	if b := w.take(4); b != nil {
		return int32(binary.BigEndian.Uint32(b)) //nolint:gosec // G115: signed in the protocol
	}
	return 0
}

// uvarint reads at most 5 bytes, of which the last may hold 4 bits.
func (w *walker) uvarint() int {
	var v uint32
	for shift := 0; shift < 35; shift += 7 {
		b := w.take(1)
		if b == nil {
			return 0
		}
		if shift == 28 && b[0] > 0x0f {
			break
		}
		v |= uint32(b[0]&0x7f) << shift
		if b[0] < 0x80 {
			return int(v)
		}
	}
	w.err = fmt.Errorf("%w: over-long varint at byte %d", ErrFrame, w.at)
	return 0
}

// nullableString reads an int16-length string; nil is null.
func (w *walker) nullableString() []byte {
	n := w.int16()
	if n == -1 || w.err != nil {
		return nil
	}
	return w.take(int(n))
}

// skipString moves over a nullable string of either encoding.
func (w *walker) skipString(flexible bool) {
	if !flexible {
		w.nullableString()
		return
	}
	if n := w.uvarint(); n > 1 {
		w.skip(n - 1)
	}
}

// count reads the length of an array of either encoding; null counts as empty.
// The count itself is not believed: each element has to be there.
func (w *walker) count(flexible bool) int {
	if flexible {
		return max(w.uvarint()-1, 0)
	}
	n := w.int32()
	if n < -1 {
		w.err = fmt.Errorf("%w: negative array length %d at byte %d", ErrFrame, n, w.at)
	}
	return max(int(n), 0)
}

// each runs element count times, and stops at an error. Elements take at least
// one byte each, so a lying count ends with the bytes.
func (w *walker) each(count int, element func()) {
	for i := 0; i < count && w.err == nil; i++ {
		element()
	}
}

// tags moves over a section of tagged fields (KIP-482).
func (w *walker) tags() { w.eachTag(nil) }

// eachTag hands every tagged field's number and contents to f.
func (w *walker) eachTag(f func(tag int, value []byte)) {
	for n := w.uvarint(); n > 0 && w.err == nil; n-- {
		tag := w.uvarint()
		value := w.take(w.uvarint())
		if f != nil && w.err == nil {
			f(tag, value)
		}
	}
}
