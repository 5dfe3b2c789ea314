//go:build integration

package integration

// This file proves that tokens can be short-lived for months: with an expiry of 40 s, a
// longest life of 2 min and a sweep every 5 s, clients of 20 owners come and go for two
// minutes (DOORKEEPER_TOKEN_LIFE says for how long otherwise, e.g. 12m), and no login of
// theirs fails. The controller is asked for as many tokens as the schedule says, no owner
// ever has more than two, hardly a login is refused by a broker, and nothing is left after
// a stop with tokens.expire_on_stop.
//
// The schedule (tokens/renewal.go): a token of life L is replaced after 0.4 to 0.5 L, even
// spread, so that in a time T one owner needs about 1 + T/0.45L tokens. Never more than
// 1 + T/0.4L, rounded down: no replacement comes sooner. How late one may come depends on
// the machine; here it has until 0.75 L, which makes at least 1 + T/0.75L.

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"testing"
	"time"

	"doorkeeper/integration/harness"
)

// What adds up the logins that a broker refused on its token listener.
const (
	loginsAt      = "kafka.server:type=socket-server-metrics,listener=TOKEN,networkProcessor=*"
	loginsRefused = "failed-authentication-total"
)

// B11, B33 and B37: replaced in time by what the broker gave, not together, while clients come.
func TestTokenLifeUnderLoad(t *testing.T) {
	t.Parallel() // it mostly waits
	const life = 40 * time.Second
	load, long := tokenLifeFor(t)
	if !long {
		load = 2 * time.Minute
	}
	c := ownCluster(t, harness.ClusterConfig{TokenExpiry: life, TokenMax: 2 * time.Minute, TokenCheck: 5 * time.Second})
	// A life of a day is asked for, and cut without an error.
	g := gateway(t, c, harness.GatewayConfig{Change: func(d harness.Document) { d.Set("tokens.expire_on_stop", true) }})
	all := named("life", 20)
	crowd := receive(t, g, g.Addresses(c), all, 500*time.Millisecond)
	before := metricsOf(t, g)

	watched, stop := context.WithTimeout(t.Context(), load)
	defer stop()
	most, looks, lost := 0, 0, 0
	for ; pauseOrEnd(watched, time.Second) == nil; looks++ {
		tokens, err := live(t.Context(), c, int32(1+looks%len(c.Nodes)), all...)
		must(t, err)
		for owner, have := range tokens {
			most = max(most, len(have))
			if len(have) > 2+lost {
				t.Errorf("%s has %d live tokens on node %d, after %d answers that were lost", owner, len(have), 1+looks%len(c.Nodes), lost)
			}
		}
		m := metricsOf(t, g)
		// What a broker passes on after its answer was given up is found and expired 10 s later.
		lost = int(m.Sum("doorkeeper_token_request_failures_total", `request="create"`))
		if n := m.Sum("doorkeeper_tokens_held_of_one_owner_max"); n > 2 {
			t.Errorf("the gateway holds %v tokens of one owner", n)
		}
	}
	ended := time.Now()
	slow := crowd.end(t)
	noneEnded(t, g, before, slow)
	m := metricsOf(t, g)
	asPredicted(t, g, m, append(all, harness.GatewayPrincipal), life, ended)
	refused := refusedLogins(t, c)
	created := m.Sum("doorkeeper_token_creations_total")
	t.Logf("%d looks at the brokers saw at most %d live tokens of an owner; %v logins were refused by brokers, after %v creations", looks, most, refused, created)
	if refused > created*float64(len(c.Nodes)) {
		t.Errorf("%v logins were refused by brokers, after %v creations", refused, created)
	}
	if most == 0 {
		t.Error("no broker was seen to know a token")
	}
	if code, err := g.Terminate(time.Minute); err != nil || code != 0 {
		t.Errorf("the gateway ended with %d, %v", code, err)
	}
	noneLeft(t, c, append(all, harness.GatewayPrincipal)...)
}

// asPredicted compares the creations with the schedule, for each owner: from the moment of
// its first token on, but at most from the gateway's start.
func asPredicted(t *testing.T, g *harness.Gateway, m harness.Metrics, owners []string, life time.Duration, ended time.Time) {
	t.Helper()
	at := made(t, g)
	first := at[harness.GatewayPrincipal]
	if len(first) == 0 {
		t.Fatal("the gateway has made no token of its own")
	}
	within := func(from time.Time, share float64) int {
		return 1 + int(math.Floor(ended.Sub(from).Seconds()/(share*life.Seconds())))
	}
	sum, predicted := 0, 0.0
	for _, owner := range owners {
		n := 0
		for _, published := range at[owner] {
			if published.Before(ended) {
				n++
			}
		}
		if n == 0 {
			t.Errorf("no token of %s was made", owner)
			continue
		}
		// The first was asked for after the gateway's own was there.
		most, least := within(first[0].Add(-patience), 0.4), within(at[owner][0], 0.75)
		if owner != harness.GatewayPrincipal {
			most = within(first[0], 0.4)
		}
		if n > most || n < least {
			t.Errorf("%d tokens of %s were made, not %d to %d", n, owner, least, most)
		}
		sum += n
		predicted += 1 + ended.Sub(at[owner][0]).Seconds()/(0.45*life.Seconds())
	}
	t.Logf("%d tokens were made for %d owners; on average 1 + T/0.45L makes up to %.0f", sum, len(owners), predicted)
	if failed := m.Sum("doorkeeper_token_creations_total") - m.Sum("doorkeeper_token_creations_total", `result="created"`); failed != 0 {
		t.Logf("%v creations took this machine too long", failed)
	}
}

// refusedLogins is how many logins the brokers have refused on their token listeners.
func refusedLogins(t *testing.T, c *harness.Cluster) float64 {
	t.Helper()
	byNode, err := c.JMX(within(t, time.Minute), loginsAt, loginsRefused)
	must(t, err)
	if len(byNode) != len(c.Nodes) {
		t.Errorf("only %v tell of refused logins", byNode)
	}
	sum := 0.0
	for node, n := range byNode {
		v, err := strconv.ParseFloat(n, 64)
		if err != nil {
			t.Error(fmt.Errorf("%s: %w", node, err))
		}
		sum += v
	}
	return sum
}
