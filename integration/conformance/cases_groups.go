package conformance

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// groupCases: consumer groups as they were before KIP-848.
func groupCases() []Case {
	generated := func(field Path) Mask { return Mask{Field: field, Alike: bothSet, Why: "the broker draws it"} }
	return []Case{
		{
			Key: kmsg.JoinGroup, Name: "an empty group, in one step", At: AtGroupCoordinator, Before: 4,
			Request: func(s *Side, v int16) kmsg.Request { return joinGroup(s.Own(fmt.Sprintf("join-v%d", v)), "") },
			Masks:   []Mask{generated("MemberID"), generated("LeaderID"), generated("Members[].MemberID")},
		},
		{
			Key: kmsg.JoinGroup, Name: "an empty group, without a member id", At: AtGroupCoordinator, From: 4, Want: Failure, Codes: []int16{memberIDRequired},
			Request: func(s *Side, v int16) kmsg.Request { return joinGroup(s.Own(fmt.Sprintf("join-v%d", v)), "") },
			Masks:   []Mask{generated("MemberID")},
		},
		{
			Key: kmsg.JoinGroup, Name: "an empty group", At: AtGroupCoordinator, From: 4,
			Request: func(s *Side, v int16) kmsg.Request {
				group := s.Own(fmt.Sprintf("join-v%d", v))
				return joinGroup(group, s.memberID(group))
			},
		},
		{
			Key: kmsg.JoinGroup, Name: "without the right to", At: AtGroupCoordinator, As: Poor, Want: Failure, Codes: []int16{groupDenied},
			Request: func(s *Side, _ int16) kmsg.Request { return joinGroup(s.Own("denied"), "") },
		},
		{
			Key: kmsg.SyncGroup, Name: "as the leader", At: AtGroupCoordinator,
			Request: func(s *Side, v int16) kmsg.Request {
				group := s.Own(fmt.Sprintf("sync-v%d", v))
				id, generation := s.joined(group)
				return syncGroup(group, id, generation)
			},
		},
		{
			Key: kmsg.SyncGroup, Name: "as a member that the group does not know", At: AtGroupCoordinator, Want: Failure, Codes: []int16{unknownMember},
			Request: func(s *Side, _ int16) kmsg.Request { return syncGroup(s.Own("none"), "stranger", 1) },
		},
		{
			Key: kmsg.Heartbeat, Name: "of a member", At: AtGroupCoordinator,
			Request: func(s *Side, v int16) kmsg.Request {
				group := s.Own(fmt.Sprintf("beat-v%d", v))
				id, generation := s.member(group)
				r := kmsg.NewPtrHeartbeatRequest()
				r.Group, r.Generation, r.MemberID = group, generation, id
				return r
			},
		},
		{
			Key: kmsg.Heartbeat, Name: "of a member that the group does not know", At: AtGroupCoordinator, Want: Failure, Codes: []int16{unknownMember},
			Request: func(s *Side, _ int16) kmsg.Request {
				r := kmsg.NewPtrHeartbeatRequest()
				r.Group, r.Generation, r.MemberID = s.Own("none"), 1, "stranger"
				return r
			},
		},
		{
			Key: kmsg.LeaveGroup, Name: "as a member", At: AtGroupCoordinator, Good: anything,
			Request: func(s *Side, v int16) kmsg.Request {
				group := s.Own(fmt.Sprintf("leave-v%d", v))
				id, _ := s.member(group)
				return leaveGroup(group, id)
			},
		},
		{
			Key: kmsg.LeaveGroup, Name: "as a member that the group does not know", At: AtGroupCoordinator, Want: Failure, Codes: []int16{unknownMember},
			Request: func(s *Side, _ int16) kmsg.Request { return leaveGroup(s.Own("none"), "stranger") },
		},
		{
			Key: kmsg.DescribeGroups, Name: "with a member", At: AtGroupCoordinator, Shared: true,
			Request: func(s *Side, _ int16) kmsg.Request { return describeGroups(s.Shared("classic")) },
			Good: func(r kmsg.Response) bool {
				return len(r.(*kmsg.DescribeGroupsResponse).Groups[0].Members) == 1
			},
		},
		{
			Key: kmsg.DescribeGroups, Name: "without the right to", At: AtGroupCoordinator, As: Poor, Want: Failure, Codes: []int16{groupDenied}, Shared: true,
			Request: func(s *Side, _ int16) kmsg.Request { return describeGroups(s.Shared("classic")) },
		},
		{
			Key: kmsg.DescribeGroups, Name: "from a broker that does not coordinate", At: AtOther, Want: Failure, Codes: []int16{notCoordinator}, Shared: true,
			Request: func(s *Side, _ int16) kmsg.Request { return describeGroups(s.Shared("classic")) },
		},
		{
			Key: kmsg.ListGroups, Name: "all of a broker", At: AtGroupCoordinator, Shared: true,
			Request: func(*Side, int16) kmsg.Request { return kmsg.NewPtrListGroupsRequest() },
		},
		{
			Key: kmsg.ListGroups, Name: "by state and kind", At: AtGroupCoordinator, From: 5, Shared: true,
			Request: func(*Side, int16) kmsg.Request {
				r := kmsg.NewPtrListGroupsRequest()
				r.StatesFilter, r.TypesFilter = []string{"Stable"}, []string{"classic"}
				return r
			},
		},
	}
}

// joinGroup asks to be a member of a group of consumers of the shared topic, for half an hour.
func joinGroup(group, member string) *kmsg.JoinGroupRequest {
	of := kmsg.NewConsumerMemberMetadata()
	of.Topics = []string{"conf-shared-topic"}
	p := kmsg.NewJoinGroupRequestProtocol()
	p.Name, p.Metadata = "range", of.AppendTo(nil)
	r := kmsg.NewPtrJoinGroupRequest()
	r.Group, r.MemberID, r.ProtocolType, r.Protocols = group, member, "consumer", append(r.Protocols, p)
	r.SessionTimeoutMillis, r.RebalanceTimeoutMillis = 1_800_000, 60_000
	return r
}

// memberID gets an id in a group, and is not in it yet.
func (s *Side) memberID(group string) string {
	response := until(s, s.via.node, func() kmsg.Request { return joinGroup(group, "") }, func(r *kmsg.JoinGroupResponse) bool {
		return r.ErrorCode == memberIDRequired
	})
	return s.learn(response.MemberID)
}

// joined is in a group that waits for its leader's assignments.
func (s *Side) joined(group string) (member string, generation int32) {
	member = s.memberID(group)
	return member, s.ok(joinGroup(group, member)).(*kmsg.JoinGroupResponse).Generation
}

// member is in a stable group.
func (s *Side) member(group string) (member string, generation int32) {
	member, generation = s.joined(group)
	s.ok(syncGroup(group, member, generation))
	return member, generation
}

func syncGroup(group, member string, generation int32) *kmsg.SyncGroupRequest {
	to := kmsg.NewConsumerMemberAssignment()
	t := kmsg.NewConsumerMemberAssignmentTopic()
	t.Topic, t.Partitions = "conf-shared-topic", []int32{0, 1, 2}
	to.Topics = append(to.Topics, t)
	a := kmsg.NewSyncGroupRequestGroupAssignment()
	a.MemberID, a.MemberAssignment = member, to.AppendTo(nil)
	r := kmsg.NewPtrSyncGroupRequest()
	r.Group, r.MemberID, r.Generation, r.GroupAssignment = group, member, generation, append(r.GroupAssignment, a)
	r.ProtocolType, r.Protocol = kmsg.StringPtr("consumer"), kmsg.StringPtr("range")
	return r
}

func leaveGroup(group, member string) *kmsg.LeaveGroupRequest {
	m := kmsg.NewLeaveGroupRequestMember()
	m.MemberID = member
	r := kmsg.NewPtrLeaveGroupRequest()
	r.Group, r.MemberID, r.Members = group, member, append(r.Members, m)
	return r
}

func describeGroups(group string) *kmsg.DescribeGroupsRequest {
	r := kmsg.NewPtrDescribeGroupsRequest()
	r.Groups, r.IncludeAuthorizedOperations = []string{group}, true
	return r
}
