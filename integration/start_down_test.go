//go:build integration

package integration

// This file proves that a gateway starts while all brokers are down: it lives, says
// that it is not ready and why, lets clients try again, and is ready by itself once
// the brokers are there.

import (
	"testing"
	"time"

	"doorkeeper/integration/harness"
)

// The "brokers down at start".
func TestBrokersDownAtStart(t *testing.T) {
	c := loneCluster(t)
	topic := topicFor(t, c.Cluster, "morning")
	c.Node(1).Kill()
	t.Cleanup(func() {
		must(t, c.Node(1).Start())
		ctx, cancel := afterwards()
		defer cancel()
		must(t, c.Await(ctx))
	})

	g := startGateway(t, c.Cluster, harness.GatewayConfig{})
	notReady(t, g, "no delegation token of the gateway's own", "the token path does not work")
	java, err := site.StartJava(harness.JavaRun{Certificate: site.Client("morning"), Steps: []harness.JavaStep{
		{Mode: "produce", Settings: map[string]string{"bootstrap": g.Bootstrap, "topic": topic, "records": "10", "p.max.block.ms": "120000"}},
	}})
	must(t, err)
	time.Sleep(5 * time.Second) // both try in vain

	began := time.Now()
	must(t, c.Node(1).Start())
	must(t, c.Await(within(t, time.Minute)))
	there := time.Now()
	must(t, g.AwaitReady(within(t, time.Minute)))
	t.Logf("the broker was there %s after its start, the gateway ready %s later", there.Sub(began), time.Since(there))
	results, err := java.Results(within(t, 2*time.Minute))
	must(t, err)
	retryable(t, results[0])
	if results[0].Count != 10 {
		t.Errorf("java: %+v", results[0])
	}
	works(t, g, "morning", topic)
	endsWell(t, g)
}
