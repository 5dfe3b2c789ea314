package contract

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

const (
	sha256 = "SCRAM-SHA-256"
	sha512 = "SCRAM-SHA-512"
)

// Codes of errors that the rows speak of.
const (
	saslState      = 34
	mechanismCode  = 33
	credentials    = 58
	tooNew         = 35
	tokensDisabled = 61
	tokenNotFound  = 62
	ownerMismatch  = 63
	notAllowedHere = 64
	notAuthorized  = 65
	tokenExpired   = 66
	principalType  = 67
	topicForbidden = 29
	noCoordinator  = 15
	loadInProgress = 14
)

func handshake(mechanism string) *kmsg.SASLHandshakeRequest {
	req := kmsg.NewPtrSASLHandshakeRequest()
	req.Version, req.Mechanism = 1, mechanism
	return req
}

func authenticate(version int16, message []byte) *kmsg.SASLAuthenticateRequest {
	req := kmsg.NewPtrSASLAuthenticateRequest()
	req.Version, req.SASLAuthBytes = version, message
	return req
}

// proof is one conversation's client.
type proof struct {
	session sasl.Session
	first   []byte
}

// prove begins a conversation that proves a token.
func prove(t *testing.T, mechanism string, k token) proof {
	t.Helper()
	return begin(t, mechanism, scram.Auth{User: k.id, Pass: base64.StdEncoding.EncodeToString(k.hmac), IsToken: true})
}

func begin(t *testing.T, mechanism string, auth scram.Auth) proof {
	t.Helper()
	m := auth.AsSha512Mechanism()
	if mechanism == sha256 {
		m = auth.AsSha256Mechanism()
	}
	session, first, err := m.Authenticate(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	return proof{session, first}
}

// loggedIn is what came of a login.
type loggedIn struct {
	code     int16
	message  string
	salt     string
	lifetime time.Duration
	// The session end lies between earliest and latest.
	earliest, latest time.Time
}

// login does SaslHandshake and SaslAuthenticate v2.
func (p *peer) login(mechanism string, k token) loggedIn {
	p.t.Helper()
	return p.loginBy(mechanism, 2, prove(p.t, mechanism, k))
}

func (p *peer) loginBy(mechanism string, version int16, by proof) loggedIn {
	p.t.Helper()
	if h := ask[*kmsg.SASLHandshakeResponse](p, handshake(mechanism)); h.ErrorCode != 0 {
		p.t.Fatalf("SaslHandshake for %s: error %d", mechanism, h.ErrorCode)
	}
	first := authenticate(version, by.first)
	return p.finish(version, by, ask[*kmsg.SASLAuthenticateResponse](p, first))
}

// finish takes the answer to the first message and says the last.
func (p *peer) finish(version int16, by proof, answer *kmsg.SASLAuthenticateResponse) loggedIn {
	p.t.Helper()
	if answer.ErrorCode != 0 {
		return refused(answer)
	}
	out := loggedIn{salt: salt(string(answer.SASLAuthBytes))}
	_, final, err := by.session.Challenge(answer.SASLAuthBytes)
	if err != nil {
		p.t.Fatalf("the broker's first message %q: %v", answer.SASLAuthBytes, err)
	}
	before := time.Now()
	answer = ask[*kmsg.SASLAuthenticateResponse](p, authenticate(version, final))
	if answer.ErrorCode != 0 {
		return refused(answer)
	}
	if _, _, err := by.session.Challenge(answer.SASLAuthBytes); err != nil {
		p.t.Fatalf("the broker does not prove that it knows the token: %v", err)
	}
	out.lifetime = time.Duration(answer.SessionLifetimeMillis) * time.Millisecond
	out.earliest, out.latest = before.Add(out.lifetime), time.Now().Add(out.lifetime)
	return out
}

func refused(answer *kmsg.SASLAuthenticateResponse) loggedIn {
	out := loggedIn{code: answer.ErrorCode}
	if answer.ErrorMessage != nil {
		out.message = *answer.ErrorMessage
	}
	return out
}

// salt of a server's first message.
func salt(first string) string {
	for _, field := range strings.Split(first, ",") {
		if s, ok := strings.CutPrefix(field, "s="); ok {
			return s
		}
	}
	return ""
}

// awaitLogin logs in once the broker takes the token, which is a moment after it lists
// it; the token must live.
func (s Subject) awaitLogin(t *testing.T, b Broker, mechanism string, k token) (*peer, loggedIn) {
	t.Helper()
	var p *peer
	var in loggedIn
	until(t, "a login with token "+k.id, func() bool {
		p = s.toTokens(t, b)
		in = p.login(mechanism, k)
		if in.code != 0 {
			p.close()
		}
		return in.code == 0
	})
	return p, in
}

// session logs in as an owner with a new token whose session lasts some seconds: long
// enough to do things in, short enough to wait for its end.
func (s Subject) session(t *testing.T, b Broker, owner string) (*peer, loggedIn) {
	t.Helper()
	for life := 3 * time.Second; life <= patience; life *= 2 {
		k := s.token(t, b, owner, life)
		if p, in, ok := s.loginIn(t, b, k, k.made, life); ok {
			return p, in
		}
	}
	t.Fatal("this machine is too slow for a session of a minute")
	return nil, loggedIn{}
}

// loginIn logs in with a token that has a life since then, so that half of it at least
// is left; not ok where that cannot be done in time.
func (s Subject) loginIn(t *testing.T, b Broker, k token, since time.Time, life time.Duration) (*peer, loggedIn, bool) {
	t.Helper()
	for time.Since(since) < life {
		p := s.toTokens(t, b)
		in := p.login(sha512, k)
		if in.code == 0 && in.lifetime >= life/2 && in.lifetime <= life {
			return p, in, true
		}
		p.close()
		pause(t, 100*time.Millisecond)
	}
	return nil, loggedIn{}, false
}

// awaitEnd waits until the session's end is surely over.
func (in loggedIn) awaitEnd(t *testing.T) { pause(t, time.Until(in.latest)+50*time.Millisecond) }
