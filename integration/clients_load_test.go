//go:build integration

package integration

// This file proves that kafkajs and sarama can be used as loads that last for a time, at a
// pace, with a ledger for the checker: what was acknowledged is stored once, where the
// acknowledgement said, in order, and transactions whole.

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"doorkeeper/integration/checker"
	"doorkeeper/integration/harness"
)

func TestLoadsOfOtherClientsKeepLedgers(t *testing.T) {
	const seconds, rate = 4, 500
	c := cluster(t)
	ctx := within(t, 4*time.Minute)
	app := name(t, "app")
	must(t, c.Admin.Grant(ctx, harness.AppGrants("lois", app)...))
	g := gateway(t, c, harness.GatewayConfig{})
	through := bothSides(c, g, "lois")[0]
	dir := t.TempDir()
	var ledgers []*checker.Ledger
	running := map[string]*harness.ForeignClient{}
	for _, client := range []harness.Client{harness.KafkaJS, harness.Sarama} {
		must(t, site.MakeReady(ctx, client))
		for _, kind := range []string{"plain", "txn"} {
			topic := fmt.Sprintf("%s-%s-%s", app, client, kind)
			must(t, c.Admin.SpreadTopic(ctx, topic, partitions))
			ledgers = append(ledgers, &checker.Ledger{Topic: topic, Prefix: "r", Size: recordSize})
			load := []string{"topic", topic, "seconds", fmt.Sprint(seconds), "rate", fmt.Sprint(rate), "ledger", filepath.Join(dir, topic)}
			if kind == "txn" {
				load = append(load, "txn", topic, "per.txn", "300", "abort.every", "2")
			}
			var err error
			running[topic], err = site.StartForeign(ctx, through.run(client, ability{client: client}.ask(through, "produce", load...)))
			must(t, err)
		}
	}
	for _, l := range ledgers {
		did, err := running[l.Topic].Results(ctx)
		must(t, err)
		file, err := os.Open(filepath.Join(dir, l.Topic))
		must(t, err)
		must(t, l.Import(file))
		must(t, file.Close())
		sent, acked := l.Count()
		t.Logf("%s: %d records acknowledged in %d ms", l.Topic, acked, did[0].Millis)
		if n := did[0].Sent; len(did[0].Errors) > 0 || sent != n || acked != n || did[0].Count != n {
			t.Errorf("%s: of %d records %d are in its ledger, %d of them acknowledged; errors %v", l.Topic, n, sent, acked, did[0].Messages)
		}
		if acked == 0 || acked > seconds*rate+1 || did[0].Millis < seconds*1000 {
			t.Errorf("%s: %d records in %d ms are not %d a second for %d s", l.Topic, acked, did[0].Millis, rate, seconds)
		}
		if did[0].Values["unwanted"] != "0" {
			t.Errorf("%s: brokers' addresses were received", l.Topic)
		}
	}
	judged(ctx, t, c, ledgers...)
	noFaults(ctx, t, g)
}
