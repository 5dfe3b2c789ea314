package bysarama

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/IBM/sarama"

	"clients/client"
)

// transform copies a topic to another, exactly once: reads as a group, writes in
// transactions that hold the group's offsets too, and ends when so many records are
// committed; counts those. Every abort.every-th transaction is aborted first, and then
// done again.
func transform(s *client.Step, r *client.Result) error {
	config, bootstrap, wire, err := connected(s, r)
	if err != nil {
		return err
	}
	defer wire.Close()
	config.Consumer.Return.Errors = true
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Consumer.IsolationLevel = sarama.ReadCommitted
	config.Consumer.MaxWaitTime = 250 * time.Millisecond
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Return.Errors = true
	config.Producer.Idempotent = true
	config.Producer.Transaction.ID = s.Get("txn", "")
	config.Net.MaxOpenRequests = 1
	ctx, end := context.WithTimeout(context.Background(), s.Seconds("deadline.s", 120))
	defer end()
	c := &copying{
		result: r, records: client.NewRecords(s), end: end, to: s.Get("to", ""), group: s.Get("group", "g"),
		wanted: s.Number("records", 1), perTxn: s.Number("per.txn", 1000), abortEvery: s.Number("abort.every", 0),
	}
	if c.producer, err = sarama.NewAsyncProducer(bootstrap, config); err != nil {
		return err
	}
	var heard sync.WaitGroup
	heard.Go(func() {
		for e := range c.producer.Errors() {
			r.Failed(e.Err)
		}
	})
	err = member(ctx, bootstrap, config, c.group, s.Get("topic", ""), c, r)
	c.producer.AsyncClose()
	heard.Wait()
	return err
}

type copying struct {
	result             *client.Result
	records            client.Records
	to, group          string
	wanted             int
	perTxn, abortEvery int
	end                func()

	mu       sync.Mutex // one transaction at a time, whatever partition it is for
	producer sarama.AsyncProducer
	txns     int
}

// Setup is sarama's, as the others are.
func (*copying) Setup(sarama.ConsumerGroupSession) error { return nil }

// Cleanup has nothing to do: transactions hold the offsets.
func (*copying) Cleanup(sarama.ConsumerGroupSession) error { return nil }

// ConsumeClaim copies one partition.
func (c *copying) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	var batch []*sarama.ConsumerMessage
	for {
		quiet := time.NewTimer(200 * time.Millisecond)
		select {
		case m, ok := <-claim.Messages():
			if ok {
				batch = append(batch, m)
			}
			if ok && len(batch) < c.perTxn {
				quiet.Stop()
				continue
			}
		case <-quiet.C:
		case <-session.Context().Done():
			return nil // what is read and not committed comes again
		}
		quiet.Stop()
		if len(batch) == 0 {
			continue
		}
		if err := c.commit(session, batch); err != nil {
			c.end()
			return err
		}
		batch = nil
	}
}

func (c *copying) commit(session sarama.ConsumerGroupSession, batch []*sarama.ConsumerMessage) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.txns++
	if c.abortEvery > 0 && c.txns%c.abortEvery == 0 {
		if err := errors.Join(c.write(session, batch), c.producer.AbortTxn()); err != nil {
			return err
		}
		c.result.Noted("aborted")
	}
	if err := errors.Join(c.write(session, batch), c.producer.CommitTxn()); err != nil {
		return err
	}
	for _, m := range batch {
		c.result.Read(c.records, m.Key, m.Value)
	}
	if c.result.Count() >= c.wanted {
		c.end()
	}
	return nil
}

// write writes a transaction up to its end.
func (c *copying) write(session sarama.ConsumerGroupSession, batch []*sarama.ConsumerMessage) error {
	if err := c.producer.BeginTxn(); err != nil {
		return err
	}
	for _, m := range batch {
		c.producer.Input() <- &sarama.ProducerMessage{
			Topic: c.to, Partition: m.Partition, Key: sarama.ByteEncoder(m.Key), Value: sarama.ByteEncoder(m.Value),
		}
	}
	return c.producer.AddMessageToTxnWithGroupMetadata(batch[len(batch)-1], sarama.NewConsumerGroupMetadataFromSession(session, c.group, nil), nil)
}
