//go:build integration

package integration

// This file proves that a gateway that is killed costs the cluster no tokens: 200
// connections of 20 owners (2,000 of 200 with DOORKEEPER_TOKEN_LIFE) come back after a
// kill -9, on the tokens that were there. The new run makes one token, its own, adopts
// the others, and derives keys once for each token, salt and mechanism, which is once
// for each token and broker. So it does when all brokers were restarted, with new salts.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"doorkeeper/integration/harness"
)

// B33
func TestTokenLifeAcrossAKill(t *testing.T) {
	many, each := 20, 10
	_, long := tokenLifeFor(t)
	if long {
		many = 200
	}
	c := cluster(t)
	ctx := within(t, 10*time.Minute)
	g := gateway(t, c, harness.GatewayConfig{Plain: long, Change: func(d harness.Document) {
		d.Set("tokens.expire_on_stop", true) // of the last stop, in order
		d.Set("limits.sessions_per_address", 2*many*each)
		d.Set("limits.handshakes_per_address", many*each)
	}})
	all := named("kept", many)
	k := keep(t, g.Addresses(c), all, each)
	t.Logf("%d connections of %d owners were up after %v", many*each, many, k.await(ctx, t))
	ids := oneEach(t, c, all)
	own := float64(len(c.Nodes)) // node status logs in with the gateway's own token, on any broker

	g.Kill()
	from := time.Now()
	k.dropped(ctx, t)
	must(t, g.Restart())
	must(t, g.AwaitReady(within(t, time.Minute)))
	took := k.await(ctx, t)
	m := metricsNow(ctx, t, g)
	t.Logf("after a kill -9 all were up again %v after it, %v after the gateway was ready", time.Since(from).Round(time.Millisecond), took)
	checkRestart(t, m, many, float64(many*len(c.Nodes))+own)
	if again := oneEach(t, c, all); !maps.Equal(ids, again) {
		t.Error("the tokens are not those of before")
	}
	if !long {
		return
	}

	from = time.Now()
	var stops sync.WaitGroup
	for _, n := range c.Nodes {
		stops.Go(n.Stop)
	}
	stops.Wait()
	k.dropped(ctx, t)
	for _, n := range c.Nodes {
		must(t, n.Start())
	}
	must(t, c.Await(ctx))
	up := time.Now()
	k.await(ctx, t)
	t.Logf("after all brokers were restarted all were up again %v after the brokers, %v after their stop", time.Since(up).Round(time.Millisecond), time.Since(from).Round(time.Millisecond))
	checkRestart(t, metricsNow(ctx, t, g), many, 2*(float64(many*len(c.Nodes))+own))
	if again := oneEach(t, c, all); !maps.Equal(ids, again) {
		t.Error("the tokens are not those of before the brokers' restart")
	}
}

// checkRestart looks at the figures of a run that has found its owners' tokens.
func checkRestart(t *testing.T, m harness.Metrics, owners int, derivations float64) {
	t.Helper()
	// Each owner's token is that of before (the caller compares), so this one is its own. A
	// creation that took this machine too long made it all the same, or was made again.
	if n := m.Sum("doorkeeper_token_creations_total", `result="created"`); n > 1 {
		t.Errorf("%v tokens were created, not the gateway's own alone", n)
	}
	if n := m.Sum("doorkeeper_token_adoptions_total"); n < float64(owners) || n > float64(owners+1) {
		t.Errorf("%v tokens were adopted, of %d owners", n, owners)
	}
	n := m.Sum("doorkeeper_scram_key_derivations_total")
	t.Logf("keys were derived %v times for %d owners' tokens", n, owners)
	if n > derivations {
		t.Errorf("keys were derived %v times, more than %v", n, derivations)
	}
}

// kept are connections that stay, and that come again when they end.
type kept struct {
	want int64
	up   atomic.Int64
}

// keep opens so many connections for each owner, forty at a time.
func keep(t *testing.T, addresses, owners []string, each int) *kept {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	k := &kept{want: int64(len(owners) * each)}
	slots := make(chan struct{}, 40)
	var wg sync.WaitGroup
	for i := range len(owners) * each {
		as, address := site.Client(owners[i%len(owners)]), addresses[i/len(owners)%len(addresses)]
		wg.Go(func() {
			for ctx.Err() == nil {
				_ = k.hold(ctx, slots, address, as)
				_ = pauseOrEnd(ctx, 200*time.Millisecond)
			}
		})
	}
	t.Cleanup(func() { stop(); wg.Wait() })
	return k
}

// hold is one connection's life. Nothing is unanswered on it but at its beginning.
func (k *kept) hold(ctx context.Context, slots chan struct{}, address string, as *harness.Certificate) error {
	select {
	case slots <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	freed := sync.OnceFunc(func() { <-slots })
	defer freed()
	leg, err := harness.DialRaw(ctx, address, as.ClientTLS())
	if err != nil {
		return err
	}
	defer func() { _ = leg.Close() }()
	if _, err := leg.Request(metadata()); err != nil {
		return err
	}
	freed()
	if err := leg.SetDeadline(time.Time{}); err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = leg.Close() })()
	k.up.Add(1)
	defer k.up.Add(-1)
	_, err = io.Copy(io.Discard, leg)
	return err
}

// await waits until all are up, and returns how long that took.
func (k *kept) await(ctx context.Context, t *testing.T) time.Duration {
	t.Helper()
	from := time.Now()
	for k.up.Load() != k.want {
		if err := pauseOrEnd(ctx, 10*time.Millisecond); err != nil {
			t.Fatal(errors.Join(err, fmt.Errorf("%d of %d connections are up", k.up.Load(), k.want)))
		}
	}
	return time.Since(from).Round(time.Millisecond)
}

// dropped waits until none is up.
func (k *kept) dropped(ctx context.Context, t *testing.T) {
	t.Helper()
	for k.up.Load() != 0 {
		must(t, pauseOrEnd(ctx, 10*time.Millisecond))
	}
}
