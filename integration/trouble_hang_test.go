//go:build integration

package integration

// This file proves that a broker which hangs, its sockets open and silent, costs a
// new client no more than 8 s from its first request to a plain close, soon enough
// for librdkafka to try again, and that all is well as soon as the broker is.

import (
	"sync"
	"testing"
	"time"

	"doorkeeper/integration/harness"
)

// The bound, and one second for the machine's own slowness.
const (
	hangBound = 8 * time.Second
	slowness  = time.Second
)

// B68.
func TestBrokerThatHangs(t *testing.T) {
	c := loneCluster(t)
	topic := topicFor(t, c.Cluster, "known")
	must(t, c.Admin.Grant(within(t, time.Minute), harness.AppGrants("unknown", topic)...))
	g := gateway(t, c.Cluster, harness.GatewayConfig{})
	works(t, g, "known", topic)

	must(t, c.Node(1).Pause())
	resume := sync.OnceFunc(func() { must(t, c.Node(1).Resume()) })
	t.Cleanup(resume)
	var wg sync.WaitGroup
	// The one hangs in its login, the other's token cannot be created.
	for _, user := range []string{"known", "unknown"} {
		wg.Go(func() {
			t.Logf("%s was closed after %s", user, closedPlainly(t, g, user, hangBound+slowness))
		})
	}
	wg.Wait()
	must(t, g.AwaitOutput(within(t, patience), `"reason":"broker_unusable"`, `"reason":"no_token"`))

	resume()
	must(t, c.Await(within(t, time.Minute)))
	for _, user := range []string{"known", "unknown"} {
		t.Logf("%s was served %s after the broker came back", user, works(t, g, user, topic))
	}
	must(t, g.AwaitReady(within(t, time.Minute)))
}
