package conformance

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// User is who asks.
type User string

// The users. Rich may do everything but what needs a super user; Poor has no rights.
const (
	Rich User = "rich"
	Poor User = "poor"
)

// Via is how a side reaches the brokers.
type Via uint8

// Ways to a broker. For the gateway both are the same.
const (
	ViaToken       Via = iota // the token listener, logged in with a delegation token
	ViaCertificate            // the control listener, with a client certificate and no login
)

// Dial opens a connection to a node, ready for requests; ctx ends its wait. The caller
// closes it.
type Dial func(ctx context.Context, node int32, user User, via Via) (net.Conn, error)

// Side is one of the two ways: directly, or through the gateway. Questions that change
// something are made for one side, and use what is its own.
type Side struct {
	*World
	Name string // in messages
	Tag  string // in the names of all that the side has of its own; of one length on both

	dial     Dial
	received func(request kmsg.Request, frame []byte) // called with everything that comes

	leaving, resigning int32 // the fenced broker and the controller that the side may unregister

	ctx     context.Context
	via     way
	legs    map[way]*leg
	learned [][]byte // ids that the brokers have given to what this question is about
	numbers [][]byte // the same, too short to be looked for in answers
}

// way is where a leg leads.
type way struct {
	node int32
	user User
	via  Via
}

// NewSide makes a side. Received, which may be nil, is called with every answer that
// comes on it.
func NewSide(name, tag string, dial Dial, received func(request kmsg.Request, frame []byte)) *Side {
	return &Side{Name: name, Tag: tag, dial: dial, received: received, legs: map[way]*leg{}}
}

// Close closes all connections.
func (s *Side) Close() {
	for w := range s.legs {
		s.drop(w)
	}
}

func (s *Side) drop(w way) {
	if l := s.legs[w]; l != nil {
		_ = l.conn.Close()
		delete(s.legs, w)
	}
}

// Own is the name of something that the side has of its own.
func (s *Side) Own(name string) string { return "conf-" + s.Tag + "-" + name }

// Shared is the name of something that both sides look at and none changes.
func (w *World) Shared(name string) string { return "conf-shared-" + name }

// send sends a frame and returns how it was answered.
func (s *Side) send(w way, request kmsg.Request, frame []byte) (Answer, error) {
	l, err := s.leg(w)
	if err != nil {
		return Answer{}, err
	}
	answer, err := l.exchange(frame)
	return s.took(w, request, answer, err)
}

func (s *Side) took(w way, request kmsg.Request, answer Answer, err error) (Answer, error) {
	if err != nil || answer.Closed {
		s.drop(w)
	}
	if err == nil && s.received != nil && answer.Frame != nil {
		s.received(request, answer.Frame)
	}
	if err != nil {
		err = fmt.Errorf("%s, %s at node %d: %w", s.Name, Call(request), w.node, err)
	}
	return answer, err
}

func (s *Side) leg(w way) (*leg, error) {
	if l := s.legs[w]; l != nil {
		return l, nil
	}
	conn, err := s.dial(s.ctx, w.node, w.user, w.via)
	if err != nil {
		return nil, fmt.Errorf("%s, dial node %d as %s: %w", s.Name, w.node, w.user, err)
	}
	s.legs[w] = &leg{conn: conn, next: 1 << 20}
	return s.legs[w], nil
}

// sendSilently sends a frame that has no answer, and an ApiVersions behind it: either its
// answer is the next, or the connection was closed.
func (s *Side) sendSilently(w way, frame []byte) (Answer, error) {
	l, err := s.leg(w)
	if err != nil {
		return Answer{}, err
	}
	l.next++
	after := kmsg.NewPtrApiVersionsRequest()
	answer, err := l.exchange(append(slices.Clone(frame), encode(after, l.next)...))
	if answer, err = s.took(w, after, answer, err); err != nil || answer.Closed {
		return answer, err
	}
	if len(answer.Frame) >= correlationSize && binary.BigEndian.Uint32(answer.Frame) == uint32(l.next) {
		return Answer{}, nil
	}
	return answer, nil
}

// failure is what ends the making of a question; the runner catches it.
type failure struct{ error }

// do asks something in preparation of a question, as Rich, at the node that the question
// is for. It panics with a failure when there is no answer.
func (s *Side) do(request kmsg.Request) kmsg.Response { return s.doAt(s.via.node, request) }

func (s *Side) doAt(node int32, request kmsg.Request) kmsg.Response {
	w := way{node, Rich, s.via.via}
	if request.GetVersion() == 0 {
		request.SetVersion(s.Highest(kmsg.Key(request.Key())))
	}
	l, err := s.leg(w)
	if err != nil {
		panic(failure{err})
	}
	l.next++
	answer, err := s.send(w, request, encode(request, l.next))
	if err == nil && answer.Closed {
		err = errors.New("the connection was closed")
	}
	if err != nil {
		panic(failure{err})
	}
	c := Comparison{Request: request}
	response, err := c.Parse(answer.Frame)
	if err != nil {
		panic(failure{fmt.Errorf("%s, in preparation: %s: %w", s.Name, Call(request), err)})
	}
	return response
}

// transient are errors that pass by themselves: a coordinator loads, a transaction
// completes, news of a topic has not come yet.
func transient(code int16) bool {
	return slices.Contains([]int16{
		5,  // LEADER_NOT_AVAILABLE
		7,  // REQUEST_TIMED_OUT
		14, // COORDINATOR_LOAD_IN_PROGRESS
		15, // COORDINATOR_NOT_AVAILABLE
		27, // REBALANCE_IN_PROGRESS
		41, // NOT_CONTROLLER
		51, // CONCURRENT_TRANSACTIONS
	}, code)
}

// ok is do for what has to succeed; it asks again while it fails for a moment only.
func (s *Side) ok(request kmsg.Request) kmsg.Response { return s.okAt(s.via.node, request) }

func (s *Side) okAt(node int32, request kmsg.Request) kmsg.Response {
	for end := time.Now().Add(AnswerWithin); ; time.Sleep(20 * time.Millisecond) {
		response := s.doAt(node, request)
		bad := slices.DeleteFunc(ErrorCodes(response), func(code int16) bool { return code == 0 })
		if len(bad) == 0 {
			return response
		}
		if !slices.ContainsFunc(bad, transient) || time.Now().After(end) {
			panic(failure{fmt.Errorf("%s, in preparation: %s: errors %v in %+v", s.Name, Call(request), bad, response)})
		}
	}
}

// until asks until the answer is as it should be.
func until[R kmsg.Response](s *Side, node int32, ask func() kmsg.Request, good func(R) bool) R {
	for end := time.Now().Add(AnswerWithin); ; time.Sleep(20 * time.Millisecond) {
		response := s.doAt(node, ask()).(R)
		if good(response) {
			return response
		}
		if time.Now().After(end) {
			panic(failure{fmt.Errorf("%s, in preparation: %s never is as it should be: %+v", s.Name, Call(ask()), response)})
		}
	}
}

// learn notes an id that a broker gave to something of the side's own.
func (s *Side) learn(id string) string {
	s.learned = append(s.learned, []byte(id))
	return id
}

// number notes a number that a broker gave to something of the side's own.
func (s *Side) number(n int64) int64 {
	s.numbers = append(s.numbers, kbin.AppendInt64(nil, n))
	return n
}

// pairs are what the sides have of their own, in the order of replacing.
func pairs(direct, gateway *Side) []Pair {
	out := []Pair{{[]byte(direct.Tag), []byte(gateway.Tag)}}
	for name, id := range direct.TopicIDs {
		if own := strings.Replace(name, direct.Tag, gateway.Tag, 1); own != name {
			other := gateway.TopicIDs[own]
			out = append(out, Pair{id[:], other[:]})
		}
	}
	for i := range min(len(direct.learned), len(gateway.learned)) {
		out = append(out, Pair{direct.learned[i], gateway.learned[i]})
	}
	return out
}

// numberPairs are ids that are looked for in requests only.
func numberPairs(direct, gateway *Side) []Pair {
	var out []Pair
	for i := range min(len(direct.numbers), len(gateway.numbers)) {
		out = append(out, Pair{direct.numbers[i], gateway.numbers[i]})
	}
	return out
}
