package gateway

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"net"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"doorkeeper/internal/wire"
)

// pieces answers every request with the same bytes behind the correlation id, written in
// pieces of random size, each a TLS record of its own.
func pieces(answer []byte) func(net.Conn) {
	rng := rand.New(rand.NewPCG(6, 6))
	return func(conn net.Conn) {
		for {
			a, err := readAsked(conn)
			if err != nil {
				return
			}
			frame := binary.BigEndian.AppendUint32(nil, uint32(len(answer)+4))
			frame = binary.BigEndian.AppendUint32(frame, uint32(a.correlation))
			frame = append(frame, answer...)
			for len(frame) > 0 {
				n := min(len(frame), 1+rng.IntN(1+rng.IntN(40000)))
				if _, err := conn.Write(frame[:n]); err != nil {
					return
				}
				frame = frame[n:]
			}
		}
	}
}

// request is one of the kind that p answers.
func request(p pending) []byte {
	r := kmsg.RequestForKey(p.key)
	switch r := r.(type) {
	case *kmsg.ProduceRequest:
		r.Acks = 1
	case *kmsg.ShareFetchRequest:
		r.GroupID, r.MemberID = kmsg.StringPtr("group"), kmsg.StringPtr("member")
	case *kmsg.ShareAcknowledgeRequest:
		r.GroupID, r.MemberID = kmsg.StringPtr("group"), kmsg.StringPtr("member")
	}
	return encode(r, p.version, 5)
}

// S11, B06, B17: the same answers through a whole gateway, whatever TLS records they
// come in. Up to the stated size the addresses are always the gateway's; beyond it, they
// are where they fit. What comes behind such an answer is in its place.
func TestAnswersWithLeadersThroughTheGateway(t *testing.T) {
	table := newPolicy()
	hosts := map[string]string{
		"as long as the gateway's": "10.1.2.34", // 127.0.0.1
		"one byte longer":          "10.1.2.345",
		"much longer":              brokerHost,
		"shorter":                  "b1",
	}
	for _, size := range []int{100, 60 << 10, 100 << 10, 3 << 20} {
		f := newFixture(t, nil)
		for name, host := range hosts {
			for _, p := range led(table) {
				if p.version != p.rule.max && size != 100<<10 {
					continue
				}
				in := encoded(p, leaders(p, size, host, 1))
				f.broker.mu.Lock()
				f.broker.raw = pieces(in)
				f.broker.mu.Unlock()
				c := f.dial("alice")
				c.send(request(p), request(p))
				for range 2 {
					id, got := c.receive()
					want, err := rewriteWhole(p, f.routes, in)
					fitted := true
					if len(in) > wholeTrail {
						want, fitted, err = fitTogether(p, f.routes, in)
					}
					if err != nil || id != 5 {
						t.Fatal(id, err)
					}
					if !bytes.Equal(got, want) {
						t.Fatalf("%s v%d, %d bytes, the broker's host %s: got %d bytes that are not the %d expected", kmsg.NameForKey(p.key), p.version, len(in), name, len(got), len(want))
					}
					if ours := bytes.Contains(got, []byte("127.0.0.1")); ours != fitted || fitted != (len(in) <= wholeTrail || len(host) >= len("127.0.0.1")) {
						t.Errorf("%s v%d, %d bytes, the broker's host %s: the gateway's address in it: %v", kmsg.NameForKey(p.key), p.version, len(in), name, ours)
					}
					if bytes.Contains(got, []byte(host)) {
						t.Errorf("%s v%d, %d bytes: the broker's host %s is left", kmsg.NameForKey(p.key), p.version, len(in), name)
					}
					mustDecode(t, p, got)
				}
				_ = c.Close()
			}
		}
	}
}

// The stated size is the last that is rewritten in full.
func TestTheLargestAnswerRewrittenInFull(t *testing.T) {
	f := newFixture(t, nil)
	table := newPolicy()
	p := pending{key: 1, version: 18, rule: &table[1]}
	overhead := len(encoded(p, leaders(p, 50000, "b1", 1))) - 50000
	for _, size := range []int{wholeTrail, wholeTrail + 1} {
		in := encoded(p, leaders(p, size-overhead, "b1", 1))
		if len(in) != size {
			t.Fatalf("an answer of %d bytes, want %d", len(in), size)
		}
		f.broker.mu.Lock()
		f.broker.raw = pieces(in)
		f.broker.mu.Unlock()
		c := f.dial("alice")
		c.send(request(p))
		_, got := c.receive()
		brokers := mustDecode(t, p, got).(*kmsg.FetchResponse).Brokers
		if full := size <= wholeTrail; full != (len(brokers) == 1) || full != (len(got) == size+len("127.0.0.1")-len("b1")) {
			t.Errorf("of %d bytes became %d, with %d addresses", size, len(got), len(brokers))
		}
	}
}

// A tail that is longer than what answers stream through, and no longer than what is
// held, is rewritten as any other.
func TestALongTailIsRewritten(t *testing.T) {
	f := newFixture(t, nil)
	for _, p := range led(newPolicy()) {
		for _, more := range []int{wire.RecordSize - 1000, wire.RecordSize + 1, 40 << 10} {
			if p.version != p.rule.max {
				continue
			}
			answer := leaders(p, 100<<10, brokerHost, 1)
			var tags kmsg.Tags
			tags.Set(5, bytes.Repeat([]byte{'t'}, more))
			setTags(answer, tags)
			in := encoded(p, answer)
			f.broker.mu.Lock()
			f.broker.raw = pieces(in)
			f.broker.mu.Unlock()
			c := f.dial("alice")
			c.send(request(p), request(p))
			for range 2 {
				_, got := c.receive()
				want, fitted, err := fitTogether(p, f.routes, in)
				if err != nil || !fitted {
					t.Fatal(fitted, err)
				}
				if !bytes.Equal(got, want) || !bytes.Contains(got, []byte("127.0.0.1")) {
					t.Errorf("%s, a tag of %d bytes: %d bytes that are not the %d expected", kmsg.NameForKey(p.key), more, len(got), len(want))
				}
			}
			_ = c.Close()
		}
	}
}

// S13: a tail larger than what is held, and more than leaders' addresses ever take, is
// emptied without having been held.
func TestATailThatIsTooLongToBeHeld(t *testing.T) {
	f := newFixture(t, nil)
	for _, p := range led(newPolicy()) {
		if p.version != p.rule.max {
			continue
		}
		answer := leaders(p, 100<<10, brokerHost, 1)
		var tags kmsg.Tags
		tags.Set(5, bytes.Repeat([]byte(brokerHost), 5000))
		setTags(answer, tags)
		in := encoded(p, answer)
		f.broker.mu.Lock()
		f.broker.raw = pieces(in)
		f.broker.mu.Unlock()
		c := f.dial("alice")
		c.send(request(p), request(p))
		for range 2 {
			_, got := c.receive()
			if len(got) != len(in) || bytes.Contains(got, []byte(brokerHost)) {
				t.Fatalf("%s: %d of %d bytes, or a broker's host", kmsg.NameForKey(p.key), len(got), len(in))
			}
			r, want := mustDecode(t, p, got), mustDecode(t, p, in)
			if !withoutFiller(t, r) || !emptied(r) {
				t.Errorf("%s: the tail still holds something", kmsg.NameForKey(p.key))
			}
			oracle(nobody{}, want)
			setTags(want, kmsg.Tags{})
			if !same(r, want) {
				t.Errorf("%s: something else changed", kmsg.NameForKey(p.key))
			}
		}
		_ = c.Close()
	}
}

// F45: an answer that cannot be walked ends the session; no address in it gets out.
func TestAnAnswerWithLeadersThatCannotBeRead(t *testing.T) {
	f := newFixture(t, nil)
	for _, p := range led(newPolicy()) {
		if p.version != p.rule.max {
			continue
		}
		for name, in := range map[string][]byte{
			"short, cut":           encoded(p, leaders(p, 100, brokerHost, 1)),
			"long, cut":            encoded(p, leaders(p, 100<<10, brokerHost, 1)),
			"short, a byte more":   append(encoded(p, leaders(p, 100, brokerHost, 1)), 0),
			"long, a byte more":    append(encoded(p, leaders(p, 100<<10, brokerHost, 1)), 0),
			"nothing":              {},
			"counts without end":   bytes.Repeat([]byte{0xff}, 100),
			"longer, without end":  bytes.Repeat([]byte{0xff}, 100<<10),
			"a tail all by itself": {1, 0, 0xff, 0xff},
			"a count, then hosts":  append(bytes.Repeat([]byte{0xff}, 40), bytes.Repeat([]byte(brokerHost), 5000)...),
		} {
			if strings.HasSuffix(name, "cut") {
				in = in[:len(in)-3]
			}
			before := f.observer.count(ReasonBrokerFault)
			f.broker.mu.Lock()
			f.broker.raw = pieces(in)
			f.broker.mu.Unlock()
			c := f.dial("alice")
			c.send(request(p))
			got := make([]byte, wire.BufferSize)
			for {
				n, err := c.Read(got)
				if bytes.Contains(got[:n], []byte(brokerHost)) {
					t.Errorf("%s, %s: a broker's host got out", kmsg.NameForKey(p.key), name)
				}
				if err != nil {
					break
				}
			}
			f.eventually("its end", func() bool { return f.observer.count(ReasonBrokerFault) == before+1 })
		}
	}
}
