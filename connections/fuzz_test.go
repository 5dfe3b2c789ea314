package connections

import (
	"bytes"
	"encoding/base64"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"doorkeeper/internal/frugal"
)

// Whatever is taken obeys every bound, and says the same when said again.
func FuzzServerFirst(f *testing.F) {
	const nonce = "abcdefgh"
	for _, s := range []string{
		"r=abcdefghX,s=c2FsdHNhbHQ=,i=4096", "r=abcdefghX,s=c2FsdHNhbHQ=,i=16384,x=y", "m=x,r=abcdefghX,s=c2FsdHNhbHQ=,i=4096",
		"e=unknown-user", "r=abcdefgh,s=c2FsdHNhbHQ=,i=4096", "r=abcdefghX,s=c2FsdHNhbHQ=,i=2147483648", "", ",,,", "r=abcdefghX,s=,i=-1",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, msg []byte) {
		first, err := parseServerFirst(msg, nonce)
		frugal.Check(t, len(msg), func() { _, _ = parseServerFirst(msg, nonce) })
		if err != nil {
			var r *refusal
			if !errors.As(err, &r) || r.fault != Hostile && r.fault != CredentialRefused {
				t.Fatalf("%T %v", err, err)
			}
			return
		}
		if !strings.HasPrefix(first.nonce, nonce) || len(first.nonce) <= len(nonce) || !printable(first.nonce) ||
			len(first.salt) < minSalt || len(first.salt) > maxSalt || first.iterations < minIterations || first.iterations > maxIterations {
			t.Fatalf("%q gave %+v", msg, first)
		}
		if want := "r=" + first.nonce + ",s=" + base64.StdEncoding.EncodeToString(first.salt) + ",i="; !strings.HasPrefix(string(msg), want) {
			t.Fatalf("%q does not begin with %q", msg, want)
		}
	})
}

func FuzzServerFinal(f *testing.F) {
	for _, s := range []string{"v=c2FsdA==", "v=c2FsdA==,x=y", "e=invalid-proof", "e=\x00", "v=", "", "x=y,v=c2FsdA==", "v=c2FsdA==,v=c2FsdA=="} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, msg []byte) {
		signature, err := parseServerFinal(msg)
		frugal.Check(t, len(msg), func() { _, _ = parseServerFinal(msg) })
		if err != nil {
			return
		}
		if want := "v=" + base64.StdEncoding.EncodeToString(signature); !strings.HasPrefix(string(msg), want) {
			t.Fatalf("%q does not begin with %q", msg, want)
		}
	})
}

// keysTaken is what deriving keys takes of memory, whatever the answers are, in bytes.
const keysTaken = 64 << 10

// FuzzLoginAnswers feeds a login any bytes that a broker may send. It never succeeds
// (nobody can guess the server's signature), never panics, and never sends a proof
// unless it was asked properly.
func FuzzLoginAnswers(f *testing.F) {
	said := func(do func(v *visit)) []byte {
		v := &visit{Conn: &capture{}}
		do(v)
		return v.Conn.(*capture).Bytes()
	}
	versions := said(func(v *visit) { goodVersions(v, request{key: 18, version: versionsVersion, correlation: 1}) })
	handshake := said(func(v *visit) { goodHandshake(v, request{key: 17, version: handshakeVersion, correlation: 2}) })
	third := request{key: 36, version: authenticateVersion, correlation: 3}
	serverFirst := said(func(v *visit) { v.say(third, "r=fuzznonceX,s=c2FsdHNhbHRzYWx0,i=4096", 0) })
	refused := said(func(v *visit) { v.refuse(third, 58, "no") })
	fourth := request{key: 36, version: authenticateVersion, correlation: 4}
	serverFinal := said(func(v *visit) { v.say(fourth, "v=c2FsdHNhbHRzYWx0", 1<<40) })
	unsupported := said(func(v *visit) { handshakeCode(33)(v, request{key: 17, version: handshakeVersion, correlation: 2}) })
	f.Add(bytes.Join([][]byte{versions, handshake, serverFirst, serverFinal}, nil))
	f.Add(bytes.Join([][]byte{versions, handshake, refused}, nil))
	f.Add(bytes.Join([][]byte{versions, unsupported}, nil))
	frame := func(correlation int32, body string) []byte {
		return said(func(v *visit) { v.frame(correlation, []byte(body)) })
	}
	f.Add(frame(1, "\x00\x00\xff\xff\xff\xff\x0f"))
	f.Add([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, answers []byte) {
		if len(answers) > 1<<20 {
			return
		}
		sent := &capture{in: bytes.NewReader(answers)}
		observer := new(counter)
		l := &login{
			rw: sent, flush: func() error { return nil }, phase: PhaseVersions,
			conversation: newConversation(ScramSHA512, sampleCredential(), true, "fuzznonce", observer),
		}
		var err error
		once := sync.OnceFunc(func() { _, err = l.run(ScramOverMtls) })
		frugal.Check(t, len(answers)+keysTaken, once)
		if err == nil {
			t.Fatal("the login succeeded")
		}
		proof := bytes.Contains(sent.Bytes(), []byte(",p="))
		if proof != (observer.derived.Load() == 1) {
			t.Fatalf("a proof was sent: %v, after %d derivations", proof, observer.derived.Load())
		}
		if text := (Target{}).fault(l.phase, err, nil).Error(); strings.ContainsAny(text, "\n\r\x00") || len(text) > 2000 {
			t.Fatalf("error %q", text)
		}
	})
}

// capture is a connection of which only reads and writes are used.
type capture struct {
	bytes.Buffer
	net.Conn
	in io.Reader
}

func (c *capture) Read(p []byte) (int, error)  { return c.in.Read(p) }
func (c *capture) Write(p []byte) (int, error) { return c.Buffer.Write(p) }
