// Command bench measures what the gateway costs: the same load straight to a broker
// over TLS and through the built binary, in turns, on this machine. `make bench` runs
// it; it needs Linux and Go, nothing else.
//
//   - main.go:      flags; one run from the certificates to the table
//   - lab.go:       certificates, the broker, the built gateway: what is measured on
//   - process.go:   children that end with this process, their CPU time and allocations;
//     process_linux.go, process_other.go: what only Linux can
//   - broker.go:    the broker, a process of its own that answers at once;
//     broker_login.go: its logins; broker_answers.go: its answers
//   - leg.go:       one client connection
//   - load.go:      the cases, and requests in flight over some connections
//   - report.go:    medians and ratios of the repetitions, as a table
//   - renewals.go:  another measurement: what clients see of renewals, of many connections
//     of one age
//
// The broker knows just enough for a gateway to work in front of it: logins with SCRAM
// of a user and of delegation tokens, the token APIs on a control listener, the list of
// one broker, Produce and Fetch. It stores nothing, and to a request that it has just had
// on a connection it gives the same answer again, undecoded: so its own cost does not
// hide the gateway's. Nothing else should be believed of it; what Kafka does is in
// internal/devkafka and its contract.
//
// Client, gateway and broker share the machine. So the figures to go by are ratios of one
// run and the gateway's CPU seconds, which the kernel counts; throughput and latency
// tell more about the machine.
package main
