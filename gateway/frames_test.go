package gateway

import (
	"errors"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"doorkeeper/internal/wire"
)

// judged is what the request loop makes of a frame of which so many bytes are at hand.
func judged(g *Gateway, payload []byte, atHand int) (frame, error) {
	s := &session{g: g, started: true}
	f := frame{bytes: append(make([]byte, wire.LengthSize), payload[:atHand]...), size: len(payload)}
	err := s.inspect(&f)
	return f, err
}

// However a frame comes in pieces, it is judged once and for all: more is asked for
// until there is enough, and with more than enough the judgement is the same. Whatever
// is taken for a request has the header that kmsg would have written before it.
func FuzzFrame(f *testing.F) {
	g := &Gateway{policy: newPolicy()}
	for _, r := range g.policy {
		if r.action != actionRefuse {
			f.Add(encode(kmsg.RequestForKey(int16(r.key)), r.max, 1)[wire.LengthSize:], uint16(3))
			f.Add(raw(kmsg.RequestForKey(int16(r.key)), r.max, 1, nil, []byte{1, 7, 2, 'h', 'i'})[wire.LengthSize:], uint16(11))
		}
	}
	f.Fuzz(func(t *testing.T, payload []byte, cut uint16) {
		if len(payload) < wire.MinRequest {
			return // refused by its length
		}
		whole, errWhole := judged(g, payload, len(payload))
		frugal(t, len(payload), func() { _, _ = judged(g, payload, len(payload)) })
		part, errPart := judged(g, payload, min(len(payload), int(cut)))
		switch {
		case errors.Is(errPart, wire.ErrShort):
		case (errPart == nil) != (errWhole == nil), part.inspection != whole.inspection, part.header.Size != whole.header.Size:
			t.Fatalf("with %d of %d bytes %+v, %v; with all %+v, %v", cut, len(payload), part.inspection, errPart, whole.inspection, errWhole)
		}
		if errWhole != nil || whole.header.Version > whole.rule.max {
			return
		}
		if again, err := wire.ParseHeader(payload[:whole.header.Size], whole.rule.flexibleAt(whole.header.Version)); err != nil || again.Size != whole.header.Size {
			t.Fatalf("the header alone: %+v, %v", again, err)
		}
	})
}
