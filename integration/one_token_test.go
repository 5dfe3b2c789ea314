//go:build integration

package integration

// This file proves that a new owner costs the cluster one token and the gateway one
// key derivation for each broker, however many of its connections come at the same
// moment: 500 legs that are admitted and then ask all at once, at all addresses.

import (
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/errgroup"

	"doorkeeper/integration/harness"
)

func TestOneTokenForAllOfAnOwner(t *testing.T) {
	c := cluster(t)
	for _, mechanism := range []string{"SCRAM-SHA-512", "SCRAM-SHA-256"} {
		t.Run(mechanism, func(t *testing.T) {
			const legs = 500
			ctx := within(t, 3*time.Minute)
			topic := name(t, "t")
			owner := "crowd-" + mechanism
			must(t, c.Admin.Grant(ctx, harness.AppGrants(owner, topic)...))
			series{topic: topic}.make(ctx, t, c)
			g := gateway(t, c, harness.GatewayConfig{Change: func(d harness.Document) {
				d.Set("tokens.mechanism", mechanism)
				d.Set("limits.handshakes_per_address", legs)
				// They wait for each other, admitted, and this machine may be slow.
				d.Set("limits.admission", "2m")
				d.Set("log.level", "debug")
			}})
			before := metricsNow(ctx, t, g)

			as := site.Client(owner).ClientTLS()
			crowd := make([]*harness.Raw, legs)
			var dialling errgroup.Group
			dialling.SetLimit(40)
			for i := range crowd {
				address := g.Addresses(c)[i%4]
				dialling.Go(func() (err error) {
					crowd[i], err = harness.DialRaw(ctx, address, as)
					return err
				})
			}
			must(t, dialling.Wait())
			defer func() {
				for _, leg := range crowd {
					if leg != nil {
						_ = leg.Close()
					}
				}
			}()
			if m := metricsNow(ctx, t, g); m.Sum("doorkeeper_token_creations_total") != before.Sum("doorkeeper_token_creations_total") {
				t.Error("a token was created before anybody asked for anything")
			}

			// The gateway gives up on a login after 7.5 s, for the sake of librdkafka, and
			// closes. Five hundred logins at once can take this machine and its brokers
			// longer: then a client comes again after a while, as all do, and is served.
			began := time.Now()
			start := make(chan struct{})
			var again atomic.Int32
			var asking errgroup.Group
			for i := range crowd {
				asking.Go(func() error {
					<-start
					for pause := 100 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
						resp, err := crowd[i].Request(metadataRequest(9, topic))
						if err == nil {
							return kerr.ErrorForCode(resp.(*kmsg.MetadataResponse).Topics[0].ErrorCode)
						}
						again.Add(1)
						_ = crowd[i].Close()
						time.Sleep(pause/2 + rand.N(pause))
						if crowd[i], err = harness.DialRaw(ctx, g.Addresses(c)[i%4], as); err != nil {
							return err
						}
					}
				})
			}
			close(start)
			must(t, asking.Wait())
			t.Logf("%d legs served within %v, %d at a later try", legs, time.Since(began).Round(time.Millisecond), again.Load())

			m := metricsNow(ctx, t, g)
			grown := func(series string, labels ...string) float64 {
				return m.Sum(series, labels...) - before.Sum(series, labels...)
			}
			if n := grown("doorkeeper_token_creations_total"); n != 1 || grown("doorkeeper_token_creations_total", `result="created"`) != 1 {
				t.Errorf("%v tokens were asked for", n)
			}
			// Node status logs in with the gateway's own token: once more on a broker that it
			// moves to.
			own := min(2, strings.Count(g.Output(), "the status connection ended"))
			if n := int(grown("doorkeeper_scram_key_derivations_total", `mechanism="`+mechanism+`"`)); n < 3 || n > 3+own || n != int(grown("doorkeeper_scram_key_derivations_total")) {
				t.Errorf("keys were derived %v times with %s, for 3 brokers and %d moves of node status", n, mechanism, own)
			}
			if n := m.Sum("doorkeeper_sessions"); n != legs {
				t.Errorf("%v sessions are open", n)
			}
			for _, n := range c.Nodes {
				tokens, err := c.Admin.Tokens(ctx, n.ID, owner)
				must(t, err)
				if len(tokens) != 1 {
					t.Errorf("node %d knows %d tokens", n.ID, len(tokens))
				}
			}
		})
	}
}
