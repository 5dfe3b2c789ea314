//go:build integration

package integration

// This file proves that no client notices that its sessions end: with tokens of twenty
// seconds, and with brokers that end every session after ten seconds whatever its token,
// for a minute each (DOORKEEPER_RENEWAL says for how long otherwise), Java
// writes idempotently and in transactions, franz-go with several requests in flight and
// without idempotence, and groups of both protocols read. No record is lost, doubled or
// out of order, no transaction is torn, no client comes again once it has warmed up, and
// no broker kills an expired connection.

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"doorkeeper/integration/harness"
)

func TestNoClientNoticesRenewals(t *testing.T) {
	// F7, F41
	t.Run("tokens", func(t *testing.T) {
		const life = 20 * time.Second
		nobodyNotices(t, cluster(t), life, life)
	})
	// B03, F14
	t.Run("sessions", func(t *testing.T) {
		const life = 10 * time.Second
		nobodyNotices(t, ownCluster(t, harness.ClusterConfig{Reauth: life}), time.Hour, life)
	})
}

// nobodyNotices has all clients write and read over many ends of sessions, which last for
// life at most.
func nobodyNotices(t *testing.T, c *harness.Cluster, token, life time.Duration) {
	t.Helper()
	const rate = 200 // records a second, of each writer
	load := time.Minute
	if s := os.Getenv("DOORKEEPER_RENEWAL"); s != "" {
		var err error
		load, err = time.ParseDuration(s)
		must(t, err)
	}
	ctx := within(t, load+5*time.Minute)
	app := name(t, "app")
	must(t, c.Admin.Grant(ctx, harness.AppGrants("ruth", app)...))
	records := int(load.Seconds()) * rate
	plain := series{app + "-java", "j", records}.make(ctx, t, c)
	txn := series{app + "-txn", "x", records}.make(ctx, t, c)
	bold := series{app + "-franz", "f", records}.make(ctx, t, c)
	g := gateway(t, c, harness.GatewayConfig{Change: func(d harness.Document) {
		d.Set("tokens.lifetime", token.String())
		d.Set("log.level", "debug")
	}})
	before := killedNow(ctx, t, c)
	ruth := site.Client("ruth")
	limit := fmt.Sprint(int(load.Seconds()) + 180)

	// Each in a process of its own, so that they run beside each other.
	var clients []*harness.JavaClient
	for _, step := range []harness.JavaStep{
		plain.step("produce", g.Bootstrap, "rate", fmt.Sprint(rate)),
		txn.step("produce", g.Bootstrap, "rate", fmt.Sprint(rate), "txn", app+"-id", "per.txn", "300", "abort.every", "4"),
		plain.step("consume", g.Bootstrap, "group", app+"-classic", "protocol", "classic", "members", "2", "deadline.s", limit),
		txn.step("consume", g.Bootstrap, "group", app+"-next", "protocol", "consumer", "deadline.s", limit),
	} {
		client, err := site.StartJava(harness.JavaRun{Certificate: ruth, Steps: []harness.JavaStep{step}})
		must(t, err)
		clients = append(clients, client)
	}
	var dials harness.Dials
	all, loadCtx := errgroup.WithContext(ctx)
	all.Go(func() error {
		wrote, err := bold.produce(loadCtx, franz(t, &dials, ruth, g.Bootstrap, kgo.DisableIdempotentWrite(),
			kgo.MaxProduceRequestsInflightPerBroker(5), kgo.ProducerLinger(0), kgo.RecordRetries(0),
			// With acks=all each may wait for its timeout, and on these tokens hardly one could
			// be written behind another.
			kgo.RequiredAcks(kgo.LeaderAck())), rate)
		bold.judge(t, "franz-go wrote", wrote, false)
		return err
	})
	all.Go(func() error {
		read, err := bold.consume(loadCtx, franz(t, &dials, ruth, g.Bootstrap, kgo.ConsumerGroup(app+"-franz"),
			kgo.ConsumeTopics(bold.topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())))
		bold.judge(t, "franz-go read", read, false)
		return err
	})
	all.Go(func() error { return nobodyComesAgain(loadCtx, g, clients[0], life) })
	if err := all.Wait(); err != nil {
		t.Error(err)
	}
	for i, of := range []struct {
		what string
		series
	}{{"Java wrote", plain}, {"Java wrote in transactions", txn}, {"the classic group read", plain}, {"the KIP-848 group read", txn}} {
		results, err := clients[i].Results(ctx)
		must(t, err)
		of.judgeJava(t, of.what, results[0])
		if results[0].Values["overtaken"] != "" {
			t.Errorf("%s: a rebalance came", of.what)
		}
	}
	for _, s := range []series{plain, bold} {
		if n := stored(ctx, t, c, s.topic); n != s.records {
			t.Errorf("%s holds %d records, not %d", s.topic, n, s.records)
		}
	}
	for _, s := range []series{plain, txn, bold} {
		s.inOrder(ctx, t, c)
	}
	noneKilled(ctx, t, c, before)
	judgeRenewals(ctx, t, g, life)
}

// nobodyComesAgain looks at the number of accepted client legs for as long as the writer
// runs. All have warmed up when it has not changed for ten seconds; from then on it must
// not, for a token's life at least.
func nobodyComesAgain(ctx context.Context, g *harness.Gateway, writer *harness.JavaClient, life time.Duration) error {
	const warm = 10 * time.Second
	legs, since, settled := 0.0, time.Now(), false
	look := time.NewTicker(time.Second)
	defer look.Stop()
	for writer.Alive() {
		m, err := g.Metrics(ctx)
		if err != nil {
			return err
		}
		now := m.Sum("doorkeeper_client_legs_accepted_total")
		switch {
		case now != legs && settled && writer.Alive():
			return fmt.Errorf("%v client legs were accepted once all had warmed up", now-legs)
		case now != legs:
			legs, since = now, time.Now()
		case now > 0 && time.Since(since) > warm:
			settled = true
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return nil
		}
	}
	if constant := time.Since(since); !settled || constant < warm+life {
		return fmt.Errorf("no client came for %v only: that proves nothing on tokens of %v", constant, life)
	}
	return nil
}

// inOrder reads what is committed of a series from the brokers themselves, and checks
// that each partition holds each of its records once, in the order in which they were
// written.
func (s series) inOrder(ctx context.Context, t *testing.T, c *harness.Cluster) {
	t.Helper()
	var dials harness.Dials
	reader := franz(t, &dials, site.Direct("admin"), c.ControlAddresses()[0], kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeTopics(s.topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer reader.Close()
	last := map[int32]int{}
	for n := 0; n < s.records; {
		fetches := reader.PollFetches(ctx)
		must(t, fetches.Err())
		fetches.EachRecord(func(r *kgo.Record) {
			digits, ours := strings.CutPrefix(string(r.Key), s.prefix)
			i, err := strconv.Atoi(digits)
			if !ours || err != nil {
				t.Errorf("%s[%d]: record %q", s.topic, r.Partition, r.Key)
				return
			}
			before, known := last[r.Partition]
			if want := before + partitions; known && i != want || !known && i != int(r.Partition) {
				t.Errorf("%s[%d]: record %d at offset %d, behind %d", s.topic, r.Partition, i, r.Offset, before)
			}
			last[r.Partition] = i
			n++
		})
		if t.Failed() {
			return
		}
	}
}
