//go:build integration

package integration

// What connections do over and over so that renewals begin just then.

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/errgroup"

	"doorkeeper/integration/checker"
	"doorkeeper/integration/harness"
)

// flight is one kind of moment, and who makes it.
type flight struct {
	behind string // what a renewal begins behind
	kind   string // in names
	legs   int
	whole  bool // all its renewals begin so, also those with nothing unanswered
	fly    func(context.Context, *leg) error
}

func (f *flight) owner() string { return "at-" + f.kind }

func (w *moments) flights() []*flight {
	return []*flight{
		{behind: "a long Fetch", kind: "fetch", legs: 9, fly: w.longFetches},
		{behind: "parked produces", kind: "parked", legs: 9, fly: w.parkedProduces},
		{behind: "acks=0 produces", kind: "silent", legs: 9, fly: w.silentProduces},
		{behind: "a JoinGroup", kind: "join", legs: 9, fly: w.heldJoins},
		{behind: "an open transaction", kind: "txn", legs: 9, whole: true, fly: w.openTransactions},
		{behind: "a large answer", kind: "slow", legs: 6, fly: w.slowReads},
	}
}

// leg is one connection of a flight. Requests wait in it for their answers.
type leg struct {
	*harness.Raw
	*flight
	node, partition int32 // which that node leads
	name            string
	due             []awaited
}

type awaited struct {
	id      int32
	request kmsg.Request
	judge   func(kmsg.Response) error
}

// open opens all connections, and returns once each has had an answer.
func (w *moments) open(ctx context.Context, flights []*flight, scale int) ([]*leg, error) {
	var (
		mu   sync.Mutex
		legs []*leg
		all  errgroup.Group
	)
	all.SetLimit(16) // a broker's backlog is short
	for _, f := range flights {
		for k := range f.legs * scale {
			all.Go(func() error {
				l, err := w.leg(ctx, f, k)
				mu.Lock()
				defer mu.Unlock()
				legs = append(legs, l)
				return err
			})
		}
	}
	return legs, all.Wait()
}

// leg opens connection k of a flight.
func (w *moments) leg(ctx context.Context, f *flight, k int) (*leg, error) {
	l := &leg{flight: f, node: int32(1 + k%3), partition: int32(k % partitions), name: fmt.Sprintf("%s-%d-", f.kind, k)}
	raw, err := dialServed(ctx, w.g.NodeAddress(l.node), site.Client(f.owner()), l.name)
	if err != nil {
		return nil, err
	}
	w.t.Cleanup(func() { _ = raw.Close() })
	l.Raw = raw
	return l, nil
}

// dialServed opens a connection and waits for its first answer. A machine that is too slow
// for the first login gets a few tries, as from any client.
func dialServed(ctx context.Context, address string, as *harness.Certificate, clientID string) (*harness.Raw, error) {
	for n := 0; ; n++ {
		raw, err := harness.DialRaw(ctx, address, as.ClientTLS())
		if err != nil {
			return nil, err
		}
		raw.As(clientID)
		if _, err = raw.Request(metadataRequest(9)); err == nil {
			return raw, raw.SetDeadline(time.Time{}) // Request's was for writes too
		}
		_ = raw.Close()
		if n == 10 || !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("no answer at %s: %w", address, err)
		}
	}
}

// patient bounds every wait for an answer.
const patient = 90 * time.Second

// ask sends a request whose answer is judged when it comes.
func (l *leg) ask(r kmsg.Request, judge func(kmsg.Response) error) error {
	id, err := l.Send(r)
	if err != nil {
		return err
	}
	l.due = append(l.due, awaited{id, r, judge})
	return nil
}

// hear takes the next answer, which has to be the one that is due.
func (l *leg) hear() error {
	next := l.due[0]
	l.due = l.due[1:]
	if err := l.SetReadDeadline(time.Now().Add(patient)); err != nil {
		return err
	}
	id, rest, err := l.Receive()
	if err != nil {
		return fmt.Errorf("answer to request %d, key %d: %w", next.id, next.request.Key(), err)
	}
	if id != next.id {
		return fmt.Errorf("an answer to %d came where that to %d is due", id, next.id)
	}
	resp, err := harness.Parse(next.request, rest)
	if err != nil {
		return fmt.Errorf("answer to request %d, key %d: %w", id, next.request.Key(), err)
	}
	return next.judge(resp)
}

// land takes all answers that are due, and fences what has none.
func (l *leg) land() error {
	if err := l.fence(); err != nil {
		return err
	}
	for len(l.due) > 0 {
		if err := l.hear(); err != nil {
			return err
		}
	}
	return l.Close()
}

// fence asks for what is answered at once, and tells apart by its node.
func (l *leg) fence() error {
	return l.ask(metadataRequest(9), func(r kmsg.Response) error {
		if n := len(r.(*kmsg.MetadataResponse).Brokers); n != 3 {
			return fmt.Errorf("metadata of %d brokers", n)
		}
		return nil
	})
}

// unlessOver is err unless ctx has ended.
func unlessOver(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func (l *leg) pause(ctx context.Context, most time.Duration) { _ = pauseOrEnd(ctx, rand.N(most)) }

// longFetches always has a Fetch that waits, and often one behind it.
func (w *moments) longFetches(ctx context.Context, l *leg) error {
	next := func() error {
		p := l.partition
		wait := w.life/4 + rand.N(w.life)
		r := fetch(w.topic("empty"), p, 0, 1<<20, 1<<20, wait)
		return l.ask(r, func(resp kmsg.Response) error {
			f := resp.(*kmsg.FetchResponse)
			if len(f.Topics) != 1 || len(f.Topics[0].Partitions) != 1 {
				return fmt.Errorf("fetch: error %d, %d topics", f.ErrorCode, len(f.Topics))
			}
			got := f.Topics[0].Partitions[0]
			if f.Topics[0].Topic != w.topic("empty") || got.Partition != p || got.HighWatermark != 0 || got.ErrorCode != 0 {
				return fmt.Errorf("fetch of partition %d: %+v", p, got)
			}
			return nil
		})
	}
	if err := next(); err != nil {
		return err
	}
	for ctx.Err() == nil {
		l.pause(ctx, w.life/4)
		if err := next(); err != nil {
			return err
		}
		if err := l.hear(); err != nil {
			return err
		}
	}
	return nil
}

// wrote judges the answer to a produce of record i, and notes it.
func wrote(ledger *checker.Ledger, i int, partition int32) func(kmsg.Response) error {
	return func(resp kmsg.Response) error {
		p := resp.(*kmsg.ProduceResponse)
		if len(p.Topics) != 1 || len(p.Topics[0].Partitions) != 1 || p.Topics[0].Topic != ledger.Topic {
			return fmt.Errorf("produce of record %d: %+v", i, p)
		}
		got := p.Topics[0].Partitions[0]
		err := kerr.ErrorForCode(got.ErrorCode)
		if errors.Is(err, kerr.RequestTimedOut) { // stored, but not on all replicas in time
			err = nil
		}
		if err != nil || got.Partition != partition {
			ledger.Refused(i)
			return fmt.Errorf("produce of record %d to [%d], answered of [%d]: %w", i, partition, got.Partition, err)
		}
		ledger.Acked(i, got.Partition, got.BaseOffset)
		return nil
	}
}

// parkedProduces keeps five under way. Their timeouts are too long for the session, so
// that each waits in the gateway for the one in front, or so short that all may go.
func (w *moments) parkedProduces(ctx context.Context, l *leg) error {
	ledger := w.ledger("parked", l.name, checker.Acknowledged)
	for i := 0; ctx.Err() == nil; i++ {
		r := produceRequest(9, -1, [16]byte{}, ledger.Record(i, l.partition))
		if r.TimeoutMillis = 100; rand.N(2) == 0 {
			r.TimeoutMillis = 20_000
		}
		ledger.Sent(i, l.partition)
		if err := l.ask(r, wrote(ledger, i, l.partition)); err != nil {
			return err
		}
		for len(l.due) >= 5 {
			if err := l.hear(); err != nil {
				return err
			}
		}
		l.pause(ctx, 10*time.Millisecond)
	}
	return nil
}

// silentProduces sends nothing that has an answer.
func (w *moments) silentProduces(ctx context.Context, l *leg) error {
	ledger := w.ledger("silent", l.name, checker.Silent)
	for i := 0; ctx.Err() == nil; i++ {
		ledger.Sent(i, l.partition)
		if _, err := l.Send(produceRequest(9, 0, [16]byte{}, ledger.Record(i, l.partition))); err != nil {
			return err
		}
		l.pause(ctx, 60*time.Millisecond)
	}
	return nil
}

// heldJoins joins a group, each time as a new member, whom the one before holds up until
// the rebalance has waited long enough for it.
func (w *moments) heldJoins(ctx context.Context, l *leg) error {
	group, err := w.c.Admin.GroupOn(ctx, l.node, w.app+"-"+l.name)
	if err != nil {
		return unlessOver(ctx, err)
	}
	// The generation. A member that never syncs is thrown out by and by, which makes a
	// generation of its own. -1: the coordinator was not there, and may have begun anew.
	last := int32(0)
	for ctx.Err() == nil {
		err := l.ask(join(group, w.life/2+rand.N(w.life/2)), func(resp kmsg.Response) error {
			j := resp.(*kmsg.JoinGroupResponse)
			err := kerr.ErrorForCode(j.ErrorCode)
			switch {
			case kerr.IsRetriable(err):
				last = -1
				return nil
			case err != nil:
				return fmt.Errorf("join: %w", err)
			case j.Generation <= last:
				return fmt.Errorf("join: generation %d after %d", j.Generation, last)
			}
			last = j.Generation
			return nil
		})
		for range 3 {
			l.pause(ctx, w.life/4)
			if err == nil {
				err = l.fence()
			}
		}
		for err == nil && len(l.due) > 0 {
			err = l.hear()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// fill puts as much into a partition of each node as makes a large answer.
func (w *moments) fill(ctx context.Context) {
	var dials harness.Dials
	filler := franz(w.t, &dials, site.Direct("admin"), w.c.ControlAddresses()[0], kgo.ProducerBatchCompression(kgo.NoCompression()))
	defer filler.Close()
	value := make([]byte, 900_000)
	for i := range value {
		value[i] = byte(rand.Uint32())
	}
	for p := range int32(3) {
		for range w.large/len(value) + 2 {
			must(w.t, checker.Send(ctx, filler, &kgo.Record{Topic: w.topic("large"), Partition: p, Value: value}))
		}
	}
}

// slowReads reads the same large answer over a session's life and more, and sends
// something in the midst of it. Every time it must be the same bytes, but for the
// throttle time at its beginning.
func (w *moments) slowReads(ctx context.Context, l *leg) error {
	const pieces, throttle = 40, 16
	var sum uint32
	for n := 0; ctx.Err() == nil; n++ {
		r := fetch(w.topic("large"), l.partition%3, 0, int32(w.large), 1, 0)
		r.SessionEpoch = -1 // no fetch session, whose id would differ
		id, err := l.Send(r)
		if err != nil {
			return err
		}
		if err := l.SetReadDeadline(time.Now().Add(patient)); err != nil {
			return err
		}
		head := make([]byte, 8+throttle)
		if _, err := io.ReadFull(l, head); err != nil {
			return err
		}
		left := int(head[0])<<24 | int(head[1])<<16 | int(head[2])<<8 | int(head[3])
		if left -= len(head) - 4; left < w.large*9/10 {
			return fmt.Errorf("an answer of %d bytes is no large one", left)
		}
		if got := int32(head[4])<<24 | int32(head[5])<<16 | int32(head[6])<<8 | int32(head[7]); got != id {
			return fmt.Errorf("an answer to %d came where that to %d is due", got, id)
		}
		sums := crc32.NewIEEE()
		// Late enough that the session is to be renewed, and so early that what is left is more
		// than sockets' buffers hold: else the broker has answered already.
		meanwhile := pieces/2 + rand.N(pieces/8)
		piece := make([]byte, left/pieces+1)
		over := w.life * 5 / 4
		for i := 0; left > 0; i++ {
			got, err := io.ReadFull(l, piece[:min(left, len(piece))])
			if err != nil {
				return err
			}
			_, _ = sums.Write(piece[:got])
			if left -= got; i == meanwhile {
				if err := l.fence(); err != nil {
					return err
				}
			}
			if ctx.Err() == nil {
				_ = pauseOrEnd(ctx, over/pieces)
			}
		}
		for len(l.due) > 0 {
			if err := l.hear(); err != nil {
				return err
			}
		}
		if got := sums.Sum32(); n == 0 {
			sum = got
		} else if got != sum {
			return fmt.Errorf("answer %d has other bytes than the first", n)
		}
	}
	return nil
}
