//go:build integration

package integration

// This file proves that the brokers see every client under its own principal and
// decide by it: what alice may do is logged by the broker's authorizer as alice's,
// what bob may not is refused by the broker and logged as bob's, and the gateway's
// own principal asks for nothing in their place. Owners may have odd names.

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/errgroup"

	"doorkeeper/integration/checker"
	"doorkeeper/integration/harness"
	"doorkeeper/internal/certtest"
)

func TestIdentityIsTheClientsOwn(t *testing.T) {
	c := cluster(t)
	ctx := within(t, 2*time.Minute)
	topic := name(t, "t")
	must(t, c.Admin.Grant(ctx, harness.AppGrants("alice", topic)...))
	// Bob may know that the topic is there: else his client would not even try.
	must(t, c.Admin.Grant(ctx, harness.Grant{
		Principal: "bob", Type: kmsg.ACLResourceTypeTopic, Name: topic, Operation: kmsg.ACLOperationDescribe,
	}))
	of := series{topic, "i", 6}.make(ctx, t, c)
	g := gateway(t, c, harness.GatewayConfig{})

	var dials harness.Dials
	alice := franz(t, &dials, site.Client("alice"), g.Bootstrap)
	// Idempotence is refused before the topic is looked at to one who may write to none.
	bob := franz(t, &dials, site.Client("bob"), g.Bootstrap, kgo.DisableIdempotentWrite())
	if wrote, err := of.produce(ctx, alice, 0); err != nil || wrote.Count != of.records {
		t.Errorf("alice wrote %d: %v", wrote.Count, err)
	}
	for i := range of.records {
		if err := checker.Send(ctx, bob, of.record(i)); !errors.Is(err, kerr.TopicAuthorizationFailed) {
			t.Errorf("bob got %v", err)
		}
	}
	reader := franz(t, &dials, site.Client("bob"), g.Bootstrap, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err := reader.PollFetches(ctx).Err(); !errors.Is(err, kerr.TopicAuthorizationFailed) {
		t.Errorf("bob read with %v", err)
	}
	if n := stored(ctx, t, c, topic); n != of.records {
		t.Errorf("%d records are stored", n)
	}

	about := "LITERAL:" + topic
	for _, want := range []*regexp.Regexp{
		regexp.MustCompile(`Principal = User:alice is Allowed operation = WRITE .*` + about),
		regexp.MustCompile(`Principal = User:bob is Denied operation = WRITE .*` + about),
		regexp.MustCompile(`Principal = User:bob is Denied operation = READ .*` + about),
	} {
		if !want.MatchString(authorizerLogs(t, c)) {
			t.Errorf("no broker has logged %q", want)
		}
	}
	for line := range strings.Lines(authorizerLogs(t, c)) {
		if strings.Contains(line, about) && strings.Contains(line, "User:"+harness.GatewayPrincipal) {
			t.Errorf("the gateway's own principal: %s", line)
		}
	}
}

// B39, with names as they stand in certificates that an enterprise or a foreign
// country would make, and a hundred by chance for each mechanism.
func TestIdentityOfOddNames(t *testing.T) {
	c := cluster(t)
	for _, mechanism := range []string{"SCRAM-SHA-256", "SCRAM-SHA-512"} {
		t.Run(mechanism, func(t *testing.T) {
			ctx := within(t, 3*time.Minute)
			g := gateway(t, c, harness.GatewayConfig{Change: func(d harness.Document) {
				d.Set("identity.rules", []string{"RULE:^CN=(plain[^,]*),.*$/$1/", "DEFAULT"})
				d.Set("tokens.mechanism", mechanism)
			}})
			ou := certtest.RDN{certtest.OU(mechanism)}
			odd := []struct{ owner, subject string }{ // subject: the DER
				{`plain.name-with_all@odd!~chars` + mechanism, dn(ou, certtest.RDN{certtest.CN("plain.name-with_all@odd!~chars" + mechanism)})},
				{`CN=duke,OU=` + mechanism + `,O=Lab,C=DE`, dn(certtest.RDN{certtest.C("DE")}, certtest.RDN{certtest.O("Lab")}, ou, certtest.RDN{certtest.CN("duke")})},
				{`CN=Duke\, of Earl,OU=` + mechanism + `,O=\#1 \+ more\; \"s\"`, dn(certtest.RDN{certtest.O(`#1 + more; "s"`)}, ou, certtest.RDN{certtest.CN("Duke, of Earl")})},
				{`CN=app\=with\=equals\=\=,OU=` + mechanism, dn(ou, certtest.RDN{certtest.CN("app=with=equals==")})},
				{`CN=Zoë Straße,OU=` + mechanism + `,O=研究所 Ещё`, dn(certtest.RDN{certtest.O("研究所 Ещё")}, ou, certtest.RDN{certtest.CN("Zoë Straße")})},
			}
			const byChance = 100
			var all errgroup.Group
			all.SetLimit(8)
			for _, o := range odd {
				all.Go(func() error { return askAs(ctx, g, o.subject) })
			}
			for range byChance {
				all.Go(func() error { return askAs(ctx, g, dn(ou, certtest.RDN{certtest.CN(randomName())})) })
			}
			must(t, all.Wait())

			for _, o := range odd {
				tokens, err := c.Admin.Tokens(ctx, 1, o.owner)
				must(t, err)
				if len(tokens) != 1 || tokens[0].PrincipalType != "User" || tokens[0].PrincipalName != o.owner {
					t.Errorf("tokens of %q: %+v", o.owner, tokens)
				}
				if !strings.Contains(authorizerLogs(t, c), "Principal = User:"+o.owner+" is Denied operation = DESCRIBE") {
					t.Errorf("no broker has logged %q", o.owner)
				}
			}
			m := metricsNow(ctx, t, g)
			if made, want := m.Sum("doorkeeper_token_creations_total", `result="created"`), float64(len(odd)+byChance+1); made != want {
				t.Errorf("%v tokens were created for %v owners, the gateway's own among them", made, want)
			}
		})
	}
}

func dn(rdns ...certtest.RDN) string { return string(certtest.Name(rdns...)) }

// askAs asks as the owner of a certificate with this subject for a topic that
// nobody may see, and wants the broker's own answer. As a client does, it comes
// again where the gateway closes: a hundred tokens at once are much for a slow
// machine's brokers.
func askAs(ctx context.Context, g *harness.Gateway, subject string) error {
	sum := sha256.Sum256([]byte(subject))
	as := site.ClientOf(hex.EncodeToString(sum[:8]), site.ClientCA(), certtest.Leaf{Subject: []byte(subject), Usage: certtest.ClientOnly})
	var resp kmsg.Response
	for again := true; again; {
		raw, err := harness.DialRaw(ctx, g.Bootstrap, as.ClientTLS())
		if err != nil {
			return fmt.Errorf("subject %q: %w", subject, err)
		}
		resp, err = raw.Request(metadataRequest(12, "nobodys"))
		_ = raw.Close()
		if again = errors.Is(err, io.EOF); err != nil && !again {
			return fmt.Errorf("subject %q: %w", subject, err)
		}
		if again {
			time.Sleep(time.Second)
		}
	}
	if code := resp.(*kmsg.MetadataResponse).Topics[0].ErrorCode; code != kerr.TopicAuthorizationFailed.Code {
		return fmt.Errorf("subject %q: error %d", subject, code)
	}
	return nil
}

// randomName is 10 to 50 printable characters, of ASCII mostly.
func randomName() string {
	var b strings.Builder
	for range 10 + rand.IntN(40) {
		if rand.IntN(8) == 0 {
			b.WriteRune([]rune("äßéñλЖ中한€")[rand.IntN(9)])
			continue
		}
		b.WriteByte(byte(' ' + 1 + rand.IntN('~'-' ')))
	}
	return b.String()
}

// authorizerLogs are those of all brokers up to now.
func authorizerLogs(t *testing.T, c *harness.Cluster) string {
	t.Helper()
	var all strings.Builder
	for _, n := range c.Nodes {
		b, err := os.ReadFile(n.AuthorizerLog())
		must(t, err)
		all.Write(b)
	}
	return all.String()
}
