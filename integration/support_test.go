//go:build integration

package integration

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"doorkeeper/integration/harness"
)

// cluster is the shared one, started by whoever asks first.
func cluster(t *testing.T) *harness.Cluster {
	t.Helper()
	c, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// ownCluster is for one test alone and ends with it.
func ownCluster(t *testing.T, cfg harness.ClusterConfig) *harness.Cluster {
	t.Helper()
	c, err := site.StartCluster(within(t, 2*time.Minute), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { must(t, c.Close()) })
	return c
}

// gateway is a ready one for this test alone. It has to end by itself, with exit
// code 0 and without a data race.
func gateway(t *testing.T, c *harness.Cluster, cfg harness.GatewayConfig) *harness.Gateway {
	t.Helper()
	g := startGateway(t, c, cfg)
	must(t, g.AwaitReady(within(t, time.Minute)))
	t.Cleanup(func() {
		if !g.Alive() { // the test has ended it
			return
		}
		if code, err := g.Terminate(time.Minute); err != nil || code != 0 {
			t.Errorf("gateway ended with %d, %v", code, err)
		}
	})
	return g
}

// startGateway starts one for this test alone and does not wait for it.
func startGateway(t *testing.T, c *harness.Cluster, cfg harness.GatewayConfig) *harness.Gateway {
	t.Helper()
	g, err := site.StartGateway(c, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		g.Stop(time.Minute)
		if err := g.Races(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("gateway's log:\n%s", last(g.Output(), 60))
		}
	})
	return g
}

// within is a context that ends with the test and with the time.
func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// name is a topic's, group's or transaction's name that no other test has.
func name(t *testing.T, suffix string) string {
	t.Helper()
	return strings.NewReplacer("/", "-", "_", "-").Replace(fmt.Sprintf("%s-%s", t.Name(), suffix))
}

func last(text string, lines int) string {
	all := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
