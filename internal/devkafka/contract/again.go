package contract

import (
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// reauthentication comes right after the login: the first may.
func reauthentication(t *testing.T, s Subject) {
	b := s.Brokers[0]
	next := s.token(t, b, "again", time.Hour)
	s.awaitLogin(t, b, sha512, next)
	p, first := s.session(t, b, "again")
	p.works("in its first session")
	second := p.login(sha512, next)
	if second.code != 0 || second.lifetime <= first.lifetime {
		t.Fatalf("error %d %s, a session of %v", second.code, second.message, second.lifetime)
	}
	first.awaitEnd(t)
	p.works("after the end of its first session and its first token's life")
}

func lateReauthentication(t *testing.T, s Subject) {
	b := s.Brokers[0]
	p, in := s.session(t, b, "late")
	next := s.token(t, b, "late", time.Hour)
	s.awaitLogin(t, b, sha512, next)
	in.awaitEnd(t)
	pause(t, time.Second)
	if in := p.login(sha512, next); in.code != 0 {
		t.Fatalf("error %d %s", in.code, in.message)
	}
	p.works("after a late re-authentication")
}

func pipelinedReauthentication(t *testing.T, s Subject) {
	leader := s.topic(t, "piped")
	s.grant(t, s.Brokers, allow("piped", kmsg.ACLResourceTypeTopic, "piped", false, kmsg.ACLOperationRead))
	next := s.token(t, leader, "piped", time.Hour)
	s.awaitLogin(t, leader, sha512, next)
	for _, across := range []bool{false, true} {
		p, in := s.session(t, leader, "piped")
		wait := 100 * time.Millisecond
		if across {
			wait = time.Until(in.latest) + 500*time.Millisecond
		}
		by := prove(t, sha512, next)
		slow, first := fetch("piped", wait), authenticate(2, by.first)
		p.send(slow, handshake(sha512), first)
		if code := take[*kmsg.FetchResponse](p, slow).Topics[0].Partitions[0].ErrorCode; code != 0 {
			t.Errorf("across the end %t: the request in front: error %d", across, code)
		}
		if code := take[*kmsg.SASLHandshakeResponse](p, handshake(sha512)).ErrorCode; code != 0 {
			t.Fatalf("across the end %t: SaslHandshake: error %d", across, code)
		}
		if again := p.finish(2, by, take[*kmsg.SASLAuthenticateResponse](p, first)); again.code != 0 || again.lifetime <= in.lifetime {
			t.Fatalf("across the end %t: error %d, a session of %v", across, again.code, again.lifetime)
		}
		in.awaitEnd(t)
		p.works("after a pipelined re-authentication")
	}
}

func hastyReauthentication(t *testing.T, s Subject) {
	b := s.Brokers[0]
	k := s.token(t, b, "hasty", time.Hour)
	p, _ := s.awaitLogin(t, b, sha512, k)
	for tries := 0; ; tries++ {
		began := time.Now()
		if in := p.login(sha512, k); in.code != 0 {
			t.Fatalf("the first, or one after a second: error %d %s", in.code, in.message)
		}
		code := ask[*kmsg.SASLHandshakeResponse](p, handshake(sha512)).ErrorCode
		if code == saslState {
			break
		}
		if time.Since(began) < time.Second || tries == 20 {
			t.Fatalf("within a second: error %d", code)
		}
		// This machine was too slow: begin anew.
		p, _ = s.awaitLogin(t, b, sha512, k)
	}
	p.works("after error 34")
	pause(t, 1100*time.Millisecond)
	if in := p.login(sha512, k); in.code != 0 {
		t.Errorf("after a second: error %d %s", in.code, in.message)
	}
	p.works("after the next")
}

func anotherOwner(t *testing.T, s Subject) {
	b := s.Brokers[0]
	p, _ := s.awaitLogin(t, b, sha512, s.token(t, b, "first-owner", time.Hour))
	other := s.token(t, b, "second-owner", time.Hour)
	s.awaitLogin(t, b, sha512, other)
	in := p.login(sha512, other)
	if in.code != credentials || !strings.Contains(in.message, "Cannot change principals during re-authentication") {
		t.Errorf("error %d %q", in.code, in.message)
	}
	p.isClosed("another owner's token")
}

func anotherMechanism(t *testing.T, s Subject) {
	b := s.Brokers[0]
	k := s.token(t, b, "mechanism", time.Hour)
	p, _ := s.awaitLogin(t, b, sha512, k)
	if code := ask[*kmsg.SASLHandshakeResponse](p, handshake(sha256)).ErrorCode; code != 0 {
		t.Errorf("SaslHandshake: error %d", code) // Kafka minds only when more comes
	}
	p.send(authenticate(2, prove(t, sha256, k).first))
	p.isClosed("another mechanism")

	p, _ = s.awaitLogin(t, b, sha512, k)
	p.send(handshake("PLAIN"))
	p.isClosed("a mechanism that is not offered") // without error 33, other than at first
}

func refusedReauthentication(t *testing.T, s Subject) {
	b := s.Brokers[0]
	k := s.token(t, b, "unproved", time.Hour)
	p, _ := s.awaitLogin(t, b, sha512, k)
	k.hmac = make([]byte, len(k.hmac))
	if in := p.login(sha512, k); in.code != credentials {
		t.Errorf("error %d", in.code)
	}
	p.isClosed("a wrong proof")
}

func interruptedReauthentication(t *testing.T, s Subject) {
	b := s.Brokers[0]
	k := s.token(t, b, "interrupted", time.Hour)
	for _, req := range []kmsg.Request{metadata(), apiVersions(), handshake(sha512), describe("interrupted")} {
		for _, begun := range []bool{false, true} {
			p, _ := s.awaitLogin(t, b, sha512, k)
			ask[*kmsg.SASLHandshakeResponse](p, handshake(sha512))
			if begun {
				ask[*kmsg.SASLAuthenticateResponse](p, authenticate(2, prove(t, sha512, k).first))
			}
			p.send(req)
			p.ends("during a re-authentication", req)
		}
	}
}

// ends demands that the broker closes, before or after an answer with an error.
func (p *peer) ends(when string, req kmsg.Request) {
	p.t.Helper()
	if _, err := p.frame(); err != nil {
		p.isClosed(kmsg.NameForKey(req.Key()) + " " + when)
		return
	}
	p.isClosed(kmsg.NameForKey(req.Key()) + " " + when + " and an answer")
}

func authenticateOutOfTurn(t *testing.T, s Subject) {
	b := s.Brokers[0]
	k := s.token(t, b, "out-of-turn", time.Hour)
	p, _ := s.awaitLogin(t, b, sha512, k)
	if code := ask[*kmsg.SASLAuthenticateResponse](p, authenticate(2, prove(t, sha512, k).first)).ErrorCode; code != saslState {
		t.Errorf("error %d", code)
	}
	p.works("after it")
}
