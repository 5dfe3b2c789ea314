//go:build integration

package integration

// How groups are seen to stay as they are while their members' sessions are renewed.

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"doorkeeper/integration/harness"
)

// settling is what a group gets until no member comes any more; from then on its
// generation must stay.
const settling = 25 * time.Second

// readTogether has the members of a group read a stream to its end.
func (w *fleet) readTogether(s *stream, members ...*kgo.Client) error {
	ctx, all := context.WithCancel(w.ctx)
	defer all()
	var (
		mu    sync.Mutex
		tally harness.Tally
		reads errgroup.Group
	)
	for _, m := range members {
		reads.Go(func() error {
			var g generation
			began := time.Now()
			for ctx.Err() == nil {
				fetches := m.PollFetches(ctx)
				// At the beginning a login may be too slow, and the client tries again.
				if err := fetches.Err(); err != nil && ctx.Err() == nil && time.Since(began) > settling {
					return fmt.Errorf("franz-go reads %s: %w", s.topic, err)
				}
				mu.Lock()
				fetches.EachRecord(func(r *kgo.Record) { tally.Add(s.prefix, recordSize, r.Key, r.Value) })
				if tally.Count == s.records {
					all()
				}
				mu.Unlock()
				_, now := m.GroupMetadata()
				if g.moved(now) && ctx.Err() == nil {
					return fmt.Errorf("franz-go reads %s: generation %d after one that had stayed for %v: a rebalance", s.topic, now, settling)
				}
			}
			return nil
		})
	}
	err := reads.Wait()
	if w.ctx.Err() == nil || tally.Count == s.records {
		s.judge(w.t, "franz-go read "+s.topic, tally, false)
	}
	return err
}

// generation is a group's, as a member sees it.
type generation struct {
	last  int32
	began time.Time // of the first one
}

// moved takes the present one, and tells whether it has changed after it had time to settle.
func (g *generation) moved(now int32) bool {
	if now <= 0 || now == g.last {
		return false
	}
	g.last = now
	if g.began.IsZero() {
		g.began = time.Now()
	}
	return time.Since(g.began) > settling
}

// epochs are the groups whose epoch brokers tell.
type epochs struct{ consumer, share string }

// epochsStay looks at them, on the brokers themselves, for as long as no writer can have
// written everything: once all is read, members leave.
func (w *fleet) epochsStay() error {
	settled := map[string]*generation{w.epochs.consumer: {}, w.epochs.share: {}}
	look := time.NewTicker(2 * time.Second)
	defer look.Stop()
	var last error // until the coordinators are there, and know the groups
	seen := func() bool {
		for group, g := range settled {
			if group != "" && g.last == 0 {
				return false
			}
		}
		return true
	}
	// On a slow machine a group may come to be later than that, and is seen once at least.
	for w.writers.Alive() && (time.Since(w.began) < w.load || !seen()) {
		now := map[string]int32{}
		groups, err := w.c.Admin.DescribeConsumerGroups(w.ctx, w.epochs.consumer)
		now[w.epochs.consumer] = groups[w.epochs.consumer].Epoch
		if w.epochs.share != "" {
			shares, unknown := w.c.Admin.DescribeShareGroups(w.ctx, w.epochs.share)
			now[w.epochs.share], err = shares[w.epochs.share].GroupEpoch, errors.Join(err, unknown)
		}
		last = err
		for group, epoch := range now {
			if settled[group].moved(epoch) && time.Since(w.began) < w.load {
				return fmt.Errorf("group %s has epoch %d after one that had stayed for %v: a rebalance", group, epoch, settling)
			}
		}
		select {
		case <-look.C:
		case <-w.ctx.Done():
			return nil
		}
	}
	if !seen() {
		return errors.Join(errors.New("of one of the groups no epoch was ever seen"), last)
	}
	return nil
}
