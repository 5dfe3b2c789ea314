package devkafka

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/xdg-go/scram"
)

// The mechanisms that every token listener offers.
const (
	scram256 = "SCRAM-SHA-256"
	scram512 = "SCRAM-SHA-512"
)

func mechanisms() []string { return []string{scram256, scram512} }

// hashOf is the hash of one of the mechanisms.
func hashOf(mechanism string) scram.HashGeneratorFcn {
	if mechanism == scram256 {
		return scram.SHA256
	}
	return scram.SHA512
}

// errCredential is why a login is refused, whatever was wrong: Kafka does not say either.
var errCredential = errors.New("invalid credentials")

// conversation is one SCRAM conversation (RFC 5802, RFC 7677) with Kafka's extension
// tokenauth=true (KIP-48). xdg-go's server has the say; it shares no code with the
// gateway's client.
type conversation struct {
	mechanism string
	server    *scram.ServerConversation
	first     bool   // client-first has come
	token     listed // that it named
}

// newConversation takes the function that finds the credential of a token id.
func newConversation(mechanism string, find func(id string) (listed, scram.StoredCredentials, bool)) (*conversation, error) {
	c := &conversation{mechanism: mechanism}
	server, err := hashOf(mechanism).NewServer(func(id string) (scram.StoredCredentials, error) {
		token, stored, ok := find(id)
		if !ok {
			return stored, errCredential
		}
		c.token = token
		return stored, nil
	})
	if err != nil {
		return nil, err
	}
	c.server = server.NewConversation()
	return c, nil
}

// step answers a client's message; done says that the client has proved its token.
func (c *conversation) step(message []byte) (answer []byte, done bool, err error) {
	if !c.first {
		c.first = true
		if !tokenLogin(string(message)) {
			return nil, false, errCredential // there are no users but tokens
		}
	}
	out, err := c.server.Step(string(message))
	if err != nil {
		return nil, false, errCredential
	}
	if id := c.server.AuthzID(); id != "" && id != c.server.Username() {
		return nil, false, errCredential // it wants to be somebody else than it can prove
	}
	return []byte(out), c.server.Valid(), nil
}

// tokenLogin tells whether a client-first message asks for a login with a token. Kafka
// knows no channel binding: the message begins with "n,".
func tokenLogin(first string) bool {
	fields := strings.Split(first, ",")
	return len(fields) > 4 && fields[0] == "n" && slices.Contains(fields[4:], "tokenauth=true")
}

// lifetime is what the conversation is worth at a time.
func (c *conversation) lifetime(now time.Time, maxReauth time.Duration) time.Duration {
	return lifetime(now, c.token.expiry, maxReauth)
}
