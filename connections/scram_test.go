package connections

import (
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/xdg-go/scram"

	"doorkeeper/internal/secret"
)

// The example of RFC 7677 section 3, message by message.
func TestScramFollowsTheExampleOfRFC7677(t *testing.T) {
	observer := new(counter)
	c := newConversation(ScramSHA256, &Credential{Username: "user", Password: secret.New("pencil")}, false, "rOprNGfwEbeRWgbNEkqO", observer)
	if got, want := string(c.first()), "n,,n=user,r=rOprNGfwEbeRWgbNEkqO"; got != want {
		t.Fatalf("client-first %q, want %q", got, want)
	}
	final, err := c.final([]byte("r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(final), "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="; got != want {
		t.Fatalf("client-final %q, want %q", got, want)
	}
	if err := c.verify([]byte("v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")); err != nil {
		t.Fatal(err)
	}
	if n := observer.derived.Load(); n != 1 {
		t.Errorf("%d derivations, want 1", n)
	}
}

// B39: ids with odd characters, and 200 random tokens, against another
// implementation, which keeps Kafka's extension in the signed text.
func TestTokenLoginsAgainstAnotherImplementation(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	names := []string{"alice", "CN=alice,O=Lab\\, Inc.,C=DE", "=,=2C=3D,", "grüße", "a b", "n=x,r=y", "=3D", ",", "tokenauth=true"}
	for len(names) < 200 {
		b := make([]byte, 16)
		for i := range b {
			b[i] = byte(rnd.Uint32())
		}
		names = append(names, base64.RawURLEncoding.EncodeToString(b))
	}
	for _, m := range []Mechanism{ScramSHA256, ScramSHA512} {
		for _, name := range names {
			hmac := make([]byte, 64)
			for i := range hmac {
				hmac[i] = byte(rnd.Uint32())
			}
			password := base64.StdEncoding.EncodeToString(hmac) // ends in ==
			if err := oracleLogin(m, name, password, password); err != nil {
				t.Errorf("%s, %q: %v", m, name, err)
			}
		}
		if err := oracleLogin(m, "alice", "right=", "wrong="); err == nil {
			t.Errorf("%s: logs in with a wrong password", m)
		}
	}
}

func oracleLogin(m Mechanism, name, password, tried string) error {
	generator := scram.HashGeneratorFcn(func() hash.Hash { return m.hash()() })
	server, err := generator.NewServer(func(user string) (scram.StoredCredentials, error) {
		if user != name {
			return scram.StoredCredentials{}, fmt.Errorf("asked for %q", user)
		}
		return stored(generator, name, password, 0), nil
	})
	if err != nil {
		return err
	}
	there := server.NewConversation()
	c := newConversation(m, &Credential{Username: name, Password: secret.New(tried)}, true, newNonce(), noObserver{})
	first := string(c.first())
	if !strings.HasSuffix(first, ",tokenauth=true") {
		return fmt.Errorf("client-first %q lacks the token extension", first)
	}
	serverFirst, err := there.Step(first)
	if err != nil {
		return err
	}
	final, err := c.final([]byte(serverFirst))
	if err != nil {
		return err
	}
	serverFinal, err := there.Step(string(final))
	if err != nil {
		return err
	}
	if !there.Valid() {
		return errors.New("not valid")
	}
	return c.verify([]byte(serverFinal))
}

func TestNoncesAreLongPrintableAndNew(t *testing.T) {
	seen := map[string]bool{}
	for range 1000 {
		n := newNonce()
		raw, err := base64.StdEncoding.DecodeString(n)
		if err != nil || len(raw) < 18 || !printable(n) || seen[n] {
			t.Fatalf("nonce %q", n)
		}
		seen[n] = true
	}
}

// One derivation per password, mechanism, salt and iteration count, however many log
// in; another salt, count or mechanism costs another.
func TestKeysAreDerivedOncePerSaltIterationsAndMechanism(t *testing.T) {
	observer := new(counter)
	credential := &Credential{Username: "u", Password: secret.New("p"), Derived: new(secret.Memo)}
	login := func(m Mechanism, salt string, iterations int) {
		t.Helper()
		c := newConversation(m, credential, true, "abc", observer)
		if _, err := c.final(fmt.Appendf(nil, "r=abcd,s=%s,i=%d", base64.StdEncoding.EncodeToString([]byte(salt)), iterations)); err != nil {
			t.Fatal(err)
		}
	}
	for range 50 {
		login(ScramSHA512, "salt-of-one", 4096)
	}
	if n := observer.derived.Load(); n != 1 {
		t.Fatalf("%d derivations for 50 logins, want 1", n)
	}
	login(ScramSHA512, "salt-of-two", 4096)
	login(ScramSHA512, "salt-of-one", 8192)
	login(ScramSHA256, "salt-of-one", 4096)
	if n := observer.derived.Load(); n != 4 {
		t.Errorf("%d derivations, want 4", n)
	}
}

func TestServerFirstIsReadStrictly(t *testing.T) {
	const salt = "c2FsdHNhbHQ=" // 8 bytes
	good := []string{
		"r=abcX,s=" + salt + ",i=4096",
		"r=abcX,s=" + salt + ",i=16384",
		"r=abcX,s=" + salt + ",i=4096,x=extension,yy=more=than=that",
	}
	for _, s := range good {
		if first, err := parseServerFirst([]byte(s), "abc"); err != nil || string(first.salt) != "saltsalt" {
			t.Errorf("%q: %v", s, err)
		}
	}
	bad := []string{
		"", ",", "r", "r=", "=", "r=abcX", "r=abcX,", "r=abcX,s=" + salt, "r=abcX,s=" + salt + ",", "r=abcX,s=" + salt + ",i",
		"r=abc,s=" + salt + ",i=4096", "r=ab,s=" + salt + ",i=4096", "r=Xabc,s=" + salt + ",i=4096", "r=abc X,s=" + salt + ",i=4096",
		"r=abc\x01,s=" + salt + ",i=4096", "r=abcü,s=" + salt + ",i=4096", "r=abc" + strings.Repeat("x", maxNonce) + ",s=" + salt + ",i=4096",
		"s=" + salt + ",r=abcX,i=4096", "r=abcX,i=4096,s=" + salt, "x=y,r=abcX,s=" + salt + ",i=4096", "m=x,r=abcX,s=" + salt + ",i=4096",
		"r=abcX,s=" + salt + ",i=4096,m=x", "r=abcX,s=" + salt + ",i=4096,r=abcY", "r=abcX,s=" + salt + ",i=4096,i=4096",
		"r=abcX,s=" + salt + ",i=4096,1=x", "r=abcX,s=" + salt + ",i=4096,x", "r=abcX,s=" + salt + ",i=4096,x=\x00",
		"r=abcX,s=,i=4096", "r=abcX,s=c2FsdHNhbHQ,i=4096", "r=abcX,s=c2FsdHNhbHQ=\n,i=4096", "r=abcX,s=c2FsdHNhbHR=,i=4096", "r=abcX,s=c2FsdA==,i=4096",
		"r=abcX,s=" + base64.StdEncoding.EncodeToString(make([]byte, maxSalt+1)) + ",i=4096",
		"r=abcX,s=" + salt + ",i=0", "r=abcX,s=" + salt + ",i=1", "r=abcX,s=" + salt + ",i=4095", "r=abcX,s=" + salt + ",i=16385",
		"r=abcX,s=" + salt + ",i=2147483648", "r=abcX,s=" + salt + ",i=99999999999999999999999999", "r=abcX,s=" + salt + ",i=-4096", "r=abcX,s=" + salt + ",i=+4096",
		"r=abcX,s=" + salt + ",i=04096", "r=abcX,s=" + salt + ",i= 4096", "r=abcX,s=" + salt + ",i=4096.0", "r=abcX,s=" + salt + ",i=0x1000",
		"e=other-error", "r=abcX,s=" + salt + ",i=4096" + strings.Repeat(",x=y", maxAttributes),
	}
	for _, s := range bad {
		if _, err := parseServerFirst([]byte(s), "abc"); err == nil {
			t.Errorf("%q was taken", s)
		}
	}
}

func TestSoftwareNamesThatKafkaWouldRefuseAreUnknown(t *testing.T) {
	for in, want := range map[string]string{
		"apache-kafka-java": "apache-kafka-java", "4.4.0": "4.4.0", "x": "x", "": "unknown", "-x": "unknown", "x-": "unknown",
		"a b": "unknown", "a\nb": "unknown", "grüße": "unknown", ".": "unknown",
	} {
		if got := software(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func TestMechanismNames(t *testing.T) {
	for _, m := range []Mechanism{ScramSHA256, ScramSHA512} {
		if got, err := ParseMechanism(m.String()); err != nil || got != m {
			t.Errorf("%s: %v, %v", m, got, err)
		}
	}
	if _, err := ParseMechanism("PLAIN"); err == nil {
		t.Error("PLAIN was taken")
	}
	if Mechanism(0) != ScramSHA512 {
		t.Error("the zero value is not the design's default")
	}
}
