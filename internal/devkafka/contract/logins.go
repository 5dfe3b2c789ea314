package contract

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

func logins(t *testing.T, s Subject) {
	b := s.Brokers[0]
	k := s.token(t, b, "both", time.Hour)
	for _, mechanism := range []string{sha256, sha512} {
		p, in := s.awaitLogin(t, b, mechanism, k)
		if in.lifetime <= 0 || in.lifetime > time.Hour {
			t.Errorf("%s: a session of %v", mechanism, in.lifetime)
		}
		p.works("after " + mechanism)
		for version := range int16(3) {
			p := s.toTokens(t, b)
			in := p.loginBy(mechanism, version, prove(t, mechanism, k))
			if in.code != 0 || (in.lifetime > 0) != (version > 0) { // version 0 has no such field
				t.Errorf("%s, SaslAuthenticate v%d: error %d, a session of %v", mechanism, version, in.code, in.lifetime)
			}
			p.works("after SaslAuthenticate of any version")
		}
	}
}

// loginIsOwner: what the owner may, and nothing else.
func loginIsOwner(t *testing.T, s Subject) {
	leader := s.topic(t, "owned")
	s.grant(t, s.Brokers, allow("holder", kmsg.ACLResourceTypeTopic, "owned", false, kmsg.ACLOperationRead))
	for owner, want := range map[string]int16{"holder": 0, "other": topicForbidden} {
		p, _ := s.awaitLogin(t, leader, sha512, s.token(t, leader, owner, time.Hour))
		if code := ask[*kmsg.MetadataResponse](p, metadata("owned")).Topics[0].ErrorCode; code != want {
			t.Errorf("%s asks for the topic: error %d, not %d", owner, code, want)
		}
		if code := ask[*kmsg.FetchResponse](p, fetch("owned", 0)).Topics[0].Partitions[0].ErrorCode; code != want {
			t.Errorf("%s reads: error %d, not %d", owner, code, want)
		}
	}
}

// fetch asks for the beginning of an empty partition, which is answered after wait.
func fetch(topic string, wait time.Duration) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.Version, req.MaxWaitMillis, req.MinBytes, req.MaxBytes = 11, int32(wait.Milliseconds()), 1, 1<<20 //nolint:gosec // G115: some seconds
	req.ReplicaID, req.SessionEpoch = -1, -1
	f := kmsg.NewFetchRequestTopic()
	f.Topic = topic
	p := kmsg.NewFetchRequestTopicPartition()
	p.CurrentLeaderEpoch, p.PartitionMaxBytes = -1, 1<<20
	f.Partitions = append(f.Partitions, p)
	req.Topics = append(req.Topics, f)
	return req
}

func refusedLogins(t *testing.T, s Subject) {
	b := s.Brokers[0]
	k := s.token(t, b, "proof", time.Hour)
	p, _ := s.awaitLogin(t, b, sha512, k)
	p.close()
	password := base64.StdEncoding.EncodeToString(k.hmac)
	for what, auth := range map[string]scram.Auth{
		"a wrong password":         {User: k.id, Pass: "x" + password, IsToken: true},
		"an unknown token":         {User: "x" + k.id, Pass: password, IsToken: true},
		"no tokenauth":             {User: k.id, Pass: password},
		"another authorization id": {User: k.id, Pass: password, IsToken: true, Zid: "proof"},
		"the owner, not the token": {User: "proof", Pass: password, IsToken: true},
		"an owner without a token": {User: "proof", Pass: password},
	} {
		p := s.toTokens(t, b)
		in := p.loginBy(sha512, 2, begin(t, sha512, auth))
		if in.code != credentials || in.message == "" {
			t.Errorf("%s: error %d %q", what, in.code, in.message)
			continue
		}
		if strings.Contains(in.message, password) {
			t.Errorf("%s: the message quotes the password", what)
		}
		p.isClosed(what)
	}

	p = s.toTokens(t, b)
	ask[*kmsg.SASLHandshakeResponse](p, handshake(sha256))
	if code := ask[*kmsg.SASLAuthenticateResponse](p, authenticate(2, []byte("hello"))).ErrorCode; code != credentials {
		t.Errorf("no SCRAM message: error %d", code)
	}
	p.isClosed("no SCRAM message")
}

func oddNames(t *testing.T, s Subject) {
	for _, owner := range []string{"CN=alice,OU=apps, O=Lab", "a=b", "with blank", "ünïcode"} {
		k := s.token(t, s.Brokers[0], owner, time.Hour)
		p, _ := s.awaitLogin(t, s.Brokers[0], sha512, k)
		p.works("as " + owner)
	}
}

func oneWrite(t *testing.T, s Subject) {
	b := s.Brokers[0]
	k := s.token(t, b, "one-write", time.Hour)
	p, _ := s.awaitLogin(t, b, sha512, k)
	p.close()
	p = s.toTokens(t, b)
	by := prove(t, sha512, k)
	first := authenticate(2, by.first)
	p.send(apiVersions(), handshake(sha512), first)
	if code := take[*kmsg.ApiVersionsResponse](p, apiVersions()).ErrorCode; code != 0 {
		t.Errorf("ApiVersions: error %d", code)
	}
	if code := take[*kmsg.SASLHandshakeResponse](p, handshake(sha512)).ErrorCode; code != 0 {
		t.Errorf("SaslHandshake: error %d", code)
	}
	if in := p.finish(2, by, take[*kmsg.SASLAuthenticateResponse](p, first)); in.code != 0 {
		t.Errorf("SaslAuthenticate: error %d", in.code)
	}
	p.works("after all in one write")
}

func salts(t *testing.T, s Subject) {
	k := s.token(t, s.Brokers[0], "salted", time.Hour)
	before := map[string]int32{}
	for _, b := range s.Brokers {
		p, in := s.awaitLogin(t, b, sha512, k)
		p.close()
		if other, twice := before[in.salt]; twice {
			t.Errorf("nodes %d and %d have one salt", other, b.Node)
		}
		before[in.salt] = b.Node
		if again := s.toTokens(t, b).login(sha512, k); again.salt != in.salt {
			t.Errorf("node %d: another login has another salt", b.Node)
		}
		if other := s.toTokens(t, b).login(sha256, k); other.salt == in.salt {
			t.Errorf("node %d: both mechanisms have one salt", b.Node)
		}
	}
	s.toControl(t, s.Brokers[0], maker).renews(k, 0)
	for _, b := range s.Brokers {
		until(t, "a renewed token has a new salt", func() bool {
			p := s.toTokens(t, b)
			defer p.close()
			in := p.login(sha512, k)
			_, old := before[in.salt]
			return in.code == 0 && !old
		})
	}
}
