//go:build integration

package integration

// This file proves that real brokers keep the contract that the embedded cluster keeps:
// the same table of rows, against Kafka of the version that the run is for.

import (
	"crypto/tls"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"doorkeeper/integration/harness"
	"doorkeeper/internal/devkafka/contract"
)

func TestContractOfRealBrokers(t *testing.T) {
	const sweep, maxReauth = 4 * time.Second, 4 * time.Second
	ctx := within(t, 3*time.Minute)
	var main, keyless *harness.Cluster
	var starting errgroup.Group
	starting.Go(func() (err error) {
		main, err = site.StartCluster(ctx, harness.ClusterConfig{TokenCheck: sweep, Node: func(id int32) harness.NodeConfig {
			if id != 1 {
				return harness.NodeConfig{}
			}
			// A second token listener, on which sessions are cut: the rest of the table has none
			// of that.
			return harness.NodeConfig{Listeners: map[string]string{"LIMITED": "SASL_SSL"}, Properties: map[string]string{
				"listener.name.limited.ssl.client.auth":                         "none",
				"listener.name.limited.scram-sha-512.connections.max.reauth.ms": "4000",
				"listener.name.limited.scram-sha-256.sasl.jaas.config":          "org.apache.kafka.common.security.scram.ScramLoginModule required;",
				"listener.name.limited.scram-sha-512.sasl.jaas.config":          "org.apache.kafka.common.security.scram.ScramLoginModule required;",
			}}
		}})
		return err
	})
	starting.Go(func() (err error) {
		keyless, err = site.StartCluster(ctx, harness.ClusterConfig{Nodes: 1, NoTokens: true, NoGrant: true})
		return err
	})
	err := starting.Wait()
	for _, c := range []*harness.Cluster{main, keyless} {
		if c != nil {
			t.Cleanup(func() { must(t, c.Close()) })
		}
	}
	must(t, err)

	s := contract.Subject{
		MaxReauth: maxReauth, Sweep: sweep, Admin: "admin",
		TLS: func(principal string) *tls.Config { return site.Direct(principal).ClientTLS() },
	}
	s.Keyless = contractBroker(keyless.Node(1))
	s.Limited = contractBroker(main.Node(1))
	s.Limited.Token = main.Node(1).Listener("LIMITED")
	for _, n := range main.Nodes {
		s.Brokers = append(s.Brokers, contractBroker(n))
	}
	contract.Run(t, s)
}

func contractBroker(n *harness.Node) contract.Broker {
	return contract.Broker{Node: n.ID, Token: n.TokenListener(), Control: n.ControlListener()}
}
