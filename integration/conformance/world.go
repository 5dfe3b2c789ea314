package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// World is what exists in the cluster before the first question. All of it is made by
// Prepare, but for the nodes.
type World struct {
	// Nodes are the brokers: 1, 2 and 3.
	Nodes []int32
	// Fenced are three brokers that the controller knows, and that never were there: one
	// to move a replica to, and one for each side to unregister. Controllers are the same
	// for controllers, of which nobody needs one to move to; zeros where there are none.
	Fenced      [3]int32
	Controllers [2]int32

	// Served and Offered are what a broker offers directly and through the gateway: key →
	// lowest and highest version.
	Served, Offered map[int16][2]int16

	ClusterID            string
	GroupNode, TxnNode   int32
	LogDir               string              // of node 1
	Finalized, Supported map[string][2]int16 // features, as a broker tells: lowest and highest
	TopicIDs             map[string][16]byte // by name
	order                []string            // of topics, as they are made
	topics               map[string]topic
}

// topic is how a topic has to be made.
type topic struct {
	replicas [][]int32 // by partition
}

// Highest is the highest version of a key that all can use.
func (w *World) Highest(key kmsg.Key) int16 {
	highest := min(kmsg.RequestForKey(int16(key)).MaxVersion(), w.Served[int16(key)][1])
	if offered, ok := w.Offered[int16(key)]; ok {
		highest = min(highest, offered[1])
	}
	return highest
}

// Serves tells whether a key is served directly and offered through the gateway.
func (w *World) Serves(key kmsg.Key) bool {
	_, served := w.Served[int16(key)]
	_, offered := w.Offered[int16(key)]
	return served && offered
}

// Other is a node that is not this one.
func (w *World) Other(node int32) int32 { return 1 + node%int32(len(w.Nodes)) }

// versions asks what is offered.
func (s *Side) versions() (*kmsg.ApiVersionsResponse, map[int16][2]int16) {
	r := kmsg.NewPtrApiVersionsRequest()
	r.Version, r.ClientSoftwareName, r.ClientSoftwareVersion = 3, "conformance", "1"
	response := s.do(r).(*kmsg.ApiVersionsResponse)
	out := map[int16][2]int16{}
	for _, k := range response.ApiKeys {
		out[k.ApiKey] = [2]int16{k.MinVersion, k.MaxVersion}
	}
	return response, out
}

// prepare makes the world, through the direct side.
func (w *World) prepare(ctx context.Context, direct, gateway *Side) (err error) {
	defer func() {
		if r := recover(); r != nil {
			f, ok := r.(failure)
			if !ok {
				panic(r)
			}
			err = f.error
		}
	}()
	for _, s := range []*Side{direct, gateway} {
		s.World, s.ctx, s.via = w, ctx, way{1, Rich, ViaToken}
	}
	direct.leaving, gateway.leaving = w.Fenced[1], w.Fenced[2]
	direct.resigning, gateway.resigning = w.Controllers[0], w.Controllers[1]
	said, served := direct.versions()
	_, w.Offered = gateway.versions()
	w.Served = served
	w.Finalized, w.Supported = map[string][2]int16{}, map[string][2]int16{}
	for _, f := range said.FinalizedFeatures {
		w.Finalized[f.Name] = [2]int16{f.MinVersionLevel, f.MaxVersionLevel}
	}
	for _, f := range said.SupportedFeatures {
		w.Supported[f.Name] = [2]int16{f.MinVersion, f.MaxVersion}
	}
	w.makeTopics(direct, gateway)
	w.GroupNode = w.coordinator(direct, 0)
	w.TxnNode = w.coordinator(direct, 1)
	dirs := direct.ok(kmsg.NewPtrDescribeLogDirsRequest()).(*kmsg.DescribeLogDirsResponse)
	if len(dirs.Dirs) == 0 {
		return errors.New("node 1 has no log directory")
	}
	w.LogDir = dirs.Dirs[0].Dir
	w.makeShared(direct)
	w.makeConfigs(direct, direct.Tag)
	w.makeConfigs(direct, gateway.Tag)
	return nil
}

// coordinator finds where groups or transactions are coordinated. The first question of
// all makes the internal topic.
func (w *World) coordinator(s *Side, kind int8) int32 {
	name := w.Shared("offsets")
	response := until(s, 1, func() kmsg.Request {
		r := kmsg.NewPtrFindCoordinatorRequest()
		r.CoordinatorType, r.CoordinatorKeys = kind, []string{name}
		return r
	}, func(r *kmsg.FindCoordinatorResponse) bool {
		return len(r.Coordinators) == 1 && r.Coordinators[0].ErrorCode == 0
	})
	node := response.Coordinators[0].NodeID
	// Every node has to know it, and the coordinator has to be at work.
	for _, n := range w.Nodes {
		until(s, n, func() kmsg.Request {
			r := kmsg.NewPtrFindCoordinatorRequest()
			r.CoordinatorType, r.CoordinatorKeys = kind, []string{name}
			return r
		}, func(r *kmsg.FindCoordinatorResponse) bool { return r.Coordinators[0].NodeID == node })
	}
	until(s, node, func() kmsg.Request {
		if kind == 0 {
			return commit(s, w.Highest(kmsg.OffsetCommit), name)
		}
		return initProducer(name)
	}, func(r kmsg.Response) bool {
		return !slices.ContainsFunc(ErrorCodes(r), func(code int16) bool { return code != 0 })
	})
	return node
}

func (w *World) add(name string, t topic) {
	if w.topics == nil {
		w.topics = map[string]topic{}
	}
	w.topics[name] = t
	w.order = append(w.order, name)
}

// makeTopics makes all topics in one go, and waits until every node knows them.
func (w *World) makeTopics(direct, gateway *Side) {
	single := [][]int32{{1}}
	w.add(w.Shared("topic"), topic{replicas: [][]int32{{1}, {2}, {3}}})
	w.add(w.Shared("moving"), topic{replicas: single})
	for _, s := range []*Side{direct, gateway} {
		for _, name := range []string{"produce", "trunc", "alter", "grow", "offsets", "txn"} {
			w.add(s.Own(name), topic{replicas: single})
		}
		w.add(s.Own("share"), topic{replicas: [][]int32{{1}, {2}}})
		for v := range int16(10) {
			w.add(s.Own(fmt.Sprintf("delete-v%d", v)), topic{replicas: single})
		}
		for v := range int16(3) {
			w.add(s.Own(fmt.Sprintf("elect-v%d", v)), topic{replicas: [][]int32{{1, 2}}})
			w.add(s.Own(fmt.Sprintf("move-v%d", v)), topic{replicas: [][]int32{{1, 2}}})
		}
	}
	create := kmsg.NewPtrCreateTopicsRequest()
	create.TimeoutMillis = 20_000
	for _, name := range w.order {
		t := kmsg.NewCreateTopicsRequestTopic()
		t.Topic, t.NumPartitions, t.ReplicationFactor = name, -1, -1
		for p, replicas := range w.topics[name].replicas {
			a := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
			a.Partition, a.Replicas = int32(p), replicas
			t.ReplicaAssignment = append(t.ReplicaAssignment, a)
		}
		create.Topics = append(create.Topics, t)
	}
	direct.ok(create)
	w.TopicIDs = map[string][16]byte{}
	for _, n := range w.Nodes {
		answer := until(direct, n, func() kmsg.Request { return metadata(w.order...) }, func(r *kmsg.MetadataResponse) bool {
			return !slices.ContainsFunc(r.Topics, func(t kmsg.MetadataResponseTopic) bool {
				want := w.topics[*t.Topic].replicas
				return t.ErrorCode != 0 || len(t.Partitions) != len(want) || slices.ContainsFunc(t.Partitions, func(p kmsg.MetadataResponseTopicPartition) bool {
					return p.ErrorCode != 0 || p.Leader != want[p.Partition][0]
				})
			})
		})
		w.ClusterID = *answer.ClusterID
		for _, t := range answer.Topics {
			w.TopicIDs[*t.Topic] = t.TopicID
		}
	}
}

// metadata asks for these topics.
func metadata(topics ...string) *kmsg.MetadataRequest {
	r := kmsg.NewPtrMetadataRequest()
	r.Topics = []kmsg.MetadataRequestTopic{}
	for _, name := range topics {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = kmsg.StringPtr(name)
		r.Topics = append(r.Topics, t)
	}
	return r
}
