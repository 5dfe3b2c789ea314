//go:build integration

package integration

// This file proves that the harness itself is honest: a cluster that denies by
// default, a gateway's principal that can create tokens and nothing else, token
// logins that the brokers see as their owner, clients that count exactly, and a
// namespace from which no broker can be reached. No gateway takes part.

import (
	"context"
	"encoding/base64"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"doorkeeper/integration/checker"
	"doorkeeper/integration/harness"
	"doorkeeper/internal/faultrelay"
)

func TestHarnessTokenLoginIsItsOwner(t *testing.T) {
	c := cluster(t)
	ctx := within(t, time.Minute)
	topic := name(t, "t")
	must(t, c.Admin.SpreadTopic(ctx, topic, 6))
	must(t, c.Admin.Grant(ctx, harness.AppGrants("harriet", topic)...))

	var controls harness.Dials
	kafka, err := controls.Client(site.Direct(harness.GatewayPrincipal), kgo.SeedBrokers(c.ControlAddresses()...))
	must(t, err)
	defer kafka.Close()
	control := kadm.NewClient(kafka)
	token, err := control.CreateDelegationToken(ctx, kadm.CreateDelegationToken{Owner: &kadm.Principal{Name: "harriet"}})
	must(t, err)
	if _, err := control.CreateTopic(ctx, 1, 1, nil, name(t, "forbidden")); !errors.Is(err, kerr.TopicAuthorizationFailed) && !errors.Is(err, kerr.ClusterAuthorizationFailed) {
		t.Errorf("the gateway's principal could create a topic: %v", err)
	}
	for _, n := range c.Nodes {
		for {
			known, err := c.Admin.Tokens(ctx, n.ID, "harriet")
			must(t, err)
			if len(known) == 1 {
				break
			}
		}
	}

	password := base64.StdEncoding.EncodeToString(token.HMAC)
	login := scram.Auth{User: token.TokenID, Pass: password, IsToken: true}
	var tokens harness.Dials
	// The token listener asks for no certificate: the one given goes nowhere.
	client, err := tokens.Client(site.Direct("nobody"), kgo.SeedBrokers(c.TokenAddresses()...), kgo.SASL(login.AsSha512Mechanism()))
	must(t, err)
	defer client.Close()
	// The credential follows the token a moment later: the client's own retries bridge it.
	must(t, checker.Send(ctx, client, &kgo.Record{Topic: topic, Value: []byte("x")}))

	seen := ""
	for _, n := range c.Nodes {
		b, err := os.ReadFile(n.AuthorizerLog())
		must(t, err)
		seen += string(b)
	}
	if !strings.Contains(seen, "Principal = User:harriet") {
		t.Error("the authorizer's log has no User:harriet")
	}
	must(t, tokens.Only(c.TokenAddresses()...))
	must(t, controls.Only(c.ControlAddresses()...))
}

func TestHarnessJavaCountsExactly(t *testing.T) {
	c := cluster(t)
	ctx := within(t, 3*time.Minute)
	topic := name(t, "t")
	must(t, c.Admin.SpreadTopic(ctx, topic, 6))
	must(t, c.Admin.Grant(ctx, harness.AppGrants("harriet", topic)...))
	const records, size = 5000, 100
	at := c.ControlAddresses()[0]
	results, _, err := site.Java(ctx, harness.JavaRun{Certificate: site.Direct("harriet"), Outside: true, Steps: []harness.JavaStep{
		{Mode: "produce", Settings: map[string]string{"bootstrap": at, "topic": topic, "records": "5000"}},
		{Mode: "consume", Settings: map[string]string{"bootstrap": at, "topic": topic, "records": "5000", "group": topic + "-a", "protocol": "classic", "members": "2"}},
		{Mode: "consume", Settings: map[string]string{"bootstrap": at, "topic": topic, "records": "5000", "group": topic + "-b", "protocol": "consumer", "members": "2"}},
		{Mode: "produce", Settings: map[string]string{"bootstrap": at, "topic": topic, "records": "5000", "prefix": "tx", "txn": topic + "-x", "per.txn": "500", "abort.every": "2"}},
		{Mode: "consume", Settings: map[string]string{"bootstrap": at, "topic": topic, "records": "5000", "prefix": "tx", "group": topic + "-c"}},
		{Mode: "describe", Settings: map[string]string{"bootstrap": at, "topic": topic}},
	}})
	must(t, err)
	for i, prefix := range []string{"r", "r", "r", "tx", "tx"} {
		want := harness.Expected(prefix, records, size)
		if i == 4 {
			want.Foreign = records // the first series
		}
		got := results[i].Tally
		if results[i].Values["overtaken"] != "" {
			got.Duplicates = 0
		}
		if !got.Same(want) || len(results[i].Errors) > 0 {
			t.Errorf("step %d: %+v, wanted %+v", i, results[i], want)
		}
	}
	if got := strings.Join(results[5].Nodes, " "); got != strings.Join(c.ControlAddresses(), " ") {
		t.Errorf("nodes %s", got)
	}
}

func TestHarnessNamespaceReachesNoBroker(t *testing.T) {
	c := cluster(t)
	ctx := within(t, time.Minute)
	results, client, err := site.Java(ctx, harness.JavaRun{Certificate: site.Direct("harriet"), Steps: []harness.JavaStep{
		{Mode: "describe", Settings: map[string]string{"bootstrap": c.ControlAddresses()[0], "p.default.api.timeout.ms": "3000", "p.request.timeout.ms": "2000"}},
	}})
	must(t, err)
	if len(results[0].Errors) == 0 {
		t.Errorf("it worked: %+v", results[0])
	}
	if !strings.Contains(client.Output(), site.LoopbackPrefix()) {
		t.Errorf("the dial to a broker left no trace:\n%s", client.Output())
	}

	// Through a relay on the front address the very same client gets in, so it is
	// the network that held it back; and it is told of addresses that it cannot
	// reach.
	front, err := site.Front()
	must(t, err)
	relay, err := faultrelay.New(front+":0", c.Node(1).ControlListener())
	must(t, err)
	defer func() { must(t, relay.Close()) }()
	results, _, err = site.Java(ctx, harness.JavaRun{Certificate: site.Direct("harriet"), Steps: []harness.JavaStep{
		{Mode: "describe", Settings: map[string]string{"bootstrap": relay.Address(), "p.ssl.endpoint.identification.algorithm": "", "p.default.api.timeout.ms": "5000", "p.request.timeout.ms": "4000"}},
	}})
	must(t, err)
	if relay.Accepted() == 0 {
		t.Errorf("no connection reached the relay: %+v", results[0])
	}
}

func TestHarnessRawConnectionAndAdministration(t *testing.T) {
	c := cluster(t)
	ctx := within(t, time.Minute)
	for _, n := range c.Nodes {
		group, err := c.Admin.GroupOn(ctx, n.ID, name(t, "g"))
		must(t, err)
		txn, err := c.Admin.TxnOn(ctx, n.ID, name(t, "x"))
		must(t, err)
		t.Logf("node %d coordinates %s and %s", n.ID, group, txn)
	}
	must(t, c.Admin.SetLogger(ctx, "kafka.authorizer.logger", "INFO"))
	must(t, c.Admin.SetLogger(ctx, "kafka.authorizer.logger", "DEBUG"))

	raw, err := harness.DialRaw(ctx, c.Node(1).ControlListener(), site.Direct("admin").ClientTLS())
	must(t, err)
	defer func() { _ = raw.Close() }()
	versions := kmsg.NewPtrApiVersionsRequest()
	versions.Version, versions.ClientSoftwareName, versions.ClientSoftwareVersion = 3, "raw", "1"
	_, err = raw.Request(versions)
	must(t, err)
	metadata := kmsg.NewPtrMetadataRequest()
	metadata.Version = 12
	resp, err := raw.Request(metadata)
	must(t, err)
	if n := len(resp.(*kmsg.MetadataResponse).Brokers); n != 3 {
		t.Errorf("%d brokers", n)
	}
}

func TestHarnessNodeTroubleAndJMX(t *testing.T) {
	c := ownCluster(t, harness.ClusterConfig{})
	ctx := within(t, 2*time.Minute)
	topic := name(t, "t")
	must(t, c.Admin.SpreadTopic(ctx, topic, 6))
	must(t, c.Admin.MoveLeader(ctx, topic, 0, 3))

	must(t, c.Node(2).Pause())
	if _, err := c.Admin.Tokens(func() context.Context {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		t.Cleanup(cancel)
		return ctx
	}(), 2); err == nil {
		t.Error("a suspended node answers")
	}
	must(t, c.Node(2).Resume())
	c.Node(3).Kill()
	must(t, c.Await(ctx))
	must(t, c.Node(3).Start())
	must(t, c.Await(ctx))

	killed, err := c.JMX(ctx, "kafka.network:type=SocketServer,name=ExpiredConnectionsKilledCount", "Value")
	must(t, err)
	if len(killed) != 3 {
		t.Errorf("%v", killed)
	}
	for _, v := range killed {
		if v != "0.0" && v != "0" {
			t.Errorf("%v", killed)
		}
	}
}
