//go:build integration

package integration

// This file proves that a broker which is killed, stopped or slow at any step of a login
// costs its client no more than a plain close, in time: the network between the gateway and
// a real broker is cut, stalls, loses one direction or crawls from a given byte on, at bytes
// all over the talk, one connection for each.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/errgroup"

	"doorkeeper/integration/harness"
	"doorkeeper/internal/faultrelay"
)

// renewing is a cluster that ends sessions every few seconds; its first node's token
// listener is reached through a relay.
type renewing struct {
	*harness.Cluster
	relay *faultrelay.Relay
}

const renewingLife = 5 * time.Second

// renewingShared is started by whoever asks first. A test leaves it as it found it.
var renewingShared = sync.OnceValues(func() (*renewing, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	host := site.LoopbackHost()
	relay, err := faultrelay.New(host+":0", net.JoinHostPort(host, fmt.Sprint(harness.TokenPort)))
	if err != nil {
		return nil, err
	}
	c, err := site.StartCluster(ctx, harness.ClusterConfig{Reauth: renewingLife, Node: func(id int32) harness.NodeConfig {
		if id != 1 {
			return harness.NodeConfig{}
		}
		return harness.NodeConfig{Host: host, AdvertisedToken: relay.Address()}
	}})
	return &renewing{c, relay}, err
})

func renewingCluster(t *testing.T) *renewing {
	t.Helper()
	c, err := renewingShared()
	must(t, err)
	return c
}

// troubles are what a broker in trouble looks like from byte at of a direction on.
func troubles(at int64) map[string]faultrelay.Faults {
	return map[string]faultrelay.Faults{
		"killed":    {ResetAt: max(at, 1)},
		"stopped":   {From: at, Stall: true},
		"half open": {From: at, Swallow: true},
	}
}

// slowBrokers are those that are slow from then on: a little, and far too much.
func slowBrokers(at int64) map[string]faultrelay.Faults {
	return map[string]faultrelay.Faults{
		"late":      {From: at, Latency: 300 * time.Millisecond, Jitter: 100 * time.Millisecond},
		"crawling":  {From: at, Rate: 100},
		"in crumbs": {From: at, Slice: 1},
	}
}

// stepFault is a fault of one connection.
type stepFault struct {
	what               string
	toTarget, toClient faultrelay.Faults
}

// stepFaults are those at so many bytes, in equal distances, of a talk that goes from one
// byte to another in each direction.
func stepFaults(from, to [2]int64, steps int64) []stepFault {
	var out []stepFault
	for d := range faultrelay.Direction(2) {
		add := func(at int64, all map[string]faultrelay.Faults) {
			for what, f := range all {
				s := stepFault{what: fmt.Sprintf("%s, %s, from byte %d of %d to %d", what, d, at, from[d], to[d])}
				if d == faultrelay.ToTarget {
					s.toTarget = f
				} else {
					s.toClient = f
				}
				out = append(out, s)
			}
		}
		for k := range steps {
			add(from[d]+(to[d]-from[d])*k/steps, troubles(from[d]+(to[d]-from[d])*k/steps))
		}
		add(from[d], slowBrokers(from[d]))
	}
	return out
}

func TestABrokerInTroubleAtAnyStep(t *testing.T) {
	t.Parallel() // it mostly waits
	c := renewingCluster(t)
	ctx := within(t, 4*time.Minute)
	topic := topicFor(t, c.Cluster, "step")
	g := gateway(t, c.Cluster, harness.GatewayConfig{Change: func(d harness.Document) { renewalKind(d, "auto") }})
	t.Cleanup(func() { c.relay.Vary(nil); c.relay.Heal() })
	works(t, g, "step", topic)

	passed := func() [2]int64 {
		return [2]int64{c.relay.Passed(faultrelay.ToTarget), c.relay.Passed(faultrelay.ToClient)}
	}
	// How many bytes a login takes, without the request behind it, which a broker may answer
	// as late as it likes: the least of some, since node status talks over the relay too.
	var login, request [2]int64
	for n := range 3 {
		least := func(of *[2]int64, began [2]int64) {
			for d, now := range passed() {
				if took := now - began[d]; n == 0 || took < of[d] {
					of[d] = took
				}
			}
		}
		began := passed()
		leg, err := dialServed(ctx, g.NodeAddress(1), site.Client("step"), "step")
		must(t, err)
		least(&login, began)
		began = passed()
		_, err = leg.Request(metadataRequest(9))
		must(t, err)
		least(&request, began)
		must(t, leg.Close())
	}
	for d := range login {
		login[d] -= request[d]
	}
	t.Logf("a login takes %v bytes to and from the broker, a request %v", login, request)

	t.Run("login", func(t *testing.T) {
		faults := stepFaults([2]int64{}, login, 6)
		served := atEachStep(t, c, g, faults, hangBound+patience/2, func(*harness.Raw) error { return nil })
		if served == 0 || served == len(faults) {
			t.Errorf("%d of %d were served: that proves little", served, len(faults))
		}
	})
	must(t, c.Await(ctx))
	works(t, g, "step", topic)
}

// atEachStep opens a connection for each fault, has it begin, and sends a request that the
// fault may hit: it is answered, rightly, or the connection is closed, plainly and in time.
// It returns how many were answered.
func atEachStep(t *testing.T, c *renewing, g *harness.Gateway, faults []stepFault, bound time.Duration, begin func(*harness.Raw) error) int {
	t.Helper()
	asked := c.relay.Accepted()
	var mu sync.Mutex
	used := 0
	c.relay.Vary(func(n int) (toTarget, toClient faultrelay.Faults) {
		mu.Lock()
		defer mu.Unlock()
		used = n + 1
		f := faults[n%len(faults)]
		return f.toTarget, f.toClient
	})
	defer c.relay.Vary(nil)
	ctx := within(t, bound+time.Minute)
	served := 0
	var all errgroup.Group
	for range faults {
		all.Go(func() error {
			leg, err := harness.DialRaw(ctx, g.NodeAddress(1), site.Client("step").ClientTLS())
			if err != nil {
				return err
			}
			defer func() { _ = leg.Close() }()
			switch err := begin(leg); {
			case errors.Is(err, io.EOF): // too slow a login: no fault of this talk's
				return nil
			case err != nil:
				return err
			}
			began := time.Now()
			if err := leg.SetDeadline(began.Add(bound)); err != nil {
				return err
			}
			id, err := leg.Send(metadataRequest(9))
			if err != nil {
				return err
			}
			got, rest, err := leg.Receive()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return fmt.Errorf("from %s, after %v: %w", leg.LocalAddr(), time.Since(began), err)
			}
			resp, err := harness.Parse(metadataRequest(9), rest)
			if err != nil || got != id || len(resp.(*kmsg.MetadataResponse).Brokers) == 0 {
				return fmt.Errorf("answer to %d, not %d: %w", got, id, err)
			}
			mu.Lock()
			served++
			mu.Unlock()
			return nil
		})
	}
	if err := all.Wait(); err != nil {
		t.Error(err)
	}
	t.Logf("%d faults: %d connections to the broker had theirs (%d in all), %d clients were served", len(faults), used, c.relay.Accepted()-asked, served)
	return served
}
