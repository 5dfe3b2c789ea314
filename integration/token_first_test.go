//go:build integration

package integration

// This file proves that new owners get their tokens fast and each its own: fifty who come
// at once, at every broker, wait for their tokens as long as the figures that it prints
// say, none is refused, each is its owner at Kafka and nobody else, and it costs one token
// each. While one broker hangs, newcomers are served at all others at once: before it
// goes on.

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/errgroup"

	"doorkeeper/integration/harness"
)

// B09 (its p95 is one of the figures) and S9's part on tokens.
func TestNewOwnersAllAtOnce(t *testing.T) {
	const newcomers = 50
	c := cluster(t)
	ctx := within(t, 5*time.Minute)
	all := named("new", newcomers)
	var grants []harness.Grant
	for _, owner := range all { // a topic need not exist for a right to it
		grants = append(grants, harness.Grant{Principal: owner, Type: kmsg.ACLResourceTypeTopic, Name: "of-" + owner, Operation: kmsg.ACLOperationDescribe})
	}
	must(t, c.Admin.Grant(ctx, grants...))
	g := gateway(t, c, harness.GatewayConfig{Plain: true, Change: func(d harness.Document) {
		d.Set("tokens.expire_on_stop", true)
		d.Set("limits.handshakes_per_address", 4*newcomers)
		d.Set("limits.admission", "2m") // they wait for each other, admitted
	}})
	t.Logf("with nobody between, from asking for %d tokens at once to all brokers listing each: %s", newcomers, quantiles(tokensDirectly(ctx, t, c, named("direct", newcomers))))
	early := named("early", 20) // what a broker does for the first time takes it long
	warm(t, g.Addresses(c), early)
	before := metricsNow(ctx, t, g)
	legs := arrive(ctx, t, g.Addresses(c), all)
	refusedBefore := refusedLogins(t, c)

	waits := askAll(t, legs)
	again := arrive(ctx, t, g.Addresses(c), all)
	known := askAll(t, again)
	t.Logf("from the first request of %d new owners at %d addresses each to its answer, token and login included: %s", newcomers, len(g.Addresses(c)), quantiles(waits))
	t.Logf("the same with tokens that are there: %s", quantiles(known))

	m := metricsNow(ctx, t, g)
	grown := func(series string, labels ...string) float64 {
		return m.Sum(series, labels...) - before.Sum(series, labels...)
	}
	sum, n := grown("doorkeeper_token_propagation_seconds_sum"), grown("doorkeeper_token_propagation_seconds_count")
	t.Logf("until a broker was seen to know a token, from the answer to its creation: %.0f ms on average, %v times", 1000*sum/max(n, 1), n)
	t.Logf("logins that a broker refused, since it showed a token before it took it: %v of %d", refusedLogins(t, c)-refusedBefore, len(legs))
	asked := grown("doorkeeper_token_creations_total")
	if made := grown("doorkeeper_token_creations_total", `result="created"`) + grown("doorkeeper_token_adoptions_total"); made != newcomers {
		t.Errorf("%v tokens were made", made)
	}
	if asked != newcomers {
		t.Logf("%v creations took this machine too long", asked-newcomers)
	}
	oneEach(t, c, all)
	for _, l := range append(legs, again...) {
		isItself(t, l, all)
	}
}

// arrival is a client's connection, admitted and silent.
type arrival struct {
	*harness.Raw
	owner, address string
}

// arrive connects each owner to each address.
func arrive(ctx context.Context, t *testing.T, addresses, owners []string) []arrival {
	t.Helper()
	out := make([]arrival, len(addresses)*len(owners))
	var dialling errgroup.Group
	dialling.SetLimit(40)
	for i := range out {
		owner, address := owners[i/len(addresses)], addresses[i%len(addresses)]
		as := site.Client(owner).ClientTLS()
		dialling.Go(func() error {
			leg, err := harness.DialRaw(ctx, address, as)
			if err == nil {
				out[i] = arrival{leg, owner, address}
			}
			return err
		})
	}
	t.Cleanup(func() {
		for _, a := range out {
			if a.Raw != nil {
				_ = a.Close()
			}
		}
	})
	must(t, dialling.Wait())
	return out
}

// askAll sends the first request on all of them at once, and returns how long each took
// until it was answered. Who is sent away since this machine took too long comes again, as
// all clients do.
func askAll(t *testing.T, legs []arrival) []time.Duration {
	t.Helper()
	ctx := within(t, 2*time.Minute+time.Duration(len(legs))*100*time.Millisecond)
	took := make([]time.Duration, len(legs))
	start := make(chan struct{})
	var again atomic.Int32
	var asking errgroup.Group
	for i := range legs {
		asking.Go(func() error {
			<-start
			from := time.Now()
			if err := legs[i].served(ctx, &again); err != nil {
				return fmt.Errorf("%s at %s, after %v: %w", legs[i].owner, legs[i].address, time.Since(from), err)
			}
			took[i] = time.Since(from)
			return nil
		})
	}
	close(start)
	must(t, asking.Wait())
	if n := again.Load(); n > 0 {
		t.Logf("%d times a client came again", n)
	}
	return took
}

// served asks until it is answered, on new connections if need be.
func (a *arrival) served(ctx context.Context, again *atomic.Int32) error {
	for pause := time.Second; ; pause = min(2*pause, 5*time.Second) {
		_, err := a.Request(metadata())
		if err == nil {
			return nil
		}
		again.Add(1)
		_ = a.Close()
		for err != nil {
			if pauseOrEnd(ctx, pause/2+rand.N(pause)) != nil {
				return err
			}
			var leg *harness.Raw
			if leg, err = harness.DialRaw(ctx, a.address, site.Client(a.owner).ClientTLS()); err == nil {
				a.Raw = leg
			}
		}
	}
}

// tokensDirectly has an administrator make a token for each owner, all at once, and returns how
// long each took until every broker listed it: what Kafka takes by itself on this machine.
// Most of it is the brokers' own derivation of each token's SCRAM credentials.
func tokensDirectly(ctx context.Context, t *testing.T, c *harness.Cluster, owners []string) []time.Duration {
	t.Helper()
	admin := kadm.Principal{Type: "User", Name: "admin"}
	waits := make([]time.Duration, len(owners))
	macs := make([][]byte, len(owners))
	var all errgroup.Group
	for i, owner := range owners {
		all.Go(func() error {
			began := time.Now()
			token, err := c.Admin.CreateDelegationToken(ctx, kadm.CreateDelegationToken{
				Owner: &kadm.Principal{Type: "User", Name: owner}, Renewers: []kadm.Principal{admin}, MaxLifetime: time.Hour,
			})
			if err != nil {
				return err
			}
			macs[i] = token.HMAC
			for _, n := range c.Nodes {
				for known := map[string][]kmsg.DescribeDelegationTokenResponseTokenDetail{}; len(known[owner]) == 0; {
					time.Sleep(10 * time.Millisecond) // about as often as a gateway looks
					if known, err = live(ctx, c, n.ID, owner); err != nil {
						return err
					}
				}
			}
			waits[i] = time.Since(began)
			return nil
		})
	}
	must(t, all.Wait())
	for _, mac := range macs {
		_, err := c.Admin.ExpireDelegationToken(ctx, mac, -time.Millisecond)
		must(t, err)
	}
	return waits
}

func quantiles(took []time.Duration) string {
	sorted := slices.Sorted(slices.Values(took))
	at := func(q float64) time.Duration {
		return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))].Round(time.Millisecond)
	}
	return fmt.Sprintf("p50 %v, p95 %v, p99 %v, most %v", at(.5), at(.95), at(.99), at(1))
}

// isItself checks that Kafka takes the connection for its owner's: that one alone may know of its topic.
func isItself(t *testing.T, l arrival, owners []string) {
	t.Helper()
	other := owners[(slices.Index(owners, l.owner)+1)%len(owners)]
	resp, err := l.Request(metadata("of-"+l.owner, "of-"+other))
	must(t, err)
	for _, topic := range resp.(*kmsg.MetadataResponse).Topics {
		want := error(kerr.TopicAuthorizationFailed)
		if *topic.Topic == "of-"+l.owner {
			want = kerr.UnknownTopicOrPartition
		}
		if err := kerr.ErrorForCode(topic.ErrorCode); !errors.Is(err, want) {
			t.Errorf("%s asked for %s: %v, not %v", l.owner, *topic.Topic, err, want)
		}
	}
}

// B09 and F9 with a broker that hangs: it is suspended for 5 s at least, and until everybody
// else was served.
func TestNewOwnersWhileABrokerHangs(t *testing.T) {
	const newcomers, atLeast = 10, 5 * time.Second
	c := cluster(t)
	ctx := within(t, 3*time.Minute)
	g := gateway(t, c, harness.GatewayConfig{Change: func(d harness.Document) {
		d.Set("tokens.expire_on_stop", true)
		d.Set("limits.admission", "2m")
	}})
	active, err := c.Admin.Controller(ctx)
	must(t, err)
	hung := c.Node(active%int32(len(c.Nodes)) + 1) // no controller has to be elected
	all := named("newer", newcomers)
	var others, there []arrival
	for _, n := range c.Nodes {
		legs := arrive(ctx, t, []string{g.NodeAddress(n.ID)}, all)
		if n == hung {
			there = legs
		} else {
			others = append(others, legs...)
		}
	}

	must(t, hung.Pause())
	resume := sync.OnceFunc(func() { must(t, hung.Resume()) })
	t.Cleanup(resume)
	from := time.Now()
	var late errgroup.Group
	var again atomic.Int32
	for i := range there {
		late.Go(func() error { return there[i].served(ctx, &again) })
	}
	took := askAll(t, others)
	t.Logf("while node %d hangs, newcomers were served by the others: %s", hung.ID, quantiles(took))
	must(t, pauseOrEnd(ctx, atLeast-time.Since(from)))
	resume()

	must(t, late.Wait())
	t.Logf("the clients of the node that hung were sent away %d times before they were served there too", again.Load())
	must(t, c.Await(ctx))
	oneEach(t, c, all)
}
