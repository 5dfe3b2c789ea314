// Package connections is one authenticated connection to a Kafka broker: dialled,
// checked, logged in with a delegation token (SCRAM, RFC 5802 and 7677, with
// Kafka's extension tokenauth=true of KIP-48), and used until the session end that
// the broker gave (KIP-368).
//
// Read it in this order, which is the order of a connection's life:
//
//   - dial.go:       Dialer: bounded dials per broker, TCP, TLS; hosts.go is how it verifies
//   - peer.go:       who is at the other end: the gateway itself, no TLS, a wrong name
//   - login.go:      ApiVersions, SaslHandshake, SaslAuthenticate
//   - scram.go:      the client's side of the SCRAM conversation
//   - message.go:    the server's SCRAM messages, parsed strictly
//   - state.go:      the states of a connection and the one function that moves them
//   - risk.go:       session lifetime → when the connection is at risk, when it stops;
//     how long a newer credential waits
//   - admission.go:  what is unanswered, and what may be written behind it
//   - connection.go: KafkaConnection: how it begins and ends
//   - relay.go:      its request side and its response side
//   - request.go:    requests of the gateway's own
//   - renew.go:      when a session is renewed, and a new one on the same leg, while
//     requests are under way; own.go is how its requests travel among those
//   - swap.go:       the other way: a fresh leg takes the place of the old one
//   - invariants.go: what must hold at every step of it, asserted in debug builds (-race)
//   - reauth.go:     the same by hand, on an idle connection
//   - probe.go:      what a listener is, without a login
//   - errors.go:     phase, fault, whether a retry makes sense, the cure
//
// Whoever opens a connection with Credentials has its sessions renewed, by
// re-authentication or by a swap.
//
// It knows no tokens' life cycle, no clients, no policy and no metrics library. It
// never sends a request twice, never sends a proof to a peer whose certificate,
// answers or SCRAM messages it refused, never skips the check of the host name, and
// never puts a password, a derived key or a proof into an error.
//
// # Goroutines
//
// A KafkaConnection is used by two: one for requests
// (Begin, Write, End, Flush, Finish), one for answers (NextAnswer, Read, Answered). Both
// take part in a renewal: the request side drives it within Begin, the response side
// hands it its answers within NextAnswer, and waits for its judgement of each.
// A swap has a goroutine of its own, from the request that begins it to the old leg's
// end. While nobody needs it, the moment of risk is held by a timer, whose function runs
// in a goroutine that ends by itself. Close waits for both.
//
// # Locks
//
// KafkaConnection.mu guards its state, which leg is in use, its bookkeeping and its timer. It is never
// held over anything that may wait: no reads, writes, flushes or closes, no
// observers that might, no other lock. (A read deadline is set under it, which waits for
// nothing.) Whoever decides under it that the connection ends does
// the input and output afterwards, without it; the state alone keeps everybody else
// from writing by then. Dialer.slots has a mutex of its own, for map access only.
package connections
