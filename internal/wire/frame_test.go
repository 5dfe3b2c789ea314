package wire

import (
	"encoding/binary"
	"errors"
	"strings"
	"testing"
)

// B52, and the list of bad lengths: each is refused with a line that helps.
func TestRequestLengthRefusesWhatIsNoFrame(t *testing.T) {
	length := func(n uint32) (h [LengthSize]byte) {
		binary.BigEndian.PutUint32(h[:], n)
		return h
	}
	for name, c := range map[string]struct {
		head [LengthSize]byte
		says string
	}{
		"minus one":    {length(0xffffffff), "negative"},
		"zero":         {length(0), "shorter than a request header"},
		"three":        {length(3), "shorter than a request header"},
		"seven":        {length(7), "shorter than a request header"},
		"2 GiB":        {length(0x7fffffff), "above limits.frame"},
		"one too many": {length(101), "above limits.frame"},
		"HTTP":         {[LengthSize]byte{'G', 'E', 'T', ' '}, "HTTP"},
		"HTTP/2":       {[LengthSize]byte{'P', 'R', 'I', ' '}, "HTTP"},
		"TLS in TLS":   {[LengthSize]byte{0x16, 0x03, 0x01, 0x02}, "TLS"},
		"TLS alert":    {[LengthSize]byte{0x15, 0x03, 0x03, 0x00}, "TLS"},
	} {
		t.Run(name, func(t *testing.T) {
			n, err := RequestLength(c.head, 100)
			if !errors.Is(err, ErrFrame) || !strings.Contains(err.Error(), c.says) {
				t.Fatalf("got %d, %v; want an error that says %q", n, err, c.says)
			}
		})
	}
	for _, n := range []uint32{8, 10, 100} {
		if got, err := RequestLength(length(n), 100); err != nil || got != int(n) {
			t.Errorf("length %d: got %d, %v", n, got, err)
		}
	}
}

func FuzzRequestLength(f *testing.F) {
	f.Add([]byte{0, 0, 0, 8}, int64(1<<20))
	f.Add([]byte("GET "), int64(1<<31))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff}, int64(0))
	f.Fuzz(func(t *testing.T, b []byte, limit int64) {
		var h [LengthSize]byte
		copy(h[:], b)
		n, err := RequestLength(h, limit)
		if err == nil && (n < MinRequest || int64(n) > limit || uint32(n) != binary.BigEndian.Uint32(h[:])) {
			t.Fatalf("took %v as %d under limit %d", h, n, limit)
		}
	})
}
