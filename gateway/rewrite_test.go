package gateway

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// gates stands in for routes: node n is gate.example:(9100+n), and node 13 has no
// address.
type gates struct{}

func (gates) advertise(node int32) (string, int32, bool) {
	return "gate.example", 9100 + node, node != 13
}

const brokerHost = "broker-with-an-unusual-name.internal"

// answer encodes a response as it comes from a broker, from behind the correlation
// id, with an unknown tag in the header where there can be one.
func answer(table policy, r kmsg.Response, version int16) (pending, []byte) {
	r.SetVersion(version)
	p := pending{correlationID: 77, key: r.Key(), version: version, rule: &table[r.Key()]}
	var b []byte
	if p.rule.flexibleAt(version) {
		b = append(b, 1, 42, 2, 'h', 'i')
	}
	return p, r.AppendTo(b)
}

func tagged() kmsg.Tags {
	var t kmsg.Tags
	t.Set(99, []byte("unknown"))
	return t
}

func metadata() kmsg.Response {
	r := kmsg.NewPtrMetadataResponse()
	for _, id := range []int32{1, 13, 2} {
		b := kmsg.NewMetadataResponseBroker()
		b.NodeID, b.Host, b.Port, b.Rack, b.UnknownTags = id, brokerHost, 9094, kmsg.StringPtr("rack"), tagged()
		r.Brokers = append(r.Brokers, b)
	}
	r.ControllerID, r.ClusterID = 2, kmsg.StringPtr("cluster")
	topic := kmsg.NewMetadataResponseTopic()
	topic.Topic, topic.UnknownTags = kmsg.StringPtr("topic"), tagged()
	part := kmsg.NewMetadataResponseTopicPartition()
	part.Leader, part.Replicas, part.ISR, part.UnknownTags = 13, []int32{1, 2, 13}, []int32{1, 13}, tagged()
	topic.Partitions = append(topic.Partitions, part)
	r.Topics = append(r.Topics, topic)
	r.UnknownTags = tagged()
	return r
}

func coordinators() kmsg.Response {
	r := kmsg.NewPtrFindCoordinatorResponse()
	r.NodeID, r.Host, r.Port = 1, brokerHost, 9094
	for i, c := range []kmsg.FindCoordinatorResponseCoordinator{
		{Key: "g1", NodeID: 1, Host: brokerHost, Port: 9094},
		{Key: "g2", NodeID: -1, Port: -1, ErrorCode: 15, ErrorMessage: kmsg.StringPtr("not available")},
		{Key: "g3", NodeID: 13, Host: brokerHost, Port: 9094},
	} {
		c.UnknownTags = tagged()
		_ = i
		r.Coordinators = append(r.Coordinators, c)
	}
	return r
}

func cluster() kmsg.Response {
	r := kmsg.NewPtrDescribeClusterResponse()
	for _, id := range []int32{1, 13, 2} {
		b := kmsg.NewDescribeClusterResponseBroker()
		b.NodeID, b.Host, b.Port, b.UnknownTags = id, brokerHost, 9094, tagged()
		r.Brokers = append(r.Brokers, b)
	}
	r.ClusterID = "cluster"
	return r
}

func produced() kmsg.Response {
	r := kmsg.NewPtrProduceResponse()
	topic := kmsg.NewProduceResponseTopic()
	topic.Topic = "topic"
	part := kmsg.NewProduceResponseTopicPartition()
	part.ErrorCode, part.CurrentLeader.LeaderID, part.CurrentLeader.LeaderEpoch = 6, 13, 4
	topic.Partitions = append(topic.Partitions, part)
	r.Topics = append(r.Topics, topic)
	for _, id := range []int32{13, 2} {
		b := kmsg.NewProduceResponseBroker()
		b.NodeID, b.Host, b.Port = id, brokerHost, 9094
		r.Brokers = append(r.Brokers, b)
	}
	r.UnknownTags = tagged()
	return r
}

func quorum() kmsg.Response {
	r := kmsg.NewPtrDescribeQuorumResponse()
	node := kmsg.NewDescribeQuorumResponseNode()
	node.NodeID = 1
	l := kmsg.NewDescribeQuorumResponseNodeListener()
	l.Name, l.Host, l.Port = "CONTROLLER", brokerHost, 9095
	node.Listeners = append(node.Listeners, l)
	r.Nodes = append(r.Nodes, node)
	return r
}

// rewritable are the answers with addresses, each with what undoes the rewriting in
// a decoded one, for comparing all else.
var rewritable = map[string]struct {
	make func() kmsg.Response
	min  int16
}{
	"Metadata":        {metadata, 0},
	"FindCoordinator": {coordinators, 0},
	"DescribeCluster": {cluster, 0},
	"Produce":         {produced, 0},
	"DescribeQuorum":  {quorum, 0},
}

// S11, B15, B16: over every version, no broker's host is left, ids and all else stay,
// and rewriting twice gives what rewriting once gives.
func TestRewriteEveryVersion(t *testing.T) {
	table := newPolicy()
	for name, c := range rewritable {
		for version := c.min; version <= table[c.make().Key()].max; version++ {
			t.Run(fmt.Sprintf("%s v%d", name, version), func(t *testing.T) {
				p, in := answer(table, c.make(), version)
				out, err := rewriteAnswer(nil, p, gates{}, in)
				if err != nil {
					t.Fatal(err)
				}
				if bytes.Contains(out, []byte(brokerHost)) {
					t.Fatalf("a broker's host is left in %q", out)
				}
				if n := binary.BigEndian.Uint32(out); int(n) != len(out)-4 {
					t.Fatalf("length %d of a frame of %d bytes", n, len(out))
				}
				if id := binary.BigEndian.Uint32(out[4:]); id != 77 {
					t.Fatalf("correlation id %d", id)
				}
				again, err := rewriteAnswer(nil, p, gates{}, out[8:])
				if err != nil || !bytes.Equal(again, out) {
					t.Fatalf("rewriting twice changes something more: %v", err)
				}
				if !reflect.DeepEqual(withoutAddresses(t, p, in), withoutAddresses(t, p, out[8:])) {
					t.Fatalf("more than the addresses changed:\n%+v\n%+v", withoutAddresses(t, p, in), withoutAddresses(t, p, out[8:]))
				}
			})
		}
	}
}

// withoutAddresses decodes an answer and blanks what the rewriting may change.
func withoutAddresses(t *testing.T, p pending, b []byte) kmsg.Response {
	t.Helper()
	if p.rule.flexibleAt(p.version) {
		if !bytes.HasPrefix(b, []byte{1, 42, 2, 'h', 'i'}) {
			t.Fatalf("the header's tags are gone: %q", b)
		}
		b = b[5:]
	}
	r := kmsg.ResponseForKey(p.key)
	r.SetVersion(p.version)
	if err := r.ReadFrom(b); err != nil {
		t.Fatal(err)
	}
	switch r := r.(type) {
	case *kmsg.MetadataResponse:
		kept := r.Brokers[:0]
		for _, b := range r.Brokers {
			if b.Host, b.Port = "", 0; b.NodeID != 13 {
				kept = append(kept, b)
			}
		}
		r.Brokers = kept
	case *kmsg.DescribeClusterResponse:
		kept := r.Brokers[:0]
		for _, b := range r.Brokers {
			if b.Host, b.Port = "", 0; b.NodeID != 13 {
				kept = append(kept, b)
			}
		}
		r.Brokers = kept
	case *kmsg.ProduceResponse:
		kept := r.Brokers[:0]
		for _, b := range r.Brokers {
			if b.Host, b.Port = "", 0; b.NodeID != 13 {
				kept = append(kept, b)
			}
		}
		r.Brokers = kept
	case *kmsg.FindCoordinatorResponse:
		r.Host, r.Port = "", 0
		for i := range r.Coordinators {
			if c := &r.Coordinators[i]; c.Key == "g3" {
				c.NodeID, c.ErrorCode = 0, 0
			}
			r.Coordinators[i].Host, r.Coordinators[i].Port = "", 0
		}
	case *kmsg.DescribeQuorumResponse:
		for i := range r.Nodes {
			r.Nodes[i].Listeners = nil
		}
	}
	return r
}

func TestRewriteAddresses(t *testing.T) {
	table := newPolicy()
	decode := func(r kmsg.Response, version int16) kmsg.Response {
		p, in := answer(table, r, version)
		out, err := rewriteAnswer(nil, p, gates{}, in)
		if err != nil {
			t.Fatal(err)
		}
		back := kmsg.ResponseForKey(p.key)
		back.SetVersion(version)
		from := 8
		if p.rule.flexibleAt(version) {
			from += 5
		}
		if err := back.ReadFrom(out[from:]); err != nil {
			t.Fatal(err)
		}
		return back
	}
	m := decode(metadata(), 12).(*kmsg.MetadataResponse)
	if len(m.Brokers) != 2 || m.Brokers[0].Host != "gate.example" || m.Brokers[0].Port != 9101 || m.Brokers[1].Port != 9102 {
		t.Errorf("Metadata: %+v", m.Brokers)
	}
	if m.Topics[0].Partitions[0].Leader != 13 {
		t.Error("a leader's id changed")
	}
	f := decode(coordinators(), 4).(*kmsg.FindCoordinatorResponse).Coordinators
	if f[0].Host != "gate.example" || f[0].Port != 9101 || f[0].NodeID != 1 {
		t.Errorf("coordinator: %+v", f[0])
	}
	if f[1].NodeID != -1 || f[1].Host != "" || f[1].Port != -1 || f[1].ErrorCode != 15 {
		t.Errorf("entry in error: %+v", f[1])
	}
	if f[2].NodeID != -1 || f[2].Host != "" || f[2].ErrorCode != 15 {
		t.Errorf("coordinator without an address: %+v", f[2])
	}
	if one := decode(coordinators(), 2).(*kmsg.FindCoordinatorResponse); one.Host != "gate.example" || one.Port != 9101 {
		t.Errorf("single form: %+v", one)
	}
	if p := decode(produced(), 10).(*kmsg.ProduceResponse); len(p.Brokers) != 1 || p.Brokers[0].Host != "gate.example" || p.Brokers[0].Port != 9102 {
		t.Errorf("Produce: %+v", p.Brokers)
	}
}

func TestOnlyProduceAnswersWithoutEndpointsPassUndecoded(t *testing.T) {
	table := newPolicy()
	for version := int16(0); version <= 13; version++ {
		p, in := answer(table, produced(), version)
		tags := 0
		if p.rule.flexibleAt(version) {
			tags = 5
		}
		if got, want := untouched(p, in[tags:]), version < 10; got != want {
			t.Errorf("v%d with endpoints: %v", version, got)
		}
		bare := produced().(*kmsg.ProduceResponse)
		bare.Brokers, bare.UnknownTags = nil, kmsg.Tags{}
		p, in = answer(table, bare, version)
		if !untouched(p, in[tags:]) {
			t.Errorf("v%d without endpoints is decoded", version)
		}
	}
	p, in := answer(table, metadata(), 12)
	if untouched(p, in) {
		t.Error("Metadata passes undecoded")
	}
}

func FuzzRewriteAnswer(f *testing.F) {
	table := newPolicy()
	for _, c := range rewritable {
		for version := c.min; version <= table[c.make().Key()].max; version++ {
			p, in := answer(table, c.make(), version)
			f.Add(p.key, version, in)
		}
	}
	f.Fuzz(func(t *testing.T, key, version int16, in []byte) {
		rule, served := table.rule(key, version)
		if !served || rule.action != actionRewrite {
			return
		}
		p := pending{correlationID: 77, key: key, version: version, rule: rule}
		out, err := rewriteAnswer(nil, p, gates{}, in)
		if err != nil {
			if !errors.Is(err, errAnswer) {
				t.Fatalf("untyped error %v", err)
			}
			return
		}
		again, err := rewriteAnswer(nil, p, gates{}, out[8:])
		if err != nil || !bytes.Equal(out, again) {
			t.Fatalf("rewriting twice differs: %v\n%x\n%x", err, out, again)
		}
	})
}
