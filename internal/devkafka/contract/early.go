package contract

import (
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func beforeLogin(t *testing.T, s Subject) {
	b := s.Brokers[0]
	for _, req := range []kmsg.Request{metadata(), create("", time.Hour), describe(), fetch("none", 0), authenticate(2, []byte("n,,n=x,r=y"))} {
		p := s.toTokens(t, b)
		p.send(req)
		p.isClosed(kmsg.NameForKey(req.Key()))

		p = s.toTokens(t, b)
		ask[*kmsg.ApiVersionsResponse](p, apiVersions())
		p.send(req)
		p.isClosed(kmsg.NameForKey(req.Key()) + " behind ApiVersions")

		p = s.toTokens(t, b)
		ask[*kmsg.SASLHandshakeResponse](p, handshake(sha512))
		if req.Key() == 36 {
			continue // its turn
		}
		p.send(req)
		p.ends("behind SaslHandshake", req)
	}
	p := s.toTokens(t, b)
	ask[*kmsg.ApiVersionsResponse](p, apiVersions())
	p.send(apiVersions())
	p.isClosed("ApiVersions again")
}

func unsupportedMechanism(t *testing.T, s Subject) {
	for _, mechanism := range []string{"PLAIN", "GSSAPI", "", "scram-sha-512"} {
		p := s.toTokens(t, s.Brokers[0])
		resp := ask[*kmsg.SASLHandshakeResponse](p, handshake(mechanism))
		slices.Sort(resp.SupportedMechanisms)
		if resp.ErrorCode != mechanismCode || !slices.Equal(resp.SupportedMechanisms, []string{sha256, sha512}) {
			t.Errorf("%q: error %d, mechanisms %v", mechanism, resp.ErrorCode, resp.SupportedMechanisms)
		}
		p.isClosed("mechanism " + mechanism)
	}
}

func versionsTooNew(t *testing.T, s Subject) {
	b := s.Brokers[0]
	k := s.token(t, b, "too-new", time.Hour)
	early := s.toTokens(t, b)
	late, _ := s.awaitLogin(t, b, sha512, k)
	for where, p := range map[string]*peer{"before the login": early, "after it": late, "on the control listener": s.toControl(t, b, maker)} {
		req := apiVersions()
		req.Version = 99
		p.send(req)
		body, err := p.frame()
		if err != nil {
			t.Fatalf("%s: %v", where, err)
		}
		resp, err := decode(req, 0, body)
		if err != nil {
			t.Fatalf("%s: the answer has not the shape of version 0: %v", where, err)
		}
		old := resp.(*kmsg.ApiVersionsResponse) //nolint:forcetypeassert // decode's promise
		if old.ErrorCode != tooNew || len(old.ApiKeys) != 1 || old.ApiKeys[0].ApiKey != 18 || old.ApiKeys[0].MaxVersion < 3 {
			t.Errorf("%s: error %d, keys %v", where, old.ErrorCode, old.ApiKeys)
		}
		if code := ask[*kmsg.ApiVersionsResponse](p, apiVersions()).ErrorCode; code != 0 {
			t.Errorf("%s, the next ApiVersions: error %d", where, code)
		}
	}
	if in := early.login(sha512, k); in.code != 0 {
		t.Errorf("the login behind it: error %d", in.code)
	}
}

func badFrames(t *testing.T, s Subject) {
	b := s.Brokers[0]
	k := s.token(t, b, "bad-frames", time.Hour)
	head := func(length int32, key, version int16) []byte {
		f := binary.BigEndian.AppendUint32(nil, uint32(length)) //nolint:gosec // G115: the same 32 bits
		f = binary.BigEndian.AppendUint16(f, uint16(key))       //nolint:gosec // G115: the same 16 bits
		f = binary.BigEndian.AppendUint16(f, uint16(version))   //nolint:gosec // G115: the same 16 bits
		return append(f, 0, 0, 0, 1, 0xff, 0xff)                // correlation id, no client id
	}
	for what, frame := range map[string][]byte{
		"a negative length":           head(-5, 3, 9),
		"a length of 2 GiB":           head(1<<31-1, 3, 9),
		"a key that there is not":     head(10, 9999, 0),
		"a negative key":              head(10, -1, 0),
		"a version that there is not": head(10, 3, 99),
		"a negative version":          head(10, 3, -1),
		"a body that is none":         append(head(14, 3, 1), 0x7f, 0xff, 0xff, 0xff),
		"HTTP":                        []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
	} {
		late, _ := s.awaitLogin(t, b, sha512, k)
		for where, p := range map[string]*peer{"before the login": s.toTokens(t, b), "after it": late, "on the control listener": s.toControl(t, b, maker)} {
			p.write(frame)
			p.isClosed(what + ", " + where)
		}
	}
}
