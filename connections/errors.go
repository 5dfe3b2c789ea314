package connections

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
)

// ErrSessionEnding is what Begin and NextAnswer return once a connection at risk that
// could not be renewed has ended itself. Every request with an answer was answered, and what had none
// (acks=0) was delivered as far as a closed connection can tell. It is no fault: the
// owner closes the connection, and whoever it served opens another.
var ErrSessionEnding = errors.New("connections: session end is near, and nothing is unanswered")

// errFinished is what Begin returns after Finish.
var errFinished = errors.New("no requests are taken after Finish")

// Phase says how far a connection had come.
type Phase uint8

// The phases in their order.
const (
	PhaseDial         Phase = iota // name, TCP, waiting for a turn
	PhaseTLS                       // the handshake and the broker's certificate
	PhaseVersions                  // ApiVersions
	PhaseMechanism                 // SaslHandshake
	PhaseAuthenticate              // SaslAuthenticate
	PhaseRelay                     // logged in
)

// String returns the name used in messages and logs.
func (p Phase) String() string {
	switch p {
	case PhaseDial:
		return "dial"
	case PhaseTLS:
		return "tls"
	case PhaseVersions:
		return "versions"
	case PhaseMechanism:
		return "mechanism"
	case PhaseAuthenticate:
		return "authenticate"
	case PhaseRelay:
		return "relay"
	}
	return fmt.Sprintf("phase %d", uint8(p))
}

// Fault is what went wrong, for decisions and labels. The set is small and closed.
type Fault uint8

// The faults. Those marked "again" may be gone at the next try.
const (
	// Unreachable: no address for the name, no route, nobody listening. Again.
	Unreachable Fault = iota + 1
	// Timeout: a deadline passed: the context's, Config.DialTimeout, Config.Stall.
	// Again.
	Timeout
	// Canceled: the caller gave up. Again.
	Canceled
	// PeerClosed: the broker, or something on the way, ended the connection. Again.
	PeerClosed
	// LocallyClosed: Close, Abort or Finish came first.
	LocallyClosed
	// SelfDetected: the broker's address leads back to this gateway.
	SelfDetected
	// AnotherGateway: the peer is a gateway such as this one.
	AnotherGateway
	// NotTLS: the peer answers a TLS handshake with something else.
	NotTLS
	// RefusedByPeer: the broker ended the TLS handshake with an alert, most often
	// because it wants another certificate, or one at all.
	RefusedByPeer
	// WrongHost: the broker's certificate is for other names.
	WrongHost
	// Untrusted: the broker's certificate is of no configured authority, expired, or
	// otherwise not good for a server.
	Untrusted
	// NoSasl: a listener that identifies its clients by TLS alone (SSL).
	NoSasl
	// NoMechanism: the listener does not offer the configured mechanism.
	NoMechanism
	// CredentialRefused: the broker does not take the credential. It may not know the
	// token yet, or no longer: it says the same in both cases. Again.
	CredentialRefused
	// CredentialExpired: the login worked, but the session has no time to live: an
	// expired token that the broker has not removed yet. Again, with another token.
	CredentialExpired
	// TooSoon: a re-authentication within a second of the one before. The connection
	// goes on with the session that it has. Again.
	TooSoon
	// NoCredential: a session had to be renewed, and no credential that the broker is
	// known to have came in time. Again.
	NoCredential
	// VersionsChanged: the broker offers other API versions than it did when the client
	// learned them, which a swap must not hide.
	VersionsChanged
	// Unfenced: a leg that was to be swapped has acks=0 produces that no request may follow
	// any more, so that only its end can say that the broker has read them.
	Unfenced
	// Unsupported: the broker lacks an API or a version that is needed.
	Unsupported
	// Hostile: the peer breaks the protocol: what it says cannot come from Kafka, or
	// it cannot prove that it knows the credential.
	Hostile
)

// String returns the name used in messages, logs and labels.
func (f Fault) String() string {
	switch f {
	case Unreachable:
		return "unreachable"
	case Timeout:
		return "timeout"
	case Canceled:
		return "canceled"
	case PeerClosed:
		return "peer_closed"
	case LocallyClosed:
		return "closed"
	case SelfDetected:
		return "self_detected"
	case AnotherGateway:
		return "another_gateway"
	case NotTLS:
		return "not_tls"
	case RefusedByPeer:
		return "refused_by_peer"
	case WrongHost:
		return "wrong_host"
	case Untrusted:
		return "untrusted"
	case NoSasl:
		return "no_sasl"
	case NoMechanism:
		return "no_mechanism"
	case CredentialRefused:
		return "credential_refused"
	case CredentialExpired:
		return "credential_expired"
	case TooSoon:
		return "too_soon"
	case NoCredential:
		return "no_credential"
	case VersionsChanged:
		return "versions_changed"
	case Unfenced:
		return "unfenced"
	case Unsupported:
		return "unsupported"
	case Hostile:
		return "hostile"
	}
	return fmt.Sprintf("fault %d", uint8(f))
}

// retry tells whether the same call may work later without anybody changing
// anything. Credentials count, since the next call may bring another one.
func (f Fault) retry() bool {
	switch f {
	case Unreachable, Timeout, Canceled, PeerClosed, CredentialRefused, CredentialExpired, TooSoon, NoCredential:
		return true
	}
	return false
}

// Error is every error of this package but ErrSessionEnding and io.EOF. It holds no
// secret, and text of the broker's only in printable, bounded form.
type Error struct {
	Phase  Phase
	Target Target
	Retry  bool // opening again makes sense
	Fault  Fault
	Cure   string // what the operator can do; empty where there is nothing to do
	Err    error  // what happened, never nil
}

// Error implements error.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "broker %s: %s: %v", e.Target, e.Phase, e.Err)
	if e.Cure != "" {
		b.WriteString("; ")
		b.WriteString(e.Cure)
	}
	return b.String()
}

// Unwrap returns what happened.
func (e *Error) Unwrap() error { return e.Err }

// refusal is an Error before it knows its target and phase.
type refusal struct {
	fault Fault
	cure  string
	err   error
}

func (r *refusal) Error() string { return r.err.Error() }
func (r *refusal) Unwrap() error { return r.err }

func refuse(fault Fault, cure, format string, args ...any) error {
	return &refusal{fault: fault, cure: cure, err: fmt.Errorf(format, args...)}
}

func hostile(format string, args ...any) error {
	return refuse(Hostile, "what answers there is no Kafka broker, or one that must not be trusted", format, args...)
}

const hangs = "the broker hangs, is overloaded, or cannot be reached from here"

// fault makes the *Error for err. cause is the error of the context under which the
// work was done, nil if that has not ended: it explains better than the error that
// it brought about.
func (t Target) fault(phase Phase, err, cause error) *Error {
	var done *Error
	if errors.As(err, &done) {
		return done
	}
	e := &Error{Phase: phase, Target: t, Err: err}
	var r *refusal
	switch {
	case errors.As(err, &r):
		e.Fault, e.Cure, e.Err = r.fault, r.cure, r.err
	case cause != nil:
		if !errors.Is(err, cause) { // what aborting the connection brought about
			e.Err = cause
		}
		if e.Fault = Canceled; !errors.Is(cause, context.Canceled) {
			e.Fault, e.Cure = Timeout, hangs
		}
	default:
		e.Fault, e.Cure = ioFault(err)
	}
	var wrongPhase *net.OpError
	if e.Fault == RefusedByPeer && errors.As(err, &wrongPhase) && phase != PhaseRelay {
		e.Phase = PhaseTLS // under TLS 1.3 the alert comes after our own handshake has ended
	}
	e.Retry = e.Fault.retry()
	return e
}

// ioFault classifies what reads and writes return.
func ioFault(err error) (Fault, string) {
	var (
		op      *net.OpError
		network net.Error
		record  tls.RecordHeaderError
	)
	switch {
	case errors.Is(err, net.ErrClosed), errors.Is(err, io.ErrClosedPipe):
		return LocallyClosed, ""
	case errors.Is(err, context.Canceled):
		return Canceled, ""
	case errors.As(err, &network) && network.Timeout():
		return Timeout, hangs
	case errors.As(err, &record):
		return Hostile, ""
	case errors.As(err, &op) && op.Op == "remote error": // crypto/tls: an alert
		return RefusedByPeer, "the TLS alert says why the peer refused. If it asks for a client certificate, this may not be the token listener (SASL_SSL) at all but a control listener (SSL) or another gateway: see kafka.bootstrap; " +
			"a token listener that wants certificates gets one that it trusts by kafka.tls.certificate and kafka.tls.key"
	case errors.As(err, &op) && op.Op == "local error": // crypto/tls: an alert of our own
		return Hostile, ""
	}
	return PeerClosed, "the broker's own log says why it closed the connection"
}
