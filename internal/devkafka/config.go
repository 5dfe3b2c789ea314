package devkafka

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"
)

// Kafka's defaults.
const (
	defaultBrokers     = 3
	defaultExpiry      = 24 * time.Hour     // delegation.token.expiry.time.ms
	defaultMaxLifetime = 7 * 24 * time.Hour // delegation.token.max.lifetime.ms
	defaultSweep       = time.Hour          // delegation.token.expiry.check.interval.ms
)

// maxBrokers bounds Config.Brokers.
const maxBrokers = 32

// Config describes a cluster. Certificate and ClientCA are needed, the rest has
// defaults.
type Config struct {
	// Brokers is how many nodes there are: 3 if 0, 32 at most. Their ids count from 1.
	Brokers int
	// TokenListen and ControlListen are the addresses (host:port) of each node's
	// listeners, in the order of the nodes; nil: 127.0.0.1 and free ports. They are
	// what clients are told, so they must name one address, not all of them.
	TokenListen, ControlListen []string

	// Certificate is shown by both listeners of all nodes.
	Certificate tls.Certificate
	// ClientCA verifies those who come to a control listener.
	ClientCA *x509.CertPool
	// Principal names who shows a certificate, without "User:"; nil: its common name.
	Principal func(*x509.Certificate) string
	// SuperUsers are principals, without "User:", that may do everything. Nobody else
	// may do anything without an ACL.
	SuperUsers []string

	// Expiry is how long a token lives unless it is renewed (delegation.token.expiry.time.ms),
	// MaxLifetime how long at most, Sweep how often expired ones are removed; MaxReauth
	// bounds every session (connections.max.reauth.ms). Zero: Kafka's defaults, for
	// MaxReauth no bound.
	Expiry, MaxLifetime, Sweep, MaxReauth time.Duration
	// Propagation is how long after the controller a node learns what happened to a
	// token. It is asked once per node for everything that happens, and must neither
	// block nor call back. nil: no time at all.
	Propagation func(node int32) time.Duration
	// NoSecretKey leaves delegation.token.secret.key out: no tokens (error 61).
	NoSecretKey bool

	// Logins is told of every successful token login; it must not block. May be nil.
	Logins func(Login)
	// Decisions is told of the first refusal of the authorizer in every answer that
	// holds one; it must not block. Answers are decoded for it. May be nil.
	Decisions func(Decision)

	Logger *zap.Logger // nil: silence
}

// Login is a successful login, or one again (KIP-368), on a token listener.
type Login struct {
	Node             int32
	Principal        string // the token's owner, without "User:"
	TokenID          string
	Mechanism        string // such as SCRAM-SHA-512
	Lifetime         time.Duration
	Reauthentication bool
}

// Decision is a refusal.
type Decision struct {
	Node      int32
	Principal string // without "User:"
	Key       int16  // of the request
	Code      int16  // 29, 30, 31, 53 or 65
}

// complete puts the defaults in and says what makes no sense.
func (c Config) complete() (Config, error) {
	if c.Brokers == 0 {
		c.Brokers = defaultBrokers
	}
	if c.Brokers < 0 || c.Brokers > maxBrokers {
		return c, fmt.Errorf("devkafka: %d brokers: 1 to %d are possible", c.Brokers, maxBrokers)
	}
	for _, l := range []*[]string{&c.TokenListen, &c.ControlListen} {
		if *l == nil {
			for range c.Brokers {
				*l = append(*l, "127.0.0.1:0")
			}
		}
		if len(*l) != c.Brokers {
			return c, fmt.Errorf("devkafka: %d addresses to listen on for %d brokers", len(*l), c.Brokers)
		}
	}
	if len(c.Certificate.Certificate) == 0 || c.ClientCA == nil {
		return c, errors.New("devkafka: a certificate for the listeners and the authorities of the clients are needed")
	}
	if c.Principal == nil {
		c.Principal = func(cert *x509.Certificate) string { return cert.Subject.CommonName }
	}
	if c.Propagation == nil {
		c.Propagation = func(int32) time.Duration { return 0 }
	}
	for _, d := range []struct {
		of        *time.Duration
		otherwise time.Duration
	}{{&c.Expiry, defaultExpiry}, {&c.MaxLifetime, defaultMaxLifetime}, {&c.Sweep, defaultSweep}, {&c.MaxReauth, 0}} {
		if *d.of < 0 {
			return c, fmt.Errorf("devkafka: a negative duration %v", *d.of)
		}
		if *d.of == 0 {
			*d.of = d.otherwise
		}
	}
	if c.Logins == nil {
		c.Logins = func(Login) {}
	}
	if c.Logger == nil {
		c.Logger = zap.NewNop()
	}
	return c, nil
}
