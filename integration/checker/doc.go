// Package checker tells whether a cluster holds what its clients wrote: everything that
// was acknowledged, once, where the acknowledgement said, in its writer's order, and of
// each transaction all or nothing.
//
//   - records.go: records with unique ids, which clients of all languages agree on
//   - ledger.go:  what one writer sent and what it was told, record by record
//   - import.go:  ledgers of clients in other processes
//   - write.go:   a writer by franz-go that keeps its ledger
//   - read.go:    everything that a topic holds, up to its end
//   - judge.go:   the ledgers against what was read → findings
//   - disorder.go: what clients log of a broken sequence
//
// It trusts no client: a writer's success is what its ledger says, and what is stored is
// read from the brokers themselves, not through what is tested. It has no goroutines.
//
// Its own tests plant faults between a client and a broker, and want the right finding
// for each: an acknowledgement that is dropped, a request that is sent twice, two requests
// that are swapped, an answer that is given to the wrong request.
package checker
