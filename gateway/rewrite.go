package gateway

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
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

// rewriter replaces the addresses in one decoded answer. Node ids, racks, error
// entries and unknown tags stay as they are.
type rewriter func(a advertiser, response kmsg.Response)

// address points at what a broker's entry in an answer says of it.
type address struct {
	node int32
	host *string
	port *int32
}

// keepAdvertised rewrites a list of brokers in place, and leaves out those that have no
// address at the gateway.
func keepAdvertised[B any](a advertiser, brokers []B, of func(*B) address) []B {
	kept := brokers[:0]
	for i := range brokers {
		at := of(&brokers[i])
		var ok bool
		if *at.host, *at.port, ok = a.advertise(at.node); ok {
			kept = append(kept, brokers[i])
		}
	}
	return kept
}

// rewriteMetadata serves all versions; the controller is named by its id alone.
func rewriteMetadata(a advertiser, response kmsg.Response) {
	r := response.(*kmsg.MetadataResponse)
	r.Brokers = keepAdvertised(a, r.Brokers, func(b *kmsg.MetadataResponseBroker) address {
		return address{b.NodeID, &b.Host, &b.Port}
	})
}

// rewriteFindCoordinator serves the single form (v0 to 3) and the batched one
// (KIP-699). Entries in error carry node -1 and no address, and stay.
func rewriteFindCoordinator(a advertiser, response kmsg.Response) {
	r := response.(*kmsg.FindCoordinatorResponse)
	if r.Version <= 3 {
		rewriteCoordinator(a, &r.ErrorCode, &r.NodeID, &r.Host, &r.Port)
	}
	for i := range r.Coordinators {
		c := &r.Coordinators[i]
		rewriteCoordinator(a, &c.ErrorCode, &c.NodeID, &c.Host, &c.Port)
	}
}

func rewriteCoordinator(a advertiser, code *int16, node *int32, host *string, port *int32) {
	if *node < 0 && *host == "" {
		return
	}
	if h, p, ok := a.advertise(*node); ok {
		*host, *port = h, p
		return
	}
	// What Kafka says while the coordinator's broker has no address on this listener.
	*code, *node, *host, *port = kerr.CoordinatorNotAvailable.Code, -1, "", -1
}

// rewriteDescribeCluster serves brokers, fenced ones included (KIP-1073).
func rewriteDescribeCluster(a advertiser, response kmsg.Response) {
	r := response.(*kmsg.DescribeClusterResponse)
	r.Brokers = keepAdvertised(a, r.Brokers, func(b *kmsg.DescribeClusterResponseBroker) address {
		return address{b.NodeID, &b.Host, &b.Port}
	})
}

// rewriteProduce serves the leaders' addresses of version 10 and later (KIP-951).
func rewriteProduce(a advertiser, response kmsg.Response) {
	r := response.(*kmsg.ProduceResponse)
	r.Brokers = keepAdvertised(a, r.Brokers, func(b *kmsg.ProduceResponseBroker) address {
		return address{b.NodeID, &b.Host, &b.Port}
	})
}

// rewriteDescribeQuorum empties each node's list of listeners (KIP-853): they are
// controllers', and no port of the gateway leads to a controller.
func rewriteDescribeQuorum(_ advertiser, response kmsg.Response) {
	r := response.(*kmsg.DescribeQuorumResponse)
	for i := range r.Nodes {
		r.Nodes[i].Listeners = nil
	}
}

// errAnswer is what errors about answers that cannot be decoded wrap.
var errAnswer = errors.New("the broker's answer cannot be read")

// untouched tells of a whole answer that it carries no address although its kind
// can, so that it may pass without being decoded.
func untouched(p pending, body []byte) bool {
	if p.key != int16(kmsg.Produce) {
		return false
	}
	if p.version < 10 {
		return true
	}
	tagged, err := wire.ProduceHasEndpoints(body, p.version)
	return err == nil && !tagged
}

// rewriteAnswer decodes a whole answer, from behind its correlation id, replaces
// what the rule says, and appends the frame, length and correlation id included, to
// dst.
func rewriteAnswer(dst []byte, p pending, a advertiser, answer []byte) ([]byte, error) {
	tags := 0
	if p.rule.flexibleAt(p.version) {
		var err error
		if tags, err = wire.ResponseHeaderTags(answer); err != nil {
			return dst, fmt.Errorf("%w: %s v%d: header: %w", errAnswer, kmsg.NameForKey(p.key), p.version, err)
		}
	}
	response := kmsg.ResponseForKey(p.key)
	response.SetVersion(p.version)
	if err := response.ReadFrom(answer[tags:]); err != nil {
		return dst, fmt.Errorf("%w: %s v%d: %w", errAnswer, kmsg.NameForKey(p.key), p.version, err)
	}
	p.rule.rewrite(a, response)
	dst, begin := beginFrame(dst, p.correlationID)
	dst = append(dst, answer[:tags]...)
	dst = response.AppendTo(dst)
	return endFrame(dst, begin), nil
}

// beginFrame appends room for the length, and the correlation id.
func beginFrame(dst []byte, correlationID int32) (frame []byte, begin int) {
	begin = len(dst)
	dst = append(dst, 0, 0, 0, 0)
	return binary.BigEndian.AppendUint32(dst, uint32(correlationID)), begin //nolint:gosec // G115: signed in the protocol
}

// endFrame fills in the length.
func endFrame(dst []byte, begin int) []byte {
	binary.BigEndian.PutUint32(dst[begin:], uint32(len(dst)-begin-wire.LengthSize)) //nolint:gosec // G115: bounded by maxDecoded
	return dst
}
