package gateway

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"doorkeeper/internal/frugal"
)

// gates stands in for routes: node n is gate.example:(9100+n), and node 13 has no
// address.
type gates struct{}

func (gates) advertise(node int32) (string, int32, bool) {
	return "gate.example", 9100 + node, node != 13
}

const brokerHost = "broker-with-an-unusual-name.internal"

func tagged() kmsg.Tags {
	var t kmsg.Tags
	t.Set(99, []byte("unknown"))
	return t
}

// S11, B06, B12, B15, B16, B17: over every key and version whose answers carry
// addresses, no broker's host is left, and every other byte is what it was: the result
// is what kmsg encodes when the addresses are replaced in what it decoded. Rewriting
// twice gives what rewriting once gives.
func TestRewriteEveryVersion(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	seen := make(map[int16]int)
	for _, p := range rewrites(newPolicy()) {
		seen[p.key]++
		for range 50 {
			answer := filled(rng, kmsg.Key(p.key), p.version)
			in := encoded(p, answer)
			out, err := rewriteWhole(p, gates{}, in)
			if err != nil {
				t.Fatalf("%s v%d: %v", kmsg.NameForKey(p.key), p.version, err)
			}
			if bytes.Contains(out, []byte(brokerHost)) {
				t.Fatalf("%s v%d: a broker's host is left", kmsg.NameForKey(p.key), p.version)
			}
			if scrubs(answer) && bytes.Contains(out, connectionMark) {
				t.Fatalf("%s v%d: a connection is left", kmsg.NameForKey(p.key), p.version)
			}
			oracle(gates{}, answer)
			if want := encoded(p, answer); !bytes.Equal(out, want) {
				t.Fatalf("%s v%d:\n%x\nwant\n%x", kmsg.NameForKey(p.key), p.version, out, want)
			}
			again, err := rewriteWhole(p, gates{}, out)
			if err != nil || !bytes.Equal(again, out) {
				t.Fatalf("%s v%d: rewriting twice changes something more: %v", kmsg.NameForKey(p.key), p.version, err)
			}
		}
	}
	want := map[int16]int{
		0: 4, 1: 3, 3: 14, 10: 7, 55: 1, 60: 3, 78: 3, 79: 3,
		29: 4, 30: 4, 31: 4, 43: 3, 45: 2, 46: 1, 51: 1, 57: 3, 64: 1, 94: 1,
	}
	if !reflect.DeepEqual(seen, want) {
		t.Errorf("versions looked at %v, want %v", seen, want)
	}
}

// An answer whose bytes are not those that kmsg would have chosen keeps them: numbers
// longer than need be, tags out of order or twice, and what lies behind the last
// address.
func TestRewriteKeepsOddBytes(t *testing.T) {
	table := newPolicy()
	entry := func(host string, port byte) []byte {
		b := append([]byte{0, 0, 0, 1, byte(len(host) + 1)}, host...)
		b = append(b, 0, 0, 0x23, port, 0x81, 0x00) // the rack: empty, in two bytes
		return append(b, 2, 9, 1, 'x', 8, 0)        // tags 9 and 8
	}
	join := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	front := []byte{0x80, 0x00, 0, 0, 0, 5, 0x82, 0x00} // no header tags and one broker, each in two bytes
	behind := []byte("whatever comes behind the brokers")
	p := pending{key: 3, version: 12, rule: &table[3]}
	out, err := rewriteWhole(p, gates{}, join(front, entry("b", 0x86), behind))
	if want := join(front, entry("gate.example", 0x8d), behind); err != nil || !bytes.Equal(out, want) {
		t.Errorf("Metadata: %v\n%q\nwant\n%q", err, out, want)
	}

	front = []byte{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x81, 0x00} // a Fetch answer without topics
	tail := func(host string, port byte) []byte {
		list := append([]byte{2}, entry(host, port)...)
		return join([]byte{0x83, 0x00, 7, 2, 'h', 'i', 0, byte(len(list))}, list, []byte{7, 0})
	}
	p = pending{key: 1, version: 18, rule: &table[1]}
	out, err = rewriteWhole(p, gates{}, join(front, tail("b", 0x86)))
	if want := join(front, tail("gate.example", 0x8d)); err != nil || !bytes.Equal(out, want) {
		t.Errorf("Fetch: %v\n%q\nwant\n%q", err, out, want)
	}
}

// B15: each key of a batch once, ids kept, entries in error as they were.
func TestRewriteCoordinators(t *testing.T) {
	table := newPolicy()
	r := kmsg.NewPtrFindCoordinatorResponse()
	r.Coordinators = []kmsg.FindCoordinatorResponseCoordinator{
		{Key: "g1", NodeID: 1, Host: brokerHost, Port: 9094},
		{Key: "g2", NodeID: -1, Port: -1, ErrorCode: 15, ErrorMessage: kmsg.StringPtr("not available")},
		{Key: "g3", NodeID: 13, Host: brokerHost, Port: 9094},
	}
	p := pending{key: 10, version: 4, rule: &table[10]}
	out, err := rewriteWhole(p, gates{}, encoded(p, r))
	if err != nil {
		t.Fatal(err)
	}
	got := mustDecode(t, p, out).(*kmsg.FindCoordinatorResponse).Coordinators
	want := []kmsg.FindCoordinatorResponseCoordinator{
		{Key: "g1", NodeID: 1, Host: "gate.example", Port: 9101},
		{Key: "g2", NodeID: -1, Port: -1, ErrorCode: 15, ErrorMessage: kmsg.StringPtr("not available")},
		{Key: "g3", NodeID: -1, Port: -1, ErrorCode: 15},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}

	p.version = 2
	r.NodeID, r.Host, r.Port = 13, brokerHost, 9094
	if out, err = rewriteWhole(p, gates{}, encoded(p, r)); err != nil {
		t.Fatal(err)
	}
	if one := mustDecode(t, p, out).(*kmsg.FindCoordinatorResponse); one.NodeID != -1 || one.Host != "" || one.Port != -1 || one.ErrorCode != 15 {
		t.Errorf("single form without an address: %+v", one)
	}
}

// Every answer that the rewriting takes is one that kmsg takes before and after it, with
// what the oracle says in it; where it is encoded as kmsg would, byte for byte.
func FuzzRewriteAnswer(f *testing.F) {
	table := newPolicy()
	rng := rand.New(rand.NewPCG(2, 2))
	for _, p := range rewrites(table) {
		f.Add(p.key, p.version, encoded(p, filled(rng, kmsg.Key(p.key), p.version)))
	}
	f.Fuzz(func(t *testing.T, key, version int16, in []byte) {
		rule, served := table.rule(key, version)
		if !served {
			return
		}
		if do := rule.at(version); do != actionRewrite && do != actionFront && do != actionTrail {
			return
		}
		p := pending{correlationID: 77, key: key, version: version, rule: rule}
		out, err := rewriteWhole(p, gates{}, in)
		frugal.Check(t, len(in), func() { _, _ = rewriteWhole(p, gates{}, in) })
		if err != nil {
			return
		}
		again, err := rewriteWhole(p, gates{}, out)
		if err != nil || !bytes.Equal(out, again) {
			t.Fatalf("rewriting twice differs: %v\n%x\n%x", err, out, again)
		}
		answer, err := decoded(p, in)
		if err != nil {
			return
		}
		canonical := bytes.Equal(reencoded(p, in, answer), in)
		oracle(gates{}, answer)
		if canonical && !bytes.Equal(reencoded(p, in, answer), out) {
			t.Fatalf("got\n%x\nwant\n%x", out, reencoded(p, in, answer))
		}
		if got := mustDecode(t, p, out); !same(got, answer) {
			t.Fatalf("kmsg reads\n%+v\nwant\n%+v", got, answer)
		}
	})
}

// reencoded is what kmsg makes of an answer, behind the header that it came with.
func reencoded(p pending, in []byte, r kmsg.Response) []byte {
	s := newSplice(in, nil)
	if p.rule.flexibleAt(p.version) {
		s.Tags()
	}
	return r.AppendTo(bytes.Clone(in[:s.At()]))
}

// same tells whether two answers say the same: kmsg encodes them alike.
func same(a, b kmsg.Response) bool { return bytes.Equal(a.AppendTo(nil), b.AppendTo(nil)) }

// An answer that names more brokers than there can be, to grow by the gateway's
// addresses, is no answer.
func TestRewriteBoundsWhatAddressesGrowBy(t *testing.T) {
	table := newPolicy()
	p := pending{key: 3, version: 0, rule: &table[3]}
	for n, fails := range map[int]bool{5000: false, 20000: true} {
		r := kmsg.NewPtrMetadataResponse()
		r.Brokers = make([]kmsg.MetadataResponseBroker, n)
		_, _, err := rewriteAnswer(p, gate(200), encoded(p, r))
		if fails != errors.Is(err, errAnswer) {
			t.Errorf("%d brokers: %v", n, err)
		}
	}
}

// Errors of rewriting say whose they are.
func TestRewriteRefusesWhatItCannotRead(t *testing.T) {
	table := newPolicy()
	for _, p := range rewrites(table) {
		in := encoded(p, filled(rand.New(rand.NewPCG(3, 3)), kmsg.Key(p.key), p.version))
		for n := range min(len(in), 12) {
			if _, err := rewriteWhole(p, gates{}, in[:n]); err == nil && n < 2 {
				t.Errorf("%s v%d cut at %d is taken", kmsg.NameForKey(p.key), p.version, n)
			} else if err != nil && p.rule.action == actionRewrite && !errors.Is(err, errAnswer) {
				t.Errorf("%s v%d cut at %d: untyped error %v", kmsg.NameForKey(p.key), p.version, n, err)
			}
		}
	}
}
