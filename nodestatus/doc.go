// Package nodestatus knows which brokers exist, at which addresses, and how they
// fare: a table, read over a connection of its own and published atomically.
//
// Read it in this order:
//
//   - watcher.go:   Watcher: connect, read, read again, back off
//   - read.go:      Metadata and DescribeCluster into one answer, checked
//   - reports.go:   what sessions report; states; publication
//   - table.go:     Table, Node, the choice of a bootstrap broker
//   - state.go:     unknown, up, suspect, down
//   - addresses.go: addresses of configuration and protocol; what is allowed
//   - errors.go:    what went wrong and what the operator should change
//
// It never carries a client's byte, never dials an address by itself (the caller
// hands in Dial), and never forgets a broker only because it does not answer: a
// node id that was seen once keeps its place until the cluster says that it is
// gone. An address that is not allowed stays in the table, marked, and must not be
// dialled.
//
// A broker's state is advice. Brokers tell which of them are alive (a fenced one
// is not); sessions tell which of them answer.
//
// # Goroutines
//
// One, owned by Watcher.Run, which returns when it has ended and its connection is
// closed. Dial and Conn.Request are called from it alone, one at a time.
//
// # Locks
//
// Watcher.mu, held for map access and for making a table, never over a request, a
// log line or a call of the Observer. Table takes none.
package nodestatus
