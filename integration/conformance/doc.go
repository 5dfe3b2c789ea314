// Package conformance sends the same requests to a broker directly and through the
// gateway, for every key and version, and holds the answers against each other, byte
// for byte but for what is named here.
//
// In this order:
//
//   - fields.go:   fields of a message by name
//   - compare.go:  two answers: what differs beyond what may
//   - masks.go:    what may differ by its nature, and how much
//   - rewritten.go: what the gateway replaces, and by what exactly
//   - withheld.go: what the gateway does not offer, and what it does instead
//   - blind.go:    which bytes the comparison does not look at, and a proof of it
//   - leaks.go:    what of the brokers must be in nothing that a client receives
//   - world.go:    what exists in the cluster before the first question;
//     world_shared.go: of that, what both sides look at; records.go: what is in topics
//   - side.go:     one way to the brokers; leg.go: one connection on it
//   - case.go:     one question; cases_*.go: all of them, one group of keys a file
//   - run.go:      asks all of them, on both sides; probe.go: what no broker serves
//   - coverage.go: whether every version had its questions; report.go: the table
//
// A difference that is not named is a fault of the gateway or one of this package; the
// report counts it. Requests that change something ask for equal things that each side
// has of its own: their names have the same length, and differ in the side's tag alone.
// The comparison replaces one side's tag and ids by the other's before it compares, and
// takes either in the other side's answer for a difference.
//
// Nothing here starts a broker or dials: whoever runs a Suite hands it connections. It
// has no goroutines; everything that waits for an answer does so for AnswerWithin at
// most.
package conformance
