package bykafkago

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"

	"clients/client"
)

// consume reads a topic as a group of several members, until so many records were seen
// or none came for quiet.ms; deadline.s bounds it all. A rebalance is noted as
// "overtaken": then records may have come twice.
func consume(s *client.Step, r *client.Result) error {
	wire, err := client.NewWire(s, r)
	if err != nil {
		return err
	}
	defer wire.Close()
	ctx, end := context.WithTimeout(context.Background(), s.Seconds("deadline.s", 120))
	defer end()
	c := &reading{
		result: r, records: client.NewRecords(s), wanted: s.Number("records", 0), end: end,
		quiet: time.Duration(s.Number("quiet.ms", 10_000)) * time.Millisecond,
	}
	c.timer = time.AfterFunc(c.quiet, end)
	defer c.timer.Stop()
	config := kafka.ReaderConfig{
		Brokers: []string{s.Get("bootstrap", "")}, Topic: s.Get("topic", ""), GroupID: s.Get("group", "g"),
		Dialer:      &kafka.Dialer{DialFunc: wire.DialContext, Timeout: 10 * time.Second},
		StartOffset: kafka.FirstOffset, MaxWait: 250 * time.Millisecond, MinBytes: 1, MaxBytes: 10 << 20,
		IsolationLevel: kafka.ReadCommitted, Logger: said("reader"), ErrorLogger: said("reader error"),
	}
	var members sync.WaitGroup
	for range s.Number("members", 1) {
		members.Go(func() {
			if err := c.member(ctx, config); err != nil {
				r.Failed(err)
			}
		})
	}
	members.Wait()
	return nil
}

type reading struct {
	result  *client.Result
	records client.Records
	wanted  int
	quiet   time.Duration
	timer   *time.Timer
	end     func()
}

// member is one of the group, until ctx ends.
func (c *reading) member(ctx context.Context, config kafka.ReaderConfig) (err error) {
	reader := kafka.NewReader(config)
	defer func() {
		if reader.Stats().Rebalances > 1 { // the first is the member's own
			c.result.Noted("overtaken")
		}
		err = errors.Join(err, reader.Close())
	}()
	var uncommitted []kafka.Message
	commit := func() error { // not by ctx: what was read is to be committed all the same
		last := context.Background()
		err := reader.CommitMessages(last, uncommitted...)
		uncommitted = nil
		if errors.Is(err, kafka.IllegalGeneration) || errors.Is(err, kafka.RebalanceInProgress) || errors.Is(err, kafka.UnknownMemberId) {
			return nil // it is noted in the end
		}
		return err
	}
	for {
		m, err := reader.FetchMessage(ctx)
		if ctx.Err() != nil {
			return commit()
		}
		if err != nil {
			return err
		}
		c.result.Read(c.records, m.Key, m.Value)
		c.timer.Reset(c.quiet)
		if uncommitted = append(uncommitted, m); len(uncommitted) == 500 {
			if err := commit(); err != nil {
				return err
			}
		}
		if c.wanted > 0 && c.result.Count() >= c.wanted {
			c.end()
		}
	}
}
