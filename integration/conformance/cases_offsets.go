package conformance

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// offsetCases: the offsets that groups have committed.
func offsetCases() []Case {
	return []Case{
		{
			Key: kmsg.OffsetCommit, Name: "outside a group's rebalances", At: AtGroupCoordinator, From: 1,
			Request: func(s *Side, v int16) kmsg.Request { return commit(s, v, s.Own("commit")) },
		},
		{ // it wrote to ZooKeeper
			Key: kmsg.OffsetCommit, Name: "as before Kafka 0.8.2", At: AtGroupCoordinator, Before: 1, Want: Either,
			Request: func(s *Side, v int16) kmsg.Request { return commit(s, v, s.Own("commit")) },
		},
		{
			Key: kmsg.OffsetCommit, Name: "without the right to", At: AtGroupCoordinator, As: Poor, Want: Failure, Codes: []int16{groupDenied}, From: 1,
			Request: func(s *Side, v int16) kmsg.Request { return commit(s, v, s.Own("commit")) },
		},
		{
			Key: kmsg.OffsetCommit, Name: "as a member that the group does not know", At: AtGroupCoordinator, Want: Failure,
			Codes: []int16{22, unknownMember, 113}, From: 1, // ILLEGAL_GENERATION, STALE_MEMBER_EPOCH
			Request: func(s *Side, v int16) kmsg.Request {
				r := commit(s, v, s.Own("commit"))
				r.Generation, r.MemberID = 7, "stranger"
				return r
			},
		},
		{
			Key: kmsg.OffsetFetch, Name: "of a group", At: AtGroupCoordinator, From: 1, Shared: true,
			Request: func(s *Side, _ int16) kmsg.Request { return offsets(s, s.Shared("offsets")) },
			Good:    fetched,
		},
		{
			Key: kmsg.OffsetFetch, Name: "as before Kafka 0.8.2", At: AtGroupCoordinator, Before: 1, Want: Either, Shared: true,
			Request: func(s *Side, _ int16) kmsg.Request { return offsets(s, s.Shared("offsets")) },
		},
		{
			Key: kmsg.OffsetFetch, Name: "all of two groups", At: AtGroupCoordinator, From: 8, Shared: true,
			Request: func(s *Side, _ int16) kmsg.Request {
				r := offsets(s, s.Shared("offsets"))
				other := r.Groups[0]
				other.Group = s.Shared("nothing")
				r.Groups[0].Topics = nil
				r.Groups = append(r.Groups, other)
				return r
			},
		},
		{ // Kafka 3 left everything out
			Key: kmsg.OffsetFetch, Name: "without the right to, as before errors had a place", At: AtGroupCoordinator, As: Poor, Want: Either, From: 1, Before: 2, Shared: true,
			Request: func(s *Side, _ int16) kmsg.Request { return offsets(s, s.Shared("offsets")) },
		},
		{
			Key: kmsg.OffsetFetch, Name: "from a broker that does not coordinate", At: AtOther, Want: Failure, Codes: []int16{notCoordinator}, From: 2, Shared: true,
			Request: func(s *Side, _ int16) kmsg.Request { return offsets(s, s.Shared("offsets")) },
		},
		{
			Key: kmsg.OffsetFetch, Name: "without the right to", At: AtGroupCoordinator, As: Poor, Want: Failure, Codes: []int16{groupDenied}, From: 2, Shared: true,
			Request: func(s *Side, _ int16) kmsg.Request { return offsets(s, s.Shared("offsets")) },
		},
		{
			Key: kmsg.OffsetDelete, Name: "of a topic", At: AtGroupCoordinator,
			Request: func(s *Side, v int16) kmsg.Request {
				group := s.Own(fmt.Sprintf("forget-v%d", v))
				s.ok(commit(s, s.Highest(kmsg.OffsetCommit), group))
				return offsetDelete(s, group)
			},
		},
		{
			Key: kmsg.OffsetDelete, Name: "of a group that is not there", At: AtGroupCoordinator, Want: Failure, Codes: []int16{groupNotFound},
			Request: func(s *Side, _ int16) kmsg.Request { return offsetDelete(s, s.Own("none")) },
		},
		{
			Key: kmsg.DeleteGroups, Name: "one with offsets", At: AtGroupCoordinator,
			Request: func(s *Side, v int16) kmsg.Request {
				group := s.Own(fmt.Sprintf("gone-v%d", v))
				s.ok(commit(s, s.Highest(kmsg.OffsetCommit), group))
				return deleteGroups(group)
			},
		},
		{
			Key: kmsg.DeleteGroups, Name: "one that is not there", At: AtGroupCoordinator, Want: Failure, Codes: []int16{groupNotFound},
			Request: func(s *Side, _ int16) kmsg.Request { return deleteGroups(s.Own("none")) },
		},
	}
}

// commit commits an offset of the shared topic.
func commit(s *Side, version int16, group string) *kmsg.OffsetCommitRequest {
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	p.Offset, p.LeaderEpoch, p.Metadata = 1, -1, kmsg.StringPtr("committed")
	t := kmsg.NewOffsetCommitRequestTopic()
	t.Topic, t.TopicID, t.Partitions = s.Shared("topic"), s.id(s.Shared("topic")), append(t.Partitions, p)
	r := kmsg.NewPtrOffsetCommitRequest()
	r.Version, r.Group, r.Generation, r.RetentionTimeMillis, r.Topics = version, group, -1, -1, append(r.Topics, t)
	return r
}

// offsets asks for what a group has committed, in the form of either version.
func offsets(s *Side, group string) *kmsg.OffsetFetchRequest {
	r := kmsg.NewPtrOffsetFetchRequest()
	r.Group = group
	t := kmsg.NewOffsetFetchRequestTopic()
	t.Topic, t.Partitions = s.Shared("topic"), []int32{0, 1}
	r.Topics = append(r.Topics, t)
	g := kmsg.NewOffsetFetchRequestGroup()
	of := kmsg.NewOffsetFetchRequestGroupTopic()
	of.Topic, of.TopicID, of.Partitions = t.Topic, s.id(t.Topic), t.Partitions
	g.Group, g.MemberEpoch, g.Topics = group, -1, append(g.Topics, of)
	r.Groups = append(r.Groups, g)
	return r
}

func fetched(response kmsg.Response) bool {
	r := response.(*kmsg.OffsetFetchResponse)
	if len(r.Groups) > 0 {
		return r.Groups[0].Topics[0].Partitions[0].Offset == 1
	}
	return r.Topics[0].Partitions[0].Offset == 1
}

func offsetDelete(s *Side, group string) *kmsg.OffsetDeleteRequest {
	r := kmsg.NewPtrOffsetDeleteRequest()
	t := kmsg.NewOffsetDeleteRequestTopic()
	t.Topic, t.Partitions = s.Shared("topic"), append(t.Partitions, kmsg.NewOffsetDeleteRequestTopicPartition())
	r.Group, r.Topics = group, append(r.Topics, t)
	return r
}

func deleteGroups(group string) *kmsg.DeleteGroupsRequest {
	r := kmsg.NewPtrDeleteGroupsRequest()
	r.Groups = []string{group}
	return r
}
