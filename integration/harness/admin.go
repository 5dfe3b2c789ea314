//go:build integration

package harness

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Admin is the cluster's super user, on the control listener. Every call takes
// a context that ends its wait; requests are retried as franz-go does.
type Admin struct {
	*kadm.Client
	Kafka *kgo.Client

	cluster *Cluster
}

func newAdmin(c *Cluster) (*Admin, error) {
	kafka, err := kgo.NewClient(
		kgo.SeedBrokers(c.each((*Node).ControlListener)...),
		kgo.DialTLSConfig(c.site.Direct("admin").ClientTLS()),
		kgo.ClientID("harness-admin"),
		kgo.DialTimeout(3*time.Second),
		kgo.MetadataMinAge(100*time.Millisecond),
	)
	if err != nil {
		return nil, err
	}
	return &Admin{Client: kadm.NewClient(kafka), Kafka: kafka, cluster: c}, nil
}

func (a *Admin) close() { a.Client.Close() }

// registered tells whether every running broker sees all running ones.
func (a *Admin) registered(ctx context.Context, running int) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	for _, n := range a.cluster.Nodes {
		if n.ended || n.running == nil {
			continue
		}
		req := kmsg.NewPtrMetadataRequest()
		req.Topics = []kmsg.MetadataRequestTopic{}
		resp, err := a.Kafka.Broker(int(n.ID)).RetriableRequest(ctx, req)
		if err != nil {
			return fmt.Errorf("metadata of node %d: %w", n.ID, err)
		}
		if got := len(resp.(*kmsg.MetadataResponse).Brokers); got != running {
			return fmt.Errorf("node %d sees %d brokers, not %d", n.ID, got, running)
		}
	}
	return nil
}

// Tokens lists the live delegation tokens of the given owners as the node knows
// them; with none given, everybody's.
func (a *Admin) Tokens(ctx context.Context, node int32, owners ...string) ([]kmsg.DescribeDelegationTokenResponseTokenDetail, error) {
	req := kmsg.NewPtrDescribeDelegationTokenRequest()
	for _, o := range owners {
		req.Owners = append(req.Owners, kmsg.DescribeDelegationTokenRequestOwner{PrincipalType: "User", PrincipalName: o})
	}
	resp, err := a.Kafka.Broker(int(node)).RetriableRequest(ctx, req)
	if err != nil {
		return nil, err
	}
	r := resp.(*kmsg.DescribeDelegationTokenResponse)
	return r.TokenDetails, kerr.ErrorForCode(r.ErrorCode)
}

// SetLogger changes a logger's level on every node, at run time.
func (a *Admin) SetLogger(ctx context.Context, logger, level string) error {
	return a.alter(ctx, kmsg.ConfigResourceTypeBrokerLogger, logger, level)
}

// SetBrokerConfig changes a dynamic setting of every node, each by itself, so
// that files named in it are read again.
func (a *Admin) SetBrokerConfig(ctx context.Context, key, value string) error {
	return a.alter(ctx, kmsg.ConfigResourceTypeBroker, key, value)
}

// SetGroupConfig changes a setting of one group, for all nodes.
func (a *Admin) SetGroupConfig(ctx context.Context, group, key, value string) error {
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.Resources = []kmsg.IncrementalAlterConfigsRequestResource{{
		ResourceType: kmsg.ConfigResourceTypeGroupConfig, ResourceName: group,
		Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: key, Op: kmsg.IncrementalAlterConfigOpSet, Value: &value}},
	}}
	resp, err := req.RequestWith(ctx, a.Kafka)
	if err != nil {
		return err
	}
	for _, r := range resp.Resources {
		if err := kerr.ErrorForCode(r.ErrorCode); err != nil {
			return fmt.Errorf("group %s: set %s=%s: %w: %s", group, key, value, err, deref(r.ErrorMessage))
		}
	}
	return nil
}

func (a *Admin) alter(ctx context.Context, kind kmsg.ConfigResourceType, key, value string) error {
	var errs []error
	for _, n := range a.cluster.Nodes {
		req := kmsg.NewPtrIncrementalAlterConfigsRequest()
		req.Resources = []kmsg.IncrementalAlterConfigsRequestResource{{
			ResourceType: kind, ResourceName: strconv.Itoa(int(n.ID)),
			Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: key, Op: kmsg.IncrementalAlterConfigOpSet, Value: &value}},
		}}
		resp, err := a.Kafka.Broker(int(n.ID)).RetriableRequest(ctx, req)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for _, r := range resp.(*kmsg.IncrementalAlterConfigsResponse).Resources {
			if err := kerr.ErrorForCode(r.ErrorCode); err != nil {
				errs = append(errs, fmt.Errorf("node %d: set %s=%s: %w: %s", n.ID, key, value, err, deref(r.ErrorMessage)))
			}
		}
	}
	return errors.Join(errs...)
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// Controller is the node whose controller is active: the leader of the metadata quorum.
func (a *Admin) Controller(ctx context.Context) (int32, error) {
	req := kmsg.NewPtrDescribeQuorumRequest()
	t := kmsg.NewDescribeQuorumRequestTopic()
	t.Topic = "__cluster_metadata"
	t.Partitions = append(t.Partitions, kmsg.NewDescribeQuorumRequestTopicPartition())
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, a.Kafka)
	if err != nil {
		return 0, err
	}
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return 0, err
	}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if p.LeaderID > 0 {
				return p.LeaderID, kerr.ErrorForCode(p.ErrorCode)
			}
		}
	}
	return 0, errors.New("no controller is active")
}
