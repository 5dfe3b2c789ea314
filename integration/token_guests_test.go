//go:build integration

package integration

// What the tests of tokens share: clients of many owners that come and go while tokens
// are replaced and brokers or gateways fail, who tell of every login that failed.

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/errgroup"

	"doorkeeper/integration/harness"
)

// tokenLifeFor is how long the long form of TestTokenLife... loads, and whether it is
// meant at all.
func tokenLifeFor(t *testing.T) (time.Duration, bool) {
	t.Helper()
	s := os.Getenv("DOORKEEPER_TOKEN_LIFE")
	if s == "" {
		return 0, false
	}
	d, err := time.ParseDuration(s)
	must(t, err)
	return d, true
}

// named are n owners, of a name that no other test uses.
func named(prefix string, n int) []string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf("%s-%02d", prefix, i))
	}
	return out
}

// guests are clients of a gateway. One of each owner comes, asks for something and goes,
// all the time, at each of the gateway's addresses in turn; another one stays, asks every
// second, and comes again only if it was sent away. No login of theirs may fail but
// while the gateway is said to be away.
type guests struct {
	g    *harness.Gateway
	stop context.CancelFunc
	wg   sync.WaitGroup

	mu       sync.Mutex
	served   int // by owners that came and went
	slowest  time.Duration
	failures []failure
	absent   []absence
}

// failure is a login, or a request on a connection that stays, that failed between the two times.
type failure struct {
	from, to time.Time
	what     string
	err      error
}

// absence is when a gateway need not serve. One that goes on has no end.
type absence struct{ from, to time.Time }

// receive has guests come until end is called, at the latest when the test ends. Each
// owner was served once when it returns: a cluster that was started a moment ago can be
// too slow for a first token.
func receive(t *testing.T, g *harness.Gateway, addresses, owners []string, pause time.Duration) *guests {
	t.Helper()
	warm(t, addresses, owners)
	ctx, stop := context.WithCancel(context.Background())
	v := &guests{g: g, stop: stop}
	for i, owner := range owners {
		as := site.Client(owner)
		v.wg.Go(func() { v.comeAndGo(ctx, as, owner, addresses, i, pause) })
		v.wg.Go(func() { v.stay(ctx, as, owner, addresses[i%len(addresses)]) })
	}
	t.Cleanup(func() { v.stop(); v.wg.Wait() })
	return v
}

// warm has each owner come until it was served at every address.
func warm(t *testing.T, addresses, owners []string) {
	t.Helper()
	ctx := within(t, 2*time.Minute)
	var all errgroup.Group
	all.SetLimit(10)
	for _, owner := range owners {
		all.Go(func() error {
			for _, address := range addresses {
				for err := visit(address, site.Client(owner)); err != nil; err = visit(address, site.Client(owner)) {
					if pauseOrEnd(ctx, 500*time.Millisecond) != nil {
						return fmt.Errorf("%s was never served at %s: %w", owner, address, err)
					}
				}
			}
			return nil
		})
	}
	must(t, all.Wait())
}

func (v *guests) comeAndGo(ctx context.Context, as *harness.Certificate, owner string, addresses []string, i int, pause time.Duration) {
	for ; pauseOrEnd(ctx, pause) == nil; i++ {
		address := addresses[i%len(addresses)]
		from := time.Now()
		err := visit(address, as)
		if !v.note(from, fmt.Sprintf("%s at %s", owner, address), err) {
			_ = pauseOrEnd(ctx, time.Second)
			continue
		}
		v.mu.Lock()
		v.served++
		v.slowest = max(v.slowest, time.Since(from))
		v.mu.Unlock()
	}
}

// visit is one login and one request. It is not cut short: whoever ends it must be the gateway.
func visit(address string, as *harness.Certificate) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	leg, err := harness.DialRaw(ctx, address, as.ClientTLS())
	if err != nil {
		return err
	}
	defer func() { _ = leg.Close() }()
	_, err = leg.Request(metadata())
	return err
}

func (v *guests) stay(ctx context.Context, as *harness.Certificate, owner, address string) {
	for ctx.Err() == nil {
		from := time.Now()
		err := v.staying(ctx, as, address, &from)
		if ctx.Err() == nil {
			v.note(from, owner+" who stays at "+address, err)
			_ = pauseOrEnd(ctx, time.Second)
		}
	}
}

// staying returns when a request fails, which was begun at from.
func (v *guests) staying(ctx context.Context, as *harness.Certificate, address string, from *time.Time) error {
	leg, err := harness.DialRaw(ctx, address, as.ClientTLS())
	if err != nil {
		return err
	}
	defer func() { _ = leg.Close() }()
	for {
		// Also the pause before it: an end in there shows with the next request.
		if _, err := leg.Request(metadata()); err != nil {
			return err
		}
		*from = time.Now()
		if err := pauseOrEnd(ctx, time.Second); err != nil {
			return err
		}
	}
}

func (v *guests) note(from time.Time, what string, err error) bool {
	if err == nil {
		return true
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.failures = append(v.failures, failure{from, time.Now(), what, err})
	return false
}

// away says that the gateway is about to go; back, that it serves again.
func (v *guests) away() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.absent = append(v.absent, absence{from: time.Now()})
}

func (v *guests) back() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.absent[len(v.absent)-1].to = time.Now()
}

// tooSlow is how long a login may take before the gateway gives it up, for the sake of
// librdkafka, and closes: then this machine was too slow, and the client came again.
const tooSlow = 7500 * time.Millisecond

// end sends them away and judges: every login was served, but what an absence touched and
// what took this machine too long. It returns how many those were.
func (v *guests) end(t *testing.T) (slow int) {
	t.Helper()
	v.stop()
	v.wg.Wait()
	excused := 0
	for _, f := range v.failures {
		switch {
		case slices.ContainsFunc(v.absent, func(a absence) bool { return f.to.After(a.from) && (a.to.IsZero() || f.from.Before(a.to)) }):
			excused++
		case f.to.Sub(f.from) >= tooSlow:
			slow++
		default:
			t.Errorf("%s was not served, from %s to %s: %v", f.what, f.from.Format(time.TimeOnly), f.to.Format(time.TimeOnly), f.err)
		}
	}
	if t.Failed() || slow > 0 {
		t.Logf("the gateway warned:\n%s", warnings(v.g, 40))
	}
	t.Logf("%d logins were served, the slowest in %v; %d failed while the gateway was away, %d took this machine too long",
		v.served, v.slowest.Round(time.Millisecond), excused, slow)
	return slow
}

// noneEnded checks that since before no session has ended for want of a token, a login or a
// renewal, but for so many logins that took this machine too long.
func noneEnded(t *testing.T, g *harness.Gateway, before harness.Metrics, slow int) {
	t.Helper()
	m := metricsOf(t, g)
	for reason, most := range map[string]int{"no_token": 0, "broker_unusable": slow, "renewal_failed": 0, "session_ending": 0, "broker_lost": 0} {
		of := `reason="` + reason + `"`
		if n := m.Sum("doorkeeper_session_ends_total", of) - before.Sum("doorkeeper_session_ends_total", of); n > float64(most) {
			t.Errorf("%v sessions ended with %s", n, reason)
		}
	}
}

// warnings are the last of the gateway's lines that warn of something.
func warnings(g *harness.Gateway, most int) string {
	var out []string
	for l := range strings.Lines(g.Output()) {
		if strings.Contains(l, `"level":"warn"`) || strings.Contains(l, `"level":"error"`) {
			out = append(out, l)
		}
	}
	return strings.Join(out[max(0, len(out)-most):], "")
}

// count is how many logins of those who come and go were served so far.
func (v *guests) count() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.served
}

// live are the tokens of the owners that a broker knows and whose life is not over.
func live(ctx context.Context, c *harness.Cluster, node int32, owners ...string) (map[string][]kmsg.DescribeDelegationTokenResponseTokenDetail, error) {
	tokens, err := c.Admin.Tokens(ctx, node, owners...)
	if err != nil {
		return nil, err
	}
	out := map[string][]kmsg.DescribeDelegationTokenResponseTokenDetail{}
	for _, token := range tokens {
		// An owner's list also has what the owner may expire: the gateway's own has all.
		if slices.Contains(owners, token.PrincipalName) && time.UnixMilli(token.ExpiryTimestamp).After(time.Now()) {
			out[token.PrincipalName] = append(out[token.PrincipalName], token)
		}
	}
	return out, nil
}

// oneEach waits until every broker that runs knows exactly one live token of each owner,
// and returns their ids.
func oneEach(t *testing.T, c *harness.Cluster, owners []string) map[string]string {
	t.Helper()
	ids := map[string]string{}
	eventually(t, func() error {
		clear(ids)
		for _, n := range c.Nodes {
			tokens, err := live(within(t, patience), c, n.ID, owners...)
			if err != nil {
				return err
			}
			for _, owner := range owners {
				if len(tokens[owner]) != 1 {
					return fmt.Errorf("node %d knows %d tokens of %s", n.ID, len(tokens[owner]), owner)
				}
				if id := tokens[owner][0].TokenID; ids[owner] == "" || ids[owner] == id {
					ids[owner] = id
				} else {
					return fmt.Errorf("the brokers know different tokens of %s", owner)
				}
			}
		}
		return nil
	})
	return ids
}

// noneLeft waits until no broker has a live token of these owners.
func noneLeft(t *testing.T, c *harness.Cluster, owners ...string) {
	t.Helper()
	eventually(t, func() error {
		for _, n := range c.Nodes {
			tokens, err := live(within(t, patience), c, n.ID, owners...)
			if err != nil {
				return err
			}
			if len(tokens) > 0 {
				return fmt.Errorf("node %d still has live tokens of %d owners", n.ID, len(tokens))
			}
		}
		return nil
	})
}

// made are the moments at which tokens of each owner were published after a creation, by the gateway's log.
func made(t *testing.T, g *harness.Gateway) map[string][]time.Time {
	t.Helper()
	out := map[string][]time.Time{}
	for _, l := range g.Lines() {
		if l["msg"] != "a token is created" {
			continue
		}
		at, err := time.Parse(time.RFC3339Nano, fmt.Sprint(l["time"]))
		must(t, err)
		token, _ := l["token"].(map[string]any)
		owner := fmt.Sprint(token["owner"])
		out[owner] = append(out[owner], at)
	}
	return out
}
