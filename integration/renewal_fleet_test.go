//go:build integration

package integration

// The forty clients that write and read over many renewals, and how each is judged.

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/errgroup"

	"doorkeeper/integration/checker"
	"doorkeeper/integration/harness"
)

// stream is a topic, its writers, and how much each of them writes a second.
type stream struct {
	series
	rate    int
	ledgers []*checker.Ledger
	files   []string // of the ledgers of writers in other processes
}

// scale is how many clients there are: writers of each kind that is not counted twice, and
// members of each group in another process.
type scale struct{ writers, members int }

// fleet is all clients of a load.
type fleet struct {
	t    *testing.T
	c    *harness.Cluster
	g    *harness.Gateway
	load time.Duration
	scale
	app string
	dir string

	ctx     context.Context // ends with the first fault of a client in this process
	all     *errgroup.Group
	dials   harness.Dials
	clients int
	began   time.Time

	java, txn, rdk, kjs, bold, silent *stream
	writers, readers                  *harness.JavaClient
	reads                             []read // of readers' steps
	foreign                           []foreignClient
	epochs                            epochs
}

// read is what a group is to read.
type read struct {
	what string
	of   series
}

// foreignClient is a process of another language, and what it reads; nil for a writer.
type foreignClient struct {
	*harness.ForeignClient
	what string
	read *series
}

// newFleet makes topics and rights, and starts nobody.
func newFleet(ctx context.Context, t *testing.T, c *harness.Cluster, load time.Duration, scale scale) *fleet {
	t.Helper()
	w := &fleet{t: t, c: c, load: load, scale: scale, app: name(t, "app"), dir: t.TempDir()}
	w.all, w.ctx = errgroup.WithContext(ctx)
	for _, owner := range owners() {
		must(t, c.Admin.Grant(ctx, harness.AppGrants(owner, w.app)...))
	}
	for _, client := range []harness.Client{harness.Librdkafka, harness.KafkaJS} {
		must(t, site.MakeReady(ctx, client)) // the first time, that takes long
	}
	n := scale.writers
	w.java = w.stream("java", 2*n, 20, checker.Acknowledged)
	w.txn = w.stream("txn", 2*n, 20, checker.Acknowledged)
	w.rdk = w.stream("rdk", n, 20, checker.Acknowledged)
	w.kjs = w.stream("kjs", n, 20, checker.Acknowledged)
	w.bold = w.stream("bold", 2*n, 60, checker.Acknowledged)
	w.silent = w.stream("silent", max(1, n-1), 40, checker.Silent)
	return w
}

func (w *fleet) stream(topic string, writers, rate int, promise checker.Promise) *stream {
	each := int(w.load.Seconds()) * rate
	s := &stream{series: series{w.app + "-" + topic, topic, writers * each}.make(w.ctx, w.t, w.c), rate: rate}
	for k := range writers {
		s.ledgers = append(s.ledgers, &checker.Ledger{
			Topic: s.topic, Prefix: s.prefix, First: k * each, Most: each, Size: recordSize, Promise: promise,
		})
		s.files = append(s.files, filepath.Join(w.dir, fmt.Sprintf("%s-%d", topic, k)))
	}
	return s
}

// writing is the step of a stream's writer k in another process.
func (w *fleet) writing(s *stream, k int, more ...string) harness.Step {
	l := s.ledgers[k]
	return s.step("produce", w.g.Bootstrap, append([]string{
		"first", fmt.Sprint(l.First), "records", fmt.Sprint(l.Most), "rate", fmt.Sprint(s.rate), "ledger", s.files[k],
	}, more...)...)
}

// reading is the step of a group's members in another process.
func (w *fleet) reading(mode string, of series, group string, members int, more ...string) harness.Step {
	w.clients += members
	step := of.step(mode, w.g.Bootstrap, append([]string{
		"group", group, "members", fmt.Sprint(members), "deadline.s", fmt.Sprint(int(w.load.Seconds()) + 180),
	}, more...)...)
	return step
}

// owners are those whom the clients are: several are one.
func owners() []string { return []string{"ruth-writes", "ruth-reads", "rolf", "fred"} }

// start starts all clients, once each owner has been served on each node.
func (w *fleet) start(g *harness.Gateway) {
	w.g = g
	var warm errgroup.Group
	for _, owner := range owners() {
		for _, n := range w.c.Nodes {
			warm.Go(func() error {
				raw, err := dialServed(w.ctx, w.g.NodeAddress(n.ID), site.Client(owner), "warm")
				if err != nil {
					return err
				}
				return raw.Close()
			})
		}
	}
	must(w.t, warm.Wait())
	w.began = time.Now()
	w.startJava()
	w.startForeign()
	w.startFranz()
}

func (w *fleet) startJava() {
	// Clients that close idle connections come again by themselves.
	stay := []string{"p.connections.max.idle.ms", "-1"}
	settle := append([]string{"settled.s", fmt.Sprint(int(settling.Seconds()))}, stay...)
	var steps []harness.JavaStep
	add := func(what string, of *stream, step harness.JavaStep) {
		w.reads = append(w.reads, read{what, of.series})
		steps = append(steps, step)
	}
	add("the classic group", w.java, w.reading("consume", w.java.series, w.app+"-classic", w.members+1, append(settle, "protocol", "classic")...))
	next := w.app + "-next"
	add("the KIP-848 group", w.txn, w.reading("consume", w.txn.series, next, w.members, append(settle, "protocol", "consumer")...))
	w.epochs.consumer = next
	if w.sharing() {
		w.epochs.share = w.app + "-share"
		must(w.t, w.c.Admin.SetGroupConfig(w.ctx, w.epochs.share, "share.auto.offset.reset", "earliest"))
		add("the share group", w.java, w.reading("share", w.java.series, w.epochs.share, w.members, stay...))
	}
	var err error
	w.readers, err = site.StartJava(harness.JavaRun{Certificate: site.Client("ruth-reads"), Together: true, Steps: steps})
	must(w.t, err)

	stay = append(stay, "p.buffer.memory", fmt.Sprint(8<<20)) // many in one JVM
	steps = nil
	for k := range w.java.ledgers {
		steps = append(steps, w.writing(w.java, k, stay...))
	}
	for k := range w.txn.ledgers {
		steps = append(steps, w.writing(w.txn, k, append(stay, "txn", fmt.Sprintf("%s-id-%d", w.app, k), "per.txn", "90", "abort.every", "4")...))
	}
	w.clients += len(steps)
	w.writers, err = site.StartJava(harness.JavaRun{Certificate: site.Client("ruth-writes"), Together: true, Steps: steps})
	must(w.t, err)
}

// sharing tells whether these brokers have share groups by default: Kafka 4.2 and later.
func (w *fleet) sharing() bool {
	directly := rawLeg(w.ctx, w.t, w.c.Node(1).ControlListener(), site.Direct("admin"), "versions")
	_, has := served(w.t, directly)[int16(kmsg.ShareFetch)]
	if !has {
		w.t.Logf("Kafka %s has no share groups", w.c.Version())
	}
	return has
}

// startForeign starts the clients of other languages.
func (w *fleet) startForeign() {
	rolf := site.Client("rolf")
	for _, of := range []struct {
		client harness.Client
		*stream
	}{{harness.Librdkafka, w.rdk}, {harness.KafkaJS, w.kjs}} {
		for k := range of.ledgers {
			w.clients++
			w.startOne(of.client, rolf, fmt.Sprintf("%s, writer %d", of.client, k), nil, w.writing(of.stream, k))
		}
		step := w.reading("consume", of.series, w.app+"-"+string(of.client), 2, "settled.s", fmt.Sprint(int(settling.Seconds())))
		w.startOne(of.client, rolf, string(of.client)+", group", &of.series, step)
	}
}

func (w *fleet) startOne(client harness.Client, as *harness.Certificate, what string, of *series, step harness.Step) {
	ran, err := site.StartForeign(w.ctx, harness.ForeignRun{Client: client, Certificate: as, Steps: []harness.Step{step}})
	must(w.t, err)
	w.foreign = append(w.foreign, foreignClient{ran, what, of})
}

func (w *fleet) startFranz() {
	client := func(opts ...kgo.Opt) *kgo.Client {
		w.clients++
		return franz(w.t, &w.dials, site.Client("fred"), w.g.Bootstrap, append(opts,
			// No connection is idle for so long that the client, or the gateway, closes it.
			kgo.ConnIdleTimeout(15*time.Minute), kgo.MetadataMaxAge(10*time.Second))...)
	}
	write := func(s *stream, k int, acks kgo.Acks) {
		// It may try again, so that a slow login costs it nothing: what was sent already is
		// sent again only if a connection ends, and that is seen.
		writer := client(kgo.DisableIdempotentWrite(), kgo.MaxProduceRequestsInflightPerBroker(5), kgo.ProducerLinger(0), kgo.RequiredAcks(acks))
		w.all.Go(func() error { return s.ledgers[k].Write(w.ctx, writer, s.ledgers[k].Most, partitions, s.rate) })
	}
	for k := range w.bold.ledgers {
		// With acks=all each may wait for its timeout, and on these tokens hardly one could
		// be written behind another: one writer alone does.
		acks := kgo.LeaderAck()
		if k == 0 {
			acks = kgo.AllISRAcks()
		}
		write(w.bold, k, acks)
	}
	for k := range w.silent.ledgers {
		write(w.silent, k, kgo.NoAck())
	}
	from := func(s *stream, opts ...kgo.Opt) *kgo.Client {
		return client(append(opts, kgo.ConsumeTopics(s.topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))...)
	}
	groupOf := func(s *stream, opts ...kgo.Opt) {
		members := []*kgo.Client{from(s, opts...), from(s, opts...)}
		w.all.Go(func() error { return w.readTogether(s, members...) })
	}
	groupOf(w.bold, kgo.ConsumerGroup(w.app+"-franz"))
	groupOf(w.rdk, kgo.ConsumerGroup(w.app+"-franz-next"), kgo.ServerSideBalancer())
	alone := from(w.silent)
	w.all.Go(func() error { return w.readTogether(w.silent, alone) })
}

// end waits for the clients in other processes, and judges what each saw.
func (w *fleet) end() {
	w.t.Helper()
	ctx := within(w.t, 3*time.Minute)
	results, err := w.writers.Results(ctx)
	must(w.t, err)
	for i, r := range results {
		if len(r.Errors) > 0 || len(r.Fatal) > 0 {
			w.t.Errorf("Java, writer %d: %v %v", i, r.Errors, r.Messages)
		}
	}
	results, err = w.readers.Results(ctx)
	must(w.t, err)
	for i, of := range w.reads {
		w.judgeReader(of.what, of.of, results[i])
	}
	for _, f := range w.foreign {
		results, err := f.Results(ctx)
		must(w.t, err)
		if f.read != nil {
			w.judgeReader(f.what, *f.read, results[0])
		} else if r := results[0]; len(r.Errors) > 0 || len(r.Fatal) > 0 {
			w.t.Errorf("%s: %v %v", f.what, r.Errors, r.Messages)
		}
	}
}

func (w *fleet) judgeReader(what string, of series, r harness.StepResult) {
	w.t.Helper()
	of.judgeJava(w.t, what+" read", r)
	for _, noted := range []string{"overtaken", "moved"} {
		if n := r.Values[noted]; n != "" {
			w.t.Errorf("%s: a rebalance came, %q %s times", what, noted, n)
		}
	}
}

// judge has the checker look at everything that was written.
func (w *fleet) judge() {
	w.t.Helper()
	var ledgers []*checker.Ledger
	for _, s := range []*stream{w.java, w.txn, w.rdk, w.kjs, w.bold, w.silent} {
		ledgers = append(ledgers, s.ledgers...)
	}
	for _, s := range []*stream{w.java, w.txn, w.rdk, w.kjs} {
		for k, l := range s.ledgers {
			f, err := os.Open(s.files[k])
			must(w.t, err)
			must(w.t, errors.Join(l.Import(f), f.Close()))
		}
	}
	for _, s := range []*stream{w.java, w.txn, w.rdk, w.kjs, w.bold, w.silent} {
		for _, l := range s.ledgers {
			if out, _ := l.Count(); out != l.Most {
				w.t.Errorf("%s sent %d records, not %d", l, out, l.Most)
			}
		}
	}
	judged(within(w.t, 5*time.Minute), w.t, w.c, ledgers...)
	must(w.t, w.dials.Only(w.g.Addresses(w.c)...))
	outputs := map[string]string{"a Java writer": w.writers.Output(), "a Java reader": w.readers.Output()}
	for _, f := range w.foreign {
		outputs[f.what] = f.Output()
	}
	for what, output := range outputs {
		if told := checker.Disorder(output); len(told) > 0 {
			w.t.Errorf("%s was told of a broken sequence, %d times:\n%s", what, len(told), strings.Join(told[:min(5, len(told))], "\n"))
		}
	}
	w.t.Logf("%d clients", w.clients)
}
