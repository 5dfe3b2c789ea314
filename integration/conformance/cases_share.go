package conformance

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// shareCases: share groups (KIP-932).
func shareCases() []Case {
	return []Case{
		{
			Key: kmsg.ShareGroupHeartbeat, Name: "joins a group", At: AtGroupCoordinator,
			Request: func(s *Side, v int16) kmsg.Request {
				return shareHeartbeat(s.Own(fmt.Sprintf("sharing-v%d", v)), s.Shared("topic"), 0)
			},
		},
		{
			Key: kmsg.ShareGroupHeartbeat, Name: "of a member that the group does not know", At: AtGroupCoordinator, Want: Failure,
			Codes:   []int16{unknownMember, groupNotFound},
			Request: func(s *Side, _ int16) kmsg.Request { return shareHeartbeat(s.Own("none"), s.Shared("topic"), 7) },
		},
		{
			Key: kmsg.ShareGroupHeartbeat, Name: "without the right to", At: AtGroupCoordinator, As: Poor, Want: Failure, Codes: []int16{groupDenied},
			Request: func(s *Side, _ int16) kmsg.Request { return shareHeartbeat(s.Own("denied"), s.Shared("topic"), 0) },
		},
		{
			Key: kmsg.ShareGroupDescribe, Name: "with a member", At: AtGroupCoordinator, Shared: true,
			Request: func(s *Side, _ int16) kmsg.Request { return shareDescribe(s.Shared("share")) },
			Good: func(r kmsg.Response) bool {
				return len(r.(*kmsg.ShareGroupDescribeResponse).Groups[0].Members) == 1
			},
		},
		{
			Key: kmsg.ShareGroupDescribe, Name: "one that is not there", At: AtGroupCoordinator, Want: Failure, Codes: []int16{groupNotFound}, Shared: true,
			Request: func(s *Side, _ int16) kmsg.Request { return shareDescribe(s.Shared("none")) },
		},
		{
			Key: kmsg.ShareFetch, Name: "acquires a record",
			Request: func(s *Side, v int16) kmsg.Request {
				group := shareGroup(s, "fetch", v)
				s.ok(produce(s, s.Highest(kmsg.Produce), s.Own("share"), 0, plain("shared")))
				r := shareFetch(s, group, 0, 1)
				r.MaxWaitMillis = 20_000
				return r
			},
			Good: func(r kmsg.Response) bool {
				of := r.(*kmsg.ShareFetchResponse).Topics
				return len(of) == 1 && len(of[0].Partitions[0].Records) > 0 && len(of[0].Partitions[0].AcquiredRecords) == 1
			},
		},
		{
			Key: kmsg.ShareFetch, Name: "from a broker that does not lead", Want: Failure, Codes: []int16{notLeader},
			Request: func(s *Side, v int16) kmsg.Request {
				return shareFetch(s, s.Own(fmt.Sprintf("share-astray-v%d", v)), 1, 0)
			},
		},
		{
			Key: kmsg.ShareFetch, Name: "in a session that is not there", Want: Failure, Codes: []int16{noShareSession},
			Request: func(s *Side, _ int16) kmsg.Request { return shareFetch(s, s.Own("none"), 0, 7) },
		},
		{
			Key: kmsg.ShareFetch, Name: "without the right to", As: Poor, Want: Failure, Codes: []int16{groupDenied},
			Request: func(s *Side, _ int16) kmsg.Request { return shareFetch(s, s.Own("denied"), 0, 0) },
		},
		{
			Key: kmsg.ShareAcknowledge, Name: "accepts a record",
			Request: func(s *Side, v int16) kmsg.Request {
				return shareAcknowledge(s, shareGroup(s, "ack", v), 0, 1)
			},
		},
		{
			Key: kmsg.ShareAcknowledge, Name: "of a partition that is not in the session", Want: Failure, Codes: []int16{unknownTopic},
			Request: func(s *Side, v int16) kmsg.Request {
				return shareAcknowledge(s, shareGroup(s, "ack-astray", v), 1, 1)
			},
		},
		{
			Key: kmsg.ShareAcknowledge, Name: "in a session that is not there", Want: Failure, Codes: []int16{noShareSession},
			Request: func(s *Side, _ int16) kmsg.Request { return shareAcknowledge(s, s.Own("none"), 0, 7) },
		},
		{
			Key: kmsg.DescribeShareGroupOffsets, Name: "of a topic", At: AtGroupCoordinator, Shared: true,
			Request: func(s *Side, _ int16) kmsg.Request { return shareOffsets(s.Shared("share"), s.Shared("topic")) },
		},
		{
			Key: kmsg.DescribeShareGroupOffsets, Name: "without the right to", At: AtGroupCoordinator, As: Poor, Want: Failure, Codes: []int16{groupDenied}, Shared: true,
			Request: func(s *Side, _ int16) kmsg.Request { return shareOffsets(s.Shared("share"), s.Shared("topic")) },
		},
		{
			Key: kmsg.AlterShareGroupOffsets, Name: "of an empty group", At: AtGroupCoordinator,
			Request: func(s *Side, v int16) kmsg.Request {
				return alterShareOffsets(emptyShareGroup(s, "share-alter", v), s.Shared("topic"))
			},
		},
		{
			Key: kmsg.AlterShareGroupOffsets, Name: "without the right to", At: AtGroupCoordinator, As: Poor, Want: Failure, Codes: []int16{groupDenied},
			Request: func(s *Side, _ int16) kmsg.Request { return alterShareOffsets(s.Own("denied"), s.Shared("topic")) },
		},
		{
			Key: kmsg.DeleteShareGroupOffsets, Name: "of an empty group", At: AtGroupCoordinator,
			Request: func(s *Side, v int16) kmsg.Request {
				group := emptyShareGroup(s, "share-delete", v)
				s.ok(alterShareOffsets(group, s.Shared("topic")))
				return deleteShareOffsets(group, s.Shared("topic"))
			},
		},
		{
			Key: kmsg.DeleteShareGroupOffsets, Name: "of a group that is not there", At: AtGroupCoordinator, Want: Failure, Codes: []int16{groupNotFound},
			Request: func(s *Side, _ int16) kmsg.Request { return deleteShareOffsets(s.Own("none"), s.Shared("topic")) },
		},
	}
}

func shareHeartbeat(group, topic string, epoch int32) *kmsg.ShareGroupHeartbeatRequest {
	r := kmsg.NewPtrShareGroupHeartbeatRequest()
	r.GroupID, r.MemberID, r.MemberEpoch = group, memberName, epoch
	if epoch == 0 {
		r.SubscribedTopicNames = []string{topic}
	}
	return r
}

// sharing joins a group, and waits until it has its partitions. It returns the epoch.
func (s *Side) sharing(group, topic string) int32 {
	var epoch int32
	until(s, s.GroupNode, func() kmsg.Request { return shareHeartbeat(group, topic, epoch) }, func(r *kmsg.ShareGroupHeartbeatResponse) bool {
		if r.ErrorCode == 0 {
			epoch = r.MemberEpoch
		}
		return r.Assignment != nil && len(r.Assignment.TopicPartitions) > 0
	})
	return epoch
}

// shareGroup has a member with a session at node 1 that holds all records of the side's
// own topic.
func shareGroup(s *Side, name string, version int16) string {
	group := s.Own(fmt.Sprintf("share-%s-v%d", name, version))
	s.sharing(group, s.Own("share"))
	until(s, 1, func() kmsg.Request {
		return shareFetch(s, group, 0, 0)
	}, func(r *kmsg.ShareFetchResponse) bool {
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				if p.Partition == 0 && len(p.AcquiredRecords) > 0 {
					return true
				}
			}
		}
		return false
	})
	return group
}

// emptyShareGroup had a member, and has none.
func emptyShareGroup(s *Side, name string, version int16) string {
	group := s.Own(fmt.Sprintf("%s-v%d", name, version))
	s.sharing(group, s.Shared("topic"))
	s.ok(shareHeartbeat(group, "", -1))
	return group
}

// shareFetch asks for records of one partition; with epoch 0 it begins a session.
func shareFetch(s *Side, group string, partition, epoch int32) *kmsg.ShareFetchRequest {
	p := kmsg.NewShareFetchRequestTopicPartition()
	p.Partition, p.PartitionMaxBytes = partition, 1<<20
	t := kmsg.NewShareFetchRequestTopic()
	t.TopicID, t.Partitions = s.id(s.Own("share")), append(t.Partitions, p)
	r := kmsg.NewPtrShareFetchRequest()
	r.GroupID, r.MemberID, r.ShareSessionEpoch, r.Topics = &group, kmsg.StringPtr(shareMember), epoch, append(r.Topics, t)
	r.MaxWaitMillis, r.MinBytes, r.MaxBytes, r.MaxRecords, r.BatchSize = 300, 1, 1<<20, 500, 500
	return r
}

// shareMember is a member's id as a session wants it: a UUID as Kafka writes it.
const shareMember = "Y29uZm9ybWFuY2UtMQAAAA"

func shareAcknowledge(s *Side, group string, partition, epoch int32) *kmsg.ShareAcknowledgeRequest {
	b := kmsg.NewShareAcknowledgeRequestTopicPartitionAcknowledgementBatch()
	b.AcknowledgeTypes = []int8{1}
	p := kmsg.NewShareAcknowledgeRequestTopicPartition()
	p.Partition, p.AcknowledgementBatches = partition, append(p.AcknowledgementBatches, b)
	t := kmsg.NewShareAcknowledgeRequestTopic()
	t.TopicID, t.Partitions = s.id(s.Own("share")), append(t.Partitions, p)
	r := kmsg.NewPtrShareAcknowledgeRequest()
	r.GroupID, r.MemberID, r.ShareSessionEpoch, r.Topics = &group, kmsg.StringPtr(shareMember), epoch, append(r.Topics, t)
	return r
}

func shareDescribe(group string) *kmsg.ShareGroupDescribeRequest {
	r := kmsg.NewPtrShareGroupDescribeRequest()
	r.GroupIDs, r.IncludeAuthorizedOperations = []string{group}, true
	return r
}

func shareOffsets(group, topic string) *kmsg.DescribeShareGroupOffsetsRequest {
	t := kmsg.NewDescribeShareGroupOffsetsRequestGroupTopic()
	t.Topic, t.Partitions = topic, []int32{0}
	g := kmsg.NewDescribeShareGroupOffsetsRequestGroup()
	g.GroupID, g.Topics = group, append(g.Topics, t)
	r := kmsg.NewPtrDescribeShareGroupOffsetsRequest()
	r.Groups = append(r.Groups, g)
	return r
}

func alterShareOffsets(group, topic string) *kmsg.AlterShareGroupOffsetsRequest {
	p := kmsg.NewAlterShareGroupOffsetsRequestTopicPartition()
	p.StartOffset = 1
	t := kmsg.NewAlterShareGroupOffsetsRequestTopic()
	t.Topic, t.Partitions = topic, append(t.Partitions, p)
	r := kmsg.NewPtrAlterShareGroupOffsetsRequest()
	r.GroupID, r.Topics = group, append(r.Topics, t)
	return r
}

func deleteShareOffsets(group, topic string) *kmsg.DeleteShareGroupOffsetsRequest {
	t := kmsg.NewDeleteShareGroupOffsetsRequestTopic()
	t.Topic = topic
	r := kmsg.NewPtrDeleteShareGroupOffsetsRequest()
	r.GroupID, r.Topics = group, append(r.Topics, t)
	return r
}
