package tokens

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
)

// Phase is what was being done when an Error came up.
type Phase uint8

// The phases.
const (
	PhaseAcquire Phase = iota // waiting for a token
	PhaseCreate               // CreateDelegationToken
	PhaseAnswer               // checking the answer to it
	PhaseFind                 // DescribeDelegationToken, looking for orphans
	PhaseReady                // DescribeDelegationToken on one broker
	PhaseNodes                // Metadata
	PhaseExpire               // ExpireDelegationToken
)

// request is the phase as TokenFailed names it.
func (p Phase) request() string {
	switch p {
	case PhaseFind, PhaseReady:
		return "describe"
	case PhaseExpire:
		return "expire"
	case PhaseNodes:
		return "nodes"
	default:
		return "create"
	}
}

// String returns the phase in words.
func (p Phase) String() string {
	switch p {
	case PhaseAcquire:
		return "wait for a token"
	case PhaseCreate:
		return "create a token"
	case PhaseAnswer:
		return "check the answer to a token creation"
	case PhaseFind:
		return "look for tokens left behind"
	case PhaseReady:
		return "ask a broker whether it knows a token"
	case PhaseNodes:
		return "read the list of brokers"
	case PhaseExpire:
		return "expire a token"
	default:
		return fmt.Sprintf("phase(%d)", uint8(p))
	}
}

// Reason is the kind of an Error; its String is a metric label.
type Reason uint8

// The reasons.
const (
	ReasonOther             Reason = iota
	ReasonUnsupported              // error 35
	ReasonDisabled                 // error 61
	ReasonRequestNotAllowed        // error 64
	ReasonNotAuthorized            // error 65
	ReasonExpired                  // error 66
	ReasonPrincipalType            // error 67
	ReasonOwnerMismatch            // error 63
	ReasonLoginRefused             // error 58, on the control listener
	ReasonBroker                   // any other error code
	ReasonWrongAnswer              // the answer is not what was asked for
	ReasonLifeTooShort             // the token lives too short to work with
	ReasonTLS                      // the control listener's TLS
	ReasonUnreachable              // no connection
	ReasonTimeout                  // no answer in time
	ReasonNotKnown                 // a broker does not know the token in time
	ReasonProtected                // the owner may not have a token
	ReasonLimit                    // too many owners
	ReasonBusy                     // too many creations wait for their turn
	ReasonKeyDiffers               // a broker has another delegation.token.secret.key
	ReasonNotHeld                  // no token of that owner is held here
	ReasonStopped                  // the source has been stopped
)

// String returns the label.
func (r Reason) String() string {
	names := [...]string{"other", "unsupported", "disabled", "request_not_allowed", "not_authorized", "expired",
		"principal_type", "owner_mismatch", "login_refused", "broker_error", "wrong_answer", "life_too_short", "tls",
		"unreachable", "timeout", "not_known", "protected", "limit", "busy", "key_differs", "not_held", "stopped"}
	if int(r) < len(names) {
		return names[r]
	}
	return fmt.Sprintf("reason(%d)", uint8(r))
}

// NoNode is Error.Node where no particular broker is meant.
const NoNode int32 = -1

// Error is every error of this package. It never holds a secret.
type Error struct {
	Phase  Phase
	Reason Reason
	// Owner is whose token it was about; empty for the gateway's own.
	Owner string
	// Node is the broker that was asked, or NoNode.
	Node int32
	// Code is Kafka's error code; 0 where no answer with one came.
	Code int16
	// Retry says whether the same attempt may succeed later with nothing changed.
	// Without it, Cure has to be carried out first.
	Retry bool
	// Lost says that Kafka may have done what was asked, although no answer came.
	Lost bool
	// Cure is what the operator should change; empty where nothing is known.
	Cure string
	// Err is the cause; may be nil.
	Err error
}

// Error says what failed, for whom, whether a retry makes sense, and the cure.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Phase.String())
	switch {
	case e.Owner != "":
		fmt.Fprintf(&b, " for owner %q", e.Owner)
	case e.Phase != PhaseNodes && e.Phase != PhaseExpire:
		b.WriteString(" for the gateway itself")
	}
	if e.Node != NoNode {
		fmt.Fprintf(&b, " on broker %d", e.Node)
	}
	fmt.Fprintf(&b, ": %s", strings.ReplaceAll(e.Reason.String(), "_", " "))
	if e.Err != nil {
		fmt.Fprintf(&b, ": %v", e.Err)
	}
	if e.Retry {
		b.WriteString(" (will be retried)")
	}
	if e.Cure != "" {
		fmt.Fprintf(&b, "; %s", e.Cure)
	}
	return b.String()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// The token errors of Kafka's protocol, and the others that need a cure.
const (
	codeUnsupportedVersion = 35
	codeLoginRefused       = 58
	codeTokensDisabled     = 61
	codeTokenNotFound      = 62
	codeOwnerMismatch      = 63
	codeRequestNotAllowed  = 64
	codeNotAuthorized      = 65
	codeTokenExpired       = 66
	codePrincipalType      = 67

	codeUnknownServerError = -1
	codeRequestTimedOut    = 7
)

// brokerError turns an error code of Kafka into an Error. gateway is the gateway's
// own principal name, empty while it is unknown.
func brokerError(p Phase, code int16, cause error, owner, gateway string) *Error {
	e := &Error{Phase: p, Owner: owner, Node: NoNode, Code: code, Err: cause}
	switch code {
	case codeUnsupportedVersion:
		e.Reason = ReasonUnsupported
		e.Cure = "delegation tokens need KRaft with metadata.version 3.6-IV2 or later: kafka-features.sh --bootstrap-server ... upgrade --metadata 3.6-IV2 (or a later one that all nodes have)"
	case codeLoginRefused:
		e.Reason = ReasonLoginRefused
		e.Cure = "the control listener refused the gateway's login: check kafka.control.sasl (mechanism, username, password_file)"
	case codeTokensDisabled:
		e.Reason = ReasonDisabled
		e.Cure = "set delegation.token.secret.key on every broker and controller, to the same value, and restart them"
	case codeRequestNotAllowed:
		e.Reason = ReasonRequestNotAllowed
		e.Cure = "the control listener does not know the gateway by a login of its own. If it logged in with a delegation token: give it a certificate (kafka.control.tls) or a SCRAM user (kafka.control.sasl). " +
			"If the listener is SSL and asks for no certificate, the gateway is ANONYMOUS there: set listener.name.<control>.ssl.client.auth=required on the brokers, and kafka.control.tls.certificate and key here. " +
			"If the listener is PLAINTEXT: use SSL or SASL_SSL"
	case codeNotAuthorized:
		e.Reason = ReasonNotAuthorized
		if gateway == "" {
			gateway = "<the gateway's principal>"
		}
		e.Cure = "grant it: " + Grant{Bootstrap: "<broker>", CommandConfig: "<admin.properties>", Gateway: gateway, Owner: owner}.Command()
	case codeTokenExpired:
		e.Reason = ReasonExpired
		e.Cure = "the token expired as it was made: check delegation.token.max.lifetime.ms, delegation.token.expiry.time.ms and tokens.lifetime, and the clocks of the controllers"
	case codePrincipalType:
		e.Reason = ReasonPrincipalType
		e.Cure = "owners and renewers must be of the type User: check principal.builder.class on the brokers"
	case codeOwnerMismatch:
		e.Reason = ReasonOwnerMismatch
		e.Cure = "only the owner or a renewer may do this: the control listeners of all brokers must map the gateway's certificate to the same principal (ssl.principal.mapping.rules)"
	default:
		e.Reason = ReasonBroker
		e.Retry = true
		e.Lost = code == codeUnknownServerError || code == codeRequestTimedOut
	}
	return e
}

// Cure is what to change where a token API answers with an error code of Kafka, "" where
// trying again is all there is to do. gateway is the gateway's own principal name.
func Cure(code int16, owner, gateway string) string {
	return brokerError(PhaseCreate, code, nil, owner, gateway).Cure
}

// transportError turns an error of the connection into an Error. sent says
// whether the request may have reached the broker.
func transportError(p Phase, err error, owner string, sent bool) *Error {
	e := &Error{Phase: p, Reason: ReasonUnreachable, Owner: owner, Node: NoNode, Retry: true, Lost: sent, Err: err}
	var (
		opErr     *net.OpError
		record    tls.RecordHeaderError
		verify    *tls.CertificateVerificationError
		authority x509.UnknownAuthorityError
		host      x509.HostnameError
		invalid   x509.CertificateInvalidError
	)
	switch {
	case errors.As(err, &record):
		e.Reason, e.Lost = ReasonTLS, false
		e.Cure = "that port does not speak TLS: kafka.control.bootstrap must name the brokers' control listener (SSL or SASL_SSL)"
	case errors.As(err, &host):
		e.Reason, e.Lost = ReasonTLS, false
		e.Cure = "the broker's certificate is for another name: it needs the advertised name or address of the control listener among its subject alternative names"
	case errors.As(err, &authority), errors.As(err, &invalid), errors.As(err, &verify):
		e.Reason, e.Lost = ReasonTLS, false
		e.Cure = "the broker's certificate cannot be verified: kafka.control.tls.ca must hold the CA that issued it, and it must be valid now"
	case errors.As(err, &opErr) && opErr.Op == "remote error":
		// A TLS alert. Under TLS 1.3 the verdict on our certificate comes with the
		// first read after the handshake.
		e.Reason, e.Lost = ReasonTLS, false
		e.Cure = "the broker refused the gateway's certificate, or asks for one: check kafka.control.tls.certificate and key, and that ssl.truststore.location of the control listener trusts their CA"
	case errors.As(err, &opErr) && opErr.Op == "dial":
		e.Lost = false
		if opErr.Timeout() {
			e.Reason = ReasonTimeout
		}
		e.Cure = "is the broker up, and does kafka.control.bootstrap name the control listener?"
	case errors.Is(err, context.DeadlineExceeded):
		e.Reason = ReasonTimeout
	case errors.Is(err, io.EOF):
		e.Cure = "if this goes on: is that broker up, and does kafka.control.bootstrap name the control listeners? the control listener may want another kind of login (SSL with a certificate: kafka.control.tls; SASL_SSL: kafka.control.sasl)"
	}
	return e
}

// everywhere tells of a refusal whether it would meet every owner: what is missing
// has nothing to do with this one.
func (e *Error) everywhere() bool {
	switch e.Reason {
	case ReasonUnsupported, ReasonDisabled, ReasonRequestNotAllowed, ReasonLoginRefused:
		return !e.Retry
	default:
		return false
	}
}

// asError makes an *Error of whatever an Issuer returned.
func asError(p Phase, err error, owner string) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	e := &Error{Phase: p, Reason: ReasonOther, Owner: owner, Node: NoNode, Retry: true, Lost: true, Err: err}
	if errors.Is(err, context.DeadlineExceeded) {
		e.Reason = ReasonTimeout
	}
	return e
}
