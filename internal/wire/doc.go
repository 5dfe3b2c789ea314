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
//
// Nothing here trusts a declared length: memory follows the bytes that came.
package wire
