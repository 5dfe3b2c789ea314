package gateway

import (
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"doorkeeper/connections"
)

// ask has the client's request answered, with its own correlation id.
func (c *client) ask(correlation int32) {
	c.t.Helper()
	c.send(encode(kmsg.NewPtrHeartbeatRequest(), 4, correlation))
	if got, _ := c.receive(); got != correlation {
		c.t.Fatalf("answer %d, want %d", got, correlation)
	}
}

// counts returns how often clients logged in and renewed, and with which tokens.
func (b *broker) counts() (logins, renewals int, names []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.logins, b.renewals, slices.Clone(b.names)
}

// F7, F41: a session outlives its login and its token, on one client leg and one broker
// leg, and the client sees nothing of it.
func TestASessionOutlivesItsToken(t *testing.T) {
	f := newFixture(t, nil)
	f.broker.lifetime = 4 * time.Second
	f.broker.issuer.life = 8 * time.Second
	c := f.dial("alice")
	sent := int32(0)
	f.eventually("three renewals, and one with a later token", func() bool {
		sent++
		c.ask(sent)
		_, renewals, names := f.broker.counts()
		return renewals >= 3 && slices.Contains(names, "token-2-of-alice")
	})
	c.ask(sent + 1)
	if logins, _, _ := f.broker.counts(); logins != 1 || f.observer.accepted.Load() != 1 {
		t.Errorf("%d logins, %d client legs", logins, f.observer.accepted.Load())
	}
	seen := f.broker.seen()
	if len(seen) != int(sent)+1 {
		t.Errorf("%d requests reached the broker, %d were sent", len(seen), sent+1)
	}
	for i, a := range seen {
		if a.key != int16(kmsg.Heartbeat) || a.correlation != int32(i)+1 {
			t.Fatalf("request %d of the broker is key %d, correlation id %d", i, a.key, a.correlation)
		}
	}
	if log := f.log.String(); !strings.Contains(log, `"msg":"session renewed"`) || !strings.Contains(log, `"result":"ok"`) {
		t.Error("no line tells of the renewals")
	}
}

// The same by swaps: one client leg, and broker legs one after the other, with pipelines
// in flight at any moment.
func TestASessionOutlivesItsTokenBySwaps(t *testing.T) {
	f := newRenewingFixture(t, connections.RenewSwap, nil)
	f.broker.lifetime = 4 * time.Second
	f.broker.issuer.life = 8 * time.Second
	c := f.dial("alice")
	sent, answered := int32(0), int32(0)
	f.eventually("three swaps, and one with a later token", func() bool {
		var pipeline [][]byte
		for range 5 {
			sent++
			pipeline = append(pipeline, encode(kmsg.NewPtrHeartbeatRequest(), 4, sent))
		}
		c.send(pipeline...)
		for answered < sent {
			answered++
			if got, _ := c.receive(); got != answered {
				t.Fatalf("answer %d, want %d", got, answered)
			}
		}
		logins, _, names := f.broker.counts()
		return logins >= 4 && slices.Contains(names, "token-2-of-alice")
	})
	if _, renewals, _ := f.broker.counts(); renewals != 0 || f.observer.accepted.Load() != 1 {
		t.Errorf("%d re-authentications, %d client legs", renewals, f.observer.accepted.Load())
	}
	seen := f.broker.seen()
	if len(seen) != int(sent) {
		t.Errorf("%d requests reached the broker, %d were sent", len(seen), sent)
	}
	for i, a := range seen {
		if a.key != int16(kmsg.Heartbeat) || a.correlation != int32(i)+1 {
			t.Fatalf("request %d of the broker is key %d, correlation id %d", i, a.key, a.correlation)
		}
	}
	if log := f.log.String(); !strings.Contains(log, `"kind":"swap","result":"ok"`) {
		t.Error("no line tells of the swaps")
	}
}

// A refusal ends the session with one reason; the log has the cause, and the token is
// looked into.
func TestARefusedRenewalEndsTheSession(t *testing.T) {
	f := newFixture(t, nil)
	f.broker.lifetime = 4 * time.Second
	f.broker.again = func(step int, conn net.Conn, a asked) (bool, bool) {
		if step == 0 {
			return false, true
		}
		r := kmsg.NewPtrSASLAuthenticateResponse()
		r.ErrorCode, r.ErrorMessage = kerr.SaslAuthenticationFailed.Code, kmsg.StringPtr("Cannot change principals")
		_ = writeAnswer(conn, a.correlation, response(a, r))
		return true, false
	}
	c := f.dial("alice")
	c.ask(1)
	time.Sleep(f.broker.lifetime) // idle over its session end: the next request renews
	c.send(encode(kmsg.NewPtrHeartbeatRequest(), 4, 2))
	c.closed()
	f.ended(ReasonRenewal)
	if n := f.observer.ended.Load(); n != 1 {
		t.Errorf("%d ends", n)
	}
	if n := len(f.broker.seen()); n != 1 {
		t.Errorf("%d requests reached the broker", n)
	}
	if log := f.log.String(); !strings.Contains(log, `"reason":"renewal_failed"`) || !strings.Contains(log, "Cannot change principals") {
		t.Error("the log does not say why")
	}
}

// A client that closes in the midst of a renewal: what was read of it is delivered all
// the same (rule 9).
func TestAClientThatClosesDuringARenewal(t *testing.T) {
	f := newFixture(t, nil)
	f.broker.lifetime = 4 * time.Second
	reached, goOn := make(chan struct{}), make(chan struct{})
	f.broker.again = func(step int, _ net.Conn, _ asked) (bool, bool) {
		if step == 0 {
			close(reached)
			<-goOn
		}
		return false, true
	}
	c := f.dial("alice")
	c.ask(1)
	time.Sleep(f.broker.lifetime)
	c.send(encode(kmsg.NewPtrHeartbeatRequest(), 4, 2), encode(kmsg.NewPtrHeartbeatRequest(), 4, 3))
	<-reached
	_ = c.Close()
	close(goOn)
	f.eventually("the end", func() bool { return f.observer.ended.Load() == 1 })
	if n := len(f.broker.seen()); n != 3 {
		t.Errorf("%d requests reached the broker", n)
	}
	if n := f.observer.count(ReasonClientClosed) + f.observer.count(ReasonClientLost); n != 1 {
		t.Errorf("the ends: %v", f.observer.reasons)
	}
}

// Back-pressure: while requests wait for a renewal, the gateway takes no more of them
// than fit into the sockets and one piece.
func TestARenewalStopsTheReading(t *testing.T) {
	f := newFixture(t, nil)
	f.broker.lifetime = 4 * time.Second
	goOn := make(chan struct{})
	f.broker.again = func(step int, _ net.Conn, _ asked) (bool, bool) {
		if step == 0 {
			<-goOn
		}
		return false, true
	}
	c := f.dial("alice")
	c.ask(1)
	time.Sleep(f.broker.lifetime)
	frame := encode(kmsg.NewPtrHeartbeatRequest(), 0, 2)
	frame = append(frame, make([]byte, 1<<20)...)
	frame[0], frame[1], frame[2], frame[3] = byte((len(frame)-4)>>24), byte((len(frame)-4)>>16), byte((len(frame)-4)>>8), byte(len(frame)-4)
	frame[5] = byte(kmsg.DescribeConfigs)
	sent := make(chan int, 1)
	go func() {
		n := 0
		for range 64 {
			_ = c.SetWriteDeadline(time.Now().Add(2 * time.Second))
			k, err := c.Write(frame)
			n += k
			if err != nil {
				break
			}
		}
		sent <- n
	}()
	if n := <-sent; n > 32<<20 {
		t.Errorf("the client could write %d bytes while its requests had to wait", n)
	}
	if n := len(f.broker.seen()); n != 1 {
		t.Errorf("%d requests reached the broker during the renewal", n)
	}
	close(goOn)
}
