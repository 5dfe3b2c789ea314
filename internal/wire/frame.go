package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
)

// LengthSize is the size of the length in front of every frame.
const LengthSize = 4

// MinRequest is the shortest request there is: key, version and correlation id.
const MinRequest = 8

// ErrFrame is what every error about bytes wraps that cannot be what they should be.
var ErrFrame = errors.New("not the Kafka protocol")

// RequestLength reads the length in front of a request and judges it before
// anything is allocated for it. limit is the largest length that is taken, in
// bytes. The error wraps ErrFrame and says what the bytes look like instead, since
// the usual cause is a client that speaks another protocol.
func RequestLength(head [LengthSize]byte, limit int64) (int, error) {
	if what := foreign(head); what != "" {
		return 0, fmt.Errorf("%w: the bytes %q begin %s", ErrFrame, string(head[:]), what) // head itself would be garbage of every call
	}
	n := int32(binary.BigEndian.Uint32(head[:])) //nolint:gosec // G115: the protocol's length is signed; negative ones are refused below
	switch {
	case n < 0:
		return 0, fmt.Errorf("%w: negative frame length %d", ErrFrame, n)
	case n < MinRequest:
		return 0, fmt.Errorf("%w: frame length %d is shorter than a request header (%d)", ErrFrame, n, MinRequest)
	case int64(n) > limit:
		return 0, fmt.Errorf("%w: frame length %d is above limits.frame (%d)", ErrFrame, n, limit)
	}
	return int(n), nil
}

// foreign names the protocol whose first bytes these are, or returns "".
func foreign(head [LengthSize]byte) string {
	if head[0] == 0x16 && head[1] == 0x03 {
		return "a TLS handshake inside TLS: a TLS proxy in front of the client, or TLS configured twice"
	}
	if head[0] == 0x15 && head[1] == 0x03 {
		return "a TLS alert inside TLS"
	}
	for _, verb := range []string{"GET ", "HEAD", "POST", "PUT ", "DELE", "OPTI", "PATC", "CONN", "TRAC", "PRI ", "HTTP"} {
		if bytes.Equal(head[:], []byte(verb)) {
			return "an HTTP message: this is a Kafka port"
		}
	}
	return ""
}
