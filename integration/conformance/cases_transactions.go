package conformance

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// transactionCases: producers' ids, and what they do in transactions.
func transactionCases() []Case {
	producerID := Mask{Field: "ProducerID", Alike: positive, Why: "the cluster gives it out, upwards"}
	return []Case{
		{
			Key: kmsg.InitProducerID, Name: "without transactions",
			Request: func(*Side, int16) kmsg.Request { return initProducer("") },
			Masks:   []Mask{producerID},
		},
		{
			Key: kmsg.InitProducerID, Name: "with transactions", At: AtTxnCoordinator,
			Request: func(s *Side, v int16) kmsg.Request { return initProducer(s.Own(fmt.Sprintf("init-v%d", v))) },
			Masks:   []Mask{producerID},
		},
		{
			Key: kmsg.InitProducerID, Name: "without the right to", At: AtTxnCoordinator, As: Poor, Want: Failure, Codes: []int16{txnDenied},
			Request: func(s *Side, _ int16) kmsg.Request { return initProducer(s.Own("denied")) },
		},
		{
			Key: kmsg.AddPartitionsToTxn, Name: "one", At: AtTxnCoordinator, Before: 4,
			Request: func(s *Side, v int16) kmsg.Request { return s.txn("add-partitions", v).partitions() },
		},
		{
			Key: kmsg.AddPartitionsToTxn, Name: "with a producer's id that is not its own", At: AtTxnCoordinator, Before: 4, Want: Failure,
			Codes: []int16{49}, // INVALID_PRODUCER_ID_MAPPING
			Request: func(s *Side, _ int16) kmsg.Request {
				return (&txn{side: s, id: s.Own("none"), producer: 4711}).partitions()
			},
		},
		{
			Key: kmsg.AddPartitionsToTxn, Name: "without the right to", At: AtTxnCoordinator, As: Poor, Before: 4, Want: Failure, Codes: []int16{txnDenied},
			Request: func(s *Side, _ int16) kmsg.Request {
				return (&txn{side: s, id: s.Own("denied"), producer: 4711}).partitions()
			},
		},
		{
			Key: kmsg.AddOffsetsToTxn, Name: "of a group", At: AtTxnCoordinator,
			Request: func(s *Side, v int16) kmsg.Request { return s.txn("add-offsets", v).offsets() },
		},
		{
			Key: kmsg.AddOffsetsToTxn, Name: "without the right to", At: AtTxnCoordinator, As: Poor, Want: Failure, Codes: []int16{txnDenied},
			Request: func(s *Side, _ int16) kmsg.Request {
				return (&txn{side: s, id: s.Own("denied"), producer: 4711}).offsets()
			},
		},
		{
			Key: kmsg.TxnOffsetCommit, Name: "of a group", At: AtGroupCoordinator,
			Request: func(s *Side, v int16) kmsg.Request {
				t := s.txn("commit-offsets", v)
				s.okAt(s.TxnNode, t.offsets())
				return t.commit()
			},
		},
		{
			Key: kmsg.TxnOffsetCommit, Name: "without the right to", At: AtGroupCoordinator, As: Poor, Want: Failure, Codes: []int16{txnDenied},
			Request: func(s *Side, _ int16) kmsg.Request {
				return (&txn{side: s, id: s.Own("denied"), producer: 4711}).commit()
			},
		},
		{
			Key: kmsg.EndTxn, Name: "commits", At: AtTxnCoordinator,
			Request: func(s *Side, v int16) kmsg.Request {
				t := s.txn("commit", v)
				s.ok(t.partitions())
				return t.end(true)
			},
			Masks: []Mask{{Field: "ProducerID", From: 5, Alike: positive, Why: producerID.Why}},
		},
		{
			Key: kmsg.EndTxn, Name: "aborts", At: AtTxnCoordinator,
			Request: func(s *Side, v int16) kmsg.Request {
				t := s.txn("abort", v)
				s.ok(t.partitions())
				return t.end(false)
			},
			Masks: []Mask{{Field: "ProducerID", From: 5, Alike: positive, Why: producerID.Why}},
		},
		{
			Key: kmsg.EndTxn, Name: "without the right to", At: AtTxnCoordinator, As: Poor, Want: Failure, Codes: []int16{txnDenied},
			Request: func(s *Side, _ int16) kmsg.Request {
				return (&txn{side: s, id: s.Own("denied"), producer: 4711}).end(true)
			},
		},
		{
			Key: kmsg.DescribeTransactions, Name: "one that is open", At: AtTxnCoordinator, Shared: true,
			Request: func(s *Side, _ int16) kmsg.Request { return describeTransactions(s.Shared("txn")) },
		},
		{
			Key: kmsg.DescribeTransactions, Name: "one that is not there", At: AtTxnCoordinator, Want: Failure, Codes: []int16{txnIDNotFound}, Shared: true,
			Request: func(s *Side, _ int16) kmsg.Request { return describeTransactions(s.Shared("none")) },
		},
		{
			Key: kmsg.ListTransactions, Name: "all of a broker", At: AtTxnCoordinator, Shared: true,
			Request: func(*Side, int16) kmsg.Request { return kmsg.NewPtrListTransactionsRequest() },
			Good: func(r kmsg.Response) bool {
				return len(r.(*kmsg.ListTransactionsResponse).TransactionStates) > 0
			},
		},
		{
			Key: kmsg.ListTransactions, Name: "by a pattern that is none", At: AtTxnCoordinator, From: 2, Want: Failure, Codes: []int16{128}, Shared: true, // INVALID_REGULAR_EXPRESSION
			Request: func(*Side, int16) kmsg.Request {
				r := kmsg.NewPtrListTransactionsRequest()
				r.TransactionalIDPattern = kmsg.StringPtr("(")
				return r
			},
		},
		{
			Key: kmsg.DescribeProducers, Name: "of a partition", Shared: true,
			Request: func(s *Side, _ int16) kmsg.Request { return describeProducers(s.Shared("topic"), 0) },
			Good: func(r kmsg.Response) bool {
				return len(r.(*kmsg.DescribeProducersResponse).Topics[0].Partitions[0].ActiveProducers) > 0
			},
		},
		{
			Key: kmsg.DescribeProducers, Name: "from a broker that does not lead", Shared: true, Want: Failure, Codes: []int16{notLeader},
			Request: func(s *Side, _ int16) kmsg.Request { return describeProducers(s.Shared("topic"), 1) },
		},
	}
}

// initProducer asks for a producer's id; without a transactional id if that is empty.
func initProducer(transactionalID string) *kmsg.InitProducerIDRequest {
	r := kmsg.NewPtrInitProducerIDRequest()
	r.TransactionTimeoutMillis = 600_000
	if transactionalID != "" {
		r.TransactionalID = &transactionalID
	}
	return r
}

// txn is a transaction of a producer that has just got its id.
type txn struct {
	side     *Side
	id       string
	producer int64
	epoch    int16
}

func (s *Side) txn(name string, version int16) *txn {
	t := &txn{side: s, id: s.Own(fmt.Sprintf("txn-%s-v%d", name, version))}
	got := s.okAt(s.TxnNode, initProducer(t.id)).(*kmsg.InitProducerIDResponse)
	t.producer, t.epoch = s.number(got.ProducerID), got.ProducerEpoch
	return t
}

func (t *txn) partitions() kmsg.Request {
	r := kmsg.NewPtrAddPartitionsToTxnRequest()
	of := kmsg.NewAddPartitionsToTxnRequestTopic()
	of.Topic, of.Partitions = t.side.Own("txn"), []int32{0}
	r.Version = 3
	r.TransactionalID, r.ProducerID, r.ProducerEpoch, r.Topics = t.id, t.producer, t.epoch, append(r.Topics, of)
	return r
}

func (t *txn) offsets() kmsg.Request {
	r := kmsg.NewPtrAddOffsetsToTxnRequest()
	r.TransactionalID, r.ProducerID, r.ProducerEpoch, r.Group = t.id, t.producer, t.epoch, t.side.Own("txn-group")
	return r
}

func (t *txn) commit() kmsg.Request {
	p := kmsg.NewTxnOffsetCommitRequestTopicPartition()
	p.Offset, p.LeaderEpoch = 1, -1
	of := kmsg.NewTxnOffsetCommitRequestTopic()
	of.Topic, of.TopicID, of.Partitions = t.side.Shared("topic"), t.side.id(t.side.Shared("topic")), append(of.Partitions, p)
	r := kmsg.NewPtrTxnOffsetCommitRequest()
	r.TransactionalID, r.ProducerID, r.ProducerEpoch, r.Group = t.id, t.producer, t.epoch, t.side.Own("txn-group")
	r.Generation, r.Topics = -1, append(r.Topics, of)
	return r
}

func (t *txn) end(commit bool) kmsg.Request {
	r := kmsg.NewPtrEndTxnRequest()
	r.TransactionalID, r.ProducerID, r.ProducerEpoch, r.Commit = t.id, t.producer, t.epoch, commit
	return r
}

func describeTransactions(id string) *kmsg.DescribeTransactionsRequest {
	r := kmsg.NewPtrDescribeTransactionsRequest()
	r.TransactionalIDs = []string{id}
	return r
}

func describeProducers(topic string, partition int32) *kmsg.DescribeProducersRequest {
	t := kmsg.NewDescribeProducersRequestTopic()
	t.Topic, t.Partitions = topic, []int32{partition}
	r := kmsg.NewPtrDescribeProducersRequest()
	r.Topics = append(r.Topics, t)
	return r
}
