package connections

import (
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"hash"
	"strconv"
	"strings"

	"doorkeeper/internal/secret"
)

// Mechanism is a SASL mechanism. The zero value is SCRAM-SHA-512.
type Mechanism uint8

// The mechanisms that Kafka has for delegation tokens.
const (
	ScramSHA512 Mechanism = iota
	ScramSHA256
)

// ParseMechanism reads Kafka's name of a mechanism.
func ParseMechanism(name string) (Mechanism, error) {
	for _, m := range []Mechanism{ScramSHA512, ScramSHA256} {
		if name == m.String() {
			return m, nil
		}
	}
	return 0, fmt.Errorf("mechanism %q: %s or %s", name, ScramSHA512, ScramSHA256)
}

// String returns Kafka's name.
func (m Mechanism) String() string {
	if m == ScramSHA256 {
		return "SCRAM-SHA-256"
	}
	return "SCRAM-SHA-512"
}

func (m Mechanism) hash() func() hash.Hash {
	if m == ScramSHA256 {
		return sha256.New
	}
	return sha512.New
}

const credentialCure = "the broker does not know this token (yet, or any more); where this lasts, all brokers need the same delegation.token.secret.key"

// gs2Header says that there is no channel binding (Kafka has none) and no other
// identity to act as.
const gs2Header = "n,,"

// conversation is one SCRAM login, the client's side of RFC 5802, for one use.
//
//	client-first   n,,n=<user>,r=<nonce>[,tokenauth=true]
//	server-first   r=<nonce><more>,s=<salt>,i=<iterations>
//	client-final   c=biws,r=<nonce><more>,p=<proof>
//	server-final   v=<signature>
//
// Kafka's extension tokenauth=true has the broker look for a delegation token in
// place of a user; like everything in the first message it is signed.
type conversation struct {
	mechanism  Mechanism
	credential *Credential
	observer   Observer
	nonce      string
	bare       string // client-first without the header

	signature []byte // what the server must answer; nil before proof
	proofText string // what must not come back in the broker's error texts
}

// newNonce returns 24 random bytes in printable form.
func newNonce() string {
	var b [24]byte
	_, _ = rand.Read(b[:]) // never fails
	return base64.StdEncoding.EncodeToString(b[:])
}

func newConversation(m Mechanism, credential *Credential, token bool, nonce string, observer Observer) *conversation {
	c := &conversation{mechanism: m, credential: credential, observer: observer, nonce: nonce}
	c.bare = "n=" + escape(credential.Username) + ",r=" + nonce
	if token {
		c.bare += ",tokenauth=true"
	}
	return c
}

// escape is RFC 5802's for names. A password needs none: it is never sent.
func escape(name string) string {
	return strings.NewReplacer("=", "=3D", ",", "=2C").Replace(name)
}

// first returns the client's first message.
func (c *conversation) first() []byte { return []byte(gs2Header + c.bare) }

// final checks the server's first message and returns the client's final one. What
// it refuses, it refuses before it derives a key.
func (c *conversation) final(msg []byte) ([]byte, error) {
	server, err := parseServerFirst(msg, c.nonce)
	if err != nil {
		return nil, err
	}
	salted, err := c.saltedPassword(server)
	if err != nil {
		return nil, err
	}

	mac := func(key []byte, text string) []byte {
		m := hmac.New(c.mechanism.hash(), key)
		m.Write([]byte(text))
		return m.Sum(nil)
	}
	withoutProof := "c=" + base64.StdEncoding.EncodeToString([]byte(gs2Header)) + ",r=" + server.nonce
	signed := c.bare + "," + string(msg) + "," + withoutProof

	key := []byte(salted.Reveal())
	clientKey := mac(key, "Client Key")
	stored := c.mechanism.hash()()
	stored.Write(clientKey)
	proof := mac(stored.Sum(nil), signed)
	subtle.XORBytes(proof, proof, clientKey)

	c.signature = mac(mac(key, "Server Key"), signed)
	c.proofText = base64.StdEncoding.EncodeToString(proof)
	return []byte(withoutProof + ",p=" + c.proofText), nil
}

// verify checks the server's final message: that it, too, knows the credential.
func (c *conversation) verify(msg []byte) error {
	signature, err := parseServerFinal(msg)
	if err != nil {
		return err
	}
	if c.signature == nil || !hmac.Equal(signature, c.signature) {
		return hostile("the server's signature is wrong: it does not know the credential")
	}
	return nil
}

// saltedPassword is RFC 5802's Hi(), computed once per password, mechanism, salt and
// iteration count. A broker draws a new salt when it restarts and when a token is
// renewed.
func (c *conversation) saltedPassword(server serverFirst) (secret.Text, error) {
	derive := func() (secret.Text, error) {
		h := c.mechanism.hash()
		key, err := pbkdf2.Key(h, c.credential.Password.Reveal(), server.salt, server.iterations, h().Size())
		if err != nil {
			return secret.Text{}, fmt.Errorf("derive the key for %s: %w", c.mechanism, err)
		}
		c.observer.KeyDerived(c.mechanism.String())
		return secret.New(string(key)), nil
	}
	if c.credential.Derived == nil {
		return derive()
	}
	name := c.mechanism.String() + " " + strconv.Itoa(server.iterations) + " " + string(server.salt)
	return c.credential.Derived.Get(name, derive)
}
