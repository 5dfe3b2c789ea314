package contract

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func sessionLifetime(t *testing.T, s Subject) {
	const life = time.Hour
	for _, b := range s.Brokers {
		k := s.token(t, b, "lifetime", life)
		_, in := s.awaitLogin(t, b, sha512, k)
		// Of the token's life, what had passed by then is missing and nothing else.
		if passed := life - in.lifetime; passed < 0 || passed > time.Since(k.made)+time.Second {
			t.Errorf("node %d: a session of %v, %v after the creation", b.Node, in.lifetime, time.Since(k.made))
		}
	}
}

func sessionIsCut(t *testing.T, s Subject) {
	for _, c := range []struct {
		life, at time.Duration
	}{{time.Hour, s.MaxReauth}, {s.MaxReauth / 2, s.MaxReauth / 2}} {
		k := s.token(t, s.Limited, "limited", c.life)
		_, in := s.awaitLogin(t, s.Limited, sha512, k)
		if c.life == time.Hour && in.lifetime != s.MaxReauth || in.lifetime > c.at {
			t.Errorf("a token of %v, sessions of %v at most: a session of %v", c.life, s.MaxReauth, in.lifetime)
		}
	}
}

func expiredSession(t *testing.T, s Subject) {
	b := s.Brokers[0]
	p, in := s.session(t, b, "ending")
	p.works("in its session")
	idle, other := s.session(t, b, "idle")
	in.awaitEnd(t)
	p.send(metadata())
	p.isClosed("a request after the session's end")
	// Nobody ends the idle one: it may still log in again.
	other.awaitEnd(t)
	if again := idle.login(sha512, s.token(t, b, "idle", time.Hour)); again.code != 0 {
		t.Errorf("an idle connection after its session: error %d", again.code)
	}
	idle.works("after its session, logged in again,")

	p, in = s.session(t, b, "ending")
	in.awaitEnd(t)
	p.send(authenticate(2, []byte("n,,n=x,r=y")))
	p.isClosed("SaslAuthenticate after the session's end")
}

// judgedWhenRead: a request that was written in time behind one that takes longer.
func judgedWhenRead(t *testing.T, s Subject) {
	leader := s.topic(t, "judged")
	s.grant(t, s.Brokers, allow("judged", kmsg.ACLResourceTypeTopic, "judged", false, kmsg.ACLOperationRead))
	p, in := s.session(t, leader, "judged")
	wait := time.Until(in.latest) + 500*time.Millisecond
	if wait < time.Second {
		t.Fatal("no time left") // session gives half of what it asked for, after the grants
	}
	slow := fetch("judged", wait)
	p.send(slow, metadata())
	if code := take[*kmsg.FetchResponse](p, slow).Topics[0].Partitions[0].ErrorCode; code != 0 {
		t.Errorf("the request that was read in time: error %d", code)
	}
	if time.Now().Before(in.earliest) {
		t.Fatal("the broker did not wait")
	}
	p.isClosed("a request that was read after the session's end")
}

func expiryEndsNoConnection(t *testing.T, s Subject) {
	b := s.Brokers[0]
	for owner, period := range map[string]time.Duration{"kept-1": removeNow, "kept-2": 0} {
		k := s.token(t, b, owner, time.Hour)
		p, _ := s.awaitLogin(t, b, sha512, k)
		if code := s.expireAs(t, b, maker, k, period); code != 0 {
			t.Fatalf("error %d", code)
		}
		until(t, "the broker hears of it", func() bool {
			p := s.toTokens(t, b)
			defer p.close()
			in := p.login(sha512, k)
			return in.code == credentials || in.lifetime == 0
		})
		p.works("after its token was expired")
	}
}

func renewalProlongsNothing(t *testing.T, s Subject) {
	b := s.Brokers[0]
	control := s.toControl(t, b, maker)
	for life := 3 * time.Second; life <= patience; life *= 2 {
		k := s.token(t, b, "prolonged", time.Hour)
		began := time.Now()
		control.renews(k, life)
		p, in, ok := s.loginIn(t, b, k, began, life)
		if !ok || ask[*kmsg.RenewDelegationTokenResponse](control, renew(k, time.Hour)).ErrorCode != 0 {
			continue // this machine was too slow: the token has expired
		}
		var now loggedIn
		until(t, "the broker hears of it", func() bool {
			p := s.toTokens(t, b)
			defer p.close()
			now = p.login(sha512, k)
			return now.code != 0 || now.lifetime > life
		})
		if now.code != 0 {
			continue // a sweep came between, which goes by what its controller has heard
		}
		in.awaitEnd(t)
		p.send(metadata())
		p.isClosed("a request after the session's end, its token renewed,")
		return
	}
	t.Fatal("this machine is too slow for a session of a minute")
}
