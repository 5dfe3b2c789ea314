// Package contract is what a gateway may count on from a Kafka cluster with delegation
// tokens: one table whose rows run against the embedded cluster and against real
// brokers. What both do is Kafka's behaviour; a row that a real broker fails is wrong.
//
// Read it in this order:
//
//   - subject.go: Subject: a cluster to be held to it; Run
//   - table.go:   the rows
//   - peer.go:    one connection, request by request
//   - login.go:   logging in with a token, message by message
//   - control.go: what is asked over the control listener: tokens, grants, topics
//   - tokens.go, describe.go, logins.go, sessions.go, again.go, early.go, listeners.go:
//     the rows' functions, in the order of the table
//
// The messages are franz-go's and so is the client's side of SCRAM: nothing here shares
// code with the gateway. No row needs a time to be short: where something must happen
// before a token dies and the machine was too slow for it, a longer one is taken.
package contract
