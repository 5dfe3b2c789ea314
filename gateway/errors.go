package gateway

import (
	"fmt"
)

// Reason says why a client leg ended. It is the label of the metric
// session_ends_total, the field "reason" of the log line, and what operators search
// the documentation for.
type Reason string

// The reasons. Those in the first group are the ordinary ends.
const (
	ReasonClientClosed  Reason = "client_closed"       // the client said goodbye, or went away with nothing unanswered
	ReasonShutdown      Reason = "shutdown"            // the gateway stops
	ReasonSessionEnding Reason = "session_ending"      // the broker leg's authentication is about to end (KIP-368), and could not be renewed
	ReasonCertificate   Reason = "certificate_expired" // the client certificate's, or its issuer's, time is over
	ReasonOperator      Reason = "expired_by_operator" // an operator had the owner's token expired (doorkeeper tokens expire)

	ReasonNotReady       Reason = "not_ready"           // the gateway does not know its own principal yet
	ReasonLimitSessions  Reason = "limit_sessions"      // limits.sessions
	ReasonLimitAddress   Reason = "limit_address"       // limits.sessions_per_address
	ReasonLimitHandshake Reason = "limit_handshakes"    // limits.handshakes_per_address
	ReasonLimitOwner     Reason = "limit_owner"         // limits.sessions_per_owner
	ReasonProbe          Reason = "probe"               // connected and closed without a byte
	ReasonHandshake      Reason = "handshake_failed"    // no TLS came about
	ReasonRefused        Reason = "certificate_refused" // no certificate, or one that is not accepted
	ReasonAdmission      Reason = "admission_timeout"   // limits.admission passed before the first complete request

	ReasonBadRequest    Reason = "bad_request"     // bytes that are no Kafka request
	ReasonRefusedAPI    Reason = "refused_api"     // a request that is not for clients, or not known
	ReasonClientStalled Reason = "client_stalled"  // took or delivered no bytes of a frame for timeouts.stall
	ReasonClientLost    Reason = "client_lost"     // the connection to the client broke
	ReasonTokens        Reason = "no_token"        // the owner's delegation token cannot be had
	ReasonUnreachable   Reason = "broker_unusable" // no login on the broker came about
	ReasonUnknownNode   Reason = "unknown_node"    // no such broker in the cluster
	ReasonRenewal       Reason = "renewal_failed"  // the broker refused or broke a re-authentication of its leg
	ReasonBrokerLost    Reason = "broker_lost"     // the broker closed, or the connection to it broke
	ReasonBrokerFault   Reason = "broker_protocol" // the broker sent what the protocol does not allow
	ReasonAnswerSize    Reason = "answer_too_large"
	ReasonPanic         Reason = "panic"
)

// Side tells whose fault or wish an end was.
type Side string

// The sides of a session.
const (
	SideClient  Side = "client"
	SideBroker  Side = "broker"
	SideGateway Side = "gateway"
)

// Error is the end of a session: one reason, one side, and what lies beneath.
type Error struct {
	Reason Reason
	Side   Side
	Err    error // nil for ordinary ends
}

// Error implements error.
func (e *Error) Error() string {
	if e.Err == nil {
		return string(e.Reason)
	}
	return fmt.Sprintf("%s: %v", e.Reason, e.Err)
}

// Unwrap returns what lies beneath.
func (e *Error) Unwrap() error { return e.Err }

func ending(reason Reason, side Side, err error) *Error {
	return &Error{Reason: reason, Side: side, Err: err}
}

func endingf(reason Reason, side Side, format string, args ...any) *Error {
	return &Error{Reason: reason, Side: side, Err: fmt.Errorf(format, args...)}
}
