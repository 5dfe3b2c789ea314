package devkafka

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/twmb/franz-go/pkg/kmsg"

	"doorkeeper/internal/wire"
)

// Bounds of requests, in bytes. Before the login it is Kafka's own
// (sasl.server.max.receive.size). What is decoded here stays small, since a decoder
// makes up to a hundred times more of hostile bytes.
const (
	maxRequest        = 16 << 20
	maxRequestDecoded = 1 << 20
	maxRequestLogin   = 512 << 10
)

// maxAnswer bounds kfake's answers.
const maxAnswer = 128 << 20

// The keys that this package treats by itself.
const (
	keyProduce          = 0
	keyFetch            = 1
	keyMetadata         = 3
	keyCoordinator      = 10
	keyHandshake        = 17
	keyVersions         = 18
	keyCreateTopics     = 19
	keyDeleteTopics     = 20
	keyDescribeACLs     = 29
	keyCreateACLs       = 30
	keyDeleteACLs       = 31
	keyAuthenticate     = 36
	keyCreatePartitions = 37
	keyCreateToken      = 38
	keyRenewToken       = 39
	keyExpireToken      = 40
	keyDescribeToken    = 41
	keyAlterScram       = 51
	keyCluster          = 60
	keyShareFetch       = 78
)

// errFrame is what every fault of a request wraps that closes its connection unanswered.
var errFrame = errors.New("not a request that is served here")

// versions are the lowest and highest version of every key that is served.
type versions map[int16]struct{ lowest, highest int16 }

// served is what kfake offers, with the keys of this package in their own versions.
func served(kfake []kmsg.ApiVersionsResponseApiKey) versions {
	v := versions{}
	for _, k := range kfake {
		v[k.ApiKey] = struct{ lowest, highest int16 }{k.MinVersion, k.MaxVersion}
	}
	v[keyHandshake] = struct{ lowest, highest int16 }{1, 1}
	v[keyAuthenticate] = struct{ lowest, highest int16 }{0, 2}
	v[keyCreateToken] = struct{ lowest, highest int16 }{1, 3}
	v[keyRenewToken] = struct{ lowest, highest int16 }{1, 2}
	v[keyExpireToken] = struct{ lowest, highest int16 }{1, 2}
	v[keyDescribeToken] = struct{ lowest, highest int16 }{1, 3}
	return v
}

// request is one that may be served: of a key and a version that are known.
type request struct {
	wire.Header
	raw []byte // the whole frame, length included
	// strange is an ApiVersions of a version above ours: its body is never looked at.
	strange bool
}

// readRequest reads one frame and judges it. Its memory follows the bytes that come,
// not the length that is declared. limit is the longest that is taken.
func readRequest(r io.Reader, limit int64, served versions) (request, error) {
	var head [wire.LengthSize]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return request{}, err
	}
	n, err := wire.RequestLength(head, limit)
	if err != nil {
		return request{}, fmt.Errorf("%w: %w", errFrame, err)
	}
	frame := bytes.NewBuffer(append([]byte(nil), head[:]...))
	if _, err := io.CopyN(frame, r, int64(n)); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return request{}, err
	}
	return parseRequest(frame.Bytes(), served)
}

// parseRequest judges a whole frame, which is at least as long as a header without a
// client id. kfake must never see a key that it does not know: it panics.
func parseRequest(frame []byte, served versions) (request, error) {
	r := request{raw: frame}
	body := frame[wire.LengthSize:]
	var err error
	if r.Header, err = wire.Peek(body); err != nil {
		return r, fmt.Errorf("%w: %w", errFrame, err)
	}
	known, ok := served[r.Key]
	switch {
	case !ok:
		return r, fmt.Errorf("%w: key %d is not known", errFrame, r.Key)
	case r.Key == keyVersions && r.Version > known.highest:
		r.strange = true
		return r, nil
	case r.Version < known.lowest || r.Version > known.highest:
		return r, fmt.Errorf("%w: key %d has versions %d to %d, not %d", errFrame, r.Key, known.lowest, known.highest, r.Version)
	case decodedHere(r.Key) && len(body) > maxRequestDecoded:
		return r, fmt.Errorf("%w: %d bytes for key %d", errFrame, len(body), r.Key)
	}
	if r.Header, err = wire.ParseHeader(body, flexible(r.Key, r.Version)); err != nil {
		return r, fmt.Errorf("%w: %w", errFrame, err)
	}
	return r, nil
}

func decodedHere(key int16) bool {
	return key == keyHandshake || key == keyAuthenticate || key >= keyCreateToken && key <= keyDescribeToken ||
		key >= keyDescribeACLs && key <= keyDeleteACLs
}

func flexible(key, version int16) bool {
	k := kmsg.RequestForKey(key)
	k.SetVersion(version)
	return k.IsFlexible()
}

// decode reads the body into into, which gets the request's version.
func (r request) decode(into kmsg.Request) error {
	into.SetVersion(r.Version)
	if err := into.ReadFrom(r.raw[wire.LengthSize+r.Size:]); err != nil {
		return fmt.Errorf("%w: key %d: %w", errFrame, r.Key, err)
	}
	return nil
}

// answerFrame is a whole answer. The header of ApiVersions is never flexible (KIP-511).
func answerFrame(correlation int32, answer kmsg.Response) []byte {
	b := binary.BigEndian.AppendUint32(make([]byte, wire.LengthSize, 256), uint32(correlation)) //nolint:gosec // G115: the same 32 bits
	if answer.IsFlexible() && answer.Key() != keyVersions {
		b = append(b, 0) // no tags
	}
	b = answer.AppendTo(b)
	binary.BigEndian.PutUint32(b, uint32(len(b)-wire.LengthSize)) //nolint:gosec // G115: bounded by maxAnswer or made here
	return b
}

// decodeAnswer reads kfake's answer to r.
func (r request) decodeAnswer(frame []byte) (kmsg.Response, error) {
	answer := kmsg.ResponseForKey(r.Key)
	answer.SetVersion(r.Version)
	body := frame[wire.LengthSize+4:]
	if answer.IsFlexible() && r.Key != keyVersions {
		tags, err := wire.ResponseHeaderTags(body)
		if err != nil {
			return nil, err
		}
		body = body[tags:]
	}
	return answer, answer.ReadFrom(body)
}

// readAnswer reads one frame of kfake's, whole.
func readAnswer(r io.Reader) ([]byte, error) {
	head := make([]byte, wire.LengthSize)
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, err
	}
	n := int64(binary.BigEndian.Uint32(head))
	if n < 4 || n > maxAnswer {
		return nil, fmt.Errorf("an answer of %d bytes", n)
	}
	frame := append(head, make([]byte, n)...)
	_, err := io.ReadFull(r, frame[wire.LengthSize:])
	return frame, err
}
