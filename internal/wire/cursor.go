package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// maxString is the longest string that the protocol has in either encoding, in bytes.
const maxString = 1<<15 - 1

// Cursor steps over the primitive types of a message that lies in memory. After an
// error it stands still, and every further step returns zero. What it returns lies in
// the bytes that it was made of. It allocates nothing but errors.
//
// The form of strings and counts is that of versions with tagged fields where flexible
// is true (KIP-482), else the older one. In both, every negative length is null, as Kafka
// reads it.
type Cursor struct {
	b   []byte
	at  int
	err error
}

// NewCursor begins at the first byte of b.
func NewCursor(b []byte) Cursor { return Cursor{b: b} }

// At is how many bytes lie behind the cursor.
func (c *Cursor) At() int { return c.at }

// Err is ErrShort where the bytes ended too early, and wraps ErrFrame where they are
// wrong.
func (c *Cursor) Err() error { return c.err }

// Fail stops the cursor for a reason of the caller's, unless it has stopped already.
func (c *Cursor) Fail(err error) {
	if c.err == nil {
		c.err = err
	}
}

// Complete returns Err, or an error that wraps ErrFrame unless exactly all bytes were
// passed.
func (c *Cursor) Complete() error {
	if errors.Is(c.err, ErrShort) {
		return fmt.Errorf("%w: the body ends too early", ErrFrame)
	}
	if c.err == nil && c.at != len(c.b) {
		return fmt.Errorf("%w: %d bytes behind the body's end", ErrFrame, len(c.b)-c.at)
	}
	return c.err
}

// Skip moves over n bytes; n may come from the bytes themselves.
func (c *Cursor) Skip(n int) {
	switch {
	case c.err != nil:
	case n < 0:
		c.err = fmt.Errorf("%w: negative length %d at byte %d", ErrFrame, n, c.at)
	case n > len(c.b)-c.at:
		c.err = ErrShort
	default:
		c.at += n
	}
}

// Take is Skip that returns the bytes, or nil after an error.
func (c *Cursor) Take(n int) []byte {
	from := c.at
	c.Skip(n)
	if c.err != nil {
		return nil
	}
	return c.b[from:c.at]
}

// Int16 reads 2 bytes.
func (c *Cursor) Int16() int16 {
	if b := c.Take(2); b != nil {
		return int16(binary.BigEndian.Uint16(b)) //nolint:gosec // G115: signed in the protocol
	}
	return 0
}

// Int32 reads 4 bytes.
func (c *Cursor) Int32() int32 {
	if b := c.Take(4); b != nil {
		return int32(binary.BigEndian.Uint32(b)) //nolint:gosec // G115: signed in the protocol
	}
	return 0
}

// Uvarint reads at most 5 bytes, of which the last may hold 4 bits. Encodings that are
// longer than need be are taken, as Kafka takes them.
func (c *Cursor) Uvarint() int {
	var v uint32
	for shift := 0; shift < 35; shift += 7 {
		b := c.Take(1)
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
	c.err = fmt.Errorf("%w: over-long varint at byte %d", ErrFrame, c.at)
	return 0
}

// uncompact is the length or count that a number of the compact form stands for: one less,
// in 32 bits with a sign, as Kafka reckons. So a number of 2^31 + 1 or more is a null too.
func uncompact(n uint32) int { return int(int32(n) - 1) } //nolint:gosec // G115: see above

// String reads a nullable string; nil is null.
func (c *Cursor) String(flexible bool) []byte {
	var n int
	if flexible {
		n = uncompact(uint32(c.Uvarint())) //nolint:gosec // G115: it was read as one
	} else {
		n = int(c.Int16())
	}
	switch {
	case c.err != nil, n < 0:
		return nil
	case n > maxString:
		c.err = fmt.Errorf("%w: a string of %d bytes at byte %d", ErrFrame, n, c.at)
		return nil
	}
	return c.Take(n)
}

// Count reads the length of an array; null counts as empty. It is not to be believed:
// each element has to be there.
func (c *Cursor) Count(flexible bool) int {
	if flexible {
		return max(uncompact(uint32(c.Uvarint())), 0) //nolint:gosec // G115: it was read as one
	}
	return max(int(c.Int32()), 0)
}

// Each runs element count times, and stops at an error. Elements take at least one
// byte each, so that a lying count ends with the bytes.
func (c *Cursor) Each(count int, element func()) {
	for i := 0; i < count && c.err == nil; i++ {
		element()
	}
}

// Tags moves over a section of tagged fields.
func (c *Cursor) Tags() { c.EachTag(nil) }

// EachTag hands every tagged field's number and contents to f.
func (c *Cursor) EachTag(f func(tag int, value []byte)) {
	for n := c.Uvarint(); n > 0 && c.err == nil; n-- {
		tag := c.Uvarint()
		value := c.Take(c.Uvarint())
		if f != nil && c.err == nil {
			f(tag, value)
		}
	}
}
