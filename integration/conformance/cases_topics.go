package conformance

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// topicCases: topics and partitions come and go.
func topicCases() []Case {
	return []Case{
		{
			Key: kmsg.CreateTopics, Name: "one",
			Request: func(s *Side, v int16) kmsg.Request { return createTopic(s.Own(fmt.Sprintf("new-v%d", v)), false) },
			Masks:   []Mask{{Field: "Topics[].TopicID", From: 7, Alike: bothSet, Why: "the cluster draws it"}},
		},
		{
			Key: kmsg.CreateTopics, Name: "one, to see whether it would work", From: 1,
			Request: func(s *Side, _ int16) kmsg.Request { return createTopic(s.Own("would-be"), true) },
			Masks:   []Mask{{Field: "Topics[].TopicID", From: 7, Alike: bothSet, Why: "the cluster draws it"}},
		},
		{
			Key: kmsg.CreateTopics, Name: "one that is there", Want: Failure, Codes: []int16{36}, // TOPIC_ALREADY_EXISTS
			Request: func(s *Side, _ int16) kmsg.Request { return createTopic(s.Shared("topic"), false) },
		},
		{
			Key: kmsg.CreateTopics, Name: "without the right to", As: Poor, Want: Failure, Codes: []int16{topicDenied},
			Request: func(s *Side, _ int16) kmsg.Request { return createTopic(s.Own("denied"), false) },
		},
		{
			Key: kmsg.DeleteTopics, Name: "one",
			Request: func(s *Side, v int16) kmsg.Request { return deleteTopic(s.Own(fmt.Sprintf("delete-v%d", v))) },
		},
		{
			Key: kmsg.DeleteTopics, Name: "one by its id", From: 6,
			Request: func(s *Side, _ int16) kmsg.Request {
				r := deleteTopic("")
				r.Topics[0].Topic, r.Topics[0].TopicID = nil, s.id(s.Own("delete-v9"))
				return r
			},
		},
		{
			Key: kmsg.DeleteTopics, Name: "one that is not there", Want: Failure, Codes: []int16{unknownTopic},
			Request: func(s *Side, _ int16) kmsg.Request { return deleteTopic(s.Own("none")) },
		},
		{
			Key: kmsg.CreatePartitions, Name: "one more",
			Request: func(s *Side, v int16) kmsg.Request { return createPartitions(s.Own("grow"), int32(2+v)) },
		},
		{
			Key: kmsg.CreatePartitions, Name: "fewer than there are", Want: Failure, Codes: []int16{37}, // INVALID_PARTITIONS
			Request: func(s *Side, _ int16) kmsg.Request { return createPartitions(s.Shared("topic"), 1) },
		},
	}
}

func createTopic(name string, pretend bool) *kmsg.CreateTopicsRequest {
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = name, 1, 1
	c := kmsg.NewCreateTopicsRequestTopicConfig()
	c.Name, c.Value = "retention.ms", kmsg.StringPtr("86400000")
	t.Configs = append(t.Configs, c)
	r := kmsg.NewPtrCreateTopicsRequest()
	r.TimeoutMillis, r.ValidateOnly, r.Topics = 20_000, pretend, append(r.Topics, t)
	return r
}

func deleteTopic(name string) *kmsg.DeleteTopicsRequest {
	t := kmsg.NewDeleteTopicsRequestTopic()
	t.Topic = kmsg.StringPtr(name)
	r := kmsg.NewPtrDeleteTopicsRequest()
	r.TimeoutMillis, r.TopicNames, r.Topics = 20_000, []string{name}, append(r.Topics, t)
	return r
}

func createPartitions(topic string, count int32) *kmsg.CreatePartitionsRequest {
	t := kmsg.NewCreatePartitionsRequestTopic()
	t.Topic, t.Count = topic, count
	r := kmsg.NewPtrCreatePartitionsRequest()
	r.TimeoutMillis, r.Topics = 20_000, append(r.Topics, t)
	return r
}
