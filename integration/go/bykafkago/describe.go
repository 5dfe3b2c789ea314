package bykafkago

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/segmentio/kafka-go"

	"clients/client"
)

// describe asks for everything that has a broker's address in its answer, and for the
// topics that may be seen.
func describe(s *client.Step, r *client.Result) error {
	wire, err := client.NewWire(s, r)
	if err != nil {
		return err
	}
	defer wire.Close()
	by := transport(wire)
	defer by.CloseIdleConnections()
	c := &kafka.Client{Addr: kafka.TCP(s.Get("bootstrap", "")), Transport: by, Timeout: 30 * time.Second}
	ctx := context.Background()
	topic, group := s.Get("topic", ""), s.Get("group", "")
	metadata, err := c.Metadata(ctx, &kafka.MetadataRequest{})
	if err != nil {
		return err
	}
	var ids []int
	for _, b := range metadata.Brokers {
		r.Node(net.JoinHostPort(b.Host, strconv.Itoa(b.Port)))
		ids = append(ids, b.ID)
	}
	slices.Sort(ids)
	r.Value("brokers", strings.Trim(fmt.Sprint(ids), "[]"))
	var names []string
	for _, t := range metadata.Topics {
		names = append(names, t.Name)
		if t.Name != topic {
			continue
		}
		for _, p := range t.Partitions {
			r.Value(fmt.Sprintf("leader-%d", p.ID), strconv.Itoa(p.Leader.ID))
		}
	}
	slices.Sort(names)
	r.Value("topics", strings.Join(names, " "))
	found, err := c.FindCoordinator(ctx, &kafka.FindCoordinatorRequest{Key: group, KeyType: kafka.CoordinatorKeyTypeConsumer})
	if err != nil {
		return err
	}
	if found.Error != nil {
		return found.Error
	}
	r.Node(net.JoinHostPort(found.Coordinator.Host, strconv.Itoa(found.Coordinator.Port)))
	r.Value("coordinator", strconv.Itoa(found.Coordinator.NodeID))
	groups, err := c.DescribeGroups(ctx, &kafka.DescribeGroupsRequest{GroupIDs: []string{group}})
	if err != nil {
		return err
	}
	r.Value("group", groups.Groups[0].GroupState)
	return groups.Groups[0].Error
}
