package checker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Read calls each with everything that is committed in the topics, up to the ends that
// they have now, each partition in its order. opts say how the brokers are reached. A
// transaction that is open for a minute more is an error: what it holds cannot be judged.
// ctx ends it.
func Read(ctx context.Context, topics []string, each func(*kgo.Record), opts ...kgo.Opt) error {
	client, err := kgo.NewClient(append(opts,
		kgo.ConsumeTopics(topics...), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		// The end of a partition may be a marker, and what nobody may see lies in front of one.
		kgo.KeepControlRecords(),
	)...)
	if err != nil {
		return err
	}
	defer client.Close()
	left, err := settled(ctx, kadm.NewClient(client), topics)
	if err != nil {
		return err
	}
	for len(left) > 0 {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return fmt.Errorf("read %v, %d partitions short of their end: %w", topics, len(left), err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			at := place{r.Topic, r.Partition}
			if end, due := left[at]; due && r.Offset+1 >= end {
				delete(left, at)
			}
			if !r.Attrs.IsControl() {
				each(r)
			}
		})
	}
	return nil
}

// place is a partition of a topic.
type place struct {
	topic     string
	partition int32
}

var errOpen = errors.New("a transaction is open")

// settled are the ends once no transaction is open. A writer is told of its commit when
// that is certain, and the partitions a moment later.
func settled(ctx context.Context, admin *kadm.Client, topics []string) (map[place]int64, error) {
	const wait = time.Minute
	for began := time.Now(); ; {
		left, err := ends(ctx, admin, topics)
		if !errors.Is(err, errOpen) || time.Since(began) > wait {
			return left, err
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), err)
		}
	}
}

// ends are the ends of all partitions that hold anything.
func ends(ctx context.Context, admin *kadm.Client, topics []string) (map[place]int64, error) {
	stable, err := admin.ListCommittedOffsets(ctx, topics...)
	if err = errors.Join(err, stable.Error()); err != nil {
		return nil, err
	}
	all, err := admin.ListEndOffsets(ctx, topics...)
	if err = errors.Join(err, all.Error()); err != nil {
		return nil, err
	}
	out := map[place]int64{}
	all.Each(func(end kadm.ListedOffset) {
		if s, ok := stable.Lookup(end.Topic, end.Partition); !ok || s.Offset < end.Offset {
			err = errors.Join(err, fmt.Errorf("%s[%d]: %w at %d, the end is %d", end.Topic, end.Partition, errOpen, s.Offset, end.Offset))
		}
		if end.Offset > 0 {
			out[place{end.Topic, end.Partition}] = end.Offset
		}
	})
	return out, err
}
