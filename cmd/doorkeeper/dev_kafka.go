package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"doorkeeper/internal/devkafka"
)

const (
	devTopic      = "alice-only"
	devPartitions = 3
	// devProofLife is how long a token lives during the proof: the shortest that a
	// gateway may be told, so that a replacement is seen.
	devProofLife = 10 * time.Second
	// devLife is how long tokens live after it.
	devLife = 5 * time.Minute
)

// devKafka is the embedded cluster with what the proof needs in it: a topic that
// alice alone may use, and the gateway's right to make tokens.
type devKafka struct {
	authority *devAuthority
	cluster   *devkafka.Cluster

	mu     sync.Mutex
	calmed bool
	logins []devkafka.Login // until it is calmed
}

// startDevKafka starts three brokers on free ports of 127.0.0.1. The caller closes it.
func startDevKafka(ctx context.Context, now time.Time, log *zap.Logger) (_ *devKafka, err error) {
	k := new(devKafka)
	if k.authority, err = newDevAuthority(now); err != nil {
		return nil, err
	}
	pair, err := k.authority.server("brokers")
	if err != nil {
		return nil, err
	}
	certificate, err := pair.load()
	if err != nil {
		return nil, err
	}
	k.cluster, err = devkafka.New(devkafka.Config{
		Brokers: 3, Certificate: certificate, ClientCA: k.authority.pool(), SuperUsers: []string{"admin"},
		Expiry: devProofLife, Sweep: time.Second, Logins: k.noteLogin, Logger: log,
	})
	if err != nil {
		return nil, err
	}
	if err := k.furnish(ctx); err != nil {
		return nil, errors.Join(err, k.close())
	}
	return k, nil
}

func (k *devKafka) close() error { return k.cluster.Close() }

// calm ends the time of the proof: new tokens live longer, and logins are not
// remembered any more.
func (k *devKafka) calm() {
	k.cluster.SetExpiry(devLife)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.calmed, k.logins = true, nil
}

func (k *devKafka) noteLogin(l devkafka.Login) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.calmed {
		k.logins = append(k.logins, l)
	}
}

// loginsOf are the logins that the brokers have seen of a principal, in order.
func (k *devKafka) loginsOf(principal string) []devkafka.Login {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(k.logins), func(l devkafka.Login) bool { return l.Principal != principal })
}

// furnish makes the topic and the grants, as an administrator does.
func (k *devKafka) furnish(ctx context.Context) error {
	client, err := k.administrator()
	if err != nil {
		return err
	}
	defer client.Close()
	if _, err := kadm.NewClient(client).CreateTopic(ctx, devPartitions, 3, nil, devTopic); err != nil {
		return fmt.Errorf("create topic %s: %w", devTopic, err)
	}
	return allow(ctx, client,
		grant("gateway", kmsg.ACLResourceTypeUser, "*", kmsg.ACLResourcePatternTypeLiteral, kmsg.ACLOperationCreateTokens),
		grant("alice", kmsg.ACLResourceTypeTopic, devTopic, kmsg.ACLResourcePatternTypeLiteral, kmsg.ACLOperationRead),
		grant("alice", kmsg.ACLResourceTypeTopic, devTopic, kmsg.ACLResourcePatternTypeLiteral, kmsg.ACLOperationWrite),
		grant("alice", kmsg.ACLResourceTypeTopic, devTopic, kmsg.ACLResourcePatternTypeLiteral, kmsg.ACLOperationDescribe),
		grant("alice", kmsg.ACLResourceTypeGroup, "alice", kmsg.ACLResourcePatternTypePrefixed, kmsg.ACLOperationRead),
	)
}

// administrator is a super user's client. The caller closes it.
func (k *devKafka) administrator() (*kgo.Client, error) {
	pair, err := k.authority.client("admin")
	if err != nil {
		return nil, err
	}
	certificate, err := pair.load()
	if err != nil {
		return nil, err
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(k.cluster.ControlAddresses()...), kgo.DialTLSConfig(&tls.Config{
		RootCAs: k.authority.pool(), Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12,
	}))
	if err != nil {
		return nil, fmt.Errorf("the administrator's client: %w", err)
	}
	return client, nil
}

func allow(ctx context.Context, client *kgo.Client, creations ...kmsg.CreateACLsRequestCreation) error {
	req := kmsg.NewPtrCreateACLsRequest()
	req.Creations = creations
	resp, err := req.RequestWith(ctx, client)
	if err != nil {
		return fmt.Errorf("grant rights: %w", err)
	}
	for _, r := range resp.Results {
		if err := kerr.ErrorForCode(r.ErrorCode); err != nil {
			return fmt.Errorf("grant rights: %w", err)
		}
	}
	return nil
}

func grant(principal string, kind kmsg.ACLResourceType, name string, pattern kmsg.ACLResourcePatternType, op kmsg.ACLOperation) kmsg.CreateACLsRequestCreation {
	c := kmsg.NewCreateACLsRequestCreation()
	c.ResourceType, c.ResourceName, c.ResourcePatternType = kind, name, pattern
	c.Principal, c.Host, c.Operation, c.PermissionType = "User:"+principal, "*", op, kmsg.ACLPermissionTypeAllow
	return c
}
