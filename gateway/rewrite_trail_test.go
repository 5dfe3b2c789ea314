package gateway

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"doorkeeper/internal/frugal"
)

// gate is an advertiser whose host has so many bytes; node 13 has no address.
type gate int

func (g gate) advertise(node int32) (string, int32, bool) {
	return strings.Repeat("g", int(g)), 9100 + node, node != 13
}

// led are the answers that end with addresses, at every version that does.
func led(table policy) (all []pending) {
	for _, p := range rewrites(table) {
		if p.rule.action == actionTrail {
			all = append(all, p)
		}
	}
	return all
}

// leaders is an answer that ends with these nodes' addresses, behind records of so many
// bytes.
func leaders(p pending, records int, host string, nodes ...int32) kmsg.Response {
	r := kmsg.ResponseForKey(p.key)
	r.SetVersion(p.version)
	switch r := r.(type) {
	case *kmsg.ProduceResponse:
		part := kmsg.NewProduceResponseTopicPartition()
		part.ErrorCode, part.CurrentLeader.LeaderID = 6, 1
		message := strings.Repeat("m", min(records, 32000))
		for range 1 + records/32000 { // an answer to a produce has no records, but it can have a lot to say
			part.ErrorRecords = append(part.ErrorRecords, kmsg.ProduceResponseTopicPartitionErrorRecord{ErrorMessage: &message})
		}
		r.Topics = []kmsg.ProduceResponseTopic{{Topic: "topic", Partitions: []kmsg.ProduceResponseTopicPartition{part}}}
		for _, node := range nodes {
			r.Brokers = append(r.Brokers, kmsg.ProduceResponseBroker{NodeID: node, Host: host, Port: 9094, Rack: kmsg.StringPtr("rack")})
		}
		r.UnknownTags = tagged()
	case *kmsg.FetchResponse:
		part := kmsg.NewFetchResponseTopicPartition()
		part.ErrorCode, part.CurrentLeader.LeaderID, part.RecordBatches = 6, 1, bytes.Repeat([]byte{0xd5}, records)
		r.Topics = []kmsg.FetchResponseTopic{{Partitions: []kmsg.FetchResponseTopicPartition{part}}}
		for _, node := range nodes {
			r.Brokers = append(r.Brokers, kmsg.FetchResponseBroker{NodeID: node, Host: host, Port: 9094, Rack: kmsg.StringPtr("rack")})
		}
		r.UnknownTags = tagged()
	case *kmsg.ShareFetchResponse:
		part := kmsg.NewShareFetchResponseTopicPartition()
		part.ErrorCode, part.CurrentLeader.LeaderID, part.Records = 6, 1, bytes.Repeat([]byte{0xd5}, records)
		r.Topics = []kmsg.ShareFetchResponseTopic{{Partitions: []kmsg.ShareFetchResponseTopicPartition{part}}}
		for _, node := range nodes {
			r.NodeEndpoints = append(r.NodeEndpoints, kmsg.ShareFetchResponseNodeEndpoint{NodeID: node, Host: host, Port: 9094, Rack: kmsg.StringPtr("rack")})
		}
		r.UnknownTags = tagged()
	case *kmsg.ShareAcknowledgeResponse:
		message := strings.Repeat("m", min(records, 32000))
		for range 1 + records/32000 {
			part := kmsg.NewShareAcknowledgeResponseTopicPartition()
			part.ErrorCode, part.ErrorMessage = 6, &message
			r.Topics = append(r.Topics, kmsg.ShareAcknowledgeResponseTopic{Partitions: []kmsg.ShareAcknowledgeResponseTopicPartition{part}})
		}
		for _, node := range nodes {
			r.NodeEndpoints = append(r.NodeEndpoints, kmsg.ShareAcknowledgeResponseNodeEndpoint{NodeID: node, Host: host, Port: 9094, Rack: kmsg.StringPtr("rack")})
		}
		r.UnknownTags = tagged()
	}
	return r
}

// fitTogether is what becomes of an answer that streams.
func fitTogether(p pending, a advertiser, in []byte) (out []byte, fitted bool, err error) {
	at, err := tailOf(p, in)
	if err != nil || p.rule.trail.bare(in[at:]) {
		return in, true, err
	}
	tail, fitted, err := p.rule.trail.fitTail(in[at:], a)
	return append(bytes.Clone(in[:at]), tail...), fitted, err
}

// withoutFiller takes what fills a tail out of a decoded answer, and tells whether there
// was any.
func withoutFiller(t *testing.T, r kmsg.Response) bool {
	t.Helper()
	filling := takeFiller(r)
	if len(bytes.Trim(filling, "\x00")) > 0 {
		t.Fatalf("the filler holds %q", filling)
	}
	return filling != nil
}

// takeFiller takes the tag with the filler's number out of a decoded answer.
func takeFiller(r kmsg.Response) (filling []byte) {
	var tags, others kmsg.Tags
	switch r := r.(type) {
	case *kmsg.ProduceResponse:
		tags = r.UnknownTags
	case *kmsg.FetchResponse:
		tags = r.UnknownTags
	case *kmsg.ShareFetchResponse:
		tags = r.UnknownTags
	case *kmsg.ShareAcknowledgeResponse:
		tags = r.UnknownTags
	}
	tags.Each(func(number uint32, value []byte) {
		if number == filler {
			filling = value
		} else {
			others.Set(number, value)
		}
	})
	setTags(r, others)
	return filling
}

// S11, B06, B17: the line, for a broker's host of 100 bytes. Where the gateway's
// addresses take as many bytes or less they are in the answer, whose length is what it
// was; where they take more, none are in it, and never a broker's. Either way kmsg reads
// it, and nothing else in it is another.
func TestTailsOnEitherSideOfTheLine(t *testing.T) {
	host := strings.Repeat("b", 100)
	for _, p := range led(newPolicy()) {
		in := encoded(p, leaders(p, 10, host, 1, 2))
		sides := make(map[bool]string)
		for g := range 140 {
			out, fitted, err := fitTogether(p, gate(g), in)
			if err != nil {
				t.Fatal(err)
			}
			name := fmt.Sprintf("%s v%d with a host of %d bytes", kmsg.NameForKey(p.key), p.version, g)
			if fitted != (g <= 100) {
				t.Errorf("%s: rewritten %v", name, fitted)
			}
			if len(out) != len(in) {
				t.Fatalf("%s: %d bytes of %d", name, len(out), len(in))
			}
			if bytes.Contains(out, []byte("bbbbbbbb")) {
				t.Fatalf("%s: a broker's host is left", name)
			}
			got := mustDecode(t, p, out)
			if filled := withoutFiller(t, got); filled != (g < 100 || !fitted) {
				t.Errorf("%s: filled up %v", name, filled)
			}
			want := mustDecode(t, p, in)
			if fitted {
				oracle(gate(g), want)
			} else {
				oracle(nobody{}, want)
			}
			if !same(got, want) {
				t.Errorf("%s: got\n%+v\nwant\n%+v", name, got, want)
			}
			again, _, err := fitTogether(p, gate(g), out)
			if err != nil || !bytes.Equal(again, out) {
				t.Errorf("%s: the second time changes something more: %v", name, err)
			}
			sides[fitted] += fmt.Sprint(" ", g)
		}
		t.Logf("%s v%d: rewritten with hosts of%s; left out with%s", kmsg.NameForKey(p.key), p.version, sides[true], sides[false])
	}
}

// Every gap there can be, by itself: nothing to fill, one byte, the sizes around which
// a filler's own length takes another byte, and what there is no room for.
func TestStretch(t *testing.T) {
	for _, gap := range []int{0, 1, 2, 3, 4, 128, 129, 130, 131, 132, 16384, 16385, 16386, 16387, 16388, 16389, 70000} {
		for _, tail := range [][]byte{{0}, {1, 42, 2, 'h', 'i'}, {0x81, 0x00, 42, 0}} {
			out, ok := stretch(tail, 0, len(tail)+gap)
			if !ok || len(out) != len(tail)+gap {
				t.Fatalf("gap %d behind %x: %d bytes, %v", gap, tail, len(out), ok)
			}
			s := newSplice(out, nil)
			found := 0
			s.EachTag(func(number int, value []byte) {
				if found++; number != filler && number != 42 || number == filler && len(bytes.Trim(value, "\x00")) > 0 {
					t.Errorf("gap %d behind %x: tag %d with %q", gap, tail, number, value)
				}
			})
			want := int(tail[0] & 1)
			if gap > 1 {
				want++
			}
			if err := s.Complete(); err != nil || found != want {
				t.Errorf("gap %d behind %x: %d tags, want %d, %v", gap, tail, found, want, err)
			}
		}
	}
	if _, ok := stretch([]byte{0x80, 0x80, 0x80, 0x80, 0x00}, 0, 6); ok {
		t.Error("a number of more than 5 bytes")
	}
	if _, ok := stretch([]byte{1, filler, 0}, 0, 8); ok {
		t.Error("the filler's number twice")
	}
}

// A tail that cannot be filled up beside what it has is emptied, at its length; so is
// one that is too long to be held.
func TestEmptyTails(t *testing.T) {
	for _, p := range led(newPolicy()) {
		answer := leaders(p, 10, brokerHost, 1)
		var tags kmsg.Tags
		tags.Set(filler, []byte("taken"))
		setTags(answer, tags)
		in := encoded(p, answer)
		for _, g := range []gate{5, 60} {
			out, fitted, err := fitTogether(p, g, in)
			if err != nil || fitted || len(out) != len(in) || bytes.Contains(out, []byte(brokerHost)) {
				t.Fatalf("%s v%d: %d of %d bytes, %v, %v", kmsg.NameForKey(p.key), p.version, len(out), len(in), fitted, err)
			}
			got, want := mustDecode(t, p, out), mustDecode(t, p, in)
			withoutFiller(t, got)
			setTags(want, kmsg.Tags{})
			oracle(nobody{}, want)
			if !same(got, want) {
				t.Errorf("%s v%d: got\n%+v\nwant\n%+v", kmsg.NameForKey(p.key), p.version, got, want)
			}
		}
		at, err := tailOf(p, in)
		if err != nil {
			t.Fatal(err)
		}
		for _, size := range []int{4, 129, 130, 131, 132, 133, 70 << 10, 3 << 20} {
			tail := p.rule.trail.emptyTail(nil, size)
			if len(tail) != size {
				t.Fatalf("%d bytes, want %d", len(tail), size)
			}
			got := mustDecode(t, p, append(bytes.Clone(in[:at]), tail...))
			if !withoutFiller(t, got) {
				t.Errorf("%s v%d: nothing in an empty tail of %d bytes", kmsg.NameForKey(p.key), p.version, size)
			}
		}
	}
}

func setTags(r kmsg.Response, tags kmsg.Tags) {
	switch r := r.(type) {
	case *kmsg.ProduceResponse:
		r.UnknownTags = tags
	case *kmsg.FetchResponse:
		r.UnknownTags = tags
	case *kmsg.ShareFetchResponse:
		r.UnknownTags = tags
	case *kmsg.ShareAcknowledgeResponse:
		r.UnknownTags = tags
	}
}

// Whatever is fitted into its old length has that length, keeps every byte before the
// tail, says what the full rewriting says or nothing, and stays as it is the second
// time.
func FuzzFitTail(f *testing.F) {
	table := newPolicy()
	rng := rand.New(rand.NewPCG(5, 5))
	for _, p := range led(table) {
		f.Add(p.key, p.version, uint8(20), encoded(p, leaders(p, 10, brokerHost, 1, 13)))
		f.Add(p.key, p.version, uint8(36), encoded(p, filled(rng, kmsg.Key(p.key), p.version)))
		f.Add(p.key, p.version, uint8(35), encoded(p, leaders(p, 10, brokerHost, 1)))
	}
	f.Fuzz(func(t *testing.T, key, version int16, g uint8, in []byte) {
		rule, served := table.rule(key, version)
		if !served || rule.at(version) != actionTrail {
			return
		}
		p := pending{key: key, version: version, rule: rule}
		out, fitted, err := fitTogether(p, gate(g), in)
		full, errFull := rewriteWhole(p, gate(g), in)
		if (err == nil) != (errFull == nil) {
			t.Fatalf("in its length %v, in full %v", err, errFull)
		}
		if err != nil {
			return
		}
		at, _ := tailOf(p, in)
		frugal.Check(t, len(in), func() {
			if at, _ := tailOf(p, in); !p.rule.trail.bare(in[at:]) {
				_, _, _ = p.rule.trail.fitTail(in[at:], gate(g%24))
			}
		})
		if len(out) != len(in) || !bytes.Equal(out[:at], in[:at]) {
			t.Fatalf("%d of %d bytes, or another before byte %d", len(out), len(in), at)
		}
		if again, _, err := fitTogether(p, gate(g), out); err != nil || !bytes.Equal(again, out) {
			t.Fatalf("the second time differs: %v\n%x\n%x", err, out, again)
		}
		answer, err := decoded(p, in)
		if err != nil {
			return
		}
		got := mustDecode(t, p, out)
		want := mustDecode(t, p, full)
		if !fitted {
			oracle(nobody{}, answer)
			want = answer
		}
		_, _ = takeFiller(got), takeFiller(want)
		if !same(got, want) && !emptied(got) {
			t.Fatalf("fitted %v: got\n%+v\nwant\n%+v", fitted, got, want)
		}
	})
}

// emptied tells of an answer that it has neither addresses nor unknown tags at its end.
func emptied(r kmsg.Response) bool {
	switch r := r.(type) {
	case *kmsg.ProduceResponse:
		return len(r.Brokers)+r.UnknownTags.Len() == 0
	case *kmsg.FetchResponse:
		return len(r.Brokers)+r.UnknownTags.Len() == 0
	case *kmsg.ShareFetchResponse:
		return len(r.NodeEndpoints)+r.UnknownTags.Len() == 0
	case *kmsg.ShareAcknowledgeResponse:
		return len(r.NodeEndpoints)+r.UnknownTags.Len() == 0
	}
	return false
}
