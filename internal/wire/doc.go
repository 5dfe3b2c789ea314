// Package wire is Kafka's framing: bytes on a TLS connection, frames and request
// headers. It knows no sessions, no tokens and no policy, and has no goroutines.
//
// Read it in this order:
//
//   - buffers.go: the pool that both directions of every session borrow from
//   - socket.go:  what lies between crypto/tls and TCP: big reads, gathered writes
//   - stream.go:  a TLS connection on such a socket
//   - frame.go:   the length in front of every frame, and what is wrong with it
//   - header.go:  the request header (all versions, KIP-482), bounded
//   - cursor.go:  stepping over the fields of a message that lies in memory
//   - peek.go:    what has to be known of Produce and Fetch requests before they pass
//   - layout.go:  walking over messages that come in pieces and are never held
//   - layouts.go: where in large answers the brokers' addresses begin
//   - waits.go:   where other requests say for how long they may wait
//
// Nothing here trusts a declared length: memory follows the bytes that came. Messages
// are read here only as far as the gateway must; kmsg, which knows them all, is the
// oracle of the tests, at every version.
package wire
