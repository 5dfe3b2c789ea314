// Package gateway is the composition: it accepts client legs, makes a session of
// each, and relays requests and answers between the client and the one broker leg
// that logged in as the client's own principal.
//
// Read it along the path of a connection:
//
//	gateway.go   Config, New, Listen, Run: what there is, and how it stops
//	listener.go  accept loops; nothing in them waits for a client
//	limits.go    what clients may take, counted from accept on
//	admit.go     TLS handshake under the admission deadline → identity
//	route.go     which listener stands for which broker, in both directions
//	session.go   a session's two goroutines, its one end, and how it is taken down
//	state.go     the phases of a session
//	requests.go  the request loop: judge, forward
//	frames.go    reading requests, with memory that follows what came
//	policy.go    what a rule is, and how it is found; policy_table.go is the table of them,
//	             one line for every API key; policy_request.go what a request's body says;
//	             policy_features.go what finalized features need of the table
//	connect.go   the broker leg: lease, token on that broker, login
//	renew.go     what the broker leg renews its session with, and the line about it
//	inflight.go  the queue that pairs answers with requests
//	answers.go   the answer loop: match, stream or hold, deliver; answers_trail.go the
//	             answers with addresses behind their records
//	rewrite.go   brokers' addresses → the gateway's: copying all but what is replaced;
//	             rewrite_brokers.go the messages, rewrite_trail.go the ends of large ones,
//	             rewrite_errors.go the error messages that brokers print connections into
//	local.go     answers made here
//	expire.go    what an operator can do: end an owner's token and sessions
//	errors.go    the reasons for which sessions end
//	observe.go   the hooks for metrics
//
// # Goroutines
//
// One per listener (Gateway.accept); one per handshake, which ends with it
// (Gateway.admit); two per session: session.run reads requests and takes the session
// down, session.answers reads answers. While a broker leg is being made there is one
// more, session.login. All of them are counted in Gateway.legs, which Run waits for.
// Timers end sessions (certificate expiry, drain) without goroutines of their own.
//
// # Who writes where
//
// The request goroutine alone writes to the broker leg. The answer goroutine alone
// writes to the client leg, with one exception: while no answer is awaited it writes
// nothing, and the request goroutine writes answers made here (inflight.pushLocal).
// Each goroutine hands on what it has gathered for the other side when it is about to
// wait for more (wire.Stream.BeforeWait).
//
// # Locks
//
// Gateway.mu, counters.mu, routes.mu, inflight.mu and session.mu are leaves: none is
// held while another is taken, but for Gateway.mu over session.abort in a forced
// stop, which takes none. None is held over network calls.
//
// The gateway never sends a request twice, never lets two sessions share a broker
// leg, and never writes a client's byte to the control connection, which it has no
// way to.
package gateway
