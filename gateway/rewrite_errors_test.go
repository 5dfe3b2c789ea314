package gateway

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"doorkeeper/internal/frugal"
)

// S11: what brokers print is left out, to the last parenthesis; what is left is told as it
// was, and every message without a connection in it stays.
func TestScrubbedMessages(t *testing.T) {
	for message, want := range map[string]string{
		"":                                     "",
		"Cluster authorization failed.":        "Cluster authorization failed.",
		"Request Request() is not authorized.": "Request Request() is not authorized.",
		"Request Request(processor=1, connectionId=10.0.0.1:9094-10.0.0.2:1-0) is not so.":    "Request Request() is not so.",
		"(connectionId=a, envelope=Optional[Request(connectionId=b, x=y(z))]) needs ALTER.":   "() needs ALTER.",
		"Request(connectionId=a, session=Session(User:x), y,/10.0.0.1), envelope=None) ends.": "Request() ends.",
		"connectionId=a:1-b:2":                  "",
		"of connectionId=a:1-b:2":               "",
		"(connectionId=a) and connectionId=b":   "(",
		"() connectionId=a (b) c":               "() c",
		"ConnectionID=a (what a topic is like)": "ConnectionID=a (what a topic is like)",
	} {
		if got := string(scrubbed([]byte(message))); got != want {
			t.Errorf("%q becomes %q, not %q", message, got, want)
		}
		if got := unprinted(message); got != want {
			t.Errorf("the oracle makes %q of %q, not %q", got, message, want)
		}
	}
}

// S11: in answers whose bytes are not those that kmsg would have chosen, the message alone
// changes.
func TestScrubKeepsOddBytes(t *testing.T) {
	table := newPolicy()
	const printed = "Request Request(connectionId=10.0.0.1:9094-10.0.0.2:7-0) is not authorized."
	const told = "Request Request() is not authorized."
	answer := func(message string) []byte {
		front := []byte{0x80, 0x00, 0, 0, 0, 5, 0, 31} // no header tags, in two bytes; throttle time; the error
		front = append(front, byte(len(message)+1)|0x80, 0)
		return append(append(front, message...), "whatever comes behind, such as connectionId=1"...)
	}
	p := pending{key: int16(kmsg.DescribeACLs), version: 3, rule: &table[kmsg.DescribeACLs]}
	out, changed, err := rewriteAnswer(p, nil, answer(printed))
	want := answer(told)
	want = append(append(bytes.Clone(want[:8]), byte(len(told)+1)), want[10:]...) // its length takes one byte where it is written anew
	if err != nil || !changed || !bytes.Equal(out, want) {
		t.Errorf("%v, %v\n%q\nwant\n%q", changed, err, out, want)
	}
	if _, changed, err := rewriteAnswer(p, nil, answer(told)); err != nil || changed {
		t.Errorf("nothing to leave out: %v, %v", changed, err)
	}
}

// Whatever a message says, it has no connection in it behind the scrubbing, is no longer
// than it was, begins and ends as it did, and stays as it is the second time.
func FuzzScrubbed(f *testing.F) {
	for _, m := range messages {
		f.Add([]byte(m))
	}
	f.Add([]byte(")connectionId=(connectionId=)("))
	f.Add([]byte(strings.Repeat("(connectionId=)", 2000)))
	f.Fuzz(func(t *testing.T, message []byte) {
		kept := bytes.Clone(message)
		out := scrubbed(message)
		frugal.Check(t, len(message), func() { scrubbed(message) })
		switch {
		case !bytes.Equal(kept, message):
			t.Fatal("the message itself has changed")
		case bytes.Contains(out, connectionMark):
			t.Fatalf("a connection is left: %q", out)
		case len(out) > len(message) || !bytes.Equal(scrubbed(out), out):
			t.Fatalf("%q becomes %q, and then %q", message, out, scrubbed(out))
		case !bytes.Contains(message, connectionMark) && !bytes.Equal(out, message):
			t.Fatalf("%q becomes %q", message, out)
		case string(out) != unprinted(string(message)):
			t.Fatalf("%q becomes %q, not %q", message, out, unprinted(string(message)))
		}
	})
}

// S11: the same through a whole gateway, in whatever TLS records answers come. What lists
// ACLs may be larger than anything that is held.
func TestPrintedRequestsAreLeftOutOnTheWay(t *testing.T) {
	f := newFixture(t, nil)
	rng := rand.New(rand.NewPCG(6, 6))
	pass := func(p pending, in []byte) {
		t.Helper()
		f.broker.mu.Lock()
		f.broker.raw = pieces(in)
		f.broker.mu.Unlock()
		c := f.dial("alice")
		defer func() { _ = c.Close() }()
		c.send(request(p), request(p))
		want, _, err := rewriteAnswer(p, nil, in)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if id, got := c.receive(); id != 5 || !bytes.Equal(got, want) {
				t.Fatalf("%s v%d: %d bytes of %d, not the %d expected", kmsg.NameForKey(p.key), p.version, len(got), len(in), len(want))
			}
		}
	}
	for _, p := range rewrites(newPolicy()) {
		if answer := filled(rng, kmsg.Key(p.key), p.version); scrubs(answer) {
			pass(p, encoded(p, answer))
		}
	}
	for _, size := range []int{100, 60 << 10, 65_400, 65_528, 65_600, 70 << 10, maxWholeAnswer + 1<<20} {
		for _, message := range messages[1:4] {
			r := kmsg.NewPtrDescribeACLsResponse()
			r.ErrorMessage = kmsg.StringPtr(message)
			for left := size; left > 0; left -= 30_000 {
				r.Resources = append(r.Resources, kmsg.DescribeACLsResponseResource{ResourceName: strings.Repeat("r", min(left, 30_000))})
			}
			p := pending{key: int16(kmsg.DescribeACLs), version: 3, rule: &f.policy[kmsg.DescribeACLs]}
			pass(p, encoded(p, r))
			if size > maxWholeAnswer {
				break
			}
		}
	}
}

// An answer that is cut within its message, or whose header leaves no room for it, is none.
func TestFrontsThatCannotBeRead(t *testing.T) {
	f := newFixture(t, nil)
	p := pending{key: int16(kmsg.DescribeACLs), version: 3, rule: &f.policy[kmsg.DescribeACLs]}
	r := kmsg.NewPtrDescribeACLsResponse()
	r.ErrorMessage = kmsg.StringPtr(messages[2])
	whole := encoded(p, r)
	tags := append([]byte{1, 42, 0x80, 0x80, 0x05}, make([]byte, 80<<10)...) // a tag of 80 KiB
	for name, in := range map[string][]byte{"cut": whole[:30], "hidden behind tags": append(tags, whole[len(headTags):]...)} {
		f.broker.mu.Lock()
		f.broker.raw = pieces(in)
		f.broker.mu.Unlock()
		before := f.observer.count(ReasonBrokerFault)
		c := f.dial("alice")
		c.send(request(p))
		c.closed()
		f.eventually(name, func() bool { return f.observer.count(ReasonBrokerFault) == before+1 })
	}
}
