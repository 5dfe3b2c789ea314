//go:build integration

package harness

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// SpreadTopic makes a topic whose partition p is led by node 1 + p mod N, on up
// to three replicas, and waits until every node knows all its leaders.
func (a *Admin) SpreadTopic(ctx context.Context, topic string, partitions int) error {
	nodes := len(a.cluster.Nodes)
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = topic, -1, -1 // as assigned
	for p := range partitions {
		r := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
		r.Partition = int32(p)
		for k := range min(3, nodes) {
			r.Replicas = append(r.Replicas, int32(1+(p+k)%nodes))
		}
		t.ReplicaAssignment = append(t.ReplicaAssignment, r)
	}
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = 15_000
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, a.Kafka)
	if err != nil {
		return err
	}
	for _, r := range resp.Topics {
		if err := kerr.ErrorForCode(r.ErrorCode); err != nil {
			return fmt.Errorf("create topic %s: %w: %s", topic, err, deref(r.ErrorMessage))
		}
	}
	return until(ctx, func() error {
		for _, n := range a.cluster.Nodes {
			leaders, err := a.Leaders(ctx, n.ID, topic)
			if err != nil {
				return err
			}
			for p := range partitions {
				if leaders[int32(p)] != int32(1+p%nodes) {
					return fmt.Errorf("node %d: leaders of %s are %v", n.ID, topic, leaders)
				}
			}
		}
		return nil
	})
}

// Leaders returns the leader of each partition of a topic, as the node knows it.
func (a *Admin) Leaders(ctx context.Context, node int32, topic string) (map[int32]int32, error) {
	req := kmsg.NewPtrMetadataRequest()
	t := kmsg.NewMetadataRequestTopic()
	t.Topic = kmsg.StringPtr(topic)
	req.Topics = append(req.Topics, t)
	resp, err := a.Kafka.Broker(int(node)).RetriableRequest(ctx, req)
	if err != nil {
		return nil, err
	}
	out := map[int32]int32{}
	for _, t := range resp.(*kmsg.MetadataResponse).Topics {
		for _, p := range t.Partitions {
			out[p.Partition] = p.Leader
		}
	}
	return out, nil
}

// MoveLeader makes node the leader of a partition that it is a replica of, and
// waits until it is.
func (a *Admin) MoveLeader(ctx context.Context, topic string, partition, node int32) error {
	details, err := a.ListTopics(ctx, topic)
	if err != nil {
		return err
	}
	order := []int32{node}
	for _, r := range details[topic].Partitions[partition].Replicas {
		if r != node {
			order = append(order, r)
		}
	}
	var move kadm.AlterPartitionAssignmentsReq
	move.Assign(topic, partition, order)
	moved, err := a.AlterPartitionAssignments(ctx, move)
	if err = errors.Join(err, moved.Error()); err != nil {
		return fmt.Errorf("move %s/%d to node %d: %w", topic, partition, node, err)
	}
	var set kadm.TopicsSet
	set.Add(topic, partition)
	return until(ctx, func() error {
		// Refused until the new order of the replicas has come through.
		if _, err := a.ElectLeaders(ctx, kadm.ElectPreferredReplica, set); err != nil {
			return err
		}
		leaders, err := a.Leaders(ctx, node, topic)
		if err == nil && leaders[partition] != node {
			err = fmt.Errorf("%s/%d is led by %d, not %d", topic, partition, leaders[partition], node)
		}
		return err
	})
}

// Balance has every partition led by the replica that comes first: a node that was away
// leads nothing when it is back. It waits until they all are, or ctx ends.
func (a *Admin) Balance(ctx context.Context) error {
	return until(ctx, func() error {
		elected, err := a.ElectLeaders(ctx, kadm.ElectPreferredReplica, nil)
		for _, partitions := range elected {
			for _, p := range partitions {
				if p.Err != nil && !errors.Is(p.Err, kerr.ElectionNotNeeded) {
					err = errors.Join(err, fmt.Errorf("%s/%d: %w", p.Topic, p.Partition, p.Err))
				}
			}
		}
		return err
	})
}

// GroupOn finds a name, beginning with prefix, of a group that node coordinates;
// TxnOn the same for a transactional id.
func (a *Admin) GroupOn(ctx context.Context, node int32, prefix string) (string, error) {
	return a.coordinatedBy(ctx, node, prefix, a.FindGroupCoordinators)
}

// TxnOn finds a transactional id whose coordinator is on a node.
func (a *Admin) TxnOn(ctx context.Context, node int32, prefix string) (string, error) {
	return a.coordinatedBy(ctx, node, prefix, a.FindTxnCoordinators)
}

func (a *Admin) coordinatedBy(ctx context.Context, node int32, prefix string, find func(context.Context, ...string) kadm.FindCoordinatorResponses) (string, error) {
	var names []string
	for i := range 40 {
		names = append(names, fmt.Sprintf("%s-%d", prefix, i))
	}
	var found string
	asked := 0
	err := until(ctx, func() error { // the first question of all makes the internal topic
		if asked++; asked%20 == 0 {
			if err := a.Balance(ctx); err != nil {
				return err
			}
		}
		answers := find(ctx, names...)
		for _, name := range names {
			if a := answers[name]; a.Err == nil && a.NodeID == node {
				found = name
				return nil
			}
		}
		return errors.Join(fmt.Errorf("no name of %d is coordinated by node %d", len(names), node), answers.Error())
	})
	return found, err
}

func (a *Admin) awaitACLs(ctx context.Context, grants []Grant, there bool) error {
	return until(ctx, func() error {
		for _, n := range a.cluster.Nodes {
			if n.ended {
				continue
			}
			for _, g := range grants {
				req := kmsg.NewPtrDescribeACLsRequest()
				name, principal := g.Name, "User:"+g.Principal
				req.ResourceType, req.ResourceName, req.ResourcePatternType = g.Type, &name, g.pattern()
				req.Principal, req.Operation, req.PermissionType = &principal, g.Operation, kmsg.ACLPermissionTypeAllow
				resp, err := a.Kafka.Broker(int(n.ID)).RetriableRequest(ctx, req)
				if err != nil {
					return err
				}
				if got := len(resp.(*kmsg.DescribeACLsResponse).Resources) > 0; got != there {
					return fmt.Errorf("node %d: ACL %+v there: %t", n.ID, g, got)
				}
			}
		}
		return nil
	})
}

// until calls f until it returns nil; ctx ends the wait with f's last error.
func until(ctx context.Context, f func() error) error {
	for {
		err := f()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w; last: %w", context.Cause(ctx), err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}
