//go:build integration

package integration

// This file proves that clients do not take an outage of the token service for
// final: for 20 s the control listener cannot be reached, Java and franz-go clients
// of owners that have no token yet come meanwhile, and once it is back they work by
// themselves, without one fatal exception. Who had a token before goes on all the
// time, and connects anew.

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"doorkeeper/integration/checker"
	"doorkeeper/integration/harness"
)

// S18.
func TestTokenServiceDown(t *testing.T) {
	const outage = 20 * time.Second
	c := loneCluster(t)
	topic := topicFor(t, c.Cluster, "regular")
	for _, user := range []string{"newcomer-java", "newcomer-go"} {
		must(t, c.Admin.Grant(within(t, time.Minute), harness.AppGrants(user, topic)...))
	}
	g := gateway(t, c.Cluster, harness.GatewayConfig{})
	works(t, g, "regular", topic)
	regular := steady(t, g, "regular", topic)

	began := time.Now()
	c.control.Refuse(true)
	c.control.Cut()
	back := sync.OnceFunc(func() { c.control.Refuse(false) })
	t.Cleanup(back)
	java, err := site.StartJava(harness.JavaRun{Certificate: site.Client("newcomer-java"), Steps: []harness.JavaStep{
		{Mode: "produce", Settings: map[string]string{"bootstrap": g.Bootstrap, "topic": topic, "records": "50", "p.max.block.ms": "120000"}},
		{Mode: "consume", Settings: map[string]string{"bootstrap": g.Bootstrap, "topic": topic, "records": "50", "group": topic + "-g"}},
	}})
	must(t, err)
	type outcome struct {
		took time.Duration
		err  error
	}
	franz := make(chan outcome, 1)
	ctx := within(t, 3*time.Minute)
	go func() {
		took, err := produceOnce(ctx, g, site.Client("newcomer-go"), topic)
		franz <- outcome{took, err}
	}()
	closedPlainly(t, g, "newcomer-raw", 3*time.Second)
	works(t, g, "regular", topic) // on connections of its own
	must(t, g.AwaitOutput(ctx, `"reason":"no_token"`, "kafka.control"))
	time.Sleep(time.Until(began.Add(outage)))

	back()
	o := <-franz
	if o.err != nil || o.took < outage {
		t.Errorf("franz-go: %v after %s", o.err, o.took)
	}
	results, err := java.Results(ctx)
	must(t, err)
	for _, r := range results {
		retryable(t, r)
		if r.Count != 50 || len(r.Errors) > 0 {
			t.Errorf("java: %+v", r)
		}
	}
	t.Logf("after an outage of %s: franz-go's first record after %s, java's after %d ms", outage, o.took, results[0].Millis)
	if n, err := regular(); err != nil || n == 0 {
		t.Errorf("who had a token: %d records, then %v", n, err)
	}
}

// steady writes a record every 100 ms on connections that stay, until the returned
// function is called.
func steady(t *testing.T, g *harness.Gateway, user, topic string) func() (int, error) {
	t.Helper()
	var dials harness.Dials
	client, err := dials.Client(site.Client(user), kgo.SeedBrokers(g.Bootstrap), kgo.RecordRetries(0))
	must(t, err)
	quit := make(chan struct{})
	var (
		wg      sync.WaitGroup
		n       int
		failure error
	)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	wg.Go(func() {
		for failure == nil {
			select {
			case <-quit:
				return
			case <-time.After(100 * time.Millisecond):
			}
			if err := checker.Send(ctx, client, &kgo.Record{Topic: topic, Key: checker.Key("steady", n), Value: []byte("x")}); err != nil {
				failure = fmt.Errorf("record %d: %w", n, err)
				return
			}
			n++
		}
	})
	stop := sync.OnceFunc(func() { close(quit); wg.Wait(); cancel(); client.Close() })
	t.Cleanup(stop)
	return func() (int, error) { stop(); return n, failure }
}
