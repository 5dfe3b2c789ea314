package conformance

import "github.com/twmb/franz-go/pkg/kmsg"

// recordCases: Produce, Fetch, ListOffsets, OffsetForLeaderEpoch, DeleteRecords.
func recordCases() []Case {
	return []Case{
		{
			Key: kmsg.Produce, Name: "writes a batch", From: 3,
			Request: func(s *Side, v int16) kmsg.Request { return produce(s, v, s.Own("produce"), 0, plain("value")) },
		},
		{
			Key: kmsg.Produce, Name: "writes a batch, waiting for all replicas", From: 3,
			Request: func(s *Side, v int16) kmsg.Request {
				r := produce(s, v, s.Own("produce"), 0, plain("value"))
				r.Acks = -1
				return r
			},
		},
		{
			Key: kmsg.Produce, Name: "writes a batch, wants no answer", From: 3, Silent: true, Want: Either,
			Request: func(s *Side, v int16) kmsg.Request {
				r := produce(s, v, s.Own("produce"), 0, plain("value"))
				r.Acks = 0
				return r
			},
		},
		{ // the broker closes the connection, which is all that it can say
			Key: kmsg.Produce, Name: "to a broker that does not lead, wants no answer", From: 3, Silent: true, Want: Either, Shared: true,
			Request: func(s *Side, v int16) kmsg.Request {
				r := produce(s, v, s.Shared("topic"), 1, plain("value"))
				r.Acks = 0
				return r
			},
		},
		{ // brokers offer them, and from Kafka 4 on close the connection over them
			Key: kmsg.Produce, Name: "a batch in a version before its format", Before: 3, Want: Either,
			Request: func(s *Side, v int16) kmsg.Request { return produce(s, v, s.Own("produce"), 0, plain("value")) },
		},
		{
			Key: kmsg.Produce, Name: "to a topic that is not there", From: 3, Want: Failure, Codes: []int16{unknownTopic, unknownTopicID},
			Request: func(s *Side, v int16) kmsg.Request { return produce(s, v, s.Own("none"), 0, plain("value")) },
		},
		{
			Key: kmsg.Produce, Name: "to a broker that does not lead", From: 3, Want: Failure, Codes: []int16{notLeader}, Shared: true,
			Request: func(s *Side, v int16) kmsg.Request { return produce(s, v, s.Shared("topic"), 1, plain("value")) },
		},
		{
			Key: kmsg.Produce, Name: "a damaged batch", From: 3, Want: Failure, Codes: []int16{2, 87}, // CORRUPT_MESSAGE, INVALID_RECORD
			Request: func(s *Side, v int16) kmsg.Request {
				b := plain("value")
				b[len(b)-1] ^= 0xff
				return produce(s, v, s.Own("produce"), 0, b)
			},
		},

		{
			Key: kmsg.Fetch, Name: "reads batches", Shared: true,
			Request: func(s *Side, _ int16) kmsg.Request { return fetch(s, s.Shared("topic"), 0, 0) },
			Good: func(r kmsg.Response) bool {
				return len(r.(*kmsg.FetchResponse).Topics[0].Partitions[0].RecordBatches) > 100
			},
		},
		{
			Key: kmsg.Fetch, Name: "reads as a debugging consumer (replica -2)", Shared: true,
			Request: func(s *Side, v int16) kmsg.Request {
				r := fetch(s, s.Shared("topic"), 0, 0)
				if r.ReplicaID = -2; v >= 15 { // before, the tag is one that brokers refuse
					r.ReplicaState.ID = -2
				}
				return r
			},
		},
		{
			Key: kmsg.Fetch, Name: "as another broker (replica 2)", Shared: true, Want: Either, Refused: "a replica id of 0 or more is for brokers alone",
			Request: func(s *Side, _ int16) kmsg.Request {
				r := fetch(s, s.Shared("topic"), 0, 0)
				r.ReplicaID, r.ReplicaState.ID = 2, 2
				return r
			},
		},
		{
			Key: kmsg.Fetch, Name: "begins a fetch session", From: 7,
			Request: func(s *Side, _ int16) kmsg.Request {
				r := fetch(s, s.Shared("topic"), 0, 0)
				r.SessionEpoch = 0
				return r
			},
			Masks: []Mask{{Field: "SessionID", Alike: positive, Why: "the broker draws it"}},
		},
		{
			Key: kmsg.Fetch, Name: "beyond the end", Shared: true, Want: Failure, Codes: []int16{offsetOutOfRange},
			Request: func(s *Side, _ int16) kmsg.Request { return fetch(s, s.Shared("topic"), 0, 1_000_000) },
		},
		{
			Key: kmsg.Fetch, Name: "from a broker that does not lead", Shared: true, Want: Failure, Codes: []int16{notLeader},
			Request: func(s *Side, _ int16) kmsg.Request { return fetch(s, s.Shared("topic"), 1, 0) },
		},
		{
			Key: kmsg.Fetch, Name: "from a topic that is not there", Shared: true, Want: Failure, Codes: []int16{unknownTopic, unknownTopicID},
			Request: func(s *Side, _ int16) kmsg.Request { return fetch(s, s.Shared("none"), 0, 0) },
		},

		{
			Key: kmsg.ListOffsets, Name: "the end", Shared: true,
			Request: func(s *Side, _ int16) kmsg.Request { return listOffsets(s.Shared("topic"), -1) },
		},
		{
			Key: kmsg.ListOffsets, Name: "the beginning", Shared: true,
			Request: func(s *Side, _ int16) kmsg.Request { return listOffsets(s.Shared("topic"), -2) },
		},
		{
			Key: kmsg.ListOffsets, Name: "of a topic that is not there", Shared: true, Want: Failure, Codes: []int16{unknownTopic},
			Request: func(s *Side, _ int16) kmsg.Request { return listOffsets(s.Shared("none"), -1) },
		},

		{
			Key: kmsg.OffsetForLeaderEpoch, Name: "of the first epoch", Shared: true,
			Request: func(s *Side, _ int16) kmsg.Request { return leaderEpoch(s.Shared("topic")) },
		},
		{
			Key: kmsg.OffsetForLeaderEpoch, Name: "of a topic that is not there", Shared: true, Want: Failure, Codes: []int16{unknownTopic},
			Request: func(s *Side, _ int16) kmsg.Request { return leaderEpoch(s.Shared("none")) },
		},

		{
			Key: kmsg.DeleteRecords, Name: "all there are",
			Request: func(s *Side, _ int16) kmsg.Request {
				s.ok(produce(s, s.Highest(kmsg.Produce), s.Own("trunc"), 0, plain("goes")))
				return deleteRecords(s.Own("trunc"), -1)
			},
		},
		{
			Key: kmsg.DeleteRecords, Name: "beyond the end", Want: Failure, Codes: []int16{offsetOutOfRange},
			Request: func(s *Side, _ int16) kmsg.Request { return deleteRecords(s.Own("trunc"), 1_000_000) },
		},
	}
}

func (w *World) id(topic string) [16]byte {
	if id, ok := w.TopicIDs[topic]; ok {
		return id
	}
	return nobody()
}

// produce writes a batch; the leader's own log is enough.
func produce(s *Side, version int16, topic string, partition int32, records []byte) *kmsg.ProduceRequest {
	p := kmsg.NewProduceRequestTopicPartition()
	p.Partition, p.Records = partition, records
	t := kmsg.NewProduceRequestTopic()
	t.Topic, t.TopicID, t.Partitions = topic, s.id(topic), append(t.Partitions, p)
	r := kmsg.NewPtrProduceRequest()
	r.Version, r.Acks, r.TimeoutMillis, r.Topics = version, 1, 20_000, append(r.Topics, t)
	return r
}

// fetch reads one partition, without a session and without waiting.
func fetch(s *Side, topic string, partition int32, offset int64) *kmsg.FetchRequest {
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.FetchOffset, p.PartitionMaxBytes = partition, offset, 1<<20
	t := kmsg.NewFetchRequestTopic()
	t.Topic, t.TopicID, t.Partitions = topic, s.id(topic), append(t.Partitions, p)
	r := kmsg.NewPtrFetchRequest()
	r.MaxBytes, r.SessionEpoch, r.Topics = 1<<20, -1, append(r.Topics, t)
	return r
}

func listOffsets(topic string, at int64) *kmsg.ListOffsetsRequest {
	p := kmsg.NewListOffsetsRequestTopicPartition()
	p.Timestamp, p.MaxNumOffsets = at, 10
	t := kmsg.NewListOffsetsRequestTopic()
	t.Topic, t.Partitions = topic, append(t.Partitions, p)
	r := kmsg.NewPtrListOffsetsRequest()
	r.ReplicaID, r.TimeoutMillis, r.Topics = -1, 20_000, append(r.Topics, t)
	return r
}

func leaderEpoch(topic string) *kmsg.OffsetForLeaderEpochRequest {
	p := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
	p.CurrentLeaderEpoch = -1
	t := kmsg.NewOffsetForLeaderEpochRequestTopic()
	t.Topic, t.Partitions = topic, append(t.Partitions, p)
	r := kmsg.NewPtrOffsetForLeaderEpochRequest()
	r.ReplicaID, r.Topics = -1, append(r.Topics, t)
	return r
}

func deleteRecords(topic string, before int64) *kmsg.DeleteRecordsRequest {
	p := kmsg.NewDeleteRecordsRequestTopicPartition()
	p.Offset = before
	t := kmsg.NewDeleteRecordsRequestTopic()
	t.Topic, t.Partitions = topic, append(t.Partitions, p)
	r := kmsg.NewPtrDeleteRecordsRequest()
	r.TimeoutMillis, r.Topics = 20_000, append(r.Topics, t)
	return r
}
