//go:build integration

package integration

// This file proves that clocks that disagree do not matter to tokens: brokers whose clock is
// ten minutes ahead of the gateway's, then ten minutes behind, then right again, while
// tokens live five minutes and clients come and go. A step backwards ends no token; one
// forwards ends all of them, and each owner gets one new token, told by the brokers' own
// answers, and no more; the log says that the clock has stepped.

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"doorkeeper/integration/harness"
)

// B38. The node's clock is wrong, not the gateway's: what matters is that they differ.
func TestTokenLifeWhenClocksStep(t *testing.T) {
	t.Parallel()
	const life = 5 * time.Minute
	clock, err := site.NewClock()
	must(t, err)
	must(t, clock.Set(10*time.Minute))
	c := ownCluster(t, harness.ClusterConfig{Nodes: 1, TokenExpiry: life, TokenMax: time.Hour, Engine: harness.AsProcesses(),
		Node: func(int32) harness.NodeConfig { return harness.NodeConfig{Clock: clock} }})
	g := gateway(t, c, harness.GatewayConfig{})
	all := named("timed", 5)
	crowd := receive(t, g, g.Addresses(c), all, 200*time.Millisecond)
	each := float64(len(all) + 1) // and the gateway's own
	served := func(times int) {
		t.Helper()
		from := crowd.count()
		eventually(t, func() error {
			if n := crowd.count() - from; n < times {
				return fmt.Errorf("%d logins were served", n)
			}
			return nil
		})
	}
	served(20)
	created := metricsOf(t, g).Sum("doorkeeper_token_creations_total")
	if created != each {
		t.Errorf("with a clock ahead %v tokens were asked for, not %v", created, each)
	}
	tokens, err := c.Admin.Tokens(t.Context(), 1, all[0])
	must(t, err)
	if left := time.Until(time.UnixMilli(tokens[0].ExpiryTimestamp)); left < 2*life {
		t.Fatalf("the broker's clock is right: a token of %v ends in %v", life, left)
	}

	must(t, clock.Set(-10*time.Minute))
	served(40)
	if n := metricsOf(t, g).Sum("doorkeeper_token_creations_total"); n != created {
		t.Errorf("after a step back %v more tokens were asked for", n-created)
	}
	must(t, clock.Set(10*time.Minute))
	must(t, clock.Set(20*time.Minute)) // past every token's end
	served(40)
	eventually(t, func() error {
		if n := metricsOf(t, g).Sum("doorkeeper_token_creations_total") - created; n < float64(len(all)) {
			return fmt.Errorf("%v new tokens were asked for", n)
		}
		return nil
	})
	served(40)
	crowd.end(t)
	n := metricsOf(t, g).Sum("doorkeeper_token_creations_total") - created
	t.Logf("after a step forwards %v tokens were asked for, of %v owners", n, each)
	if n > each {
		t.Errorf("after a step forwards %v tokens were asked for, of %v owners", n, each)
	}
	if !strings.Contains(g.Output(), "the controller's clock has stepped") {
		t.Error("the log does not tell of the step")
	}
}
