package connections

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"doorkeeper/internal/secret"
	"doorkeeper/internal/wire"
)

// Defaults of Config.
const (
	defaultDialTimeout    = 5 * time.Second
	defaultDialsPerBroker = 32 // a broker's listen backlog is 50; beyond it dials wait a second for a SYN to be sent again
	defaultStall          = 30 * time.Second
)

// Target is a broker's address. Node is its id, -1 where that is not known yet: at a
// bootstrap address.
type Target struct {
	Node int32
	Host string // a name or an IP address; the broker's certificate must be for it
	Port int32
}

// address is what is dialled, and what bounded dials are counted by.
func (t Target) address() string {
	return net.JoinHostPort(t.Host, strconv.FormatInt(int64(t.Port), 10))
}

// String returns "3 (host:port)", or "host:port" for an unknown node.
func (t Target) String() string {
	if t.Node < 0 {
		return t.address()
	}
	return fmt.Sprintf("%d (%s)", t.Node, t.address())
}

// Kind says what a connection is for.
type Kind uint8

const (
	// General connections have no session end unless the broker names one. Without a
	// credential they do not log in at all: the listener knows its peers by TLS.
	General Kind = iota
	// ScramOverMtls connections log in with a delegation token.
	ScramOverMtls
)

// String returns the name used in messages and logs.
func (k Kind) String() string {
	switch k {
	case General:
		return "General"
	case ScramOverMtls:
		return "ScramOverMtls"
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// Credential is what a login proves to know. For a delegation token: its id and its
// base64 HMAC. Derived keeps the keys derived from the password across logins, so
// that only the first with a broker's salt costs a derivation; nil derives anew each
// time.
type Credential struct {
	Username string
	Password secret.Text
	Derived  *secret.Memo
}

// ClientInfo is what the broker is told about the client behind the connection. It
// shows in the broker's metrics and decides its telemetry subscriptions. A nil ID is
// Kafka's null. Software names that Kafka would refuse (KIP-511) become "unknown",
// which is what it calls clients that do not say.
type ClientInfo struct {
	ID              *string
	SoftwareName    string
	SoftwareVersion string
}

// Observer hears what is worth counting. Its methods are called by whatever
// goroutine it happens in; they must not block and must not call back.
type Observer interface {
	// KeyDerived: a key was really derived from a password, which costs 1 to 7 ms.
	KeyDerived(mechanism string)
	// AtRisk: a connection came near its session end, or a newer credential is there.
	// Once for each session, of which a leg has one more after every renewal.
	AtRisk()
	// Renewed: an attempt to renew a session has ended; see Renewal for what it says.
	Renewed(kind, result string, left, took time.Duration, unanswered int)
	// ForcedClose: a connection had to end since its session could not be renewed. The
	// reason is a Fault, or "session_end" where there is nothing to renew it with.
	ForcedClose(reason string)
}

type noObserver struct{}

func (noObserver) KeyDerived(string)                                         {}
func (noObserver) AtRisk()                                                   {}
func (noObserver) ForcedClose(string)                                        {}
func (noObserver) Renewed(string, string, time.Duration, time.Duration, int) {}

// Config is what all connections of a Dialer share.
type Config struct {
	// TLS is for the brokers' token listener. It is cloned for every dial, with the
	// dialled host as ServerName, and with verification always on.
	TLS *tls.Config
	// Buffers is the pool that sessions share.
	Buffers *wire.Buffers
	// Mechanism of the logins.
	Mechanism Mechanism
	// DialTimeout bounds TCP, TLS and login together, from the moment on that it is
	// the dial's turn; default 5 s.
	DialTimeout time.Duration
	// DialsPerBroker bounds the dials to one address that are under way at the same
	// time; default 32.
	DialsPerBroker int
	// Stall bounds every write: after a broker took no bytes for so long, or for a
	// quarter more, the connection fails. Default 30 s.
	Stall time.Duration
	// Observer may be nil.
	Observer Observer
	// OwnListener tells whether an address is one that this gateway listens on; nil:
	// none is.
	OwnListener func(net.Addr) bool
	// OwnCertificate returns the DER of the certificate that this gateway shows its
	// clients, nil if it has none; nil: it has none.
	OwnCertificate func() []byte
	// Renewal says how connections with Credentials carry their sessions over their ends.
	Renewal RenewalPolicy
}

// Dialer opens connections. Safe for concurrent use; it has no goroutines.
type Dialer struct {
	cfg   Config
	slots slots
	hosts hosts
	dial  func(ctx context.Context, network, address string) (net.Conn, error)
}

// NewDialer returns a Dialer. It panics if TLS or Buffers is missing.
func NewDialer(cfg Config) *Dialer {
	if cfg.TLS == nil || cfg.Buffers == nil {
		panic("connections: NewDialer without TLS or Buffers")
	}
	if cfg.DialTimeout <= 0 {
		cfg.DialTimeout = defaultDialTimeout
	}
	if cfg.DialsPerBroker <= 0 {
		cfg.DialsPerBroker = defaultDialsPerBroker
	}
	if cfg.Stall <= 0 {
		cfg.Stall = defaultStall
	}
	if cfg.Observer == nil {
		cfg.Observer = noObserver{}
	}
	if cfg.OwnListener == nil {
		cfg.OwnListener = func(net.Addr) bool { return false }
	}
	if cfg.OwnCertificate == nil {
		cfg.OwnCertificate = func() []byte { return nil }
	}
	// A broker that vanished without a word is noticed within a minute, on idle
	// connections too.
	keepAlive := net.KeepAliveConfig{Enable: true, Idle: 30 * time.Second, Interval: 10 * time.Second, Count: 3}
	d := &net.Dialer{KeepAliveConfig: keepAlive}
	return &Dialer{cfg: cfg, dial: d.DialContext, slots: slots{size: cfg.DialsPerBroker}, hosts: hosts{base: cfg.TLS}}
}

// Open returns a connection that is logged in and takes requests; the caller owns it
// and must Close it. It waits for its turn among the dials to that broker for as
// long as ctx lasts, then for DialTimeout at most. Every error is an *Error, and
// leaves nothing behind.
//
// A ScramOverMtls connection needs a credential; without one, Open panics.
func (d *Dialer) Open(ctx context.Context, target Target, kind Kind, credential *Credential, client ClientInfo) (*KafkaConnection, error) {
	return d.open(ctx, target, kind, credential, client, nil)
}

// OpenRenewing is Open of a ScramOverMtls connection whose sessions renew themselves
// with what credentials gives, as Config.Renewal says: by re-authentication on the
// same leg (KIP-368) or by a swap to a fresh one.
func (d *Dialer) OpenRenewing(ctx context.Context, target Target, credential *Credential, client ClientInfo, credentials Credentials) (*KafkaConnection, error) {
	return d.open(ctx, target, ScramOverMtls, credential, client, credentials)
}

func (d *Dialer) open(ctx context.Context, target Target, kind Kind, credential *Credential, client ClientInfo, credentials Credentials) (*KafkaConnection, error) {
	if kind == ScramOverMtls && credential == nil {
		panic("connections: Open of a ScramOverMtls connection without a credential")
	}
	c := newConnection(target, kind, d, client)
	if err := c.begin(); err != nil {
		return nil, err
	}
	if credentials != nil {
		c.credentials = credentials
		c.life, c.endLife = context.WithCancel(context.WithoutCancel(ctx))
	}
	leg, err := d.leg(ctx, target, kind, credential, client)
	if err == nil {
		err = c.open(leg)
	}
	if err != nil {
		c.end()
		return nil, err
	}
	return c, nil
}

// leg dials and logs in: what Open says of waits and errors is said of this.
func (d *Dialer) leg(ctx context.Context, target Target, kind Kind, credential *Credential, client ClientInfo) (_ *leg, err error) {
	release, err := d.slots.acquire(ctx, target.address())
	if err != nil {
		return nil, target.fault(PhaseDial, fmt.Errorf("waiting for a turn among %d dials: %w", d.cfg.DialsPerBroker, err), err)
	}
	ctx, cancel := context.WithTimeout(ctx, d.cfg.DialTimeout)
	defer cancel()
	stream, err := d.connect(ctx, target, d.hosts.config(target.Host))
	// Only what the broker has not accepted yet fills its backlog; a handshake that
	// has ended proves that it did.
	release()
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = stream.Abort()
		}
	}()

	return d.login(ctx, stream, target, kind, credential, client)
}

// connect does TCP and TLS. tlsConfig verifies the target's host. Its errors are *Error.
func (d *Dialer) connect(ctx context.Context, target Target, tlsConfig *tls.Config) (*wire.Stream, error) {
	conn, err := d.dial(ctx, "tcp", target.address())
	if err != nil {
		return nil, target.fault(PhaseDial, unreachable(err), ctx.Err())
	}
	if d.cfg.OwnListener(conn.RemoteAddr()) {
		_ = conn.Close()
		return nil, target.fault(PhaseDial, ownAddress(conn.RemoteAddr()), nil)
	}

	stream := wire.Client(conn, tlsConfig, d.cfg.Buffers)
	if err := stream.Handshake(ctx); err != nil {
		_ = stream.Abort()
		return nil, target.fault(PhaseTLS, d.judgeHandshake(target, err), ctx.Err())
	}
	if d.isOwn(stream.ConnectionState().PeerCertificates) {
		_ = stream.Abort()
		return nil, target.fault(PhaseTLS, ownCertificate(), nil)
	}
	return stream, nil
}

// unreachable gives the errors of name resolution and connect(2) their cure.
func unreachable(err error) error {
	var (
		network net.Error
		dns     *net.DNSError
	)
	if errors.Is(err, context.Canceled) || errors.As(err, &network) && network.Timeout() {
		return err
	}
	if errors.As(err, &dns) {
		return refuse(Unreachable, "the broker's name must resolve from here: it is the one that the broker advertises, or stands in kafka.bootstrap", "%w", err)
	}
	return refuse(Unreachable, "is the broker up, and the port that of its token listener?", "%w", err)
}

// slots bounds the dials per address. An address is forgotten when nobody dials it.
type slots struct {
	size int
	mu   sync.Mutex
	of   map[string]*slot
}

type slot struct {
	turns chan struct{}
	users int // waiting or dialling
}

// acquire waits for a turn until ctx ends.
func (s *slots) acquire(ctx context.Context, address string) (release func(), err error) {
	s.mu.Lock()
	if s.of == nil {
		s.of = make(map[string]*slot)
	}
	mine := s.of[address]
	if mine == nil {
		mine = &slot{turns: make(chan struct{}, s.size)}
		s.of[address] = mine
	}
	mine.users++
	s.mu.Unlock()

	leave := func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if mine.users--; mine.users == 0 {
			delete(s.of, address)
		}
	}
	select {
	case mine.turns <- struct{}{}:
		return func() { <-mine.turns; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}
