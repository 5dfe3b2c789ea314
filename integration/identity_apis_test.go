//go:build integration

package integration

// This file proves that nothing a client sends can change who it is, or reach a
// token: SASL requests inside the session and the four delegation-token APIs, at
// every version, are answered by the gateway as Kafka answers them, no broker ever
// sees one, the cluster's tokens stay as they are, and the connection goes on (S3,
// S4, B42).

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"doorkeeper/integration/harness"
)

func TestIdentityCannotBeChangedInTheSession(t *testing.T) {
	c := cluster(t)
	ctx := within(t, 2*time.Minute)
	topic := name(t, "t")
	must(t, c.Admin.Grant(ctx, harness.AppGrants("alice", topic)...))
	series{topic: topic}.make(ctx, t, c)
	g := gateway(t, c, harness.GatewayConfig{})
	leg := rawLeg(ctx, t, g.NodeAddress(2), site.Client("alice"), topic)

	offered := served(t, leg) // and alice has a token from now on
	for key := int16(38); key <= 41; key++ {
		if _, there := offered[key]; there {
			t.Errorf("%s is offered", kmsg.NameForKey(key))
		}
	}
	before := tokenList(t, c)

	must(t, c.Admin.SetLogger(ctx, "kafka.request.logger", "DEBUG"))
	defer func() { must(t, c.Admin.SetLogger(ctx, "kafka.request.logger", "WARN")) }()
	asked := 0
	for _, forbidden := range []struct {
		key  int16
		code int16
	}{
		{17, kerr.IllegalSaslState.Code}, {36, kerr.IllegalSaslState.Code},
		{38, kerr.DelegationTokenRequestNotAllowed.Code}, {39, kerr.DelegationTokenRequestNotAllowed.Code},
		{40, kerr.DelegationTokenRequestNotAllowed.Code}, {41, kerr.DelegationTokenRequestNotAllowed.Code},
	} {
		for v := int16(0); v <= kmsg.RequestForKey(forbidden.key).MaxVersion(); v++ {
			req := forbiddenRequest(forbidden.key, v)
			resp, err := leg.Request(req)
			must(t, err)
			if code := errorCode(resp); code != forbidden.code {
				t.Errorf("%s v%d: error %d, wanted %d", kmsg.NameForKey(forbidden.key), v, code, forbidden.code)
			}
			// Had a broker begun to re-authenticate, it would take this one badly.
			resp, err = leg.Request(metadataRequest(12, topic))
			must(t, err)
			if got := resp.(*kmsg.MetadataResponse).Topics[0]; got.ErrorCode != 0 || len(got.Partitions) != partitions {
				t.Errorf("after %s v%d the leg gave %+v", kmsg.NameForKey(forbidden.key), v, got)
			}
			asked++
		}
	}

	// The broker has the client's own requests in its log, and none of the others.
	seen := map[string]int{}
	for seen["METADATA"] < asked {
		must(t, ctx.Err())
		seen = requestsOf(t, c, topic)
	}
	if len(seen) != 1 || seen["METADATA"] != asked {
		t.Errorf("the brokers saw %v; %d are Metadata", seen, asked)
	}
	if after := tokenList(t, c); !slices.Equal(before, after) {
		t.Errorf("the tokens were\n%v\nand are\n%v", before, after)
	}

	// The Java client sees that these APIs are not there, and asks no further. With a
	// password of its own, whoever's it is, it is told at once that there is nothing to log
	// in to.
	asBob := func(mechanism, module string) harness.JavaStep {
		return harness.JavaStep{Mode: "describe", Settings: map[string]string{
			"bootstrap": g.Bootstrap, "topic": topic, "p.security.protocol": "SASL_SSL", "p.sasl.mechanism": mechanism,
			"p.sasl.jaas.config": "org.apache.kafka.common.security." + module + ` required username="bob" password="bobs-secret";`,
		}}
	}
	results, _, err := site.Java(ctx, harness.JavaRun{Certificate: site.Client("alice"), Steps: []harness.JavaStep{
		{Mode: "tokens", Settings: map[string]string{"bootstrap": g.Bootstrap}},
		asBob("PLAIN", "plain.PlainLoginModule"), asBob("SCRAM-SHA-512", "scram.ScramLoginModule"),
	}})
	must(t, err)
	for _, r := range results[1:] {
		if r.Errors["IllegalSaslStateException"] == 0 || len(r.Nodes) > 0 {
			t.Errorf("Java with a password: %v %v, nodes %v", r.Errors, r.Messages, r.Nodes)
		}
	}
	if seen := requestsOf(t, c, topic); len(seen) != 1 || seen["METADATA"] != asked {
		t.Errorf("the brokers saw %v; %d are Metadata", seen, asked)
	}
	if strings.Contains(g.Output(), "bobs-secret") {
		t.Error("the log shows a client's password")
	}
	for _, call := range []string{"create", "renew", "expire", "describe"} {
		if got := results[0].Values[call]; got != "UnsupportedVersionException" {
			t.Errorf("Java, %s: %s", call, got)
		}
	}
	if after := tokenList(t, c); !slices.Equal(before, after) {
		t.Errorf("the tokens were\n%v\nand are\n%v", before, after)
	}
	noFaults(ctx, t, g)
}

// forbiddenRequest asks for something that would be harmful if it worked.
func forbiddenRequest(key, version int16) kmsg.Request {
	req := kmsg.RequestForKey(key)
	req.SetVersion(version)
	switch r := req.(type) {
	case *kmsg.SASLHandshakeRequest:
		r.Mechanism = "SCRAM-SHA-512"
	case *kmsg.SASLAuthenticateRequest:
		r.SASLAuthBytes = []byte("n,,n=admin,r=nonce")
	case *kmsg.CreateDelegationTokenRequest:
		user, victim := "User", "bob"
		r.OwnerPrincipalType, r.OwnerPrincipalName, r.MaxLifetimeMillis = &user, &victim, -1
	case *kmsg.RenewDelegationTokenRequest:
		r.HMAC, r.RenewTimeMillis = make([]byte, 64), -1
	case *kmsg.ExpireDelegationTokenRequest:
		r.HMAC, r.ExpiryPeriodMillis = make([]byte, 64), -1
	}
	return req
}

func errorCode(resp kmsg.Response) int16 {
	switch r := resp.(type) {
	case *kmsg.SASLHandshakeResponse:
		return r.ErrorCode
	case *kmsg.SASLAuthenticateResponse:
		return r.ErrorCode
	case *kmsg.CreateDelegationTokenResponse:
		return r.ErrorCode
	case *kmsg.RenewDelegationTokenResponse:
		return r.ErrorCode
	case *kmsg.ExpireDelegationTokenResponse:
		return r.ErrorCode
	case *kmsg.DescribeDelegationTokenResponse:
		return r.ErrorCode
	}
	return 0
}

// tokenList is every token of the cluster, whoever's, once all nodes know the same.
func tokenList(t *testing.T, c *harness.Cluster) []string {
	t.Helper()
	ctx := within(t, time.Minute)
	for {
		var lists [][]string
		for _, n := range c.Nodes {
			tokens, err := c.Admin.Tokens(ctx, n.ID)
			must(t, err)
			var list []string
			for _, d := range tokens {
				list = append(list, fmt.Sprintf("%s of %s:%s until %d, %v", d.TokenID, d.PrincipalType, d.PrincipalName, d.ExpiryTimestamp, d.Renewers))
			}
			slices.Sort(list)
			lists = append(lists, list)
		}
		if !slices.ContainsFunc(lists, func(l []string) bool { return !slices.Equal(l, lists[0]) }) {
			return lists[0]
		}
	}
}

var requestName = regexp.MustCompile(`"requestApiKeyName":"([A-Z_]+)"`)

// requestsOf counts what the brokers' request logs have of one client id.
func requestsOf(t *testing.T, c *harness.Cluster, clientID string) map[string]int {
	t.Helper()
	seen := map[string]int{}
	for _, n := range c.Nodes {
		b, err := os.ReadFile(n.Log())
		must(t, err)
		for line := range strings.Lines(string(b)) {
			if strings.Contains(line, `"clientId":"`+clientID+`"`) {
				if m := requestName.FindStringSubmatch(line); m != nil {
					seen[m[1]]++
				}
			}
		}
	}
	return seen
}
