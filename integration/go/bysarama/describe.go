package bysarama

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/IBM/sarama"

	"clients/client"
)

// describe asks for everything that has a broker's address in its answer, and for the
// topics that may be seen.
func describe(s *client.Step, r *client.Result) (err error) {
	config, bootstrap, wire, err := connected(s, r)
	if err != nil {
		return err
	}
	defer wire.Close()
	c, err := sarama.NewClient(bootstrap, config)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	admin, err := sarama.NewClusterAdminFromClient(c)
	if err != nil {
		return err
	}
	brokers, controller, err := admin.DescribeCluster()
	if err != nil {
		return err
	}
	var ids []int
	for _, b := range brokers {
		r.Node(b.Addr())
		ids = append(ids, int(b.ID()))
	}
	slices.Sort(ids)
	r.Value("brokers", strings.Trim(fmt.Sprint(ids), "[]"))
	if !slices.Contains(ids, int(controller)) {
		return fmt.Errorf("the controller is %d", controller)
	}
	topics, err := admin.ListTopics()
	if err != nil {
		return err
	}
	var names []string
	for name := range topics {
		names = append(names, name)
	}
	slices.Sort(names)
	r.Value("topics", strings.Join(names, " "))
	if err := leaders(admin, s.Get("topic", ""), r); err != nil {
		return err
	}
	coordinator, err := c.Coordinator(s.Get("group", ""))
	if err != nil {
		return err
	}
	r.Node(coordinator.Addr())
	r.Value("coordinator", strconv.Itoa(int(coordinator.ID())))
	groups, err := admin.DescribeConsumerGroups([]string{s.Get("group", "")})
	if err != nil {
		return err
	}
	r.Value("group", groups[0].State)
	return nil
}

func leaders(admin sarama.ClusterAdmin, topic string, r *client.Result) error {
	described, err := admin.DescribeTopics([]string{topic})
	if err != nil {
		return err
	}
	for _, p := range described[0].Partitions {
		r.Value(fmt.Sprintf("leader-%d", p.ID), strconv.Itoa(int(p.Leader)))
	}
	return nil
}
