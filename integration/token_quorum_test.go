//go:build integration

package integration

// This file proves that tokens get by without Kafka's controllers for a while: when the
// active one is killed, who has a token comes and goes as before at the brokers that live,
// and a new owner gets one token, not two, from the next controller. When two of three are
// gone, new owners are closed plainly and nobody else notices; when they are back, all get
// their token. DOORKEEPER_TOKEN_LIFE has twenty controllers killed, not one.

import (
	"context"
	"fmt"
	"testing"
	"time"

	"doorkeeper/integration/harness"
)

// F3 and F4.
func TestTokenLifeWithoutAController(t *testing.T) {
	failovers := 1
	if _, long := tokenLifeFor(t); long {
		failovers = 20
	}
	c := cluster(t)
	ctx := within(t, 13*time.Minute)
	g := gateway(t, c, harness.GatewayConfig{Change: func(d harness.Document) { d.Set("tokens.expire_on_stop", true) }})
	all := named("steadfast", 5)
	warm(t, g.Addresses(c), all)

	for i := range failovers {
		active, err := c.Admin.Controller(ctx)
		must(t, err)
		survivor := active%int32(len(c.Nodes)) + 1
		third := survivor%int32(len(c.Nodes)) + 1
		crowd := receive(t, g, []string{g.NodeAddress(survivor)}, all[:5], 200*time.Millisecond)
		c.Node(active).Kill()
		newcomer := fmt.Sprintf("heir-%02d", i)
		from := time.Now()
		tries := comeUntilServed(ctx, t, g.NodeAddress(survivor), newcomer)
		t.Logf("with node %d killed, which had the active controller, a new owner was served after %v at try %d", active, time.Since(from).Round(time.Millisecond), tries)
		all = append(all, newcomer)

		if i == failovers-1 {
			c.Node(third).Kill()
			served := crowd.count()
			closedPlainly(t, g, "orphan", hangBound+slowness)
			eventually(t, func() error {
				if n := crowd.count() - served; n < 10 {
					return fmt.Errorf("%d logins were served without a quorum", n)
				}
				return nil
			})
			closedPlainly(t, g, "orphan", hangBound+slowness)
			must(t, c.Node(third).Start())
		}
		crowd.end(t)
		must(t, c.Node(active).Start())
		must(t, c.Await(ctx))
	}
	must(t, c.Admin.Balance(ctx)) // others use these brokers too
	t.Logf("with all nodes back, the owner who had been closed was served at try %d", comeUntilServed(ctx, t, g.Bootstrap, "orphan"))
	oneEach(t, c, all)
	m := metricsOf(t, g)
	t.Logf("%v creations for %d owners, %v adoptions of what a lost answer told of", m.Sum("doorkeeper_token_creations_total"), len(all)+2, m.Sum("doorkeeper_token_adoptions_total"))
	// The broker that lived may have kept a creation of before until there was a quorum: a
	// second token, which is looked for a minute after the answer was lost, and at the stop.
	if code, err := g.Terminate(time.Minute); err != nil || code != 0 {
		t.Errorf("the gateway ended with %d, %v", code, err)
	}
	noneLeft(t, c, append(all, "orphan")...)
}

// comeUntilServed is a client that comes again when it is sent away. It returns the number of visits.
func comeUntilServed(ctx context.Context, t *testing.T, address, owner string) int {
	t.Helper()
	for n := 1; ; n++ {
		err := visit(address, site.Client(owner))
		if err == nil {
			return n
		}
		if pauseOrEnd(ctx, 500*time.Millisecond) != nil {
			t.Fatalf("%s was not served at try %d: %v", owner, n, err)
		}
	}
}
