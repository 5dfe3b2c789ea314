package bysarama

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/IBM/sarama"

	"clients/client"
)

// consume reads a topic as a group of several members, until so many records were seen
// or none came for quiet.ms; deadline.s bounds it all. Commits that a rebalance overtook
// are noted as "overtaken": then records may have come twice.
func consume(s *client.Step, r *client.Result) error {
	config, bootstrap, wire, err := connected(s, r)
	if err != nil {
		return err
	}
	defer wire.Close()
	config.Consumer.Return.Errors = true
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Group.Rebalance.Timeout = 10 * time.Second
	if s.Get("isolation", "read_committed") == "read_committed" {
		config.Consumer.IsolationLevel = sarama.ReadCommitted
	}
	config.Consumer.MaxWaitTime = 250 * time.Millisecond
	config.Consumer.Offsets.AutoCommit.Interval = 200 * time.Millisecond
	ctx, end := context.WithTimeout(context.Background(), s.Seconds("deadline.s", 120))
	defer end()
	read := &reading{
		result: r, records: client.NewRecords(s), wanted: s.Number("records", 0), end: end,
		quiet: time.Duration(s.Number("quiet.ms", 10_000)) * time.Millisecond,
	}
	read.timer = time.AfterFunc(read.quiet, end)
	defer read.timer.Stop()
	topic, group := s.Get("topic", ""), s.Get("group", "g")
	var members sync.WaitGroup
	for range s.Number("members", 1) {
		members.Go(func() {
			if err := member(ctx, bootstrap, config, group, topic, read, r); err != nil {
				r.Failed(err)
			}
		})
	}
	members.Wait()
	return nil
}

// member is one of a group, until ctx ends.
func member(ctx context.Context, bootstrap []string, config *sarama.Config, group, topic string, by sarama.ConsumerGroupHandler, r *client.Result) error {
	g, err := sarama.NewConsumerGroup(bootstrap, group, config)
	if err != nil {
		return err
	}
	var heard sync.WaitGroup
	heard.Go(func() {
		for err := range g.Errors() {
			if overtaken(err) {
				r.Noted("overtaken")
			} else {
				r.Failed(err)
			}
		}
	})
	for ctx.Err() == nil && err == nil {
		err = g.Consume(ctx, []string{topic}, by)
	}
	err = errors.Join(err, g.Close())
	heard.Wait()
	return err
}

// overtaken tells what a member is told whose commit came too late for its generation.
func overtaken(err error) bool {
	return errors.Is(err, sarama.ErrIllegalGeneration) || errors.Is(err, sarama.ErrRebalanceInProgress) || errors.Is(err, sarama.ErrUnknownMemberId)
}

type reading struct {
	result  *client.Result
	records client.Records
	wanted  int
	quiet   time.Duration
	timer   *time.Timer
	end     func()
}

// Setup, Cleanup and ConsumeClaim are sarama's.
func (*reading) Setup(sarama.ConsumerGroupSession) error { return nil }

// Cleanup commits what is marked before other members take over.
func (*reading) Cleanup(session sarama.ConsumerGroupSession) error {
	session.Commit()
	return nil
}

// ConsumeClaim reads one partition.
func (c *reading) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case m, ok := <-claim.Messages():
			if !ok {
				return nil
			}
			c.result.Read(c.records, m.Key, m.Value)
			c.timer.Reset(c.quiet)
			session.MarkMessage(m, "")
			if c.wanted > 0 && c.result.Count() >= c.wanted {
				c.end()
			}
		case <-session.Context().Done():
			return nil
		}
	}
}
