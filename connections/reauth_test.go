package connections

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// again is a broker's side of re-authentications: each takes the next of these
// handshakes, then the SCRAM conversation, and gives the lifetime. Other requests are
// answered as Metadata.
func again(lifetime time.Duration, handshakes ...step) func(v *visit) {
	return func(v *visit) {
		conversing, proved := false, false
		for {
			r, err := v.read()
			if err != nil {
				return
			}
			var ok bool
			switch {
			case r.key == 17 && len(handshakes) > 0:
				ok = handshakes[0](v, r)
				handshakes = handshakes[1:]
			case r.key == 17:
				ok = goodHandshake(v, r)
			case r.key == 36 && !conversing:
				v.scram = oracle(script{}, v)
				v.lifetime = lifetime.Milliseconds()
				conversing, proved = true, false
				ok = goodFirst(v, r)
			case r.key == 36 && !proved:
				conversing, proved = false, true
				ok = goodFinal(v, r)
			default:
				ok = v.reply(r, kmsg.ResponseForKey(r.key))
			}
			if !ok {
				for err == nil {
					_, err = v.read()
				}
				return
			}
		}
	}
}

// tooSoon is what a broker says within a second.
func tooSoon(v *visit, r request) bool {
	response := kmsg.NewPtrSASLHandshakeResponse()
	response.ErrorCode = 34
	return v.reply(r, response)
}

func TestReauthenticationBeginsANewSession(t *testing.T) {
	l := newLab()
	observer := new(counter)
	h := l.listen(t, script{lifetime: time.Hour.Milliseconds(), after: again(3 * time.Hour)})
	c := open(t, NewDialer(l.config(observer)), h.target)
	before, _ := c.SessionEnd()
	credential := sampleCredential()
	if err := c.Reauthenticate(t.Context(), credential); err != nil {
		t.Fatal(err)
	}
	after, ok := c.SessionEnd()
	if gain := after.Sub(before); !ok || gain < 2*time.Hour-time.Minute || gain > 2*time.Hour+time.Minute {
		t.Errorf("the session end moved by %s", gain)
	}
	if c.State() != Open || c.SessionLifetime() != 3*time.Hour || c.Unanswered() != 0 {
		t.Errorf("%v, %s, %d unanswered", c, c.SessionLifetime(), c.Unanswered())
	}
	if _, err := c.Request(t.Context(), kmsg.NewPtrMetadataRequest()); err != nil {
		t.Errorf("a request on the new session: %v", err)
	}
	// A second one, and between the two the keys are kept.
	if err := c.Reauthenticate(t.Context(), credential); err != nil {
		t.Fatal(err)
	}
	if n := observer.derived.Load(); n != 2 { // the login's credential and this one
		t.Errorf("%d keys were derived", n)
	}
	v := h.visit(t)
	v.mu.Lock()
	defer v.mu.Unlock()
	for i, r := range v.requests {
		if r.clientID == nil || *r.clientID != "client" {
			t.Errorf("request %d (key %d) had the client id %v", i, r.key, r.clientID)
		}
		if r.key == 36 && strings.HasPrefix(string(message(r)), "n,,") && !strings.Contains(string(message(r)), "tokenauth=true") {
			t.Errorf("request %d asks for no token login", i)
		}
	}
}

// What the broker refuses ends the connection, but for error 34.
func TestReauthenticationRefused(t *testing.T) {
	refused := func(v *visit, r request) bool { return v.refuse(r, 58, "Authentication failed") }
	for _, tc := range []struct {
		name       string
		after      func(*visit)
		credential *Credential
		fault      Fault
		phase      Phase
		state      State
	}{
		{"another owner's credential", again(time.Hour), &Credential{Username: "somebody else"}, CredentialRefused, PhaseAuthenticate, Closed},
		{"an expired token", again(0), sampleCredential(), CredentialExpired, PhaseAuthenticate, Closed},
		{"a broker that closes", again(time.Hour, hangUp), sampleCredential(), PeerClosed, PhaseMechanism, Closed},
		{"a broker that answers something else", again(time.Hour, refused), sampleCredential(), Hostile, PhaseMechanism, Closed},
		{"too soon", again(time.Hour, tooSoon), sampleCredential(), TooSoon, PhaseMechanism, AtRiskOfAuthTokenExpiry},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := newLab()
			h := l.listen(t, script{after: tc.after})
			c := open(t, NewDialer(l.config(nil)), h.target)
			e := asError(t, c.Reauthenticate(t.Context(), tc.credential))
			if e.Fault != tc.fault || e.Phase != tc.phase || c.State() != tc.state {
				t.Errorf("%v in phase %v, then %v (%v)", e.Fault, e.Phase, c.State(), e)
			}
			if tc.state == Closed {
				if err := c.Reauthenticate(t.Context(), sampleCredential()); err == nil {
					t.Error("a closed connection re-authenticates")
				}
				return
			}
			if !e.Retry {
				t.Error("no retry")
			}
			if err := c.Reauthenticate(t.Context(), sampleCredential()); err != nil || c.State() != Open {
				t.Errorf("the next one: %v, %v", err, c.State())
			}
		})
	}
}

func TestReauthenticationEndsWithItsContext(t *testing.T) {
	l := newLab()
	asked := make(chan struct{})
	h := l.listen(t, script{after: again(time.Hour, func(v *visit, r request) bool { close(asked); return hang(v, r) })})
	c := open(t, NewDialer(l.config(nil)), h.target)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-asked; cancel() }()
	e := asError(t, c.Reauthenticate(ctx, sampleCredential()))
	if e.Fault != Canceled || !errors.Is(e, context.Canceled) || c.State() != Closed {
		t.Errorf("%v, then %v", e, c.State())
	}
}

func TestReauthenticationWithoutALogin(t *testing.T) {
	l := newLab()
	h := l.listen(t, script{handshake: func(v *visit, r request) bool { return v.reply(r, kmsg.ResponseForKey(r.key)) }})
	c, err := NewDialer(l.config(nil)).Open(t.Context(), h.target, General, nil, ClientInfo{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if e := asError(t, c.Reauthenticate(t.Context(), sampleCredential())); e.Fault != NoSasl || c.State() != Open {
		t.Errorf("%v, then %v", e, c.State())
	}
}

func TestReauthenticationWithARequestUnderWayPanics(t *testing.T) {
	l := newLab()
	h := l.listen(t, script{})
	c := open(t, NewDialer(l.config(nil)), h.target)
	if err := sendFrame(c, Request{Answered: true}, 3, 1, 10); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if recover() == nil {
			t.Error("it does not")
		}
	}()
	_ = c.Reauthenticate(t.Context(), sampleCredential())
}

// The session end that is watched is the new one: the first login's would put the
// connection at risk between 80 and 85 s.
func TestReauthenticationMovesTheMomentOfRisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab()
		observer := new(counter)
		s := script{tls: l.broker.ServerConfig(), lifetime: flowLifetime.Milliseconds(), after: again(flowLifetime)}
		f := &flow{t: t, observer: observer}
		f.dialInto(l, s)
		defer f.finish()
		f.at(50 * time.Second)
		if err := f.Reauthenticate(t.Context(), sampleCredential()); err != nil {
			t.Fatal(err)
		}
		for _, at := range []struct {
			after time.Duration
			state State
			risks int64
		}{{95 * time.Second, Open, 0}, {129 * time.Second, Open, 0}, {136 * time.Second, Draining, 1}} {
			f.at(at.after)
			if got := f.State(); got != at.state || observer.atRisk.Load() != at.risks {
				t.Errorf("after %s: %s, at risk %d times", at.after, got, observer.atRisk.Load())
			}
		}
	})
}
