package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// MaxHeader bounds a request header with its client id and tags, in bytes. A
// header without tags has at most 32,777.
const MaxHeader = 60 << 10

// ErrShort means that the bytes at hand end before what is asked for does. It is
// no fault as long as the frame has more.
var ErrShort = errors.New("more bytes needed")

// Header is a request header, version 1 or 2 (KIP-482).
type Header struct {
	Key           int16
	Version       int16
	CorrelationID int32
	// ClientID lies in the bytes that were parsed; nil is Kafka's null.
	ClientID []byte
	// Size is how many bytes the header takes: the body begins there.
	Size int
}

// Peek reads key, version and correlation id, which every header begins with.
// The rest cannot be read before the key's first flexible version is known.
func Peek(b []byte) (Header, error) {
	if len(b) < MinRequest {
		return Header{}, ErrShort
	}
	return Header{
		Key:           int16(binary.BigEndian.Uint16(b)),     //nolint:gosec // G115: signed in the protocol
		Version:       int16(binary.BigEndian.Uint16(b[2:])), //nolint:gosec // G115: signed in the protocol
		CorrelationID: int32(binary.BigEndian.Uint32(b[4:])), //nolint:gosec // G115: signed in the protocol
		Size:          MinRequest,
	}, nil
}

// ParseHeader reads a whole header: version 2 where flexible, else 1. It returns
// ErrShort when b ends too early, and an error that wraps ErrFrame when no further
// bytes could mend it.
func ParseHeader(b []byte, flexible bool) (Header, error) {
	h, err := Peek(b)
	if err != nil {
		return h, err
	}
	w := Cursor{b: b, at: MinRequest}
	h.ClientID = w.String(false)
	if flexible {
		w.Tags()
	}
	h.Size = w.at
	if errors.Is(w.err, ErrShort) && len(b) >= MaxHeader || w.err == nil && h.Size > MaxHeader {
		return h, fmt.Errorf("%w: the request header is longer than %d bytes", ErrFrame, MaxHeader)
	}
	return h, w.err
}

// ResponseHeaderTags returns how many bytes the tags of a flexible response header
// take. b begins behind the correlation id.
func ResponseHeaderTags(b []byte) (int, error) {
	w := Cursor{b: b}
	w.Tags()
	return w.at, w.err
}
