//go:build integration

package integration

// This file proves that a broker which is killed, stopped or slow at any step of a
// re-authentication or of a swap costs its client no more than a plain close, in time: the
// network between the gateway and a real broker fails from a byte on, at bytes all over the
// talk. It takes minutes, which is what stalls are waited for: `make trouble`.

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/errgroup"

	"doorkeeper/integration/harness"
	"doorkeeper/internal/faultrelay"
)

// talkSizes is how many bytes pass to the first node and back, at the least of some
// measures: node status talks over the relay too.
type talkSizes struct{ login, renewal, request [2]int64 }

func measureTalks(ctx context.Context, t *testing.T, c *renewing, g *harness.Gateway) (of talkSizes) {
	t.Helper()
	passed := func() [2]int64 {
		return [2]int64{c.relay.Passed(faultrelay.ToTarget), c.relay.Passed(faultrelay.ToClient)}
	}
	for n := range 3 {
		least := func(of *[2]int64, talk func() error) {
			began := passed()
			must(t, talk())
			for d, now := range passed() {
				if took := now - began[d]; n == 0 || took < of[d] {
					of[d] = took
				}
			}
		}
		var leg *harness.Raw
		ask := func() error { _, err := leg.Request(metadataRequest(9)); return err }
		least(&of.login, func() (err error) {
			leg, err = dialServed(ctx, g.NodeAddress(1), site.Client("step"), "step")
			return err
		})
		must(t, pauseOrEnd(ctx, renewingLife+time.Second))
		least(&of.renewal, ask)
		least(&of.request, ask)
		must(t, leg.Close())
	}
	for d := range of.login { // each with a request behind it
		of.login[d] -= of.request[d]
		of.renewal[d] -= of.request[d]
	}
	t.Logf("a login takes %v bytes to and from the broker, a re-authentication %v, a request %v", of.login, of.renewal, of.request)
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
		begin := [2]int64{of.login[0] + of.request[0], of.login[1] + of.request[1]}
		faults := stepFaults(begin, [2]int64{begin[0] + of.renewal[0], begin[1] + of.renewal[1]}, steps)
		// Each of three own answers is waited for for half a minute.
		served := atEachStep(t, c, g, faults, 3*30*time.Second+patience, func(leg *harness.Raw) error {
			if _, err := leg.Request(metadataRequest(9)); err != nil {
				return fmt.Errorf("the login: %w", err)
			}
			return pauseOrEnd(ctx, renewingLife+time.Second)
		})
		if served == 0 || served == len(faults) {
			t.Errorf("%d of %d were served: that proves little", served, len(faults))
		}
		must(t, c.Await(ctx))
		works(t, g, "step", topic)
	})
	t.Run("swap, the new leg", func(t *testing.T) {
		g := gateway(t, c.Cluster, harness.GatewayConfig{Change: func(d harness.Document) { d.Set("connections.renewal", "swap") }})
		works(t, g, "step", topic)
		of := measureLogin(ctx, t, c, g)
		faults := stepFaults([2]int64{}, of, steps)
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
		of := measureLogin(ctx, t, c, g)
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
		faults := stepFaults(of, [2]int64{of[0] + more, of[1] + more}, steps)
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

func measureLogin(ctx context.Context, t *testing.T, c *renewing, g *harness.Gateway) (login [2]int64) {
	t.Helper()
	for n := range 5 {
		began := [2]int64{c.relay.Passed(faultrelay.ToTarget), c.relay.Passed(faultrelay.ToClient)}
		leg, err := dialServed(ctx, g.NodeAddress(1), site.Client("step"), "step")
		must(t, err)
		for d := range login {
			if took := c.relay.Passed(faultrelay.Direction(d)) - began[d]; n == 0 || took < login[d] { //nolint:gosec // G115: 0 or 1
				login[d] = took
			}
		}
		must(t, leg.Close())
	}
	return login
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
	vary := func(skip int) {
		c.relay.Vary(func(n int) (toTarget, toClient faultrelay.Faults) {
			if n < skip || n >= skip+len(faults) {
				return toTarget, toClient
			}
			used.Add(1)
			f := faults[n-skip]
			return f.toTarget, f.toClient
		})
	}
	defer c.relay.Vary(nil)
	if !fresh {
		vary(0)
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
		vary(0)
	}
	var lived, answers atomic.Int32
	var all errgroup.Group
	for _, leg := range legs {
		all.Go(func() error {
			defer func() { _ = leg.Close() }()
			until := time.Now().Add(lasts)
			for n := 1; time.Now().Before(until); n++ {
				began := time.Now()
				if err := leg.SetDeadline(began.Add(bound)); err != nil {
					return err
				}
				req, err := before(leg, n)
				if req == nil {
					req = metadataRequest(9)
				}
				var id, got int32
				var rest []byte
				if err == nil {
					id, err = leg.Send(req)
				}
				if err == nil {
					got, rest, err = leg.Receive()
				}
				var late interface{ Timeout() bool }
				switch {
				case errors.As(err, &late) && late.Timeout():
					return fmt.Errorf("request %d from %s has no answer and no end after %v: %w", n, leg.LocalAddr(), time.Since(began), err)
				case err != nil: // it ended: by EOF, or by what a write into a closed connection gives
					return nil
				case got != id:
					return fmt.Errorf("request %d from %s: answer to %d, not %d", n, leg.LocalAddr(), got, id)
				}
				if _, err := harness.Parse(req, rest); err != nil {
					return fmt.Errorf("request %d from %s: %w", n, leg.LocalAddr(), err)
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
