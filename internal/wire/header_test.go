package wire

import (
	"bytes"
	"errors"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"doorkeeper/internal/frugal"
)

// header builds a request header by hand.
func header(key, version int16, correlation int32, client []byte, tags []byte) []byte {
	b := []byte{byte(key >> 8), byte(key), byte(version >> 8), byte(version),
		byte(correlation >> 24), byte(correlation >> 16), byte(correlation >> 8), byte(correlation)}
	if client == nil {
		b = append(b, 0xff, 0xff)
	} else {
		b = append(b, byte(len(client)>>8), byte(len(client)))
		b = append(b, client...)
	}
	return append(b, tags...)
}

func TestParseHeader(t *testing.T) {
	long := bytes.Repeat([]byte("x"), 32767)
	for name, c := range map[string]struct {
		bytes    []byte
		flexible bool
		client   []byte
		size     int
	}{
		"null client id":      {header(3, 1, 7, nil, nil), false, nil, 10},
		"null, as Kafka's -2": {[]byte{0, 3, 0, 1, 0, 0, 0, 7, 0xff, 0xfe}, false, nil, 10},
		"empty client id":     {header(3, 1, 7, []byte{}, nil), false, []byte{}, 10},
		"client id":           {header(3, 1, 7, []byte("app"), nil), false, []byte("app"), 13},
		"longest client id":   {header(3, 1, 7, long, nil), false, long, 10 + 32767},
		"no tags":             {header(3, 9, 7, []byte("app"), []byte{0}), true, []byte("app"), 14},
		"unknown tags":        {header(3, 9, 7, nil, []byte{2, 0, 1, 'a', 0x85, 1, 0}), true, nil, 17},
	} {
		t.Run(name, func(t *testing.T) {
			b := append(bytes.Clone(c.bytes), "body"...)
			h, err := ParseHeader(b, c.flexible)
			if err != nil {
				t.Fatal(err)
			}
			if h.Key != 3 || h.CorrelationID != 7 || h.Size != c.size || !bytes.Equal(h.ClientID, c.client) || (h.ClientID == nil) != (c.client == nil) {
				t.Fatalf("got %+v, want client id %q and size %d", h, c.client, c.size)
			}
			for n := range c.size {
				if n > 64 && n < c.size-64 {
					continue
				}
				if _, err := ParseHeader(b[:n], c.flexible); !errors.Is(err, ErrShort) {
					t.Fatalf("the first %d of %d bytes: %v, want ErrShort", n, c.size, err)
				}
			}
		})
	}
}

// S13: tag bombs and lying lengths in the header end with the header's bound.
func TestParseHeaderRefusesBombs(t *testing.T) {
	big := bytes.Repeat([]byte{0}, MaxHeader+100)
	for name, b := range map[string][]byte{
		"tags that never end":             append(header(3, 9, 7, nil, []byte{0xff, 0xff, 0xff, 0xff, 0x0f}), big...),
		"one tag longer than the bound":   append(header(3, 9, 7, nil, []byte{1, 0, 0xff, 0xff, 0x3f}), big...),
		"a varint of six bytes":           append(header(3, 9, 7, nil, []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0x01}), big...),
		"a varint above 32 bits":          append(header(3, 9, 7, nil, []byte{0xff, 0xff, 0xff, 0xff, 0x1f}), big...),
		"a header that fits but too long": append(header(3, 9, 7, nil, append([]byte{1, 0, 0xc0, 0xe0, 0x03}, big...)), big...),
	} {
		t.Run(name, func(t *testing.T) {
			if h, err := ParseHeader(b, true); !errors.Is(err, ErrFrame) {
				t.Fatalf("got %+v, %v", h, err)
			}
		})
	}
}

func FuzzParseHeader(f *testing.F) {
	f.Add(header(0, 9, 1, []byte("client"), []byte{0}), true)
	f.Add(header(18, 3, 1, nil, []byte{1, 0, 1, 'x'}), true)
	f.Add(header(1, 4, -1, []byte{}, nil), false)
	f.Fuzz(func(t *testing.T, b []byte, flexible bool) {
		h, err := ParseHeader(b, flexible)
		frugal.Check(t, len(b), func() { _, _ = ParseHeader(b, flexible) })
		if err != nil {
			return
		}
		if h.Size < 10 || h.Size > len(b) || h.Size > MaxHeader {
			t.Fatalf("size %d of %d bytes", h.Size, len(b))
		}
		again, err := ParseHeader(b[:h.Size], flexible)
		if err != nil || again.Size != h.Size || !bytes.Equal(again.ClientID, h.ClientID) {
			t.Fatalf("the header alone parses as %+v, %v; before as %+v", again, err, h)
		}
	})
}

// kmsg writes the same headers that are read here.
func TestParseHeaderReadsWhatKmsgWrites(t *testing.T) {
	id := "an application"
	formatter := kmsg.NewRequestFormatter(kmsg.FormatterClientID(id))
	for key := int16(0); key <= 94; key++ {
		request := kmsg.RequestForKey(key)
		for v := int16(0); v <= request.MaxVersion(); v++ {
			if key == 7 && v == 0 {
				continue // ControlledShutdown v0 alone has no client id; it is refused
			}
			request.SetVersion(v)
			b := formatter.AppendRequest(nil, request, 42)[LengthSize:]
			h, err := ParseHeader(b, request.IsFlexible())
			if err != nil || h.Key != key || h.Version != v || h.CorrelationID != 42 || string(h.ClientID) != id {
				t.Fatalf("key %d version %d: %+v, %v", key, v, h, err)
			}
			if body := request.AppendTo(nil); !bytes.Equal(b[h.Size:], body) {
				t.Fatalf("key %d version %d: the body begins elsewhere", key, v)
			}
		}
	}
}
