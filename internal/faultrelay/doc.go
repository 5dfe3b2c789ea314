// Package faultrelay is a TCP relay for tests that does to connections what a bad
// network does: it makes bytes late, slow or few at a time, loses them, stops them, or
// resets a connection after so many. Each direction has faults of its own, and they can
// be changed while connections are open.
//
//   - faults.go: what can be done to a direction
//   - relay.go:  Relay: accepting, dialling, closing
//   - link.go:   one connection: a delay line for each direction
//
// It knows nothing of Kafka or TLS: bytes are bytes. In front of a gateway it is the
// network of the clients. Between a gateway and a broker the broker has to advertise it:
// then it listens on the broker's own host, whose certificate it needs for that.
//
// # Goroutines
//
// One accepts; each connection has three: one that dials and waits, and for each
// direction one that reads and one that writes. Close waits for all of them.
package faultrelay
