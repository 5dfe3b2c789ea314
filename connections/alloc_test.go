package connections

import (
	"io"
	"testing"
	"time"
)

// plainEcho answers requests of rawRequest(3, …, n) with as little work and memory as
// it can: what is left is crypto/tls's own.
func plainEcho(n int) func(*visit) {
	return func(v *visit) {
		in := make([]byte, len(rawRequest(3, 0, n)))
		out := make([]byte, 4+4+n)
		for {
			if _, err := io.ReadFull(v.Conn, in); err != nil {
				return
			}
			out[0], out[1], out[2], out[3] = byte((n+4)>>24), byte((n+4)>>16), byte((n+4)>>8), byte(n+4)
			copy(out[4:8], in[8:12])
			if _, err := v.Conn.Write(out); err != nil {
				return
			}
		}
	}
}

// roundTrip is the gateway's way through a connection.
func roundTrip(t testing.TB, c *KafkaConnection, frame, into []byte) {
	if err := c.Begin(Request{Answered: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write(frame); err != nil {
		t.Fatal(err)
	}
	if err := c.End(); err != nil {
		t.Fatal(err)
	}
	if err := c.Flush(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.NextAnswer(); err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := c.Read(into); err != nil {
			break
		}
	}
	c.Answered()
}

// bareTrip moves the same bytes through the stream alone.
func bareTrip(t testing.TB, c *KafkaConnection, frame, head, into []byte) {
	s := c.leg.stream
	if _, err := s.Write(frame); err != nil {
		t.Fatal(err)
	}
	if err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := s.ReadFull(head); err != nil {
		t.Fatal(err)
	}
	for left := len(frame) - len(rawRequest(3, 0, 0)); left > 0; {
		n, err := s.Read(into)
		if err != nil {
			t.Fatal(err)
		}
		left -= n
	}
}

// The hot path allocates nothing. What is measured includes TLS, the sockets and the
// broker of the test, so the same bytes go through the stream alone for comparison.
func TestHotPathAllocatesNothing(t *testing.T) {
	const n = 4096
	l := newLab()
	h := l.listen(t, script{after: plainEcho(n)})
	c := open(t, NewDialer(l.config(nil)), h.target)
	frame, head, into := rawRequest(3, 1, n), make([]byte, answerHead), make([]byte, 32<<10)

	least := func(f func()) float64 { // pools are emptied by the collector now and then
		f()
		best := testing.AllocsPerRun(200, f)
		for range 4 {
			best = min(best, testing.AllocsPerRun(200, f))
		}
		return best
	}
	bare := least(func() { bareTrip(t, c, frame, head, into) })
	whole := least(func() { roundTrip(t, c, frame, into) })
	t.Logf("%v allocations a round trip through the stream alone, %v through the connection", bare, whole)
	if whole > bare+raceSlack {
		t.Errorf("a round trip costs %v allocations, %v of them the stream's", whole, bare)
	}
	// Without input and output the count is exact, race detector or not.
	books := testing.AllocsPerRun(1000, func() {
		_ = c.Begin(Request{Answered: true})
		_ = c.End()
		c.Answered()
	})
	if books != 0 {
		t.Errorf("the bookkeeping of a request costs %v allocations", books)
	}
}

// Nor does a connection that renews itself: not while nothing is newer, and not while a
// newer credential waits for its time.
func TestLookingForANewerCredentialAllocatesNothing(t *testing.T) {
	l := newLab()
	h := l.listen(t, script{})
	s := &supply{}
	s.publish("token-1", 1000*time.Hour)
	s.latest.Store(s.newest.Load())
	c, err := NewDialer(l.config(nil)).OpenRenewing(t.Context(), h.target, sampleCredential(), ClientInfo{}, s)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	for _, newer := range []bool{false, true} {
		if newer {
			s.publish("token-2", 1000*time.Hour)
		}
		books := testing.AllocsPerRun(1000, func() {
			_ = c.Begin(Request{Answered: true, Wait: time.Millisecond})
			_ = c.End()
			c.Answered()
		})
		if books != 0 {
			t.Errorf("a newer one: %v; the bookkeeping of a request costs %v allocations", newer, books)
		}
		if c.State() != Open {
			t.Errorf("%v", c.State())
		}
	}
}

func BenchmarkRoundTrip(b *testing.B) {
	for name, trip := range map[string]func(*KafkaConnection, []byte, []byte, []byte){
		"stream":     func(c *KafkaConnection, frame, head, into []byte) { bareTrip(b, c, frame, head, into) },
		"connection": func(c *KafkaConnection, frame, _, into []byte) { roundTrip(b, c, frame, into) },
	} {
		b.Run(name, func(b *testing.B) {
			const n = 4096
			l := newLab()
			h := l.listen(b, script{after: plainEcho(n)})
			c := open(b, NewDialer(l.config(nil)), h.target)
			frame, head, into := rawRequest(3, 1, n), make([]byte, answerHead), make([]byte, 32<<10)
			b.ReportAllocs()
			b.SetBytes(2 * n)
			for b.Loop() {
				trip(c, frame, head, into)
			}
		})
	}
}

// BenchmarkAdmission is the bookkeeping alone, with a hundred requests in flight.
func BenchmarkAdmission(b *testing.B) {
	l := newLab()
	h := l.listen(b, script{})
	c := open(b, NewDialer(l.config(nil)), h.target)
	for range 100 {
		if err := c.Begin(Request{Answered: true}); err != nil {
			b.Fatal(err)
		}
		_ = c.End()
	}
	b.ReportAllocs()
	for b.Loop() {
		_ = c.Begin(Request{Answered: true})
		_ = c.End()
		c.Answered()
	}
}
