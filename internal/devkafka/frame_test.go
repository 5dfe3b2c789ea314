package devkafka

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"io"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/xdg-go/scram"
)

// all is every key that kmsg knows, as if kfake served them.
func all() versions {
	var keys []kmsg.ApiVersionsResponseApiKey
	for key := range int16(200) {
		if k := kmsg.RequestForKey(key); k != nil {
			keys = append(keys, kmsg.ApiVersionsResponseApiKey{ApiKey: key, MaxVersion: k.MaxVersion()})
		}
	}
	return served(keys)
}

func frameOf(req kmsg.Request) []byte { return kmsg.NewRequestFormatter().AppendRequest(nil, req, 7) }

func TestOnlyKnownRequestsPass(t *testing.T) {
	know := served([]kmsg.ApiVersionsResponseApiKey{{ApiKey: 3, MinVersion: 0, MaxVersion: 12}, {ApiKey: 18, MaxVersion: 4}})
	for _, c := range []struct {
		key, version int16
		passes       bool
	}{
		{3, 0, true}, {3, 12, true}, {3, 13, false}, {3, -1, false},
		{18, 4, true}, {18, 5, true}, {18, 32767, true}, {18, -1, false}, // ApiVersions is answered, whatever its version
		{17, 1, true}, {17, 0, false}, {38, 3, true}, {38, 4, false},
		{0, 3, false}, {-1, 0, false}, {9999, 0, false}, {32767, 32767, false},
	} {
		frame := []byte{0, 0, 0, 20, 0, 0, 0, 0, 0, 0, 0, 7, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
		binary.BigEndian.PutUint16(frame[4:], uint16(c.key))
		binary.BigEndian.PutUint16(frame[6:], uint16(c.version))
		_, err := readRequest(bytes.NewReader(frame), maxRequest, know)
		if (err == nil) != c.passes || err != nil && !errors.Is(err, errFrame) {
			t.Errorf("key %d, version %d: %v", c.key, c.version, err)
		}
	}
}

func TestMemoryFollowsWhatCame(t *testing.T) {
	frame := binary.BigEndian.AppendUint32(nil, maxRequest)
	frame = append(frame, 0, 3, 0, 9)
	if _, err := readRequest(bytes.NewReader(frame), maxRequest, all()); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a frame that ends early: %v", err)
	}
	result := testing.Benchmark(func(b *testing.B) {
		know := all()
		b.ReportAllocs()
		for b.Loop() {
			_, _ = readRequest(bytes.NewReader(frame), maxRequest, know)
		}
	})
	if n := result.AllocedBytesPerOp(); n > 64<<10 {
		t.Errorf("%d bytes were taken for 8 that came", n)
	}
	if _, err := readRequest(bytes.NewReader(binary.BigEndian.AppendUint32(nil, maxRequest+1)), maxRequest, all()); !errors.Is(err, errFrame) {
		t.Errorf("a frame that is too long: %v", err)
	}
}

func TestWhatIsDecodedHereStaysSmall(t *testing.T) {
	req := kmsg.NewPtrExpireDelegationTokenRequest()
	req.HMAC = make([]byte, maxRequestDecoded)
	if _, err := readRequest(bytes.NewReader(frameOf(req)), maxRequest, all()); !errors.Is(err, errFrame) {
		t.Errorf("got %v", err)
	}
}

// FuzzRequest reads frames and decodes what is decoded here: nothing panics, nothing
// unknown passes, and what passes is the very bytes that came.
func FuzzRequest(f *testing.F) {
	know := all()
	versions := kmsg.NewPtrApiVersionsRequest()
	versions.Version = 3
	handshake := kmsg.NewPtrSASLHandshakeRequest()
	handshake.Version, handshake.Mechanism = 1, scram512
	authenticate := kmsg.NewPtrSASLAuthenticateRequest()
	authenticate.Version, authenticate.SASLAuthBytes = 2, []byte("n,,n=id,r=nonce,tokenauth=true")
	create := kmsg.NewPtrCreateDelegationTokenRequest()
	create.Version = 3
	acls := kmsg.NewPtrCreateACLsRequest()
	acls.Version, acls.Creations = 2, []kmsg.CreateACLsRequestCreation{kmsg.NewCreateACLsRequestCreation()}
	for _, req := range []kmsg.Request{versions, handshake, authenticate, create, acls, kmsg.NewPtrDescribeDelegationTokenRequest()} {
		f.Add(frameOf(req))
	}
	f.Add([]byte("GET / HTTP/1.1\r\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := readRequest(bytes.NewReader(b), maxRequestLogin, know)
		if err != nil {
			return
		}
		if _, known := know[r.Key]; !known || kmsg.RequestForKey(r.Key) == nil {
			t.Fatalf("key %d passed", r.Key)
		}
		if !bytes.HasPrefix(b, r.raw) || int(binary.BigEndian.Uint32(r.raw)) != len(r.raw)-4 {
			t.Fatal("other bytes than came")
		}
		if r.strange || !decodedHere(r.Key) {
			return
		}
		if r.decode(kmsg.RequestForKey(r.Key)) == nil && r.Version < know[r.Key].lowest {
			t.Fatalf("version %d of key %d passed", r.Version, r.Key)
		}
	})
}

// FuzzConversation: no sequence of messages logs in without the token's proof.
func FuzzConversation(f *testing.F) {
	const id = "token-id"
	secret := bytes.Repeat([]byte{7}, 64)
	stored, err := derive(scram256, id, secret)
	if err != nil {
		f.Fatal(err)
	}
	f.Add("n,,n=token-id,r=abc,tokenauth=true", "c=biws,r=abc,p="+base64.StdEncoding.EncodeToString(make([]byte, 32)))
	f.Add("n,a=token-id,n=token-id,r=abc,tokenauth=true", "c=biws")
	f.Add("n,,n=x,r=abc", ",,,")
	f.Add("y,,n=token-id,r=abc,tokenauth=true", "")
	f.Fuzz(func(t *testing.T, first, final string) {
		c, err := newConversation(scram256, func(name string) (listed, scram.StoredCredentials, bool) {
			return listed{}, stored, name == id
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, message := range []string{first, final} {
			_, done, err := c.step([]byte(message))
			if done {
				t.Fatalf("%q and %q log in", first, final)
			}
			if err != nil && !errors.Is(err, errCredential) {
				t.Fatal(err)
			}
		}
	})
}
