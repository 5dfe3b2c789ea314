//go:build race

package connections

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// Each invariant is asserted: a connection in which it does not hold panics, one in which
// it does goes on.
func TestBrokenInvariantsAreNoticed(t *testing.T) {
	now := time.Now()
	plain, quiet, join := Request{Answered: true}, Request{}, Request{Answered: true, Wait: Unbounded}
	// served is a connection in use, 10 s before its session's end, that owes an answer.
	served := func() *KafkaConnection {
		c := newConnection(Target{}, ScramOverMtls, &Dialer{}, ClientInfo{})
		c.leg = &leg{begin: now.Add(-time.Minute), lifetime: 70 * time.Second}
		c.out, c.state, c.stop = c.leg, Open, now.Add(9*time.Second)
		c.books.begin(plain, now)
		return c
	}
	begin := func(r Request) func(*KafkaConnection) {
		return func(c *KafkaConnection) { c.assertBeginLocked(r, now) }
	}
	own := Request{Answered: true, own: true}
	for _, row := range []struct {
		name   string
		spoil  func(*KafkaConnection)
		do     func(*KafkaConnection)
		broken string // "": it holds
	}{
		{"a request", func(*KafkaConnection) {}, begin(plain), ""},
		{"an own one in a renewal", func(c *KafkaConnection) { c.state = Reauthenticating }, begin(own), ""},
		{"a fence", func(c *KafkaConnection) { c.renewal.fencing = true }, begin(own), ""},
		{"after the end", func(c *KafkaConnection) { c.state = Closed }, begin(plain), "in state Closed"},
		{"in a renewal", func(c *KafkaConnection) { c.state = Reauthenticating }, begin(plain), "between SaslHandshake"},
		{"an own one in no renewal", func(*KafkaConnection) {}, begin(own), "an own request in state Open"},
		{"on a leg that is left", func(c *KafkaConnection) { c.state = Draining }, begin(plain), "leg that is left"},
		{"after the session end", func(c *KafkaConnection) { c.leg.lifetime = time.Minute }, begin(plain), "after the session end"},
		{"behind one without a bound", func(c *KafkaConnection) { c.books.begin(join, now) }, begin(plain), "may outlast"},
		{"behind one that lasts for long", func(c *KafkaConnection) { c.books.begin(Request{Answered: true, Wait: time.Minute}, now) }, begin(plain), "may outlast"},
		{"where books are wrong", func(c *KafkaConnection) { c.books.requests++ }, begin(plain), "their sum is"},
		{"where a wait is forgotten", func(c *KafkaConnection) { c.books.wait += time.Second }, begin(plain), "their sum is"},

		{"a re-authentication", func(*KafkaConnection) {}, func(c *KafkaConnection) { c.assertReauthLocked(now) }, ""},
		{"within a request", func(c *KafkaConnection) { c.writing = true }, func(c *KafkaConnection) { c.assertReauthLocked(now) }, "within a request"},
		{"too early", func(c *KafkaConnection) { c.renewal.notBefore = now.Add(time.Second) }, func(c *KafkaConnection) { c.assertReauthLocked(now) }, "1s early"},
		{"beside a swap", func(c *KafkaConnection) { c.renewal.swapping = true }, func(c *KafkaConnection) { c.assertReauthLocked(now) }, "beside a swap"},

		{"a swap", func(c *KafkaConnection) { c.books.answered(now) }, func(c *KafkaConnection) { c.assertSwitchLocked(&leg{}) }, ""},
		{"with something unanswered", func(*KafkaConnection) {}, func(c *KafkaConnection) { c.assertSwitchLocked(&leg{}) }, "1 requests unanswered"},
		{"with an acks=0 produce", func(c *KafkaConnection) { c.books.answered(now); c.books.begin(quiet, now) },
			func(c *KafkaConnection) { c.assertSwitchLocked(&leg{}) }, "1 requests unanswered"},
		{"of share sessions", func(c *KafkaConnection) { c.books.answered(now); c.renewal.tied = true },
			func(c *KafkaConnection) { c.assertSwitchLocked(&leg{}) }, "share sessions"},
		{"for itself", func(c *KafkaConnection) { c.books.answered(now) }, func(c *KafkaConnection) { c.assertSwitchLocked(c.leg) }, "for itself"},

		{"bytes", func(*KafkaConnection) {}, (*KafkaConnection).assertWrite, ""},
		{"bytes for a leg that was left", func(c *KafkaConnection) { c.leg = &leg{} }, (*KafkaConnection).assertWrite, "not in use"},
	} {
		c := served()
		row.spoil(c)
		said := panics(func() { row.do(c) })
		if row.broken == "" && said != "" || row.broken != "" && !strings.Contains(said, "invariant broken: ") || !strings.Contains(said, row.broken) {
			t.Errorf("%s: %q", row.name, said)
		}
	}
}

// panics is what f panics with.
func panics(f func()) (said string) {
	defer func() {
		if r := recover(); r != nil {
			said = fmt.Sprint(r)
		}
	}()
	f()
	return ""
}
