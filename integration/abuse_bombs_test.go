//go:build integration

package integration

// This file proves that what a hostile client with a good certificate does ends its
// own session and nothing else: sixteen abuses, each beside a session that goes on,
// each with its one line in the log; and that a session which was begun to be abused
// costs hardly more memory than an idle one.

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"

	"doorkeeper/integration/harness"
)

// abuse is what one session does. It returns when it has done so; the gateway has
// to end that session, or the abuser does (leave).
type abuse struct {
	name    string
	first   bool // as the first request, without a broker leg
	commit  func(t *testing.T, conn net.Conn)
	leave   bool
	reasons []string // of the end, one of them
}

// head is a request header up to the client id, which is null.
func head(key, version int16) []byte {
	b := binary.BigEndian.AppendUint16(nil, uint16(key))
	b = binary.BigEndian.AppendUint16(b, uint16(version))
	return append(b, 0, 0, 0, 9, 0xff, 0xff)
}

// framed puts a length in front, that of all or a greater one.
func framed(claimed int, b []byte) []byte { return append(length(uint32(max(claimed, len(b)))), b...) }

const (
	keyMetadata, keyCreateTopics, keyLeaderAndIsr = 3, 19, 4
	hundredMiB                                    = 100 << 20
)

func abuses(topic string) []abuse {
	write := func(b []byte) func(*testing.T, net.Conn) {
		return func(t *testing.T, conn net.Conn) {
			if _, err := conn.Write(b); err != nil {
				t.Error(err)
			}
		}
	}
	// until writes for so long as the gateway takes it.
	until := func(b []byte, times int) func(*testing.T, net.Conn) {
		return func(_ *testing.T, conn net.Conn) {
			for range times {
				_ = conn.SetWriteDeadline(time.Now().Add(2 * time.Second))
				if _, err := conn.Write(b); err != nil {
					return
				}
			}
		}
	}
	// drip goes on for 20 s, several times as long as any bound.
	drip := func(b []byte) func(*testing.T, net.Conn) {
		return func(t *testing.T, conn net.Conn) {
			must(t, conn.SetDeadline(time.Time{}))
			for _, one := range b[:100] {
				if _, err := conn.Write([]byte{one}); err != nil {
					return
				}
				time.Sleep(200 * time.Millisecond)
			}
			t.Error("the gateway takes it byte by byte for ever")
		}
	}
	tags := func(count uint32, rest ...byte) []byte {
		return append(kbin.AppendUvarint(head(keyMetadata, 9), count), rest...)
	}
	liar := fetch(topic, 0, 0, 1<<20, 1, time.Second)
	liar.Version = 15
	body := liar.AppendTo(nil)
	const beforeTopics = 4 + 4 + 4 + 1 + 4 + 4
	lie := append(append(append(head(1, 15), 0), body[:beforeTopics]...), 0xff, 0xff, 0xff, 0xff, 0x07)
	bad := []string{"bad_request"}
	stalled := []string{"client_stalled"}
	return []abuse{
		{"length 2 GiB - 1", false, write(framed(0x7fffffff, head(keyMetadata, 9))), false, bad},
		{"negative length", false, write(length(0xfffffff0)), false, bad},
		{"length 0", false, write(length(0)), false, bad},
		{"100 MiB announced and not sent", false, write(framed(hundredMiB, head(keyMetadata, 9))), false, stalled},
		{"first request byte by byte", true, drip(framed(hundredMiB, append(head(0, 3), make([]byte, 200)...))), false, []string{"admission_timeout"}},
		{"later request byte by byte", false, drip(framed(1<<20, append(head(0, 3), make([]byte, 200)...))), false, stalled},
		{"four billion tags", false, write(framed(1<<20, tags(0xffffffff, bytes.Repeat([]byte{0, 0}, 40<<10)...))), false, bad},
		{"a tag of 2 GiB", false, write(framed(0, tags(1, 0, 0xff, 0xff, 0xff, 0xff, 0x07))), false, bad},
		{"a fetch of two billion topics", false, write(framed(0, lie)), false, bad},
		{"thousands of long polls", false, until(frame(fetch(topic, 3, 0, 1<<20, 1<<20, time.Second), 9), 5000), true, []string{"client_closed", "client_lost"}},
		{"flood of acks=0 that fail", false, until(frame(produce("not-mine", 0, 0, batch(nil, []byte("x"))), 9), 20_000), false, []string{"broker_lost"}},
		{"answers that are not read", false, until(frame(fetch(topic, 0, 0, 1<<20, 1, time.Second), 9), 100), false, stalled},
		{"an unknown API", false, write(framed(0, head(999, 0))), false, []string{"refused_api"}},
		{"an API of the brokers", false, write(framed(0, head(keyLeaderAndIsr, 0))), false, []string{"refused_api"}},
		{"a version from the future", false, write(framed(0, head(keyMetadata, 99))), false, []string{"refused_api"}},
		{"an admin request of 8 MiB that stays out", false, write(framed(8<<20, append(head(keyCreateTopics, 2), make([]byte, 70<<10)...))), false, stalled},
	}
}

// S13.
func TestAbuseEndsOnlyItsOwnSession(t *testing.T) {
	c := cluster(t)
	topic := topicFor(t, c, "bomber")
	g := gateway(t, c, harness.GatewayConfig{Change: func(d harness.Document) {
		d.Set("limits.admission", "5s")
		d.Set("timeouts.stall", "3s")
		d.Set("timeouts.drain", "3s")
	}})
	leader := g.NodeAddress(1) // of partition 0
	r := rawReady(t, g, leader, "bomber")
	fill := produce(topic, 0, -1, batch(nil, make([]byte, 900_000)))
	_, err := r.Request(fill)
	must(t, err)
	_ = r.Close()

	stop := witness(t, g, "bystander")
	defer stop()
	for _, a := range abuses(topic) {
		t.Run(a.name, func(t *testing.T) {
			var conn *harness.Raw
			if a.first {
				conn = rawClient(t, g, leader, "bomber")
			} else {
				conn = rawReady(t, g, leader, "bomber")
			}
			must(t, conn.SetDeadline(time.Now().Add(patience)))
			a.commit(t, conn)
			switch {
			case a.leave:
				_ = conn.Close()
			case slices.Equal(a.reasons, []string{"client_stalled"}): // reading would make good again
			default:
				_ = ended(conn, patience) // by a reset too, where our bytes were not all read
			}
			endReason(t, g, conn.LocalAddr(), a.reasons)
		})
	}
	if panics := metricsOf(t, g).Sum("doorkeeper_panics_total"); panics != 0 {
		t.Errorf("%v panics", panics)
	}
}

// endReason waits for the one line about the end of that client's session.
func endReason(t *testing.T, g *harness.Gateway, client net.Addr, reasons []string) {
	t.Helper()
	var lines []map[string]any
	for end := time.Now().Add(patience); time.Now().Before(end) && len(lines) == 0; time.Sleep(50 * time.Millisecond) {
		lines = logged(g, client)
	}
	if len(lines) != 1 || lines[0]["msg"] != "session ended" || !slices.Contains(reasons, fmt.Sprint(lines[0]["reason"])) {
		t.Errorf("the log says %v, wanted is one end of the reasons %v", lines, reasons)
	}
}

// S13: what one client has announced and does not send must not use up what others
// need: requests that have to be held whole have a common budget.
func TestAnnouncedRequestsTakeNothingFromOthers(t *testing.T) {
	g := gateway(t, cluster(t), harness.GatewayConfig{})
	stop := witness(t, g, "bystander")
	defer stop()
	for range 12 {
		r := rawReady(t, g, g.Bootstrap, "bomber")
		_, err := r.Write(framed(8<<20, append(head(keyCreateTopics, 2), make([]byte, 70<<10)...)))
		must(t, err)
	}
	time.Sleep(time.Second) // until all of it is read
	large := kmsg.NewPtrListPartitionReassignmentsRequest()
	large.TimeoutMillis = 5000
	topic := kmsg.NewListPartitionReassignmentsRequestTopic()
	topic.Topic, topic.Partitions = "t", make([]int32, 40_000) // 160 KB
	large.Topics = append(large.Topics, topic)
	if _, err := rawReady(t, g, g.Bootstrap, "bystander").Request(large); err != nil {
		t.Errorf("a large request of somebody else: %v", err)
	}
}

// S13: an idle bomb costs at most 16 KiB more than an idle session; answers that
// nobody reads, which are under way and not idle, cost what a slow reader may (F31).
func TestIdleBombsCostNoMemory(t *testing.T) {
	const bombs = 100
	c := cluster(t)
	topic := topicFor(t, c, "bomber")
	// Garbage is not what is asked for, so little of it may pile up.
	g := gateway(t, c, harness.GatewayConfig{Plain: true, Env: []string{"GOGC=20"}, Change: func(d harness.Document) {
		d.Set("timeouts.drain", "1s")
	}})
	r := rawReady(t, g, g.NodeAddress(1), "bomber")
	_, err := r.Request(produce(topic, 0, -1, batch(nil, make([]byte, 900_000))))
	must(t, err)
	must(t, r.Close())
	for _, tc := range []struct {
		name string
		bomb []byte
		most int
	}{
		{"100 MiB announced", framed(hundredMiB, head(keyMetadata, 9)), 16 << 10},
		// What streams reaches the broker, which allocates all that is announced.
		{"produce of 256 KiB begun", framed(256<<10, append(head(0, 3), 0xff, 0xff, 0xff, 0xff, 0, 0, 0x75, 0x30, 0, 0, 0, 1)), 16 << 10},
		{"admin request of 8 MiB", framed(8<<20, head(keyCreateTopics, 2)), 16 << 10},
		{"four billion tags", framed(hundredMiB, append(head(keyMetadata, 9), 0xff, 0xff, 0xff, 0xff, 0x0f)), 16 << 10},
		{"a length that stays short", []byte{0, 0}, 16 << 10},
		{"ten long polls ahead", bytes.Repeat(frame(fetch(topic, 3, 0, 1<<20, 1<<20, time.Minute), 9), 10), 16 << 10},
		{"answers that are not read", bytes.Repeat(frame(fetch(topic, 0, 0, 1<<20, 1, time.Second), 9), 20), 256 << 10},
	} {
		t.Run(tc.name, func(t *testing.T) {
			sessions := make([]*harness.Raw, bombs)
			inTurn(bombs, func(i int) { sessions[i] = persistent(t, g, g.NodeAddress(1), "bomber") })
			if t.Failed() {
				t.FailNow()
			}
			idle := settled(t, g)
			inTurn(bombs, func(i int) {
				if _, err := sessions[i].Write(tc.bomb); err != nil {
					t.Error(err)
				}
			})
			each := (settled(t, g) - idle) / bombs
			t.Logf("%d bombs cost %d bytes of memory each, over idle sessions with %s in all", bombs, each, kib(idle))
			if each > tc.most {
				t.Errorf("a bomb costs %d bytes over an idle session", each)
			}
			inTurn(bombs, func(i int) { _ = sessions[i].Close() })
			eventually(t, func() error { return noSessions(g) })
		})
	}
}

// persistent is rawReady for many at a time, which may be more logins than a broker
// on a busy machine gets done in time: it tries again, as any client does.
func persistent(t *testing.T, g *harness.Gateway, address, user string) *harness.Raw {
	var last error
	for range 5 {
		r, err := harness.DialRaw(within(t, patience), address, g.TLS(site.Client(user)))
		if err == nil {
			if _, err = r.Request(metadata()); err == nil {
				return r
			}
			_ = r.Close()
		}
		last = err
	}
	t.Error(last)
	return nil
}

// inTurn calls f for 0 to n-1, some at a time.
func inTurn(n int, f func(i int)) {
	var wg sync.WaitGroup
	turns := make(chan struct{}, 4)
	for i := range n {
		turns <- struct{}{}
		wg.Go(func() {
			defer func() { <-turns }()
			f(i)
		})
	}
	wg.Wait()
}

// settled is the gateway's memory once it does not move any more.
func settled(t *testing.T, g *harness.Gateway) int {
	t.Helper()
	now := 0
	for range 20 {
		before := now
		time.Sleep(500 * time.Millisecond)
		if now = rss(t, g); before-now < 64<<10 && now-before < 64<<10 {
			break
		}
	}
	return now
}
