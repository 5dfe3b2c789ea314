package conformance

import "github.com/twmb/franz-go/pkg/kmsg"

// metadataCases: where brokers, topics and coordinators are.
func metadataCases() []Case {
	controllerID := Mask{Field: "ControllerID", Alike: positive, Why: "a broker names any of the brokers"}
	unknown := func(s *Side, _ int16) kmsg.Request { return metadata(s.Shared("none")) }
	return []Case{
		{
			Key: kmsg.Metadata, Name: "of a topic", Shared: true,
			Request: func(s *Side, _ int16) kmsg.Request {
				r := metadata(s.Shared("topic"))
				r.IncludeTopicAuthorizedOperations, r.IncludeClusterAuthorizedOperations = true, true
				return r
			},
			Masks: []Mask{controllerID},
			Good: func(r kmsg.Response) bool {
				of := r.(*kmsg.MetadataResponse)
				return len(of.Topics) == 1 && len(of.Topics[0].Partitions) == 3 && len(of.Brokers) == 3
			},
		},
		{ // some of whose replicas are on a broker that is not there, which was an error once
			Key: kmsg.Metadata, Name: "of all topics", Shared: true, Want: Either, Masks: []Mask{controllerID},
			Request: func(_ *Side, v int16) kmsg.Request {
				r := kmsg.NewPtrMetadataRequest()
				if v == 0 {
					r.Topics = []kmsg.MetadataRequestTopic{} // null came with version 1
				}
				return r
			},
		},
		{
			Key: kmsg.Metadata, Name: "of no topic", From: 1, Shared: true, Masks: []Mask{controllerID},
			Request: func(*Side, int16) kmsg.Request { return metadata() },
		},
		{
			Key: kmsg.Metadata, Name: "of a topic by its id", From: 12, Shared: true, Masks: []Mask{controllerID},
			Request: func(s *Side, _ int16) kmsg.Request {
				r := metadata(s.Shared("topic"))
				r.Topics[0].Topic, r.Topics[0].TopicID = nil, s.id(s.Shared("topic"))
				return r
			},
		},
		{Key: kmsg.Metadata, Name: "of a topic that is not there", Want: Failure, Codes: []int16{unknownTopic}, Shared: true, Request: unknown, Masks: []Mask{controllerID}},
		{
			Key: kmsg.DescribeTopicPartitions, Name: "of a topic", Shared: true,
			Request: func(s *Side, _ int16) kmsg.Request { return topicPartitions(s.Shared("topic")) },
		},
		{
			Key: kmsg.DescribeTopicPartitions, Name: "of a topic that is not there", Want: Failure, Codes: []int16{unknownTopic}, Shared: true,
			Request: func(s *Side, _ int16) kmsg.Request { return topicPartitions(s.Shared("none")) },
		},
		{
			Key: kmsg.FindCoordinator, Name: "of a group", Shared: true,
			Request: func(s *Side, v int16) kmsg.Request { return findCoordinator(v, 0, s.Shared("offsets")) },
			Good:    coordinatorFound,
		},
		{
			Key: kmsg.FindCoordinator, Name: "of a transaction", From: 1, Shared: true,
			Request: func(s *Side, v int16) kmsg.Request { return findCoordinator(v, 1, s.Shared("txn")) },
			Good:    coordinatorFound,
		},
		{
			Key: kmsg.FindCoordinator, Name: "of three groups", From: 4, Shared: true,
			Request: func(s *Side, v int16) kmsg.Request {
				r := findCoordinator(v, 0, s.Shared("offsets"))
				r.CoordinatorKeys = append(r.CoordinatorKeys, s.Shared("classic"), s.Shared("none"))
				return r
			},
			Good: coordinatorFound,
		},
		{ // of the state of a share partition; brokers alone ask that
			Key: kmsg.FindCoordinator, Name: "of a share partition", From: 6, Shared: true, Want: Either, Codes: []int16{15}, // COORDINATOR_NOT_AVAILABLE
			Request: func(s *Side, v int16) kmsg.Request {
				return findCoordinator(v, 2, s.Shared("share")+":AAAAAAAAAAAAAAAAAAAAAQ:0")
			},
		},
		{
			Key: kmsg.FindCoordinator, Name: "without the right to", As: Poor, Want: Failure, Codes: []int16{groupDenied}, Shared: true,
			Request: func(s *Side, v int16) kmsg.Request { return findCoordinator(v, 0, s.Shared("offsets")) },
		},
		{
			Key: kmsg.FindCoordinator, Name: "of a kind that is none", From: 1, Shared: true, Want: Either,
			Request: func(s *Side, v int16) kmsg.Request { return findCoordinator(v, 9, s.Shared("offsets")) },
		},
		{
			Key: kmsg.DescribeCluster, Name: "with its brokers", Shared: true, Masks: []Mask{controllerID},
			Request: func(*Side, int16) kmsg.Request {
				r := kmsg.NewPtrDescribeClusterRequest()
				r.IncludeClusterAuthorizedOperations = true
				return r
			},
		},
		{
			Key: kmsg.DescribeCluster, Name: "with its fenced brokers", From: 2, Shared: true, Masks: []Mask{controllerID},
			Request: func(*Side, int16) kmsg.Request {
				r := kmsg.NewPtrDescribeClusterRequest()
				r.IncludeFencedBrokers = true
				return r
			},
			Good: func(r kmsg.Response) bool { return len(r.(*kmsg.DescribeClusterResponse).Brokers) > 3 },
		},
		{
			Key: kmsg.DescribeCluster, Name: "with its controllers", From: 1, Shared: true, Want: Failure, Codes: []int16{114, badEndpointType},
			Request: func(*Side, int16) kmsg.Request {
				r := kmsg.NewPtrDescribeClusterRequest()
				r.EndpointType = 2
				return r
			},
		},
		{
			Key: kmsg.DescribeQuorum, Name: "of the cluster's metadata", Shared: true,
			Request: func(*Side, int16) kmsg.Request { return describeQuorum("__cluster_metadata") },
			Masks: []Mask{
				moment("Topics[].Partitions[].CurrentVoters[].LastFetchTimestamp"), moment("Topics[].Partitions[].CurrentVoters[].LastCaughtUpTimestamp"),
				moment("Topics[].Partitions[].Observers[].LastFetchTimestamp"), moment("Topics[].Partitions[].Observers[].LastCaughtUpTimestamp"),
			},
		},
		{
			Key: kmsg.DescribeQuorum, Name: "of another topic", Shared: true, Want: Failure, Codes: []int16{unknownTopic},
			Request: func(s *Side, _ int16) kmsg.Request { return describeQuorum(s.Shared("topic")) },
		},
		{
			Key: kmsg.DescribeQuorum, Name: "without the right to", Shared: true, As: Poor, Want: Failure, Codes: []int16{clusterDenied},
			Request: func(*Side, int16) kmsg.Request { return describeQuorum("__cluster_metadata") },
		},
	}
}

func moment(field Path) Mask {
	return Mask{Field: field, Alike: sameMoment(), Why: "a time, which moves on"}
}

func topicPartitions(topic string) *kmsg.DescribeTopicPartitionsRequest {
	t := kmsg.NewDescribeTopicPartitionsRequestTopic()
	t.Topic = topic
	r := kmsg.NewPtrDescribeTopicPartitionsRequest()
	r.ResponsePartitionLimit, r.Topics = 100, append(r.Topics, t)
	return r
}

// findCoordinator asks for one, in the form of the version.
func findCoordinator(version int16, kind int8, key string) *kmsg.FindCoordinatorRequest {
	r := kmsg.NewPtrFindCoordinatorRequest()
	r.Version, r.CoordinatorType = version, kind
	if version < 4 {
		r.CoordinatorKey = key
	} else {
		r.CoordinatorKeys = []string{key}
	}
	return r
}

func coordinatorFound(response kmsg.Response) bool {
	r := response.(*kmsg.FindCoordinatorResponse)
	if r.Version < 4 {
		return r.NodeID > 0 && r.Host != ""
	}
	return len(r.Coordinators) > 0 && r.Coordinators[0].NodeID > 0 && r.Coordinators[0].Host != ""
}

func describeQuorum(topic string) *kmsg.DescribeQuorumRequest {
	t := kmsg.NewDescribeQuorumRequestTopic()
	t.Topic, t.Partitions = topic, append(t.Partitions, kmsg.NewDescribeQuorumRequestTopicPartition())
	r := kmsg.NewPtrDescribeQuorumRequest()
	r.Topics = append(r.Topics, t)
	return r
}
