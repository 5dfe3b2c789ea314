package conformance

import (
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// memberName is a member's id where clients choose it: each group has its own members.
const memberName = "Y29uZm9ybWFuY2UtMQ"

// newGroupCases: consumer groups as KIP-848 has them.
func newGroupCases() []Case {
	return []Case{
		{
			Key: kmsg.ConsumerGroupHeartbeat, Name: "joins a group", At: AtGroupCoordinator,
			Request: func(s *Side, v int16) kmsg.Request {
				r := heartbeat(s.Own(fmt.Sprintf("modern-v%d", v)), 0)
				if v == 0 {
					r.MemberID = ""
				}
				return r
			},
			Masks: []Mask{{Field: "MemberID", Before: 1, Alike: bothSet, Why: "the broker draws it"}},
		},
		{
			Key: kmsg.ConsumerGroupHeartbeat, Name: "stays in a group", At: AtGroupCoordinator,
			Request: func(s *Side, v int16) kmsg.Request {
				group := s.Own(fmt.Sprintf("modern-stays-v%d", v))
				return heartbeat(group, s.settled(group))
			},
		},
		{
			Key: kmsg.ConsumerGroupHeartbeat, Name: "leaves a group", At: AtGroupCoordinator,
			Request: func(s *Side, v int16) kmsg.Request {
				group := s.Own(fmt.Sprintf("modern-leaves-v%d", v))
				s.settled(group)
				return heartbeat(group, -1)
			},
		},
		{
			Key: kmsg.ConsumerGroupHeartbeat, Name: "of a member that the group does not know", At: AtGroupCoordinator, Want: Failure,
			Codes:   []int16{unknownMember, groupNotFound},
			Request: func(s *Side, _ int16) kmsg.Request { return heartbeat(s.Own("none"), 7) },
		},
		{
			Key: kmsg.ConsumerGroupHeartbeat, Name: "without the right to", At: AtGroupCoordinator, As: Poor, Want: Failure, Codes: []int16{groupDenied},
			Request: func(s *Side, _ int16) kmsg.Request { return heartbeat(s.Own("denied"), 0) },
		},
		{
			Key: kmsg.ConsumerGroupDescribe, Name: "with a member", At: AtGroupCoordinator, Shared: true,
			Request: func(s *Side, _ int16) kmsg.Request { return consumerGroupDescribe(s.Shared("modern")) },
			Good: func(r kmsg.Response) bool {
				return len(r.(*kmsg.ConsumerGroupDescribeResponse).Groups[0].Members) == 1
			},
		},
		{
			Key: kmsg.ConsumerGroupDescribe, Name: "one that is not there", At: AtGroupCoordinator, Want: Failure, Codes: []int16{groupNotFound}, Shared: true,
			Request: func(s *Side, _ int16) kmsg.Request { return consumerGroupDescribe(s.Shared("none")) },
		},
		{
			Key: kmsg.ConsumerGroupDescribe, Name: "without the right to", At: AtGroupCoordinator, As: Poor, Want: Failure, Codes: []int16{groupDenied}, Shared: true,
			Request: func(s *Side, _ int16) kmsg.Request { return consumerGroupDescribe(s.Shared("modern")) },
		},
	}
}

// heartbeat is a member's that reads the shared topic; with epoch 0 it joins, with -1 it
// leaves.
func heartbeat(group string, epoch int32) *kmsg.ConsumerGroupHeartbeatRequest {
	r := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	r.Group, r.MemberID, r.MemberEpoch = group, memberName, epoch
	if epoch == 0 {
		r.RebalanceTimeoutMillis, r.SubscribedTopicNames = 60_000, []string{"conf-shared-topic"}
		r.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	}
	return r
}

// settled is a member of a stable group, and has said so. It returns its epoch.
func (s *Side) settled(group string) int32 {
	first := s.ok(heartbeat(group, 0)).(*kmsg.ConsumerGroupHeartbeatResponse)
	epoch := first.MemberEpoch
	var got []kmsg.ConsumerGroupHeartbeatRequestTopic
	take := func(a *kmsg.ConsumerGroupHeartbeatResponseAssignment) {
		if a == nil {
			return
		}
		got = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
		for _, t := range a.Topics {
			of := kmsg.NewConsumerGroupHeartbeatRequestTopic()
			of.TopicID, of.Partitions = t.TopicID, t.Partitions
			got = append(got, of)
		}
	}
	take(first.Assignment)
	for ; ; time.Sleep(pause) {
		r := heartbeat(group, epoch)
		r.Topics = got
		again := s.ok(r).(*kmsg.ConsumerGroupHeartbeatResponse)
		epoch = again.MemberEpoch
		take(again.Assignment)
		told := s.ok(consumerGroupDescribe(group)).(*kmsg.ConsumerGroupDescribeResponse).Groups[0]
		if len(got) > 0 && told.State == "Stable" && told.Epoch == epoch {
			return epoch
		}
	}
}

func consumerGroupDescribe(group string) *kmsg.ConsumerGroupDescribeRequest {
	r := kmsg.NewPtrConsumerGroupDescribeRequest()
	r.Groups, r.IncludeAuthorizedOperations = []string{group}, true
	return r
}
