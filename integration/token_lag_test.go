//go:build integration

package integration

// This file proves that a broker which lags behind the controller delays nobody else: while
// the metadata of one is held up for 5 s, new owners are served by the other, those who come
// to the one that lags are served when it has caught up, no login of theirs is refused by it,
// and no token is made twice for it.

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"doorkeeper/integration/harness"
	"doorkeeper/internal/faultrelay"
)

// B09 and F9, with a relay in front of the controller of a broker that is none.
func TestTokenLifeWhereABrokerLags(t *testing.T) {
	t.Parallel()
	const newcomers, atLeast = 10, 5 * time.Second
	host := site.LoopbackHost()
	controller := net.JoinHostPort(host, fmt.Sprint(harness.ControllerPort))
	relay, err := faultrelay.New(host+":0", controller)
	must(t, err)
	t.Cleanup(func() { must(t, relay.Close()) })
	c := ownCluster(t, harness.ClusterConfig{Nodes: 2, Node: func(id int32) harness.NodeConfig {
		if id == 1 {
			return harness.NodeConfig{Host: host, AdvertisedController: relay.Address()}
		}
		return harness.NodeConfig{BrokerOnly: true, Properties: map[string]string{"controller.quorum.voters": "1@" + relay.Address()}}
	}})
	ctx := within(t, 3*time.Minute)
	g := gateway(t, c, harness.GatewayConfig{Change: func(d harness.Document) {
		d.Set("limits.admission", "2m")
		d.Set("tokens.expire_on_stop", true)
	}})
	warm(t, g.Addresses(c), []string{"current"})
	refused := refusedLogins(t, c)
	all := named("laggard", newcomers)
	there, late := arrive(ctx, t, []string{g.NodeAddress(1)}, all), arrive(ctx, t, []string{g.NodeAddress(2)}, all)

	relay.SetBoth(faultrelay.Faults{Stall: true})
	speak := sync.OnceFunc(relay.Heal)
	t.Cleanup(speak)
	from := time.Now()
	took := askAll(t, there)
	t.Logf("while node 2 lags, newcomers were served by node 1: %s", quantiles(took))
	for _, owner := range all { // told by the lagging broker itself
		tokens, err := live(ctx, c, 2, owner)
		must(t, err)
		if len(tokens) > 0 {
			t.Errorf("node 2 knows the token of %s: it does not lag", owner)
		}
	}
	var waiting errgroup.Group
	var again atomic.Int32
	for i := range late {
		waiting.Go(func() error { return late[i].served(ctx, &again) })
	}
	must(t, pauseOrEnd(context.WithoutCancel(ctx), atLeast-time.Since(from)))
	speak()
	must(t, waiting.Wait())
	t.Logf("the clients of node 2 were sent away %d times before they were served there too", again.Load())
	if n := refusedLogins(t, c) - refused; n > newcomers {
		t.Errorf("%v logins of %d owners were refused by brokers", n, newcomers)
	}
	ids := oneEach(t, c, all)
	if len(ids) != newcomers {
		t.Errorf("the brokers know tokens of %d owners", len(ids))
	}
	m := metricsOf(t, g)
	t.Logf("%v creations for %d owners and the gateway itself", m.Sum("doorkeeper_token_creations_total"), newcomers+1)
}
