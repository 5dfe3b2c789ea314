//go:build integration

package integration

// This file proves that a broker which is killed, stopped or slow at any step of a
// re-authentication, or of the login of a swap's new leg, or killed or slow while the old leg
// drains, costs its client no more than a plain close, in time: the network between the
// gateway and a real broker fails from a byte on, at bytes all over the talk. It takes
// minutes, for which stalls are waited for: `make trouble`.

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/errgroup"

	"doorkeeper/integration/harness"
	"doorkeeper/internal/faultrelay"
)

// talkSizes is how many bytes a login with a request behind it, and a renewal, take to the
// first node and back.
type talkSizes struct{ login, renewal [2]int64 }

// measureTalks takes the most of some measures, since a fault is to begin behind a login and
// certificates' signatures differ in length; but none that node status had a part in, which
// talks over the relay too.
func measureTalks(ctx context.Context, t *testing.T, c *renewing, g *harness.Gateway) (of talkSizes) {
	t.Helper()
	passed := func() [2]int64 {
		time.Sleep(300 * time.Millisecond) // the last bytes are counted when they have come
		return [2]int64{c.relay.Passed(faultrelay.ToTarget), c.relay.Passed(faultrelay.ToClient)}
	}
	var login, renewal [2][]int64
	for range 4 {
		measure := func(of *[2][]int64, talk func() error) {
			began := passed()
			must(t, talk())
			for d, now := range passed() {
				of[d] = append(of[d], now-began[d])
			}
		}
		var leg *harness.Raw
		measure(&login, func() (err error) {
			leg, err = dialServed(ctx, g.NodeAddress(1), site.Client("step"), "step")
			return err
		})
		must(t, pauseOrEnd(ctx, renewingLife+time.Second))
		measure(&renewal, func() error { _, err := leg.Request(metadataRequest(9)); return err })
		must(t, leg.Close())
	}
	const differ = 80
	for d := range 2 {
		for _, m := range []struct {
			from []int64
			to   *int64
		}{{login[d], &of.login[d]}, {renewal[d], &of.renewal[d]}} {
			least := slices.Min(m.from)
			for _, n := range m.from {
				if n < least+differ {
					*m.to = max(*m.to, n)
				}
			}
		}
	}
	t.Logf("a login and a request take %v bytes to and from the broker, a renewal and a request %v", of.login, of.renewal)
	return of
}

func TestABrokerInTroubleAtAnyStepOfARenewal(t *testing.T) {
	c := renewingCluster(t)
	ctx := within(t, 15*time.Minute)
	topic := topicFor(t, c.Cluster, "step")
	t.Cleanup(func() { c.relay.Vary(nil); c.relay.Heal() })
	const steps = 6

	t.Run("reauthenticate", func(t *testing.T) {
		g := gateway(t, c.Cluster, harness.GatewayConfig{Change: func(d harness.Document) { d.Set("connections.renewal", "reauthenticate") }})
		works(t, g, "step", topic)
		of := measureTalks(ctx, t, c, g)
		// Without the last third: the request's own bytes are in there, and a broker may
		// answer that as late as it likes.
		faults := stepFaults(of.login, [2]int64{of.login[0] + of.renewal[0]*2/3, of.login[1] + of.renewal[1]/2}, steps)
		served := overReauthentications(ctx, t, c, g, faults)
		if served == 0 || served == len(faults) {
			t.Errorf("%d of %d were served: that proves little", served, len(faults))
		}
		must(t, c.Await(ctx))
		works(t, g, "step", topic)
	})
	t.Run("swap, the new leg", func(t *testing.T) {
		g := gateway(t, c.Cluster, harness.GatewayConfig{Change: func(d harness.Document) { d.Set("connections.renewal", "swap") }})
		works(t, g, "step", topic)
		of := measureTalks(ctx, t, c, g)
		// The first half: a TLS session that is resumed makes a login shorter, and a leg in use
		// that goes silent is for the client to give up.
		faults := stepFaults([2]int64{}, [2]int64{of.login[0] / 2, of.login[1] / 2}, steps)
		// What fails before the switch leaves the old leg as it was; the next attempt works.
		lived := overSwaps(ctx, t, c, g, faults, true, nothing)
		if lived < len(faults)*3/4 {
			t.Errorf("only %d of %d connections lived on", lived, len(faults))
		}
		must(t, c.Await(ctx))
		works(t, g, "step", topic)
	})
	t.Run("swap, the old leg", func(t *testing.T) {
		g := gateway(t, c.Cluster, harness.GatewayConfig{Change: func(d harness.Document) { d.Set("connections.renewal", "swap") }})
		works(t, g, "step", topic)
		of := measureTalks(ctx, t, c, g)
		leaders, err := c.Admin.Leaders(ctx, 1, topic)
		must(t, err)
		mine := int32(-1)
		for p, leader := range leaders {
			if leader == 1 {
				mine = p
			}
		}
		// From behind the login on, over requests, acks=0 produces, the fence behind these, and
		// a fetch that is drained.
		const more = 6000
		faults := slices.DeleteFunc(stepFaults(of.login, [2]int64{of.login[0] + more, of.login[1] + more}, steps), func(f stepFault) bool {
			// Silence in front of an answer to its own request is for the client to give up.
			return f.toTarget.Stall || f.toClient.Stall || f.toTarget.Swallow || f.toClient.Swallow
		})
		lived := overSwaps(ctx, t, c, g, faults, false, func(leg *harness.Raw, n int) (kmsg.Request, error) {
			if _, err := leg.Send(produce(topic, mine, 0, batch([]byte("k"), []byte("silent")))); err != nil || n%3 > 0 {
				return nil, err
			}
			return fetch(topic, mine, 1<<40, 1<<20, 1<<20, 700*time.Millisecond), nil
		})
		if lived == len(faults) {
			t.Error("no connection was ended: that proves little")
		}
		must(t, c.Await(ctx))
		works(t, g, "step", topic)
	})
}

// openInTurn opens a connection for each fault, which its first leg meets behind the login and
// a request.
func openInTurn(ctx context.Context, t *testing.T, c *renewing, g *harness.Gateway, faults []stepFault) []*harness.Raw {
	t.Helper()
	legs := make([]*harness.Raw, len(faults))
	for i, f := range faults {
		c.relay.Vary(func(n int) (toTarget, toClient faultrelay.Faults) {
			if n > 0 {
				return toTarget, toClient
			}
			return f.toTarget, f.toClient
		})
		var err error
		legs[i], err = dialServed(ctx, g.NodeAddress(1), site.Client("step"), "step")
		must(t, err)
	}
	c.relay.Vary(nil)
	return legs
}

// overReauthentications has a connection for each fault ask for something when its session is
// over: the answer is the right one, and comes in time, or the connection is closed plainly.
// It returns how many were answered.
func overReauthentications(ctx context.Context, t *testing.T, c *renewing, g *harness.Gateway, faults []stepFault) int {
	t.Helper()
	const bound = 3*30*time.Second + patience // each of three own answers is waited for for half a minute
	legs := openInTurn(ctx, t, c, g, faults)
	must(t, pauseOrEnd(ctx, renewingLife+time.Second))
	var served atomic.Int32
	var all sync.WaitGroup
	for i, leg := range legs {
		all.Go(func() {
			defer func() { _ = leg.Close() }()
			began := time.Now()
			answered, err := askOnce(leg, metadataRequest(9), bound)
			if err != nil {
				t.Errorf("%s: %s: %v", leg.LocalAddr(), faults[i].what, err)
			}
			if answered {
				served.Add(1)
			}
			t.Logf("%s: answered: %v after %v", faults[i].what, answered, time.Since(began).Round(100*time.Millisecond))
		})
	}
	all.Wait()
	return int(served.Load())
}

// askOnce tells whether req was answered rightly; the connection may be closed instead. What
// is neither, and what comes later than that, is an error.
func askOnce(leg *harness.Raw, req kmsg.Request, bound time.Duration) (answered bool, err error) {
	began := time.Now()
	if err := leg.SetDeadline(began.Add(bound)); err != nil {
		return false, err
	}
	var id, got int32
	var rest []byte
	if id, err = leg.Send(req); err == nil {
		got, rest, err = leg.Receive()
	}
	var late interface{ Timeout() bool }
	switch {
	case errors.As(err, &late) && late.Timeout():
		return false, fmt.Errorf("neither an answer nor an end after %v", time.Since(began))
	case err != nil: // an end: EOF, or what writing to a closed connection gives
		return false, nil
	case got != id:
		return false, fmt.Errorf("answer to %d, not %d", got, id)
	}
	_, err = harness.Parse(req, rest)
	return err == nil, err
}

// nothing is what goes before a request of overSwaps where that is all.
func nothing(*harness.Raw, int) (kmsg.Request, error) { return nil, nil }

// overSwaps has a connection for each fault ask for something four times a second, over
// several ends of its session: each answer is the right one, and comes in time, or the
// connection is closed plainly. The faults are those of the first legs, or of those that are
// to take their places. before may send what has no answer in front of request n, and name
// what is asked instead of Metadata. It returns how many connections lived to the end.
func overSwaps(ctx context.Context, t *testing.T, c *renewing, g *harness.Gateway, faults []stepFault, fresh bool,
	before func(leg *harness.Raw, n int) (kmsg.Request, error),
) int {
	t.Helper()
	const (
		lasts = 4 * renewingLife
		// A request waits while the new leg is opened (10 s), and for swapPatience (15 s) when
		// the old one may take no more; a fence for half a minute.
		bound = 55*time.Second + patience
	)
	asked := c.relay.Accepted()
	var used atomic.Int32
	vary := func() {
		c.relay.Vary(func(n int) (toTarget, toClient faultrelay.Faults) {
			if n >= len(faults) {
				return toTarget, toClient
			}
			used.Add(1)
			return faults[n].toTarget, faults[n].toClient
		})
	}
	defer c.relay.Vary(nil)
	if !fresh {
		vary()
	}
	legs := make([]*harness.Raw, len(faults))
	var opening errgroup.Group
	opening.SetLimit(8)
	for i := range faults {
		opening.Go(func() error {
			leg, err := harness.DialRaw(ctx, g.NodeAddress(1), site.Client("step").ClientTLS())
			if err != nil {
				return err
			}
			legs[i] = leg
			_, err = leg.Request(metadataRequest(9)) // the faults come behind it
			return err
		})
	}
	must(t, opening.Wait())
	if fresh {
		vary()
	}
	var lived, answers atomic.Int32
	var all errgroup.Group
	for _, leg := range legs {
		all.Go(func() error {
			defer func() { _ = leg.Close() }()
			until := time.Now().Add(lasts)
			for n := 1; time.Now().Before(until); n++ {
				req, err := before(leg, n)
				if req == nil {
					req = metadataRequest(9)
				}
				if err != nil {
					return nil // closed
				}
				answered, err := askOnce(leg, req, bound)
				if err != nil {
					for _, open := range c.relay.Open() {
						if open.N >= 0 && open.N < len(faults) {
							t.Logf("open: %v bytes passed; %s", open.Passed, faults[open.N].what)
						}
					}
					return fmt.Errorf("request %d from %s: %w", n, leg.LocalAddr(), err)
				}
				if !answered {
					return nil
				}
				answers.Add(1)
				if err := pauseOrEnd(ctx, 250*time.Millisecond); err != nil {
					return err
				}
			}
			lived.Add(1)
			return nil
		})
	}
	if err := all.Wait(); err != nil {
		t.Error(err)
	}
	t.Logf("%d faults: %d connections to the broker had theirs (%d in all); %d requests were answered, %d connections lived on",
		len(faults), used.Load(), c.relay.Accepted()-asked, answers.Load(), lived.Load())
	if int(used.Load()) < len(faults) {
		t.Errorf("%d of %d faults were met", used.Load(), len(faults))
	}
	return int(lived.Load())
}
