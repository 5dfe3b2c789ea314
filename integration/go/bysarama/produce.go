package bysarama

import (
	"github.com/IBM/sarama"

	"clients/client"
)

// produce writes records in turn to all partitions and counts what was acknowledged.
//
// With txn, in transactions of per.txn records each; every abort.every-th one is
// followed by one that holds foreign records and is aborted.
func produce(s *client.Step, r *client.Result) error {
	config, bootstrap, wire, err := connected(s, r)
	if err != nil {
		return err
	}
	defer wire.Close()
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Producer.Return.Successes = true
	config.Producer.RequiredAcks = map[string]sarama.RequiredAcks{"all": sarama.WaitForAll, "1": sarama.WaitForLocal, "0": sarama.NoResponse}[s.Get("acks", "all")]
	txn := s.Get("txn", "")
	if config.Producer.Idempotent = s.Get("idempotent", "true") == "true"; config.Producer.Idempotent {
		config.Net.MaxOpenRequests = 1
	}
	config.Producer.Transaction.ID = txn
	topic, partitions, perTxn, abortEvery := s.Get("topic", ""), s.Number("partitions", 6), s.Number("per.txn", 1000), s.Number("abort.every", 0)
	records, pace := client.NewRecords(s), client.NewPace(s)

	producer, err := sarama.NewAsyncProducer(bootstrap, config)
	if err != nil {
		return err
	}
	told := make(chan struct{})
	go func() {
		defer close(told)
		hear(producer, r)
	}()
	inTxn, txns, last := 0, 0, 0
	commit := func() error {
		err := producer.CommitTxn()
		r.Committed(last-inTxn+1, last, err == nil)
		inTxn = 0
		return err
	}
	err = pace.Each(func(i int) error {
		last = i
		if txn != "" && inTxn == 0 {
			if err := producer.BeginTxn(); err != nil {
				return err
			}
		}
		key, value := records.Record(i)
		producer.Input() <- &sarama.ProducerMessage{
			Topic: topic, Partition: int32(i % partitions), Key: sarama.ByteEncoder(key), Value: sarama.ByteEncoder(value), Metadata: i,
		}
		r.Sent()
		if inTxn++; txn == "" || inTxn < perTxn {
			return nil
		}
		if err := commit(); err != nil {
			return err
		}
		if txns++; abortEvery > 0 && txns%abortEvery == 0 {
			return abort(producer, topic, partitions)
		}
		return nil
	})
	if err == nil && txn != "" && inTxn > 0 {
		err = commit()
	}
	producer.AsyncClose()
	<-told
	return err
}

// foreign is the metadata of records that are not of the series.
const foreign = -1

// hear counts what becomes of the records, until the producer has closed.
func hear(producer sarama.AsyncProducer, r *client.Result) {
	successes, failures := producer.Successes(), producer.Errors()
	for successes != nil || failures != nil {
		select {
		case m, ok := <-successes:
			if !ok {
				successes = nil
			} else if i, _ := m.Metadata.(int); i != foreign {
				key, _ := m.Key.Encode() // of bytes: cannot fail
				value, _ := m.Value.Encode()
				r.Acked(i, m.Partition, m.Offset, key, value)
			}
		case e, ok := <-failures:
			if !ok {
				failures = nil
			} else {
				r.Failed(e.Err)
				if i, _ := e.Msg.Metadata.(int); i != foreign {
					r.Refused(i)
				}
			}
		}
	}
}

func abort(producer sarama.AsyncProducer, topic string, partitions int) error {
	if err := producer.BeginTxn(); err != nil {
		return err
	}
	for p := range partitions {
		producer.Input() <- &sarama.ProducerMessage{
			Topic: topic, Partition: int32(p), Key: sarama.StringEncoder("aborted"), Value: sarama.StringEncoder("aborted"), Metadata: foreign,
		}
	}
	return producer.AbortTxn()
}
