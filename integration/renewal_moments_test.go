//go:build integration

package integration

// This file proves that a renewal may begin at any moment: behind a Fetch that waits,
// while produces are parked in the gateway, behind acks=0 produces that nothing fences,
// behind a JoinGroup that others hold up, in an open transaction, and while a slow reader
// takes a large answer. Raw connections do nothing else, on brokers that end sessions
// every few seconds; each answer must be the one that is due, no connection may end, and
// the checker finds nothing.
//
// DOORKEEPER_RENEWALS says how many renewals there are to be in all, a tenth of them of
// each kind of moment at least; DOORKEEPER_RENEWAL_KIND with which connections.renewal:
// `make renewals`.

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"doorkeeper/integration/checker"
	"doorkeeper/integration/harness"
)

func TestRenewalsAtAnyMoment(t *testing.T) {
	// F41; the invariants 1, 2, 3, 6 and 7 of renewals, from outside
	const life = renewingLife
	wanted, large, scale := 160, 32<<20, 1
	if s := os.Getenv("DOORKEEPER_RENEWALS"); s != "" {
		var err error
		wanted, err = strconv.Atoi(s)
		must(t, err)
		large, scale = 50<<20, 4
	}
	c := renewingCluster(t).Cluster
	ctx := within(t, 14*time.Minute)
	w := &moments{t: t, c: c, app: name(t, "app"), large: large, life: life}
	w.makeTopics(ctx)
	w.g = gateway(t, c, harness.GatewayConfig{Plain: scale > 1, Change: func(d harness.Document) {
		d.Set("log.level", "debug")
		renewalKind(d, "auto")
	}})
	before := killedNow(ctx, t, c)

	flights := w.flights()
	for _, f := range flights {
		must(t, c.Admin.Grant(ctx, harness.AppGrants(f.owner(), w.app)...))
	}
	w.fill(ctx)
	legs, err := w.open(ctx, flights, scale)
	must(t, err)
	accepted := metricsNow(ctx, t, w.g).Sum("doorkeeper_client_legs_accepted_total")
	flying, stop := context.WithCancel(ctx)
	defer stop()
	var all errgroup.Group
	for _, l := range legs {
		all.Go(func() error {
			defer stop() // one that fails ends all
			if err := l.fly(flying, l); err != nil {
				return fmt.Errorf("%s, leg %s: %w", l.behind, l.name, err)
			}
			return l.land()
		})
	}
	began := time.Now()
	counted, err := w.await(flying, wanted, flights)
	took := time.Since(began)
	if err != nil && flying.Err() == nil {
		t.Error(err)
	}
	stop()
	if err := all.Wait(); err != nil {
		t.Error(err)
	}

	total := 0
	for _, f := range flights {
		n := counted[f.owner()]
		total += n.all
		t.Logf("%s: %d renewals, %d of them so; unanswered when they began: %s", f.behind, n.all, n.so, n.histogram())
		if n.so < wanted/10 {
			t.Errorf("%s: %d renewals began so, %d are wanted", f.behind, n.so, wanted/10)
		}
	}
	t.Logf("%d renewals of %d connections in %v", total, len(legs), took.Round(time.Second))
	if total < wanted {
		t.Errorf("%d renewals, %d are wanted", total, wanted)
	}
	m := metricsNow(ctx, t, w.g)
	if n := m.Sum("doorkeeper_client_legs_accepted_total") - accepted; n != 0 {
		t.Errorf("%v more client legs were accepted", n)
	}
	noneKilled(ctx, t, c, before)
	judged(ctx, t, c, w.ledgers...)
	if n := m.Sum("doorkeeper_forced_closes_total"); n != 0 {
		t.Errorf("%v legs were closed since they could not be renewed", n)
	}
	noFaults(ctx, t, w.g)
}

// begun counts renewals of one kind of moment.
type begun struct {
	all, so    int
	unanswered map[int]int
}

// histogram is how many renewals began with how many requests unanswered.
func (b *begun) histogram() string {
	out := ""
	for _, n := range slices.Sorted(maps.Keys(b.unanswered)) {
		out += fmt.Sprintf(" %d:%d", n, b.unanswered[n])
	}
	return strings.TrimSpace(out)
}

// await reads the gateway's lines as they come, until there are enough renewals of every
// kind; ctx ends it with those that there are.
func (w *moments) await(ctx context.Context, wanted int, flights []*flight) (map[string]*begun, error) {
	counted := map[string]*begun{}
	for _, f := range flights {
		counted[f.owner()] = &begun{unanswered: map[int]int{}}
	}
	log, err := os.Open(w.g.Log)
	if err != nil {
		return counted, err
	}
	defer func() { _ = log.Close() }()
	var rest []byte
	for {
		more, err := io.ReadAll(log)
		if err != nil {
			return counted, err
		}
		rest = append(rest, more...)
		for {
			line, after, whole := bytes.Cut(rest, []byte("\n"))
			if !whole {
				break
			}
			rest = after
			var l struct {
				Msg, Owner, Result string
				Unanswered         int
			}
			if !bytes.Contains(line, []byte("session renewed")) || json.Unmarshal(line, &l) != nil || l.Result != "ok" {
				continue
			}
			if n := counted[l.Owner]; n != nil {
				n.all++
				n.unanswered[l.Unanswered]++
			}
		}
		total, enough := 0, true
		for _, f := range flights {
			n := counted[f.owner()]
			if n.so = n.all; !f.whole {
				n.so -= n.unanswered[0]
			}
			total += n.all
			enough = enough && n.so >= wanted/10
		}
		if enough && total >= wanted {
			return counted, nil
		}
		if err := pauseOrEnd(ctx, 200*time.Millisecond); err != nil {
			return counted, errors.New("not enough renewals came in time")
		}
	}
}

// moments is what all flights have in common.
type moments struct {
	t     *testing.T
	c     *harness.Cluster
	g     *harness.Gateway
	app   string
	large int // bytes of a large answer
	life  time.Duration

	mu      sync.Mutex
	ledgers []*checker.Ledger
}

func (w *moments) topic(what string) string { return w.app + "-" + what }

// ledger is that of one more writer.
func (w *moments) ledger(topic, prefix string, promise checker.Promise) *checker.Ledger {
	l := &checker.Ledger{Topic: w.topic(topic), Prefix: prefix, Size: recordSize, Promise: promise}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ledgers = append(w.ledgers, l)
	return l
}

func (w *moments) makeTopics(ctx context.Context) {
	for _, what := range []string{"empty", "large", "parked", "silent", "txn"} {
		must(w.t, w.c.Admin.SpreadTopic(ctx, w.topic(what), partitions))
	}
}
