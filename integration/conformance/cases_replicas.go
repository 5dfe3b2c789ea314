package conformance

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// replicaCases: where replicas are, and which of them leads.
func replicaCases() []Case {
	return []Case{
		{ // the preferred one does not lead: makeShared has seen to it
			Key: kmsg.ElectLeaders, Name: "the preferred one",
			Request: func(s *Side, v int16) kmsg.Request { return electLeaders(s.Own(fmt.Sprintf("elect-v%d", v))) },
		},
		{
			Key: kmsg.ElectLeaders, Name: "the one that leads already", Want: Failure, Codes: []int16{84}, // ELECTION_NOT_NEEDED
			Request: func(s *Side, _ int16) kmsg.Request { return electLeaders(s.Shared("topic")) },
		},
		{
			Key: kmsg.ElectLeaders, Name: "without the right to", As: Poor, Want: Failure, Codes: []int16{clusterDenied},
			Request: func(s *Side, _ int16) kmsg.Request { return electLeaders(s.Shared("topic")) },
		},
		{
			Key: kmsg.AlterPartitionAssignments, Name: "in another order",
			Request: func(s *Side, v int16) kmsg.Request {
				return reassign(s.Own(fmt.Sprintf("move-v%d", v)), 2, 1)
			},
		},
		{
			Key: kmsg.AlterPartitionAssignments, Name: "of a topic that is not there", Want: Failure, Codes: []int16{unknownTopic},
			Request: func(s *Side, _ int16) kmsg.Request { return reassign(s.Own("none"), 2, 1) },
		},
		{
			Key: kmsg.AlterPartitionAssignments, Name: "without the right to", As: Poor, Want: Failure, Codes: []int16{clusterDenied},
			Request: func(s *Side, _ int16) kmsg.Request { return reassign(s.Own("none"), 2, 1) },
		},
		{
			Key: kmsg.ListPartitionReassignments, Name: "one that goes on", Shared: true,
			Request: func(*Side, int16) kmsg.Request {
				r := kmsg.NewPtrListPartitionReassignmentsRequest()
				r.TimeoutMillis = 20_000
				return r
			},
		},
		{
			Key: kmsg.ListPartitionReassignments, Name: "without the right to", As: Poor, Shared: true, Want: Failure, Codes: []int16{clusterDenied},
			Request: func(*Side, int16) kmsg.Request {
				r := kmsg.NewPtrListPartitionReassignmentsRequest()
				r.TimeoutMillis = 20_000
				return r
			},
		},
		{
			Key: kmsg.AlterReplicaLogDirs, Name: "to the one where it is",
			Request: func(s *Side, _ int16) kmsg.Request { return replicaLogDirs(s.LogDir, s.Own("alter")) },
		},
		{
			Key: kmsg.AlterReplicaLogDirs, Name: "to one that is not there", Want: Failure, Codes: []int16{57}, // LOG_DIR_NOT_FOUND
			Request: func(s *Side, _ int16) kmsg.Request { return replicaLogDirs("/nowhere", s.Own("alter")) },
		},
		{
			Key: kmsg.DescribeLogDirs, Name: "of a topic", Shared: true,
			Request: func(s *Side, _ int16) kmsg.Request { return describeLogDirs(s.Shared("topic")) },
			Masks:   []Mask{{Field: "Dirs[].UsableBytes", From: 4, Alike: within(16 << 30), Why: "the disk fills while the run goes on"}},
		},
		{
			Key: kmsg.DescribeLogDirs, Name: "without the right to", As: Poor, From: 3, Shared: true, Want: Failure, Codes: []int16{clusterDenied},
			Request: func(s *Side, _ int16) kmsg.Request { return describeLogDirs(s.Shared("topic")) },
		},
	}
}

func electLeaders(topic string) *kmsg.ElectLeadersRequest {
	t := kmsg.NewElectLeadersRequestTopic()
	t.Topic, t.Partitions = topic, []int32{0}
	r := kmsg.NewPtrElectLeadersRequest()
	r.TimeoutMillis, r.Topics = 20_000, append(r.Topics, t)
	return r
}

// reassign puts partition 0 of topics on these nodes.
func reassign(topic string, nodes ...int32) *kmsg.AlterPartitionAssignmentsRequest {
	p := kmsg.NewAlterPartitionAssignmentsRequestTopicPartition()
	p.Replicas = nodes
	t := kmsg.NewAlterPartitionAssignmentsRequestTopic()
	t.Topic, t.Partitions = topic, append(t.Partitions, p)
	r := kmsg.NewPtrAlterPartitionAssignmentsRequest()
	r.TimeoutMillis, r.Topics = 20_000, append(r.Topics, t)
	return r
}

func replicaLogDirs(dir, topic string) *kmsg.AlterReplicaLogDirsRequest {
	t := kmsg.NewAlterReplicaLogDirsRequestDirTopic()
	t.Topic, t.Partitions = topic, []int32{0}
	d := kmsg.NewAlterReplicaLogDirsRequestDir()
	d.Dir, d.Topics = dir, append(d.Topics, t)
	r := kmsg.NewPtrAlterReplicaLogDirsRequest()
	r.Dirs = append(r.Dirs, d)
	return r
}

func describeLogDirs(topic string) *kmsg.DescribeLogDirsRequest {
	t := kmsg.NewDescribeLogDirsRequestTopic()
	t.Topic, t.Partitions = topic, []int32{0}
	r := kmsg.NewPtrDescribeLogDirsRequest()
	r.Topics = append(r.Topics, t)
	return r
}
