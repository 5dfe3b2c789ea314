//go:build integration

package integration

// This file proves on real brokers that a session is renewed whatever is unanswered on
// its connection when it ends: a Fetch that waits across the session end, a Fetch answer
// of megabytes to a slow reader, acks=0 produces that nothing fences, and a JoinGroup
// that other members hold up. What comes behind waits in the gateway, is answered in its
// turn, and no connection ends.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/errgroup"

	"doorkeeper/integration/checker"
	"doorkeeper/integration/harness"
)

// F41
func TestRenewalsBehindWhatIsInFlight(t *testing.T) {
	const (
		life = 10 * time.Second
		long = 25 * time.Second // over the session end, and over the next
	)
	c := cluster(t)
	ctx := within(t, 3*time.Minute)
	app := name(t, "app")
	must(t, c.Admin.Grant(ctx, harness.AppGrants("fay", app)...))
	of := series{app, "n", 40}.make(ctx, t, c) // partition 0 is node 1's
	large := app + "-large"
	must(t, c.Admin.SpreadTopic(ctx, large, 1))
	group, err := c.Admin.GroupOn(ctx, 1, app)
	must(t, err)
	g := gateway(t, c, harness.GatewayConfig{Change: func(d harness.Document) {
		d.Set("tokens.lifetime", life.String())
		d.Set("log.level", "debug")
	}})
	before := killedNow(ctx, t, c)
	fay := site.Client("fay")
	var dials harness.Dials
	filler := franz(t, &dials, fay, g.Bootstrap, kgo.ProducerBatchCompression(kgo.NoCompression()))
	for range 16 {
		must(t, checker.Send(ctx, filler, &kgo.Record{Topic: large, Value: make([]byte, 900_000)}))
	}
	filler.Close()

	leg := func() *harness.Raw {
		raw := rawLeg(ctx, t, g.NodeAddress(1), fay, app)
		served(t, raw)
		return raw
	}
	flights := map[string]func(*harness.Raw) error{
		"a fetch that waits": func(raw *harness.Raw) error {
			return answeredInTurn(raw, fetch(of.topic, 3, 0, 1<<20, 1<<20, long), metadataRequest(9))
		},
		"a join that others hold up": func(raw *harness.Raw) error {
			first := leg()
			if err := answeredInTurn(first, join(group, long)); err != nil {
				return err
			}
			return answeredInTurn(raw, join(group, long), metadataRequest(9))
		},
		"acks=0 produces": func(raw *harness.Raw) error {
			for i := range 2 {
				for n := range 10 {
					if _, err := raw.Send(produceRequest(9, 0, [16]byte{}, of.record(partitions*(10*i+n)))); err != nil { // all of partition 0
						return err
					}
				}
				if err := pauseOrEnd(ctx, life*3/2); err != nil {
					return err
				}
			}
			return answeredInTurn(raw, metadataRequest(9))
		},
		"a large answer to a slow reader": func(raw *harness.Raw) error { return slowly(ctx, raw, fetch(large, 0, 0, 14<<20, 1, 0), life*3/2) },
	}
	legs := map[string]*harness.Raw{}
	for what := range flights {
		legs[what] = leg()
	}
	accepted := metricsNow(ctx, t, g).Sum("doorkeeper_client_legs_accepted_total")
	var all errgroup.Group
	for what, fly := range flights {
		all.Go(func() error {
			if err := fly(legs[what]); err != nil {
				return fmt.Errorf("%s: %w", what, err)
			}
			return nil
		})
	}
	if err := all.Wait(); err != nil {
		t.Error(err)
	}
	m := metricsNow(ctx, t, g)
	if n := m.Sum("doorkeeper_client_legs_accepted_total") - accepted; n != 1 { // the join's first member
		t.Errorf("%v more client legs were accepted", n)
	}
	if n := m.Sum(renewals, `result="ok"`); n < float64(len(flights)) {
		t.Errorf("%v renewals", n)
	}
	if n := ends(ctx, t, c, of.topic)[0]; n != 20 {
		t.Errorf("%d records of acks=0 produces were stored, not 20", n)
	}
	noneKilled(ctx, t, c, before)
	noFaults(ctx, t, g)
}

// answeredInTurn sends requests at once, one behind the other, and wants their answers in turn.
func answeredInTurn(raw *harness.Raw, requests ...kmsg.Request) error {
	if err := raw.SetDeadline(time.Now().Add(90 * time.Second)); err != nil {
		return err
	}
	var sent []int32
	for _, r := range requests {
		id, err := raw.Send(r)
		if err != nil {
			return err
		}
		sent = append(sent, id)
	}
	for i, r := range requests {
		got, rest, err := raw.Receive()
		if err != nil {
			return fmt.Errorf("answer %d: %w", i, err)
		}
		if got != sent[i] {
			return fmt.Errorf("answer to %d, %d is due", got, sent[i])
		}
		answer, err := harness.Parse(r, rest)
		if err != nil {
			return err
		}
		switch a := answer.(type) {
		case *kmsg.JoinGroupResponse:
			err = kerr.ErrorForCode(a.ErrorCode)
		case *kmsg.FetchResponse:
			err = errors.Join(kerr.ErrorForCode(a.ErrorCode), kerr.ErrorForCode(a.Topics[0].Partitions[0].ErrorCode))
		}
		if err != nil {
			return fmt.Errorf("answer %d: %w", i, err)
		}
	}
	return nil
}

// slowly reads an answer over so long a time, and sends a request in the midst of it.
func slowly(ctx context.Context, raw *harness.Raw, r kmsg.Request, over time.Duration) error {
	const pieces = 50
	if err := raw.SetDeadline(time.Now().Add(90 * time.Second)); err != nil {
		return err
	}
	if _, err := raw.Send(r); err != nil {
		return err
	}
	head := make([]byte, 8)
	if _, err := io.ReadFull(raw, head); err != nil {
		return err
	}
	left := int(head[0])<<24 | int(head[1])<<16 | int(head[2])<<8 | int(head[3])
	left -= 4
	if left < 10<<20 {
		return fmt.Errorf("an answer of %d bytes is no large one", left)
	}
	piece := make([]byte, left/pieces+1)
	for i := 0; left > 0; i++ {
		n, err := io.ReadFull(raw, piece[:min(left, len(piece))])
		if err != nil {
			return err
		}
		if left -= n; i == pieces*4/5 {
			if _, err := raw.Send(metadataRequest(9)); err != nil {
				return err
			}
		}
		if err := pauseOrEnd(ctx, over/pieces); err != nil {
			return err
		}
	}
	_, rest, err := raw.Receive()
	if err != nil {
		return err
	}
	_, err = harness.Parse(metadataRequest(9), rest)
	return err
}

// join asks to become a member; a group that has one already answers when that one joins
// again, or after the longest rebalance.
func join(group string, rebalance time.Duration) kmsg.Request {
	r := kmsg.NewPtrJoinGroupRequest()
	r.Version, r.Group, r.ProtocolType = 2, group, "consumer"
	r.SessionTimeoutMillis, r.RebalanceTimeoutMillis = 45_000, int32(rebalance.Milliseconds())
	p := kmsg.NewJoinGroupRequestProtocol()
	p.Name = "range"
	r.Protocols = append(r.Protocols, p)
	return r
}

func pauseOrEnd(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
