package checker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Write writes the first n records by franz-go, in turn to so many partitions, and waits
// until each has its answer. rate is in records a second; 0: as many as go. The client
// must place records as told (kgo.ManualPartitioner). The first refusal is the error;
// ctx ends it earlier.
func (l *Ledger) Write(ctx context.Context, client *kgo.Client, n, partitions, rate int) error {
	var (
		mu     sync.Mutex
		failed error
	)
	began := time.Now()
	for k := range n {
		i := l.First + k
		record := l.Record(i, int32(k%partitions))
		l.Sent(i, record.Partition)
		client.Produce(ctx, record, func(r *kgo.Record, err error) {
			if err == nil && l.Promise == Silent {
				l.Acked(i, r.Partition, anywhere)
				return
			}
			if err == nil {
				l.Acked(i, r.Partition, r.Offset)
				return
			}
			l.Refused(i)
			mu.Lock()
			defer mu.Unlock()
			if failed == nil { // the first of perhaps thousands
				failed = fmt.Errorf("produce %s: %w", r.Key, err)
			}
		})
		if rate > 0 && k%max(1, min(50, rate/5)) == 0 {
			select {
			case <-time.After(time.Until(began.Add(time.Duration(k) * time.Second / time.Duration(rate)))):
			case <-ctx.Done():
			}
		}
	}
	err := client.Flush(ctx)
	mu.Lock()
	defer mu.Unlock()
	return errors.Join(failed, err)
}

// Send writes one record and waits for its answer, until ctx ends at the latest. Unlike
// franz-go's ProduceSync, which gives up no record that a broker may hold already: it
// would wait for as long as the client is open. The record may still be written after an
// error of ctx.
func Send(ctx context.Context, client *kgo.Client, record *kgo.Record) error {
	answered := make(chan error, 1)
	client.Produce(ctx, record, func(_ *kgo.Record, err error) { answered <- err })
	select {
	case err := <-answered:
		return err
	case <-ctx.Done():
		return fmt.Errorf("no answer to a record for %s: %w", record.Topic, ctx.Err())
	}
}

// Record is record i of the writer.
func (l *Ledger) Record(i int, partition int32) *kgo.Record {
	key := Key(l.Prefix, i)
	return &kgo.Record{Topic: l.Topic, Partition: partition, Key: key, Value: Value(key, l.Size)}
}
