package conformance

import (
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// streamsCases: streams groups (KIP-1071).
func streamsCases() []Case {
	return []Case{
		{
			Key: kmsg.StreamsGroupHeartbeat, Name: "joins a group", At: AtGroupCoordinator,
			Request: func(s *Side, v int16) kmsg.Request {
				return streamsHeartbeat(s.Own(fmt.Sprintf("streams-v%d", v)), 0)
			},
		},
		{
			Key: kmsg.StreamsGroupHeartbeat, Name: "stays in a group", At: AtGroupCoordinator,
			Request: func(s *Side, v int16) kmsg.Request {
				group := s.Own(fmt.Sprintf("streams-stays-v%d", v))
				return streamsHeartbeat(group, s.streaming(group))
			},
		},
		{
			Key: kmsg.StreamsGroupHeartbeat, Name: "of a member that the group does not know", At: AtGroupCoordinator, Want: Failure,
			Codes:   []int16{unknownMember, groupNotFound},
			Request: func(s *Side, _ int16) kmsg.Request { return streamsHeartbeat(s.Own("none"), 7) },
		},
		{
			Key: kmsg.StreamsGroupHeartbeat, Name: "without the right to", At: AtGroupCoordinator, As: Poor, Want: Failure, Codes: []int16{groupDenied},
			Request: func(s *Side, _ int16) kmsg.Request { return streamsHeartbeat(s.Own("denied"), 0) },
		},
		{
			Key: kmsg.StreamsGroupDescribe, Name: "with a member", At: AtGroupCoordinator, Shared: true,
			Request: func(s *Side, _ int16) kmsg.Request { return streamsDescribe(s.Shared("streams")) },
			Good: func(r kmsg.Response) bool {
				return len(r.(*kmsg.StreamsGroupDescribeResponse).Groups[0].Members) == 1
			},
		},
		{
			Key: kmsg.StreamsGroupDescribe, Name: "one that is not there", At: AtGroupCoordinator, Want: Failure, Codes: []int16{groupNotFound}, Shared: true,
			Request: func(s *Side, _ int16) kmsg.Request { return streamsDescribe(s.Shared("none")) },
		},
		{
			Key: kmsg.StreamsGroupTopologyDescriptionUpdate, Name: "without the right to", At: AtGroupCoordinator, As: Poor, Want: Failure, Codes: []int16{groupDenied},
			Request: func(s *Side, _ int16) kmsg.Request {
				r := kmsg.NewPtrStreamsGroupTopologyDescriptionUpdateRequest()
				r.Group, r.MemberID = s.Own("denied"), memberName
				return r
			},
		},
		{
			Key: kmsg.StreamsGroupTopologyDescriptionUpdate, Name: "of a group that is not there", At: AtGroupCoordinator, Want: Either,
			Request: func(s *Side, _ int16) kmsg.Request {
				r := kmsg.NewPtrStreamsGroupTopologyDescriptionUpdateRequest()
				r.Group, r.MemberID = s.Own("none"), memberName
				return r
			},
		},
	}
}

// streamsHeartbeat is a member's of an application that reads the shared topic.
func streamsHeartbeat(group string, epoch int32) *kmsg.StreamsGroupHeartbeatRequest {
	r := kmsg.NewPtrStreamsGroupHeartbeatRequest()
	r.Group, r.MemberID, r.MemberEpoch = group, memberName, epoch
	if epoch != 0 {
		return r
	}
	r.RebalanceTimeoutMillis, r.ProcessID = 60_000, kmsg.StringPtr("process")
	sub := kmsg.NewStreamsGroupHeartbeatRequestTopologySubtopology()
	sub.SubtopologyID, sub.SourceTopics = "0", []string{"conf-shared-topic"}
	t := kmsg.NewStreamsGroupHeartbeatRequestTopology()
	t.Subtopologies = append(t.Subtopologies, sub)
	r.Topology = &t
	r.ActiveTasks, r.StandbyTasks, r.WarmupTasks = []kmsg.TaskIDs{}, []kmsg.TaskIDs{}, []kmsg.TaskIDs{}
	e := kmsg.NewStreamsGroupHeartbeatRequestUserEndpoint()
	e.Host, e.Port = "streams.example.com", 4711
	tag := kmsg.NewStreamsGroupHeartbeatRequestClientTag()
	tag.Key, tag.Value = "zone", "a"
	r.UserEndpoint, r.ClientTags = &e, append(r.ClientTags, tag)
	return r
}

// streaming is a member of a stable group. It returns its epoch.
func (s *Side) streaming(group string) int32 {
	first := s.ok(streamsHeartbeat(group, 0)).(*kmsg.StreamsGroupHeartbeatResponse)
	epoch := first.MemberEpoch
	active := first.ActiveTasks
	for ; ; time.Sleep(pause) {
		r := streamsHeartbeat(group, epoch)
		if active != nil {
			r.ActiveTasks, r.StandbyTasks, r.WarmupTasks = active, []kmsg.TaskIDs{}, []kmsg.TaskIDs{}
		}
		again := s.ok(r).(*kmsg.StreamsGroupHeartbeatResponse)
		epoch = again.MemberEpoch
		if again.ActiveTasks != nil {
			active = again.ActiveTasks
		}
		told := s.ok(streamsDescribe(group)).(*kmsg.StreamsGroupDescribeResponse).Groups[0]
		if len(active) > 0 && told.State == "Stable" && told.Epoch == epoch {
			return epoch
		}
	}
}

func streamsDescribe(group string) *kmsg.StreamsGroupDescribeRequest {
	r := kmsg.NewPtrStreamsGroupDescribeRequest()
	r.Groups, r.IncludeAuthorizedOperations = []string{group}, true
	return r
}
