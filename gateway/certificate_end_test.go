package gateway

import (
	"bytes"
	"crypto/tls"
	"io"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"doorkeeper/internal/certtest"
)

// F15: the end of a certificate is the wall clock's, which may have been set since the
// session began. It is looked at again once a minute at least.
func TestTheCertificateFollowsTheWallClock(t *testing.T) {
	notAfter := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	for before, want := range map[time.Duration]time.Duration{
		-time.Hour:              0,
		0:                       0,
		time.Millisecond:        time.Millisecond,
		59 * time.Second:        59 * time.Second,
		time.Minute:             time.Minute,
		61 * time.Second:        time.Minute,
		100 * 365 * 24 * 3600e9: time.Minute,
	} {
		if got := nextLook(notAfter.Add(-before), notAfter); got != want {
			t.Errorf("%v before the end the next look is in %v, not %v", before, got, want)
		}
	}
	// A clock that was set between two looks: the durations on the way do not count.
	now := time.Now()
	if got := nextLook(now.Round(0).Add(time.Hour), now.Add(30*time.Minute)); got != 0 {
		t.Errorf("after the clock was set forward, the next look is in %v", got)
	}
}

// S2: however often the session of a busy client is renewed, it does not outlive the
// client's certificate: what is asked before is answered, and nothing after.
func TestASessionEndsWithItsCertificate(t *testing.T) {
	f := newFixture(t, nil)
	f.broker.lifetime = 2 * time.Second
	end := time.Now().Add(8 * time.Second).Truncate(time.Second) // as certificates have it
	cfg := f.clients.Issue(certtest.Leaf{CommonName: "alice", NotAfter: end}).ClientConfig(f.servers)
	cfg.ServerName = "127.0.0.1"
	conn, err := tls.Dial("tcp", f.bootstrap(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(patience))
	c := &client{Conn: conn, t: t}

	answered, last := int32(0), time.Time{}
	for {
		asked := time.Now()
		if _, err := conn.Write(bytes.Clone(encode(kmsg.NewPtrHeartbeatRequest(), 4, answered+1))); err != nil {
			break
		}
		got, _, err := c.tryReceive()
		if err != nil {
			if isTimeout(err) {
				t.Fatal("the session lives on")
			}
			break
		}
		if answered++; got != answered {
			t.Fatalf("answer %d, want %d", got, answered)
		}
		last = asked
		time.Sleep(20 * time.Millisecond)
	}
	if now := time.Now(); now.Before(end) || answered == 0 {
		t.Errorf("the session ended %v before its certificate, with %d answers", end.Sub(now), answered)
	}
	if late := last.Sub(end); late > time.Second { // the timer's own lateness; a renewal gives seconds more
		t.Errorf("a request of %v after the end was answered", late)
	}
	f.ended(ReasonCertificate)
	if _, renewals, _ := f.broker.counts(); renewals == 0 {
		t.Error("no session was renewed meanwhile")
	}
	_, _ = io.Copy(io.Discard, conn)
}
