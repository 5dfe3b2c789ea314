// Package devkafka is an embedded Kafka that behaves, towards a gateway, as a real
// KRaft cluster with delegation tokens does (KIP-48, KIP-368, KIP-373). kfake serves
// the data: topics, ACLs, groups, transactions. In front of each of its brokers this
// package does what kfake does not: TLS, logins with tokens, the token APIs.
//
//	cluster, err := devkafka.New(devkafka.Config{Certificate: cert, ClientCA: pool, SuperUsers: []string{"admin"}})
//	defer cluster.Close()
//
// Each broker listens twice, as brokers behind a gateway do: the token listener
// (SASL_SSL, SCRAM with tokenauth=true; there are no users but tokens) and the
// control listener (SSL; a client certificate is demanded and gives the principal).
//
// Read it in this order, which is the path of a connection and of a request on it:
//
//   - config.go:   Config: what can be set, what it hears of
//   - cluster.go:  Cluster: nodes, start, stop, Close
//   - node.go:     a broker's two listeners and the connections on them
//   - kfake.go:    kfake behind: node ids, connections without a network
//   - identity.go: under whose name kfake sees a connection
//   - frame.go:    frames: bounded and filtered before anything is made of them
//   - serve.go:    a connection: one request at a time, in order
//   - state.go:    which requests a login allows; the one function that moves it
//   - login.go:    SaslHandshake and SaslAuthenticate, first and again
//   - scram.go:    the conversation, verified by xdg-go's server
//   - session.go:  session lifetime, its end, when one may log in again (pure)
//   - tokens.go:   the tokens as the controller has them: created, renewed, expired, swept
//   - known.go:    the tokens as each broker knows them: late, with salts of its own
//   - tokenapi.go: CreateDelegationToken and its three siblings
//   - acls.go:     ACLs on users and tokens, which kfake refuses to keep
//   - answers.go:  what must be changed in kfake's answers
//
// The table of what it promises is the package contract below: its rows run against
// this package and against real brokers.
//
// # Where it differs from Kafka
//
// SaslHandshake v0 (tokens without frames) closes the connection. Requests may have
// 16 MiB, not 100; those that are decoded here 1 MiB. The controller is the node of
// the highest id and stays so while it is stopped. What kfake does not serve, it does
// not offer: replication, quotas' effects, elections.
//
// # Goroutines
//
// Two per node accept; one per connection serves it, from the TLS handshake to the
// end. kfake has its own: one per cluster, one per node and a few per connection.
// Close ends and awaits all of them, but for kfake's own loops, which it tells to
// end and which then do nothing but return.
//
// # Locks
//
// Cluster.mu (nodes up), node.mu (connections), tokens.mu (all tokens) and acls.mu;
// none is held over input or output, nor while another is taken, but that keys are
// derived under tokens.mu.
package devkafka
