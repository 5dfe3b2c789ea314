//go:build integration

package integration

// This file proves that two gateways share a cluster and do not touch each other's tokens:
// both replace theirs under load, each is stopped and started again in turn, one of them
// with tokens.expire_on_stop, and no login fails at a gateway that serves. It goes on for
// 10 replacements, over all owners and both gateways; with DOORKEEPER_TOKEN_LIFE for 200.

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"doorkeeper/integration/harness"
)

// sibling is a gateway with the guests that come to it.
type sibling struct {
	*harness.Gateway
	marker  string
	expires bool // when it stops
	guests  *guests
	ready   harness.Metrics // figures of when it last was
}

// F40's part on tokens, and the markers of rule 18.
func TestTokenLifeOfTwoGateways(t *testing.T) {
	t.Parallel()
	wanted, stops, many, life := 10, 2, 5, 10*time.Second
	if _, long := tokenLifeFor(t); long {
		wanted, stops, many, life = 200, 8, 10, 40*time.Second
	}
	c := cluster(t)
	ctx := within(t, 10*time.Minute)
	all := named("shared", many)
	var both []*sibling
	for _, expires := range []bool{true, false} {
		s := &sibling{expires: expires}
		s.Gateway = gateway(t, c, harness.GatewayConfig{Change: func(d harness.Document) {
			d.Set("tokens.lifetime", life.String())
			d.Set("tokens.expire_on_stop", expires)
			s.marker = "doorkeeper-" + d["instance"].(string)
		}})
		both = append(both, s)
	}
	for _, s := range both {
		s.guests = receive(t, s.Gateway, s.Addresses(c), all, 300*time.Millisecond)
		s.ready = metricsNow(ctx, t, s.Gateway)
	}

	for turn := 1; turn <= stops; turn++ {
		awaitReplacements(ctx, t, both, all, wanted*turn/(stops+1))
		s, other := both[(turn-1)%2], both[turn%2]
		s.guests.away()
		if code, err := s.Terminate(time.Minute); err != nil || code != 0 {
			t.Errorf("the gateway ended with %d, %v", code, err)
		}
		if s.expires {
			eventually(t, func() error { return onlyTheirs(ctx, c, all, other.marker, s.marker) })
		}
		must(t, s.Restart())
		must(t, s.AwaitReady(within(t, time.Minute)))
		s.guests.back()
		s.ready = metricsNow(ctx, t, s.Gateway)
		served := s.guests.count() // whoever comes from here on has to be served
		eventually(t, func() error {
			if n := s.guests.count() - served; n < many {
				return fmt.Errorf("%d logins were served after the restart", n)
			}
			return nil
		})
	}
	replaced := awaitReplacements(ctx, t, both, all, wanted)
	for _, s := range both {
		noneEnded(t, s.Gateway, s.ready, s.guests.end(t))
		m := metricsNow(ctx, t, s.Gateway)
		t.Logf("expire_on_stop %v, since its last start: %v creations, %v adoptions, %v renewals", s.expires,
			m.Sum("doorkeeper_token_creations_total"), m.Sum("doorkeeper_token_adoptions_total"), m.Sum(renewals, `result="ok"`))
		noFaults(ctx, t, s.Gateway)
	}
	t.Logf("%d tokens were replaced, and the gateways stopped %d times", replaced, stops)
}

// awaitReplacements waits until so many tokens of the owners have been replaced, by both.
func awaitReplacements(ctx context.Context, t *testing.T, both []*sibling, owners []string, wanted int) int {
	t.Helper()
	for {
		n := 0
		for _, s := range both {
			for _, l := range s.Lines() {
				token, _ := l["token"].(map[string]any)
				if l["msg"] == "a token is created" && l["replaces"] != nil && slices.Contains(owners, fmt.Sprint(token["owner"])) {
					n++
				}
			}
		}
		if n >= wanted {
			return n
		}
		must(t, pauseOrEnd(ctx, 200*time.Millisecond))
	}
}

// onlyTheirs checks that every broker knows a live token of each owner with the marker, and none with the one that is gone.
func onlyTheirs(ctx context.Context, c *harness.Cluster, owners []string, marker, gone string) error {
	for _, n := range c.Nodes {
		tokens, err := live(ctx, c, n.ID, owners...)
		if err != nil {
			return err
		}
		for _, owner := range owners {
			of := func(marker string) int {
				return len(slices.DeleteFunc(slices.Clone(tokens[owner]), func(token kmsg.DescribeDelegationTokenResponseTokenDetail) bool {
					return !slices.ContainsFunc(token.Renewers, func(r kmsg.DescribeDelegationTokenResponseTokenDetailRenewer) bool {
						return r.PrincipalName == marker
					})
				}))
			}
			if of(gone) != 0 || of(marker) == 0 {
				return fmt.Errorf("node %d knows %d tokens of %s of the gateway that is gone, %d of the other", n.ID, of(gone), owner, of(marker))
			}
		}
	}
	return nil
}
