package devkafka_test

import (
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"doorkeeper/internal/devkafka"
)

// client is franz-go on the control listeners.
func (s *site) client(t testing.TB, name string, options ...kgo.Opt) *kgo.Client {
	t.Helper()
	options = append([]kgo.Opt{kgo.SeedBrokers(s.ControlAddresses()...), kgo.DialTLSConfig(s.as(name)), kgo.MetadataMinAge(10 * time.Millisecond)}, options...)
	c, err := kgo.NewClient(options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestRecordsGroupsAndTransactions(t *testing.T) {
	s := newSite().start(t, devkafka.Config{})
	ctx := t.Context()
	admin := kadm.NewClient(s.client(t, "admin"))
	if _, err := admin.CreateTopic(ctx, 3, 3, nil, "topic"); err != nil {
		t.Fatal(err)
	}
	rights := kadm.NewACLs().Allow("User:alice").AllowHosts("127.0.0.1").Topics("topic").Groups("group").TransactionalIDs("txn").
		Operations(kadm.OpRead, kadm.OpWrite, kadm.OpDescribe).ResourcePatternType(kadm.ACLPatternLiteral)
	if _, err := admin.CreateACLs(ctx, rights); err != nil {
		t.Fatal(err)
	}
	writer := s.client(t, "alice", kgo.DefaultProduceTopic("topic"), kgo.TransactionalID("txn"))
	if err := writer.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		writer.Produce(ctx, kgo.StringRecord("x"), nil)
	}
	if err := writer.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	if err := writer.EndTransaction(ctx, kgo.TryCommit); err != nil {
		t.Fatal(err)
	}
	reader := s.client(t, "alice", kgo.ConsumeTopics("topic"), kgo.ConsumerGroup("group"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	for n := 0; n < 10; {
		fetches := reader.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		n += fetches.NumRecords()
	}
	if err := s.client(t, "bob").ProduceSync(ctx, &kgo.Record{Topic: "topic", Value: []byte("x")}).FirstErr(); !errors.Is(err, kerr.TopicAuthorizationFailed) {
		t.Errorf("bob: %v", err)
	}
}

func TestRefusalsAreReported(t *testing.T) {
	seen := make(chan devkafka.Decision, 100)
	s := newSite().start(t, devkafka.Config{Brokers: 1, Decisions: func(d devkafka.Decision) { seen <- d }})
	ctx := t.Context()
	if _, err := kadm.NewClient(s.client(t, "admin")).CreateTopic(ctx, 1, 1, nil, "topic"); err != nil {
		t.Fatal(err)
	}
	bob := s.client(t, "bob")
	if err := bob.ProduceSync(ctx, &kgo.Record{Topic: "topic", Value: []byte("x")}).FirstErr(); !errors.Is(err, kerr.TopicAuthorizationFailed) {
		t.Fatalf("%v", err)
	}
	if d := <-seen; d.Principal != "bob" || d.Node != 1 || d.Code != kerr.TopicAuthorizationFailed.Code {
		t.Errorf("%+v", d)
	}
	for len(seen) > 0 {
		<-seen
	}
	if _, err := kadm.NewClient(bob).CreateDelegationToken(ctx, kadm.CreateDelegationToken{Owner: &kadm.Principal{Name: "alice"}}); !errors.Is(err, kerr.DelegationTokenAuthorizationFailed) {
		t.Fatalf("%v", err)
	}
	for d := range seen {
		if d.Key == 38 {
			if d.Code != kerr.DelegationTokenAuthorizationFailed.Code {
				t.Errorf("%+v", d)
			}
			break
		}
	}
}

// onUser is CREATE_TOKENS on a user, for maker.
func onUser(name string, permission kmsg.ACLPermissionType) *kmsg.CreateACLsRequest {
	req := kmsg.NewPtrCreateACLsRequest()
	c := kmsg.NewCreateACLsRequestCreation()
	c.ResourceType, c.ResourceName, c.ResourcePatternType = kmsg.ACLResourceTypeUser, name, kmsg.ACLResourcePatternTypeLiteral
	c.Principal, c.Host, c.Operation, c.PermissionType = "User:maker", "*", kmsg.ACLOperationCreateTokens, permission
	req.Creations = append(req.Creations, c)
	return req
}

// allowed makes such an entry.
func allowed(t testing.TB, c *kgo.Client, req *kmsg.CreateACLsRequest) error {
	t.Helper()
	resp, err := req.RequestWith(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return kerr.ErrorForCode(resp.Results[0].ErrorCode)
}

// TestACLsOnUsers are kept here, not by kfake: with the same rights and filters.
func TestACLsOnUsers(t *testing.T) {
	s := newSite().start(t, devkafka.Config{Brokers: 1})
	ctx := t.Context()
	admin := s.client(t, "admin")
	if err := allowed(t, s.client(t, "bob"), onUser("User:alice", kmsg.ACLPermissionTypeAllow)); !errors.Is(err, kerr.ClusterAuthorizationFailed) {
		t.Errorf("bob grants: %v", err)
	}
	for _, name := range []string{"User:alice", "User:alice", "User:carol"} {
		if err := allowed(t, admin, onUser(name, kmsg.ACLPermissionTypeAllow)); err != nil {
			t.Fatal(err)
		}
	}
	// One that kfake keeps must not be lost or doubled beside them.
	beside := kadm.NewACLs().Allow("User:maker").AllowHosts("*").Topics("topic").Operations(kadm.OpRead).ResourcePatternType(kadm.ACLPatternLiteral)
	if _, err := kadm.NewClient(admin).CreateACLs(ctx, beside); err != nil {
		t.Fatal(err)
	}
	count := func(pattern kmsg.ACLResourcePatternType, name *string) int {
		req := kmsg.NewPtrDescribeACLsRequest()
		req.ResourceType, req.ResourcePatternType, req.ResourceName = kmsg.ACLResourceTypeAny, pattern, name
		req.Operation, req.PermissionType = kmsg.ACLOperationAny, kmsg.ACLPermissionTypeAny
		resp, err := req.RequestWith(ctx, admin)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, r := range resp.Resources {
			n += len(r.ACLs)
		}
		return n
	}
	if n := count(kmsg.ACLResourcePatternTypeAny, nil); n != 3 {
		t.Errorf("%d entries, not 3", n)
	}
	if n := count(kmsg.ACLResourcePatternTypeMatch, kmsg.StringPtr("User:alice")); n != 1 {
		t.Errorf("%d entries for alice, not 1", n)
	}
	if n := count(kmsg.ACLResourcePatternTypePrefixed, nil); n != 0 {
		t.Errorf("%d entries by prefix", n)
	}
	gone := kmsg.NewPtrDeleteACLsRequest()
	f := kmsg.NewDeleteACLsRequestFilter()
	f.ResourceType, f.ResourceName, f.ResourcePatternType = kmsg.ACLResourceTypeUser, kmsg.StringPtr("User:alice"), kmsg.ACLResourcePatternTypeLiteral
	f.Operation, f.PermissionType = kmsg.ACLOperationAny, kmsg.ACLPermissionTypeAny
	gone.Filters = append(gone.Filters, f)
	resp, err := gone.RequestWith(ctx, admin)
	if err != nil || len(resp.Results[0].MatchingACLs) != 1 {
		t.Fatalf("%+v, %v", resp, err)
	}
	if n := count(kmsg.ACLResourcePatternTypeAny, nil); n != 2 {
		t.Errorf("%d entries after one was deleted", n)
	}
	if err := allowed(t, admin, onUser("User:carol", kmsg.ACLPermissionTypeDeny)); err != nil {
		t.Fatal(err)
	}
	maker := kadm.NewClient(s.client(t, "maker"))
	if _, err := maker.CreateDelegationToken(ctx, kadm.CreateDelegationToken{Owner: &kadm.Principal{Name: "carol"}}); !errors.Is(err, kerr.DelegationTokenAuthorizationFailed) {
		t.Errorf("denied and allowed: %v", err)
	}
}

func TestTheExpiryOfNewTokensCanBeChanged(t *testing.T) {
	s := newSite().start(t, devkafka.Config{Brokers: 1, Expiry: 10 * time.Second})
	admin := kadm.NewClient(s.client(t, "admin"))
	for _, want := range []time.Duration{10 * time.Second, 5 * time.Minute} {
		k, err := admin.CreateDelegationToken(t.Context(), kadm.CreateDelegationToken{})
		if err != nil || k.ExpiryTimestamp.Sub(k.IssueTimestamp) != want {
			t.Errorf("a token of %v, not %v: %v", k.ExpiryTimestamp.Sub(k.IssueTimestamp), want, err)
		}
		s.SetExpiry(5 * time.Minute)
	}
}

func TestStopAndStartOfANode(t *testing.T) {
	s := newSite().start(t, devkafka.Config{})
	ctx := t.Context()
	admin := kadm.NewClient(s.client(t, "admin"))
	if _, err := admin.CreateTopic(ctx, 6, 3, nil, "topic"); err != nil {
		t.Fatal(err)
	}
	nodes := func(addresses ...string) []int32 {
		meta, err := kadm.NewClient(s.client(t, "admin", kgo.SeedBrokers(addresses...))).Metadata(ctx, "topic")
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range meta.Topics["topic"].Partitions {
			if !slices.Contains(meta.Brokers.NodeIDs(), p.Leader) {
				t.Errorf("partition %d is led by node %d", p.Partition, p.Leader)
			}
		}
		return meta.Brokers.NodeIDs()
	}
	at := s.ControlAddresses()
	if got := nodes(at...); !slices.Equal(got, []int32{1, 2, 3}) {
		t.Fatalf("nodes %v", got)
	}
	for range 2 { // twice is once
		if err := s.Stop(2); err != nil {
			t.Fatal(err)
		}
	}
	for _, address := range []string{s.TokenAddresses()[1], at[1]} {
		if c, err := net.Dial("tcp", address); err == nil {
			_ = c.Close()
			t.Errorf("a stopped node takes connections at %s", address)
		}
	}
	if got := nodes(at[0], at[2]); !slices.Equal(got, []int32{1, 3}) {
		t.Errorf("while node 2 is stopped: %v", got)
	}
	if err := s.Start(2); err != nil {
		t.Fatal(err)
	}
	if got := nodes(at[1]); !slices.Equal(got, []int32{1, 2, 3}) || !slices.Equal(s.ControlAddresses(), at) {
		t.Errorf("after node 2 was started: %v", got)
	}
	if s.Stop(4) == nil || s.Start(0) == nil {
		t.Error("there are nodes 0 and 4")
	}
}

func TestCloseGivesEverythingBack(t *testing.T) {
	s := newSite().start(t, devkafka.Config{Brokers: 2})
	idle := s.client(t, "admin")
	if err := idle.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	half, err := net.Dial("tcp", s.TokenAddresses()[0]) // in its TLS handshake
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = half.Close() }()
	waiting := s.client(t, "admin", kgo.ConsumeTopics("none"), kgo.ConsumerGroup("group"))
	var polling sync.WaitGroup
	polling.Go(func() { waiting.PollFetches(t.Context()) })
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	waiting.Close()
	polling.Wait()
	for _, address := range append(s.TokenAddresses(), s.ControlAddresses()...) {
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Errorf("the port is not given back: %v", err)
			continue
		}
		_ = l.Close()
	}
	if s.Close() != nil || s.Stop(1) == nil || s.Start(1) == nil {
		t.Error("a closed cluster can be stopped or started, or not closed again")
	}
}

func TestBadConfigurations(t *testing.T) {
	s := newSite()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	good := func() devkafka.Config {
		return devkafka.Config{Brokers: 1, Certificate: s.server.TLS, ClientCA: s.as("x").RootCAs}
	}
	for want, change := range map[string]func(*devkafka.Config){
		"cannot listen":       func(c *devkafka.Config) { c.ControlListen = []string{taken.Addr().String()} },
		"brokers":             func(c *devkafka.Config) { c.Brokers = 33 },
		"addresses to listen": func(c *devkafka.Config) { c.TokenListen = []string{"127.0.0.1:0", "127.0.0.1:0"} },
		"certificate":         func(c *devkafka.Config) { c.ClientCA = nil },
		"negative":            func(c *devkafka.Config) { c.Expiry = -1 },
	} {
		cfg := good()
		change(&cfg)
		if c, err := devkafka.New(cfg); err == nil || c != nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
