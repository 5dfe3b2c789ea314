package tokens

// This file runs the token task against the embedded Kafka, whose behaviour is held
// against real brokers by its contract tests.

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"doorkeeper/internal/certtest"
	"doorkeeper/internal/devkafka"
)

// embedded is a cluster where the principal "gateway" may create tokens for owners
// that begin with "app-", and nothing else (S21).
type embedded struct {
	*testing.T
	*devkafka.Cluster
	ca *certtest.CA
}

func newEmbedded(t *testing.T) *embedded {
	t.Helper()
	ca := certtest.NewCA("ca")
	cluster, err := devkafka.New(devkafka.Config{
		Certificate: ca.Issue(certtest.Server()).TLS, ClientCA: certtest.Pool(ca), SuperUsers: []string{"admin"},
		Propagation: func(node int32) time.Duration { return time.Duration(node) * 20 * time.Millisecond },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cluster.Close() })
	e := &embedded{T: t, Cluster: cluster, ca: ca}
	req := kmsg.NewPtrCreateACLsRequest()
	acl := kmsg.NewCreateACLsRequestCreation()
	acl.ResourceType, acl.ResourceName, acl.ResourcePatternType = kmsg.ACLResourceTypeUser, "User:app-", kmsg.ACLResourcePatternTypePrefixed
	acl.Principal, acl.Host, acl.Operation, acl.PermissionType = "User:gateway", "*", kmsg.ACLOperationCreateTokens, kmsg.ACLPermissionTypeAllow
	req.Creations = append(req.Creations, acl)
	resp, err := req.RequestWith(t.Context(), e.client("admin"))
	if err != nil || resp.Results[0].ErrorCode != 0 {
		t.Fatalf("%+v, %v", resp, err)
	}
	return e
}

func (e *embedded) client(name string) *kgo.Client {
	e.Helper()
	cert := e.ca.Issue(certtest.Leaf{CommonName: name, Usage: certtest.ClientOnly}).ClientConfig(e.ca)
	client, err := kgo.NewClient(kgo.SeedBrokers(e.ControlAddresses()...), kgo.DialTLSConfig(cert), kgo.RequestRetries(0), kgo.DisableClientMetrics())
	if err != nil {
		e.Fatal(err)
	}
	e.Cleanup(client.Close)
	return client
}

// run starts one gateway's tokens; the function returned stops them.
func (e *embedded) run(change func(*Config)) (*Source, *counts, func()) {
	e.Helper()
	seen := &counts{}
	cfg := Config{Issuer: NewKadmIssuer(e.client("gateway")), Instance: "gw-1", Lifetime: time.Hour, Observer: seen}
	change(&cfg)
	source := New(cfg)
	ctx, cancel := context.WithCancel(e.Context())
	ended := make(chan error, 1)
	go func() { ended <- source.Run(ctx) }()
	return source, seen, func() {
		cancel()
		if err := <-ended; err != nil {
			e.Error(err)
		}
	}
}

// left counts the tokens of one instance at the controller.
func (e *embedded) left(instance string) int {
	e.Helper()
	issuer := NewKadmIssuer(e.client("admin"))
	time.Sleep(100 * time.Millisecond) // until every node knows what the last stop did
	found, err := issuer.(Finder).Find(e.Context(), "", MarkerPrefix+instance)
	if err != nil {
		e.Fatal(err)
	}
	return len(found)
}

const embeddedOwners = 30

// ids acquires a token for every owner and waits until all nodes know it.
func (e *embedded) ids(source *Source) map[string]string {
	ids := make(map[string]string)
	var mu sync.Mutex
	var group sync.WaitGroup
	for i := range embeddedOwners {
		group.Go(func() {
			owner := fmt.Sprint("app-", i)
			l, err := source.Acquire(e.Context(), owner)
			if err != nil {
				e.Error(err)
				return
			}
			defer l.Release()
			for _, node := range e.Nodes() {
				if err := source.Await(e.Context(), l.Token(), node); err != nil {
					e.Error(err)
				}
			}
			mu.Lock()
			defer mu.Unlock()
			ids[owner] = l.Token().ID
		})
	}
	group.Wait()
	return ids
}

// B33, S21, F40 (token part): with no more than CreateTokens, tokens are adopted by
// the next run, a second instance leaves them alone, and an orderly end leaves none.
func TestLifeOnAnEmbeddedKafka(t *testing.T) {
	e := newEmbedded(t)
	source, seen, stop := e.run(func(*Config) {})
	before := e.ids(source)
	if n := seen.came(); n != embeddedOwners+1 {
		t.Errorf("%d tokens", n)
	}
	if _, err := source.Acquire(t.Context(), "else"); err == nil {
		t.Error("a token for an owner that is not granted")
	}
	stop()
	if n := e.left("gw-1"); n != embeddedOwners+1 {
		t.Errorf("%d tokens are kept", n)
	}

	source, seen, stop = e.run(func(c *Config) { c.ExpireOnStop = true })
	for owner, id := range e.ids(source) {
		if id != before[owner] {
			t.Errorf("%s: a new token after the restart", owner)
		}
	}
	if adopted := seen.get("adopted"); seen.came() != embeddedOwners+1 || adopted < embeddedOwners {
		t.Errorf("%d tokens, %d of them adopted", seen.came(), adopted)
	}

	other, seen2, stop2 := e.run(func(c *Config) { c.Instance, c.ExpireOnStop = "gw-2", true })
	for owner, id := range e.ids(other) {
		if id == before[owner] {
			t.Errorf("%s: the other's token", owner)
		}
	}
	if n := seen2.came(); n != embeddedOwners+1 {
		t.Errorf("%d tokens of the second", n)
	}
	stop2()
	if n := e.left("gw-2"); n != 0 {
		t.Errorf("%d tokens of the second are left", n)
	}
	if n := e.left("gw-1"); n < embeddedOwners+1 {
		t.Errorf("%d tokens of the first are left when the second has stopped", n)
	}
	stop()
	if n := e.left("gw-1"); n != 0 {
		t.Errorf("%d tokens of the first are left", n)
	}
}

// counts is an Observer that counts.
type counts struct {
	mu sync.Mutex
	n  map[string]int
}

func (c *counts) add(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n == nil {
		c.n = make(map[string]int)
	}
	c.n[what]++
}

func (c *counts) get(what string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n[what]
}

// came counts the tokens that a run has got, each once: one whose creation was answered
// too late is found and adopted.
func (c *counts) came() int { return c.get("created") + c.get("adopted") }

func (c *counts) TokenState(string, string)         {}
func (c *counts) TokenCreated(result string)        { c.add(result) }
func (c *counts) TokenAdopted()                     { c.add("adopted") }
func (c *counts) TokenExpired(result string)        { c.add("expiry " + result) }
func (c *counts) TokenFailed(string, string, int16) {}
func (c *counts) TokenKnown(int32, time.Duration)   {}
func (c *counts) TokenGauge(string, func() float64) {}
