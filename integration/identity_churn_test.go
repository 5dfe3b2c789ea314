//go:build integration

package integration

// This file proves that nobody is taken for another while everything changes: a dozen
// principals, each with a topic that it alone may use, come and go at random, on
// connections whose sessions are renewed every few seconds, by both kinds. Each asks for
// its own topic and for another's, again and again: the brokers must grant the one and
// refuse the other, each time, and their authorizers must have seen no other principal.
// DOORKEEPER_CHURN says for how long at least, and how many principals there are: "10m 50".

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/errgroup"

	"doorkeeper/integration/harness"
)

// churn is what one such run needs and counts.
type churn struct {
	topic    func(principal string) string
	names    []string
	gateways []*harness.Gateway
	nodes    []int32
	until    time.Time

	granted, refused, legs, cut atomic.Int64
}

// B07, S9
func TestNobodyIsTakenForAnother(t *testing.T) {
	load, principals := 20*time.Second, 12
	if s := os.Getenv("DOORKEEPER_CHURN"); s != "" {
		_, err := fmt.Sscanf(s, "%s %d", new(string), &principals)
		must(t, err)
		load, err = time.ParseDuration(strings.Fields(s)[0])
		must(t, err)
	}
	c := cluster(t)
	ctx := within(t, load+5*time.Minute)
	run := &churn{topic: func(principal string) string { return name(t, principal) }}
	for i := range principals {
		owner := fmt.Sprintf("churner%02d", i)
		run.names = append(run.names, owner)
		must(t, c.Admin.Grant(ctx, harness.AppGrants(owner, run.topic(owner))...))
		series{run.topic(owner), "c", 0}.make(ctx, t, c)
	}
	for _, n := range c.Nodes {
		run.nodes = append(run.nodes, n.ID)
	}
	for _, kind := range []string{"reauthenticate", "swap"} {
		run.gateways = append(run.gateways, gateway(t, c, harness.GatewayConfig{Change: func(d harness.Document) {
			d.Set("tokens.lifetime", "10s")
			d.Set("connections.renewal", kind)
			d.Set("instance", kind)
		}}))
	}
	run.until = time.Now().Add(load)
	all, allCtx := errgroup.WithContext(ctx)
	for i := range run.names {
		for range 2 {
			all.Go(func() error { return run.live(allCtx, i) })
		}
	}
	must(t, all.Wait())
	t.Logf("%d granted, %d refused, on %d connections, %d of which the gateway closed", run.granted.Load(), run.refused.Load(), run.legs.Load(), run.cut.Load())
	for _, g := range run.gateways {
		if n := metricsNow(ctx, t, g).Sum(renewals, `result="ok"`); n < float64(principals) {
			t.Errorf("%v renewals", n)
		}
	}
	run.judgeLogs(t, authorizerLogs(t, c))
}

// goesOn tells whether the run is to last longer: however slow the machine is, it has to
// prove something.
func (r *churn) goesOn() bool {
	enough := r.granted.Load() >= 1000 && r.refused.Load() >= 1000 && r.legs.Load() >= int64(10*len(r.names))
	return !enough || time.Now().Before(r.until)
}

// live is one client of a principal until the end of the run.
func (r *churn) live(ctx context.Context, mine int) error {
	for r.goesOn() && ctx.Err() == nil {
		g := r.gateways[rand.IntN(len(r.gateways))]
		address := g.Bootstrap
		if rand.IntN(4) > 0 {
			address = g.NodeAddress(r.nodes[rand.IntN(len(r.nodes))])
		}
		raw, err := harness.DialRaw(ctx, address, g.TLS(site.Client(r.names[mine])))
		if err != nil {
			return err
		}
		r.legs.Add(1)
		err = r.visit(raw, mine)
		_ = raw.Close()
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, net.ErrClosed):
			r.cut.Add(1) // trouble with a token on a busy machine: whoever it was, it was refused
		case err != nil:
			return err
		}
	}
	return ctx.Err()
}

// visit asks a few times, or over several renewals, and closes at random, now and then
// with an answer outstanding.
func (r *churn) visit(raw *harness.Raw, mine int) error {
	rounds, long := 1+rand.IntN(30), time.Now().Add(time.Duration(5+rand.IntN(10))*time.Second)
	if rand.IntN(4) > 0 {
		long = time.Time{}
	}
	for ; (rounds > 0 || time.Now().Before(long)) && r.goesOn(); rounds-- {
		other := rand.IntN(len(r.names) - 1)
		if other >= mine {
			other++
		}
		own, foreign := r.topic(r.names[mine]), r.topic(r.names[other])
		resp, err := raw.Request(metadataRequest(12, own, foreign))
		if err != nil {
			return err
		}
		for _, topic := range resp.(*kmsg.MetadataResponse).Topics {
			switch err := kerr.ErrorForCode(topic.ErrorCode); {
			case *topic.Topic == own && err == nil:
				r.granted.Add(1)
			case *topic.Topic == foreign && errors.Is(err, kerr.TopicAuthorizationFailed):
				r.refused.Add(1)
			default:
				return fmt.Errorf("%s asked for %s and was told: %w", r.names[mine], *topic.Topic, err)
			}
		}
		if rounds < 0 {
			time.Sleep(50 * time.Millisecond)
		}
	}
	if rand.IntN(3) == 0 {
		_, err := raw.Send(metadataRequest(12, r.topic(r.names[mine])))
		return err
	}
	return nil
}

// judgeLogs holds what the brokers' authorizers granted against whose topic it was.
func (r *churn) judgeLogs(t *testing.T, logs string) {
	t.Helper()
	line := regexp.MustCompile(`Principal = User:(\S+) is Allowed operation = \S+ .*Topic:LITERAL:(\S+)`)
	owners := map[string]string{}
	for _, n := range r.names {
		owners[r.topic(n)] = n
	}
	judged := 0
	for _, m := range line.FindAllStringSubmatch(logs, -1) {
		owner, ours := owners[m[2]]
		if !ours || m[1] == "admin" {
			continue
		}
		if judged++; m[1] != owner {
			t.Errorf("a broker let %s use %s", m[1], m[2])
		}
	}
	if judged < 1000 {
		t.Errorf("the authorizers have logged %d decisions", judged)
	}
}
