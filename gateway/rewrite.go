package gateway

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"doorkeeper/internal/wire"
)

// advertiser turns a broker's id into the gateway address that stands for it. It
// returns ok false when there is none to be had: then nothing may be said of that
// broker, least of all its own address. It may bind a listener, and does not wait
// for anything else.
type advertiser interface {
	advertise(node int32) (host string, port int32, ok bool)
}

// rewriter walks an answer's body and replaces what the gateway must. It walks as far
// as the last thing that it replaces; what lies behind passes as it came.
type rewriter func(s *splice, version int16)

// errAnswer is what errors about answers that cannot be read wrap.
var errAnswer = errors.New("the broker's answer cannot be read")

// splice copies a message but for what is replaced or left out on the way. So whatever
// a rewriter does not name stays as it came, byte for byte: node ids, racks, errors,
// unknown tags and their order. As long as nothing changes nothing is copied.
//
// Its memory is that of the message once more, and what addresses grow by: as much
// again and maxGrowth at most.
type splice struct {
	wire.Cursor
	in     []byte
	out    []byte
	copied int // bytes of in that are in out, or were replaced
	at     advertiser
}

// maxGrowth is what the gateway's addresses may take more than the brokers' in one
// answer, beyond the answer's own size: those of 10,000 brokers, each 100 bytes longer.
const maxGrowth = 1 << 20

var errGrown = errors.New("more brokers than there can be")

func newSplice(in []byte, at advertiser) splice {
	return splice{Cursor: wire.NewCursor(in), in: in, at: at}
}

// replace puts by in the place of in[from:to], which has to lie behind what was
// replaced before.
func (s *splice) replace(from, to int, by []byte) {
	if string(s.in[from:to]) == string(by) {
		return
	}
	if len(s.out)+len(by) > 2*len(s.in)+maxGrowth {
		s.Fail(errGrown)
		return
	}
	if s.out == nil {
		s.out = make([]byte, 0, len(s.in)+len(s.in)/4+len(by))
	}
	s.out = append(append(s.out, s.in[s.copied:from]...), by...)
	s.copied = to
}

// list walks an array of elements, each of which says whether it stays. Its count then
// says how many did.
func (s *splice) list(flexible bool, element func() (stays bool)) (kept int) {
	begin := s.At()
	n := s.Count(flexible)
	end := s.At()
	place := len(s.out) - s.copied + begin // of the count in out, once something changed
	for i := 0; i < n && s.Err() == nil; i++ {
		from := s.At()
		if element() {
			kept++
		} else if s.Err() == nil {
			s.replace(from, s.At(), nil)
		}
	}
	if s.Err() == nil && kept < n {
		s.recount(place, end-begin, countOf(kept, flexible))
	}
	return kept
}

// countOf encodes the length of an array.
func countOf(n int, flexible bool) []byte {
	if flexible {
		return binary.AppendUvarint(nil, uint64(n)+1) //nolint:gosec // G115: bounded by the message
	}
	return binary.BigEndian.AppendUint32(nil, uint32(n)) //nolint:gosec // G115: bounded by the message
}

// recount puts a lower count in the place of one that out has already.
func (s *splice) recount(place, size int, by []byte) {
	n := copy(s.out[place:], by)
	s.out = append(s.out[:place+n], s.out[place+size:]...)
}

// address reads a broker's host and port and puts the gateway's in their place. It
// returns false, and changes nothing, where there is none for that node.
func (s *splice) address(node int32, flexible bool) (ok bool) {
	from := s.At()
	s.String(flexible)
	s.Skip(4)
	if s.Err() != nil {
		return false
	}
	host, port, ok := s.at.advertise(node)
	if ok {
		s.replace(from, s.At(), appendAddress(nil, host, port, flexible))
	}
	return ok
}

func appendAddress(b []byte, host string, port int32, flexible bool) []byte {
	return binary.BigEndian.AppendUint32(appendString(b, host, flexible), uint32(port)) //nolint:gosec // G115: signed in the protocol
}

func appendString[S string | []byte](b []byte, text S, flexible bool) []byte {
	if flexible {
		b = binary.AppendUvarint(b, uint64(len(text))+1)
	} else {
		b = binary.BigEndian.AppendUint16(b, uint16(len(text))) //nolint:gosec // G115: a host name, or less than a string that was read
	}
	return append(b, text...)
}

// result is the message with everything replaced; the same bytes where nothing was.
func (s *splice) result() []byte {
	if !s.changed() {
		return s.in
	}
	return append(s.out, s.in[s.copied:]...)
}

func (s *splice) changed() bool { return s.out != nil }

// rewriteAnswer replaces in a whole answer, from behind its correlation id, what the
// rule says. It returns the same bytes, and false, where nothing changes.
func rewriteAnswer(p pending, a advertiser, answer []byte) (out []byte, changed bool, err error) {
	s := newSplice(answer, a)
	if p.rule.flexibleAt(p.version) && p.rule.action != actionTrim {
		s.Tags() // of the header, which that of ApiVersions never has (KIP-511)
	}
	p.rule.rewrite(&s, p.version)
	if err := s.Err(); err != nil {
		return nil, false, unreadable(p, err)
	}
	return s.result(), s.changed(), nil
}

func unreadable(p pending, err error) error {
	return fmt.Errorf("%w: %s v%d: %w", errAnswer, kmsg.NameForKey(p.key), p.version, err)
}

// beginFrame appends room for the length, and the correlation id.
func beginFrame(dst []byte, correlationID int32) (frame []byte, begin int) {
	begin = len(dst)
	dst = append(dst, 0, 0, 0, 0)
	return binary.BigEndian.AppendUint32(dst, uint32(correlationID)), begin //nolint:gosec // G115: signed in the protocol
}

// endFrame fills in the length.
func endFrame(dst []byte, begin int) []byte {
	binary.BigEndian.PutUint32(dst[begin:], uint32(len(dst)-begin-wire.LengthSize)) //nolint:gosec // G115: bounded by maxWholeAnswer
	return dst
}
