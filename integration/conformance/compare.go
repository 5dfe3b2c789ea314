package conformance

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Answer is how a request ended.
type Answer struct {
	// Frame is the answer from the correlation id on; nil where there was none.
	Frame []byte
	// Closed says that the connection was closed instead.
	Closed bool
}

// Pair is something that each side has of its own, of one length: a name's tag, an id.
type Pair struct{ Direct, Gateway []byte }

// Comparison holds answers to one request against each other. Whatever is not named in
// it has to be equal, byte for byte.
type Comparison struct {
	Request kmsg.Request // at the version that was sent
	Masks   []Mask       // what may differ
	Pairs   []Pair       // what belongs to one side each, in the order of replacing
	// Rewritten is what the gateway replaces; nil where both answers came the same way.
	Rewritten *Rewritten
}

// Compare returns what differs, nil if nothing does, and which masks it took.
func (c *Comparison) Compare(direct, gateway Answer) (differences []string, needed []Used) {
	switch {
	case direct.Closed && gateway.Closed:
		return nil, nil
	case direct.Closed:
		return []string{"the broker closes the connection, the gateway answers"}, nil
	case gateway.Closed:
		return []string{"the broker answers, the gateway closes the connection"}, nil
	case direct.Frame == nil && gateway.Frame == nil:
		return nil, nil
	case direct.Frame == nil || gateway.Frame == nil:
		return []string{fmt.Sprintf("one side does not answer: %d bytes directly, %d through the gateway", len(direct.Frame), len(gateway.Frame))}, nil
	}
	d, err := c.read(c.exchanged(direct.Frame))
	if err != nil {
		return []string{"the broker's answer: " + err.Error()}, nil
	}
	g, err := c.read(gateway.Frame)
	if err != nil {
		return []string{"the gateway's answer: " + err.Error()}, nil
	}
	if !bytes.Equal(d.head, g.head) {
		return []string{fmt.Sprintf("the header is %x directly, %x through the gateway", d.head, g.head)}, nil
	}
	for _, p := range c.Pairs {
		if !bytes.Equal(p.Direct, p.Gateway) && bytes.Contains(gateway.Frame, p.Direct) {
			return []string{fmt.Sprintf("through the gateway comes what belongs to the other side: %q", p.Direct)}, nil
		}
	}
	if c.Rewritten != nil {
		differences = c.Rewritten.undo(d.message, g.message)
	} else { // each names a connection of its own
		unprint(d.message)
		unprint(g.message)
	}
	needed, more := c.mask(d.message, g.message)
	differences = append(differences, more...)
	if !bytes.Equal(d.message.AppendTo(nil), g.message.AppendTo(nil)) {
		named := differing(d.message, g.message)
		if len(named) == 0 {
			named = []string{fmt.Sprintf("the bytes differ, the fields do not: %x directly, %x through the gateway", d.body, g.body)}
		}
		differences = append(differences, named...)
	}
	return differences, needed
}

// exchanged is a direct answer with everything that belongs to the direct side replaced.
func (c *Comparison) exchanged(frame []byte) []byte {
	if len(frame) < correlationSize {
		return frame
	}
	body := frame[correlationSize:]
	for _, p := range c.Pairs {
		body = bytes.ReplaceAll(body, p.Direct, p.Gateway)
	}
	return append(bytes.Clone(frame[:correlationSize]), body...)
}

const correlationSize = 4

// read is an answer taken apart.
type read struct {
	head    []byte // correlation id, and the header's tags
	body    []byte
	message kmsg.Response
}

var errAnswer = errors.New("it cannot be read")

// read takes an answer apart, and makes sure that nothing in it is lost by that: it has
// to be the same bytes when it is put together again.
func (c *Comparison) read(frame []byte) (read, error) {
	if len(frame) < correlationSize {
		return read{}, fmt.Errorf("%w: %d bytes", errAnswer, len(frame))
	}
	r := read{head: frame[:correlationSize], body: frame[correlationSize:], message: c.kind(frame)}
	// The answer to ApiVersions never has a flexible header (KIP-511).
	if r.message.IsFlexible() && c.Request.Key() != int16(kmsg.ApiVersions) {
		b := kbin.Reader{Src: r.body}
		kmsg.SkipTags(&b)
		size := len(r.body) - len(b.Src)
		r.head, r.body = frame[:correlationSize+size], b.Src
	}
	if err := r.message.ReadFrom(r.body); err != nil {
		return read{}, fmt.Errorf("%w: %w: %x", errAnswer, err, r.body)
	}
	if again := r.message.AppendTo(nil); !bytes.Equal(again, r.body) {
		return read{}, fmt.Errorf("%w: it says %x, of which %x is understood", errAnswer, r.body, again)
	}
	return r, nil
}

// kind is an empty answer of the version that the request has. ApiVersions in a version
// that the other side does not know is answered in version 0 (KIP-511).
func (c *Comparison) kind(frame []byte) kmsg.Response {
	message := c.Request.ResponseKind()
	message.SetVersion(c.Request.GetVersion())
	unknown := c.Request.Key() == int16(kmsg.ApiVersions) && len(frame) >= correlationSize+2 &&
		int16(binary.BigEndian.Uint16(frame[correlationSize:])) == kerr.UnsupportedVersion.Code
	if unknown {
		message.SetVersion(0)
	}
	return message
}

// Parse reads what an Answer's Frame says.
func (c *Comparison) Parse(frame []byte) (kmsg.Response, error) {
	r, err := c.read(frame)
	return r.message, err
}

// mask takes away, in both messages, what may differ and differs in no other way than
// it may.
func (c *Comparison) mask(direct, gateway kmsg.Response) (needed []Used, differences []string) {
	for _, m := range c.Masks {
		if !m.covers(c.Request.GetVersion()) {
			continue
		}
		d, g, err := m.values(direct, gateway)
		if err != nil {
			differences = append(differences, err.Error())
			continue
		}
		if len(d) != len(g) {
			continue // the difference lies elsewhere, and is found
		}
		var used *Used
		for i := range d {
			if reflect.DeepEqual(d[i].Interface(), g[i].Interface()) {
				continue
			}
			if m.Alike != nil && !m.Alike(d[i], g[i]) {
				differences = append(differences, fmt.Sprintf("%s is %s directly, %s through the gateway: more than may differ", m.Field, shown(d[i]), shown(g[i])))
			}
			if used == nil {
				used = &Used{m, shown(d[i]), shown(g[i])}
			}
			d[i].SetZero()
			g[i].SetZero()
		}
		if used != nil {
			needed = append(needed, *used)
		}
	}
	return needed, differences
}
