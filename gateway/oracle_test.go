package gateway

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The oracle of the rewriting: kmsg decodes an answer, the addresses are replaced in
// what it decoded, and kmsg encodes that. It shares no line with what it judges.

// oracle replaces what the gateway has to replace.
func oracle(a advertiser, response kmsg.Response) {
	switch r := response.(type) {
	case *kmsg.MetadataResponse:
		r.Brokers = kept(a, r.Brokers, func(b *kmsg.MetadataResponseBroker) place { return place{b.NodeID, &b.Host, &b.Port} })
	case *kmsg.DescribeClusterResponse:
		r.Brokers = kept(a, r.Brokers, func(b *kmsg.DescribeClusterResponseBroker) place { return place{b.NodeID, &b.Host, &b.Port} })
	case *kmsg.ProduceResponse:
		if r.Version >= 10 {
			r.Brokers = kept(a, r.Brokers, func(b *kmsg.ProduceResponseBroker) place { return place{b.NodeID, &b.Host, &b.Port} })
		}
	case *kmsg.FetchResponse:
		if r.Version >= 16 {
			r.Brokers = kept(a, r.Brokers, func(b *kmsg.FetchResponseBroker) place { return place{b.NodeID, &b.Host, &b.Port} })
		}
	case *kmsg.ShareFetchResponse:
		r.NodeEndpoints = kept(a, r.NodeEndpoints, func(b *kmsg.ShareFetchResponseNodeEndpoint) place { return place{b.NodeID, &b.Host, &b.Port} })
	case *kmsg.ShareAcknowledgeResponse:
		r.NodeEndpoints = kept(a, r.NodeEndpoints, func(b *kmsg.ShareAcknowledgeResponseNodeEndpoint) place { return place{b.NodeID, &b.Host, &b.Port} })
	case *kmsg.FindCoordinatorResponse:
		if r.Version <= 3 {
			oracleCoordinator(a, &r.ErrorCode, &r.NodeID, &r.Host, &r.Port)
		}
		for i := range r.Coordinators {
			c := &r.Coordinators[i]
			oracleCoordinator(a, &c.ErrorCode, &c.NodeID, &c.Host, &c.Port)
		}
	case *kmsg.DescribeQuorumResponse:
		for i := range r.Nodes {
			r.Nodes[i].Listeners = nil
		}
	default:
		if !scrubs(r) {
			panic(fmt.Sprintf("no oracle for %T", r))
		}
		oracleMessages(reflect.ValueOf(r).Elem())
	}
}

// scrubs tells of an answer that it is its error messages that change.
func scrubs(r kmsg.Response) bool {
	switch r.(type) {
	case *kmsg.DescribeACLsResponse, *kmsg.CreateACLsResponse, *kmsg.DeleteACLsResponse, *kmsg.AlterUserSCRAMCredentialsResponse,
		*kmsg.ElectLeadersResponse, *kmsg.AlterPartitionAssignmentsResponse, *kmsg.ListPartitionReassignmentsResponse,
		*kmsg.UpdateFeaturesResponse, *kmsg.UnregisterBrokerResponse, *kmsg.UnregisterControllerResponse:
		return true
	}
	return false
}

// oracleMessages replaces every error message in an answer.
func oracleMessages(v reflect.Value) {
	switch v.Kind() {
	case reflect.Slice:
		for i := range v.Len() {
			oracleMessages(v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Field(i); v.Type().Field(i).Name == "ErrorMessage" && !f.IsNil() {
				f.Set(reflect.ValueOf(kmsg.StringPtr(unprinted(f.Elem().String()))))
			} else {
				oracleMessages(f)
			}
		}
	}
}

// unprinted is what may be told of a message.
func unprinted(text string) string {
	before, behind, printed := strings.Cut(text, "connectionId=")
	if !printed {
		return text
	}
	if open := strings.LastIndex(before, "("); open >= 0 {
		before = before[:open+1]
	} else {
		before = ""
	}
	if closed := strings.LastIndex(behind, ")"); closed >= 0 {
		return unprinted(before + behind[closed:])
	}
	return unprinted(before)
}

// place points at what a broker's entry says of it.
type place struct {
	node int32
	host *string
	port *int32
}

func kept[B any](a advertiser, brokers []B, of func(*B) place) []B {
	all := brokers[:0]
	for i := range brokers {
		at := of(&brokers[i])
		var ok bool
		if *at.host, *at.port, ok = a.advertise(at.node); ok {
			all = append(all, brokers[i])
		}
	}
	return all
}

func oracleCoordinator(a advertiser, code *int16, node *int32, host *string, port *int32) {
	if *node < 0 && *host == "" {
		return
	}
	if h, p, ok := a.advertise(*node); ok {
		*host, *port = h, p
		return
	}
	*code, *node, *host, *port = kerr.CoordinatorNotAvailable.Code, -1, "", -1
}

// messages are what brokers say, those of 3.9 and 4.4 among them that have a request in
// them.
var messages = []string{
	"",
	"Cluster authorization failed.",
	"Request Request(processor=1, connectionId=10.9.8.7:9094-10.0.0.7:39348-0, session=org.apache.kafka.network.Session@7b9f3ee6, listenerName=ListenerName(TOKEN), securityProtocol=SASL_SSL, buffer=null, envelope=None) is not authorized.",
	"Request Request(processor=0, connectionId=10.9.8.7:9096-10.9.8.7:60458-0-5, session=Session(User:a), listenerName=ListenerName(CONTROLLER), securityProtocol=SSL, buffer=java.nio.HeapByteBuffer[pos=22 lim=22 cap=43], " +
		"envelope=Optional[Request(processor=0, connectionId=10.9.8.7:9096-10.9.8.7:60458-0-5, buffer=null, envelope=Optional.empty)]) needs ALTER permission.",
	"connectionId=10.9.8.7",
}

// fill gives every field of a message something to encode, unknown tags included.
// Brokers are nodes 0 to 19, of which 13 has no address at the gateway.
func fill(rng *rand.Rand, v reflect.Value) {
	if tags, ok := v.Addr().Interface().(*kmsg.Tags); ok {
		for range rng.IntN(3) {
			tags.Set(100+rng.Uint32N(200), make([]byte, rng.IntN(200)))
		}
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			switch name := v.Type().Field(i).Name; name {
			case "Version":
			case "ErrorMessage":
				if rng.IntN(3) > 0 {
					v.Field(i).Set(reflect.ValueOf(&messages[rng.IntN(len(messages))]))
				}
			case "Host":
				if strings.Contains(v.Type().Name(), "ACL") { // what somebody wrote into an ACL
					v.Field(i).SetString("10.1.2.3")
					continue
				}
				v.Field(i).SetString(fmt.Sprintf("%s-%d", brokerHost, rng.IntN(1000)))
			case "NodeID":
				v.Field(i).SetInt(rng.Int64N(20))
			default:
				fill(rng, v.Field(i))
			}
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes(bytes.Repeat([]byte{0xee}, rng.IntN(300)))
			return
		}
		n := rng.IntN(4)
		if rng.IntN(10) == 0 && listsNodes(v.Type().Elem()) {
			n = 130 // a count of two bytes
		}
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			if n == 130 && i > 5 {
				v.Index(i).Set(v.Index(i % 5))
				continue
			}
			fill(rng, v.Index(i))
		}
	case reflect.Array:
		v.Index(0).SetUint(rng.Uint64() & 0xff)
	case reflect.Pointer:
		if rng.IntN(3) > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			fill(rng, v.Elem())
		}
	case reflect.String:
		v.SetString(fmt.Sprintf("%0*d", rng.IntN(140), 7))
	case reflect.Bool:
		v.SetBool(rng.IntN(2) == 0)
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(rng.Int64N(100))
	case reflect.Uint16, reflect.Uint32:
		v.SetUint(rng.Uint64N(100))
	default:
		panic(v.Kind())
	}
}

func listsNodes(t reflect.Type) bool {
	if t.Kind() != reflect.Struct {
		return false
	}
	_, ok := t.FieldByName("NodeID")
	return ok
}

// filled is a random answer of a key and version.
func filled(rng *rand.Rand, key kmsg.Key, version int16) kmsg.Response {
	r := kmsg.ResponseForKey(int16(key))
	r.SetVersion(version)
	fill(rng, reflect.ValueOf(r).Elem())
	return r
}

// headTags are those of a flexible answer's header in these tests.
var headTags = []byte{1, 42, 2, 'h', 'i'}

// rewrites lists every key and version whose answers are rewritten.
func rewrites(table policy) (all []pending) {
	for i := range table {
		r := &table[i]
		for version := r.from; version <= r.max; version++ {
			if do := r.at(version); do == actionRewrite || do == actionFront || do == actionTrail {
				all = append(all, pending{correlationID: 77, key: int16(r.key), version: version, rule: r})
			}
		}
	}
	return all
}

// encoded is an answer as it comes from a broker, from behind the correlation id.
func encoded(p pending, r kmsg.Response) []byte {
	r.SetVersion(p.version)
	var b []byte
	if p.rule.flexibleAt(p.version) {
		b = bytes.Clone(headTags)
	}
	return r.AppendTo(b)
}

// decoded is what kmsg reads in an answer.
func decoded(p pending, b []byte) (kmsg.Response, error) {
	if p.rule.flexibleAt(p.version) {
		s := newSplice(b, nil)
		s.Tags()
		if s.Err() != nil {
			return nil, s.Err()
		}
		b = b[s.At():]
	}
	r := kmsg.ResponseForKey(p.key)
	r.SetVersion(p.version)
	return r, r.ReadFrom(b)
}

// rewriteWhole is what becomes of an answer that is read whole.
func rewriteWhole(p pending, a advertiser, in []byte) ([]byte, error) {
	if p.rule.action != actionTrail {
		out, _, err := rewriteAnswer(p, a, in)
		return out, err
	}
	at, err := tailOf(p, in)
	if err != nil {
		return nil, err
	}
	out, _, err := p.rule.trail.rewriteTail(in[at:], a)
	return append(bytes.Clone(in[:at]), out...), err
}

func mustDecode(t testing.TB, p pending, b []byte) kmsg.Response {
	t.Helper()
	r, err := decoded(p, b)
	if err != nil {
		t.Fatalf("%s v%d: kmsg cannot decode the result: %v\n%x", kmsg.NameForKey(p.key), p.version, err, b)
	}
	return r
}
