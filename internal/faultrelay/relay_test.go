package faultrelay

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is for what comes at once on any machine.
const patience = 30 * time.Second

// pair is a relay and both ends of one connection through it, which end with the test.
func pair(t *testing.T) (r *Relay, client, server *net.TCPConn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	r, err = New("127.0.0.1:0", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	c, err := net.Dial("tcp", r.Address())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	s, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	for _, end := range []net.Conn{c, s} {
		if err := end.SetDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
	}
	return r, c.(*net.TCPConn), s.(*net.TCPConn)
}

// send writes and closes the half, beside the test.
func send(t *testing.T, c *net.TCPConn, b []byte) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = c.Write(b)
		_ = c.CloseWrite()
	}()
	t.Cleanup(func() { _ = c.Close(); <-done })
}

func noise(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rand.Uint32())
	}
	return b
}

func same(t *testing.T, from io.Reader, want []byte) {
	t.Helper()
	got, err := io.ReadAll(from)
	if err != nil || !bytes.Equal(got, want) {
		t.Fatalf("%d bytes came of %d, the same: %t, %v", len(got), len(want), bytes.Equal(got, want), err)
	}
}

// ended wants the other side to be gone by a reset.
func ended(t *testing.T, c *net.TCPConn) {
	t.Helper()
	if _, err := io.Copy(io.Discard, c); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the connection ended with %v, not by a reset", err)
	}
}

// silent wants nothing to come for a while.
func silent(t *testing.T, c *net.TCPConn) {
	t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(200 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	var b [1]byte
	if n, err := c.Read(b[:]); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%d bytes and %v came", n, err)
	}
	if err := c.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
}

// await waits until the relay has done something.
func await(t *testing.T, done func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it has not come to that")
		}
	}
}

func TestBytesPassBothWaysWhateverTheirShape(t *testing.T) {
	for name, f := range map[string]Faults{
		"no fault":             {},
		"slices of one byte":   {Slice: 1},
		"late, with jitter":    {Latency: 20 * time.Millisecond, Jitter: 20 * time.Millisecond},
		"slow":                 {Rate: 10 << 20},
		"a reset far away":     {ResetAt: 1 << 40},
		"all that harms none":  {Latency: 5 * time.Millisecond, Jitter: 5 * time.Millisecond, Rate: 10 << 20, Slice: 700},
		"a rate below a slice": {Rate: 2 << 20, Slice: 1 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			r, client, server := pair(t)
			r.SetBoth(f)
			up, down := noise(200_000), noise(300_000)
			if f.Slice == 1 {
				up, down = up[:20_000], down[:30_000]
			}
			send(t, client, up)
			same(t, server, up) // its end came, and the other direction goes on
			send(t, server, down)
			same(t, client, down)
			if a, b := r.Passed(ToTarget), r.Passed(ToClient); a != int64(len(up)) || b != int64(len(down)) {
				t.Errorf("it counts %d and %d bytes", a, b)
			}
		})
	}
}

func TestLatencyIsOfOneDirectionAndCostsNoThroughput(t *testing.T) {
	r, client, server := pair(t)
	const late = 300 * time.Millisecond
	r.Set(ToClient, Faults{Latency: late})
	up := noise(1000)
	send(t, client, up)
	same(t, server, up)
	// Eight pieces, each as late: they are under way at once.
	down := noise(8 * pieceSize)
	began := time.Now()
	send(t, server, down)
	same(t, client, down)
	if took := time.Since(began); took < late {
		t.Errorf("it was there after %v", took)
	}
}

func TestRateIsKept(t *testing.T) {
	r, client, server := pair(t)
	r.Set(ToTarget, Faults{Rate: 100_000})
	b := noise(50_000)
	began := time.Now()
	send(t, client, b)
	same(t, server, b)
	if took := time.Since(began); took < 450*time.Millisecond {
		t.Errorf("50,000 bytes took %v at 100,000 a second", took)
	}
}

func TestSlicesAreSeparateWrites(t *testing.T) {
	r, client, server := pair(t)
	r.Set(ToTarget, Faults{Slice: 7})
	b := noise(700)
	send(t, client, b)
	same(t, server, b)
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := r.writes[ToTarget]; n < 100 {
		t.Errorf("%d bytes in %d writes", len(b), n)
	}
}

func TestAResetAtAByteHitsBothSides(t *testing.T) {
	r, client, server := pair(t)
	r.Set(ToTarget, Faults{ResetAt: 1234})
	if _, err := client.Write(noise(1234 - 1)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(server, make([]byte, 1234-1)); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Write(noise(100)); err != nil {
		t.Fatal(err)
	}
	ended(t, client)
	if _, err := io.Copy(io.Discard, server); err == nil {
		t.Error("the target saw an end, not a reset")
	}
	if n := r.Passed(ToTarget); n != 1234 {
		t.Errorf("%d bytes passed", n)
	}
}

func TestAHalfOpenLinkLosesOneDirection(t *testing.T) {
	r, client, server := pair(t)
	r.Set(ToTarget, Faults{Swallow: true})
	if _, err := client.Write(noise(500_000)); err != nil { // nothing holds the sender up
		t.Fatal(err)
	}
	silent(t, server)
	down := noise(1000)
	if _, err := server.Write(down); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(client, make([]byte, len(down))); err != nil {
		t.Errorf("the other direction: %v", err)
	}
	if err := client.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	silent(t, server) // not even the end comes
	if n := r.Passed(ToTarget); n != 0 {
		t.Errorf("%d bytes passed", n)
	}
}

func TestAStallHoldsBytesAndEndsUntilItIsOver(t *testing.T) {
	r, client, server := pair(t)
	r.SetBoth(Faults{Stall: true})
	b := noise(1000)
	send(t, client, b)
	silent(t, server)
	r.Heal()
	same(t, server, b)
}

func TestAStallStopsItsSenderInTheEnd(t *testing.T) {
	r, client, server := pair(t)
	r.Set(ToTarget, Faults{Stall: true})
	if err := client.SetWriteDeadline(time.Now().Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	// More than the line and all sockets' buffers hold.
	n, err := client.Write(make([]byte, 256<<20))
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("%d bytes were taken: %v", n, err)
	}
	r.Heal()
	if _, err := io.ReadFull(server, make([]byte, n)); err != nil {
		t.Errorf("what was taken came only in part: %v", err)
	}
}

func TestFaultsBeginAtAByte(t *testing.T) {
	for name, f := range map[string]Faults{"stalled": {Stall: true}, "swallowed": {Swallow: true}} {
		t.Run(name, func(t *testing.T) {
			r, client, server := pair(t)
			f.From = 321
			r.Set(ToTarget, f)
			b := noise(1000)
			if _, err := client.Write(b); err != nil {
				t.Fatal(err)
			}
			got := make([]byte, f.From)
			if _, err := io.ReadFull(server, got); err != nil || !bytes.Equal(got, b[:f.From]) {
				t.Fatalf("not the first bytes, %v", err)
			}
			silent(t, server)
		})
	}
}

func TestConnectionsWithFaultsOfTheirOwn(t *testing.T) {
	r, client, server := pair(t)
	r.Vary(func(n int) (toTarget, toClient Faults) {
		return Faults{ResetAt: int64(n + 1)}, Faults{}
	})
	for n := range 3 {
		c, err := net.Dial("tcp", r.Address())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write(noise(10)); err != nil {
			t.Fatal(err)
		}
		ended(t, c.(*net.TCPConn))
		want := int64((n + 1) * (n + 2) / 2)
		await(t, func() bool { return r.Passed(ToTarget) == want })
	}
	b := noise(10) // the one before has none
	send(t, client, b)
	same(t, server, b)
}

func TestAWatcherSeesBytesBeforeTheyPass(t *testing.T) {
	r, client, server := pair(t)
	seen, pass := make(chan []byte), make(chan struct{})
	r.Watch(func(n int, d Direction, b []byte) {
		if n == 0 && d == ToTarget {
			seen <- bytes.Clone(b)
			<-pass
		}
	})
	b := noise(100)
	if _, err := client.Write(b); err != nil {
		t.Fatal(err)
	}
	if got := <-seen; !bytes.Equal(got, b) {
		t.Errorf("%d bytes, not those that were sent", len(got))
	}
	silent(t, server)
	close(pass)
	if _, err := io.ReadFull(server, make([]byte, len(b))); err != nil {
		t.Error(err)
	}
	r.Watch(nil)
	send(t, client, b)
	same(t, server, b)
}

func TestCutAndRefuse(t *testing.T) {
	r, client, server := pair(t)
	r.Cut()
	ended(t, client)
	ended(t, server)
	r.Refuse(true)
	c, err := net.Dial("tcp", r.Address())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if n, err := io.Copy(io.Discard, c); n != 0 || err != nil {
		t.Errorf("refused: %d bytes, %v", n, err)
	}
	await(t, func() bool { return r.Accepted() == 2 })
}

func TestATargetThatIsNotThereClosesTheClient(t *testing.T) {
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = gone.Close()
	r, err := New("127.0.0.1:0", gone.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	c, err := net.Dial("tcp", r.Address())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if n, err := io.Copy(io.Discard, c); n != 0 || err != nil {
		t.Errorf("%d bytes, %v", n, err)
	}
}

// Close ends connections whatever they are about, and goleak sees that all of it is gone.
func TestCloseEndsAndWaits(t *testing.T) {
	for name, f := range map[string]Faults{
		"flowing": {}, "stalled": {Stall: true}, "late": {Latency: time.Hour}, "slow": {Rate: 1}, "half open": {Swallow: true},
	} {
		t.Run(name, func(t *testing.T) {
			r, client, server := pair(t)
			r.SetBoth(f)
			send(t, client, noise(100_000))
			if name == "flowing" {
				await(t, func() bool { return r.Passed(ToTarget) > 0 })
			}
			for range 2 {
				if err := r.Close(); err != nil {
					t.Error(err)
				}
			}
			if _, err := io.Copy(io.Discard, server); errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error("the target's connection lives on")
			}
		})
	}
}
