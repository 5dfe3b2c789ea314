package contract

import (
	"crypto/tls"
	"testing"
	"time"
)

// Broker is a node by the addresses (host:port) of its listeners.
type Broker struct {
	Node           int32
	Token, Control string
}

// Subject is a cluster that denies by default. Kafka's defaults hold but for what is
// said here.
type Subject struct {
	Brokers []Broker // two at least
	// Limited is one of a cluster, this or another, with connections.max.reauth.ms set
	// to MaxReauth. Its tokens are made at Limited's own control listener.
	Limited   Broker
	MaxReauth time.Duration
	// Keyless is a broker without delegation.token.secret.key, nor has its controller
	// one.
	Keyless Broker

	// TLS is the configuration of a client that shows a certificate of that name: it
	// trusts all brokers, and all control listeners take the name for the principal.
	TLS func(principal string) *tls.Config
	// Admin is a super user.
	Admin string
	// Sweep is the cluster's delegation.token.expiry.check.interval.ms: some seconds.
	Sweep time.Duration
	// HoldBack has a node learn of everything that happens to tokens so much later,
	// until undo. nil where that cannot be done.
	HoldBack func(node int32, by time.Duration) (undo func())
}

// maker is a principal that may make tokens for everybody; no super user.
const maker = "contract-maker"

// Run runs the whole table, all rows at once, as subtests.
func Run(t *testing.T, s Subject) {
	s.grant(t, s.Brokers, creates(maker, "*", false))
	s.grant(t, []Broker{s.Limited}, creates(maker, "*", false))
	for _, row := range table() {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			row.run(t, s)
		})
	}
}

// row is one behaviour.
type row struct {
	name string
	run  func(*testing.T, Subject)
}
