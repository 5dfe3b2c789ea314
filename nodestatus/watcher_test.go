package nodestatus

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"doorkeeper/internal/frugal"
)

func TestReadsTheClusterAndKeepsReading(t *testing.T) {
	withBed(t, nil, func(b *bed) {
		table := b.watcher.Table()
		if table.ClusterID != "cluster-1" || table.Up() != 3 || len(table.Nodes()) != 3 {
			b.Fatalf("table %+v", table)
		}
		if n, _ := table.Node(2); n.Host != "b2.kafka.internal" || n.Port != 9094 || n.Rack != "r2" || n.State != Up {
			b.Errorf("node 2: %+v", n)
		}
		want := []string{"Metadata v13 topics=true", "DescribeCluster v2 fenced=true"}
		if !slices.Equal(b.cluster.requests(), want) {
			b.Errorf("requests %v", b.cluster.requests())
		}
		changed := b.watcher.Changed()
		b.sleep(10 * time.Minute)
		if n := b.cluster.readCount(); n < 18 || n > 24 {
			b.Errorf("%d readings in 10 minutes", n)
		}
		if len(b.cluster.dials()) != 1 {
			b.Errorf("dialled %v", b.cluster.dials())
		}
		select {
		case <-changed:
			b.Error("published without a change")
		default:
		}
	})
}

// A 3.9 broker has DescribeCluster v1 only: a broker that is missing stays in the
// table, down.
func TestOlderBrokerWithoutFencedOnes(t *testing.T) {
	withBed(t, func(c *fakeCluster, _ *Config) { c.describeMax = 1 }, func(b *bed) {
		if want := "DescribeCluster v1 fenced=false"; b.cluster.requests()[1] != want {
			b.Errorf("requests %v", b.cluster.requests())
		}
		b.cluster.set(func() { b.cluster.brokers[2].gone = true })
		b.sleep(time.Minute)
		b.expect(2, Down)
		b.cluster.set(func() { b.cluster.brokers[2].gone = false })
		for n, _ := b.watcher.Table().Node(2); n.State == Down; n, _ = b.watcher.Table().Node(2) {
			b.sleep(time.Second)
		}
		b.expect(2, Suspect) // first on probation
		b.sleep(time.Minute)
		b.expect(2, Up)
	})
	withBed(t, func(c *fakeCluster, _ *Config) { c.describeMax = -1 }, func(b *bed) {
		if b.watcher.Table().Up() != 3 || len(b.cluster.requests()) != 1 {
			b.Errorf("up %d, requests %v", b.watcher.Table().Up(), b.cluster.requests())
		}
	})
}

// B26 (part), F43 (part): brokers are added, fenced, moved and removed.
func TestBrokersComeMoveAndGo(t *testing.T) {
	withBed(t, nil, func(b *bed) {
		changed := b.watcher.Changed()
		b.cluster.set(func() {
			b.cluster.brokers[1001] = &fakeBroker{host: "b1001.kafka.internal", port: 9094}
			b.cluster.brokers[2].fenced = true
			b.cluster.brokers[3].port = 9095
		})
		b.sleep(time.Minute)
		select {
		case <-changed:
		default:
			b.Error("Changed is not closed")
		}
		b.expect(1001, Up)
		b.expect(2, Down)
		if n, _ := b.watcher.Table().Node(2); !n.Fenced {
			b.Error("node 2 is not fenced")
		}
		if n, _ := b.watcher.Table().Node(3); n.Port != 9095 || n.State != Up {
			b.Errorf("node 3: %+v", n)
		}
		b.cluster.set(func() { b.cluster.brokers[2].gone = true })
		b.sleep(time.Minute)
		if _, ok := b.watcher.Table().Node(2); ok {
			b.Error("a broker that is not registered any more is still known")
		}
	})
}

func TestReportsMoveStates(t *testing.T) {
	withBed(t, nil, func(b *bed) {
		for range 100 { // many sessions at once are one failure
			b.watcher.ReportFailure(2)
		}
		b.expect(2, Suspect)
		reads := b.cluster.readCount()
		b.sleep(3 * time.Second)
		if n := b.cluster.readCount() - reads; n != 1 {
			b.Errorf("%d early readings, want 1", n)
		}
		b.expect(2, Suspect) // listed as alive, but the failure is fresh
		b.watcher.ReportFailure(2)
		b.expect(2, Down)
		b.watcher.ReportSuccess(2)
		b.expect(2, Up)
		b.watcher.ReportFailure(2)
		b.sleep(3 * failureFresh) // nobody reports more
		b.expect(2, Up)
		b.watcher.ReportFailure(99) // not known
		b.watcher.ReportSuccess(99)
		reads = b.cluster.readCount()
		for range 100 { // ten seconds of failures
			b.watcher.ReportFailure(3)
			b.sleep(100 * time.Millisecond)
		}
		if n := b.cluster.readCount() - reads; n > 11 {
			b.Errorf("%d readings in 10 s", n)
		}
	})
}

// F2 (part): the broker of the status connection hangs; another one is asked.
func TestHungStatusConnectionMovesOn(t *testing.T) {
	withBed(t, func(c *fakeCluster, cfg *Config) {
		cfg.Bootstrap = append(cfg.Bootstrap, Address{"b2.kafka.internal", 9094}, Address{"b3.kafka.internal", 9094})
		c.brokers[1].hangs = true
	}, func(b *bed) {
		b.sleep(readBound + time.Second)
		if up := b.watcher.Table().Up(); up < 2 {
			b.Errorf("%d up", up)
		}
		b.cluster.set(func() { b.cluster.brokers[2].hangs, b.cluster.brokers[1].hangs = true, true })
		b.sleep(2*DefaultRefresh + 2*readBound)
		reads := b.cluster.readCount()
		b.sleep(time.Minute)
		if b.cluster.readCount() == reads {
			b.Error("no reading although broker 3 is well")
		}
	})
}

// F5, B24 (part): brokers down at the start and all at once; recovers by itself,
// soon after they are back, and does not spin meanwhile.
func TestOutageOfAllBrokers(t *testing.T) {
	refuse := func(c *fakeCluster, on bool) {
		for _, b := range c.brokers {
			b.refuses = on
		}
	}
	withBed(t, func(c *fakeCluster, _ *Config) { refuse(c, true) }, func(b *bed) {
		if b.watcher.Table().Up() != 0 {
			b.Error("up without an answer")
		}
		b.sleep(time.Minute)
		if n := len(b.cluster.dials()); n < 20 || n > 60 {
			b.Errorf("%d dials in a minute", n)
		}
		b.cluster.set(func() { refuse(b.cluster, false) })
		b.sleep(3 * time.Second)
		if b.watcher.Table().Up() != 3 {
			b.Error("not recovered")
		}

		b.cluster.set(func() { refuse(b.cluster, true) })
		b.sleep(time.Minute)
		table := b.watcher.Table()
		if table.Up() != 0 || len(table.Nodes()) != 3 {
			b.Errorf("%d up, %d known", table.Up(), len(table.Nodes()))
		}
		if _, ok := table.Bootstrap("", nil, nil); !ok {
			b.Error("nothing to try although all may be back")
		}
		b.cluster.set(func() { refuse(b.cluster, false) })
		b.sleep(3 * time.Second)
		if b.watcher.Table().Up() != 3 {
			b.Errorf("%d up after the outage", b.watcher.Table().Up())
		}
	})
}

// Bootstrap addresses that lead nowhere any more: known brokers are asked.
func TestKnownBrokersAreTriedToo(t *testing.T) {
	withBed(t, nil, func(b *bed) {
		b.cluster.set(func() { b.cluster.boot = nil; b.cluster.brokers[1].refuses = true })
		b.sleep(2 * time.Minute)
		reads := b.cluster.readCount()
		b.sleep(time.Minute)
		if b.cluster.readCount() == reads {
			b.Error("no reading although brokers 2 and 3 are well")
		}
		b.expect(2, Up)
	})
}

// S10 (part): lies in the answers.
func TestLiesInTheAnswers(t *testing.T) {
	broker := func(id int32) kmsg.MetadataResponseBroker {
		m := kmsg.NewMetadataResponseBroker()
		m.NodeID, m.Host, m.Port = id, "b9.kafka.internal", 9094
		return m
	}
	for name, change := range map[string]func(kmsg.Response){
		"no brokers": func(r kmsg.Response) { ifMetadata(r, func(m *kmsg.MetadataResponse) { m.Brokers = nil }) },
		"an error":   func(r kmsg.Response) { ifMetadata(r, func(m *kmsg.MetadataResponse) { m.ErrorCode = 129 }) },
		"negative id": func(r kmsg.Response) {
			ifMetadata(r, func(m *kmsg.MetadataResponse) { m.Brokers = append(m.Brokers, broker(-1)) })
		},
		"an id twice": func(r kmsg.Response) {
			ifMetadata(r, func(m *kmsg.MetadataResponse) { m.Brokers = append(m.Brokers, broker(1)) })
		},
		"another cluster": func(r kmsg.Response) {
			ifMetadata(r, func(m *kmsg.MetadataResponse) { m.ClusterID = kmsg.StringPtr("other") })
		},
		"too many brokers": func(r kmsg.Response) { ifMetadata(r, tooMany(broker)) },
		"twice described": func(r kmsg.Response) {
			if d, ok := r.(*kmsg.DescribeClusterResponse); ok && len(d.Brokers) > 0 {
				d.Brokers = append(d.Brokers, d.Brokers[0])
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			withBed(t, nil, func(b *bed) {
				before := b.watcher.Table()
				b.cluster.set(func() { b.cluster.change = change })
				b.sleep(time.Minute)
				after := b.watcher.Table()
				if after.ClusterID != before.ClusterID || len(after.Nodes()) != 3 {
					b.Errorf("taken over: %+v", after)
				}
				if b.counts.reads["failed"] == 0 {
					b.Error("not counted as failed")
				}
			})
		})
	}
}

func ifMetadata(r kmsg.Response, change func(*kmsg.MetadataResponse)) {
	if m, ok := r.(*kmsg.MetadataResponse); ok {
		change(m)
	}
}

func tooMany(broker func(int32) kmsg.MetadataResponseBroker) func(*kmsg.MetadataResponse) {
	return func(m *kmsg.MetadataResponse) {
		for id := range int32(nodesMost) {
			m.Brokers = append(m.Brokers, broker(1000+id))
		}
	}
}

func TestAddressThatIsNotAllowedIsMarkedAndNotTried(t *testing.T) {
	withBed(t, func(_ *fakeCluster, cfg *Config) { cfg.Allowed = []string{"b*.kafka.internal"} }, func(b *bed) {
		b.cluster.set(func() { b.cluster.brokers[2].host = "169.254.169.254"; b.cluster.brokers[1].refuses = true })
		b.sleep(2 * time.Minute)
		n, ok := b.watcher.Table().Node(2)
		if !ok || !strings.Contains(n.Refused, "kafka.addresses") || b.watcher.Table().Up() > 2 {
			b.Errorf("node 2: %+v", n)
		}
		for _, a := range b.cluster.dials() {
			if a.Host == "169.254.169.254" {
				b.Error("the address that is not allowed was dialled")
			}
		}
	})
}

func TestDescribeClusterThatIsRefusedIsNoFault(t *testing.T) {
	withBed(t, func(c *fakeCluster, _ *Config) {
		c.change = func(r kmsg.Response) {
			if d, ok := r.(*kmsg.DescribeClusterResponse); ok {
				d.ErrorCode, d.Brokers, d.ClusterID = 31, nil, ""
			}
		}
	}, func(b *bed) {
		if b.watcher.Table().Up() != 3 {
			b.Errorf("%d up", b.watcher.Table().Up())
		}
	})
}

func TestStopDuringADialThatHangs(t *testing.T) {
	withBed(t, func(_ *fakeCluster, cfg *Config) {
		cfg.Dial = func(ctx context.Context, _ Address) (Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
	}, func(b *bed) { b.sleep(time.Second) })
}

func TestNewReportsEveryProblem(t *testing.T) {
	_, err := New(Config{Bootstrap: []Address{{"a", 0}, {"[::1]", 1}}, Allowed: []string{"10.0.0.0/99", "a b"}})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"kafka.bootstrap[0]", "kafka.bootstrap[1]", "10.0.0.0/99", `"a b"`, "Dial"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not named in: %v", want, err)
		}
	}
	if _, err := New(Config{Dial: newFakeCluster().dial}); err == nil || !strings.Contains(err.Error(), "kafka.bootstrap") {
		t.Errorf("without bootstrap: %v", err)
	}
}

func TestErrorNamesPhaseAddressAndCure(t *testing.T) {
	cause := errors.New("cause")
	e := &Error{Phase: PhaseJudge, Address: Address{"::1", 9094}, Cure: "do this", Err: cause}
	if s := e.Error(); !strings.Contains(s, "[::1]:9094") || !strings.Contains(s, "check the list") || !strings.Contains(s, "cause; do this") || !errors.Is(e, cause) {
		t.Errorf("%s", s)
	}
}

// Whatever bytes a broker sends, kmsg decodes them or not; what it decodes is
// refused or makes a sound answer.
func FuzzAnswer(f *testing.F) {
	c := newFakeCluster()
	meta := c.answer(&kmsg.MetadataRequest{Version: 12})
	meta.SetVersion(12)
	desc := c.answer(&kmsg.DescribeClusterRequest{Version: 2, IncludeFencedBrokers: true})
	desc.SetVersion(2)
	f.Add(meta.AppendTo(nil), desc.AppendTo(nil))
	f.Fuzz(func(t *testing.T, m, d []byte) {
		meta, desc := kmsg.NewPtrMetadataResponse(), kmsg.NewPtrDescribeClusterResponse()
		meta.Version, desc.Version = 12, 2
		if meta.ReadFrom(m) != nil {
			return
		}
		frugal.Check(t, len(m), func() {
			if a, err := fromMetadata(meta); err == nil {
				_ = a.merge(desc, true)
			}
		})
		a, err := fromMetadata(meta)
		if err != nil {
			return
		}
		if desc.ReadFrom(d) == nil && a.merge(desc, true) != nil {
			return
		}
		if len(a.nodes) == 0 || len(a.nodes) > nodesMost {
			t.Fatalf("%d brokers", len(a.nodes))
		}
		for id := range a.alive {
			if n, ok := a.nodes[id]; !ok || n.Fenced || id < 0 || n.ID != id {
				t.Fatalf("alive %d: %+v, %v", id, n, ok)
			}
		}
	})
}
