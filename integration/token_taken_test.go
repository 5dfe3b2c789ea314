//go:build integration

package integration

// This file proves what becomes of tokens that are not as they were left, or not ours:
// those that an administrator expires, all at once, are replaced by one each and no client
// sees it, whether the brokers have removed them or still take logins that have no life;
// those that are not this instance's are not adopted, used or expired; and an owner for
// whom there is no grant costs Kafka a question now and then, and others nothing.

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"doorkeeper/integration/harness"
	"doorkeeper/internal/certtest"
)

// F8, F10 and B37.
func TestTokensThatAnAdministratorExpires(t *testing.T) {
	c := cluster(t)
	ctx := within(t, 5*time.Minute)
	g := gateway(t, c, harness.GatewayConfig{Change: func(d harness.Document) { d.Set("tokens.expire_on_stop", true) }})
	all := named("robbed", 10)
	crowd := receive(t, g, g.Addresses(c), all, 300*time.Millisecond)
	ends := metricsOf(t, g)
	before := oneEach(t, c, all)
	asked := metricsOf(t, g).Sum("doorkeeper_token_creations_total")

	gatekeeper := kadmAs(t, c, harness.GatewayPrincipal)
	for _, way := range []struct {
		what   string
		period time.Duration
	}{
		{"removed at once", -time.Millisecond},
		{"over, but listed until the sweep in an hour", 0}, // a login with it has a lifetime of 0
	} {
		tokens, err := c.Admin.Tokens(ctx, 1, all...)
		must(t, err)
		for _, token := range tokens {
			if token.TokenID != before[token.PrincipalName] {
				continue
			}
			_, err := gatekeeper.ExpireDelegationToken(ctx, token.HMAC, way.period)
			must(t, err)
		}
		var after map[string]string
		eventually(t, func() error {
			served := crowd.count()
			if err := pauseOrEnd(ctx, 500*time.Millisecond); err != nil || crowd.count() == served {
				return errors.Join(err, errors.New("nobody was served"))
			}
			tokens, err := live(ctx, c, 1, all...)
			if err != nil {
				return err
			}
			for owner, id := range before {
				if len(tokens[owner]) == 0 || tokens[owner][0].TokenID == id {
					return fmt.Errorf("%s has no other token yet", owner)
				}
			}
			return nil
		})
		after = oneEach(t, c, all)
		// A broker can list a token before the gateway has the answer to its creation.
		visited := crowd.count()
		eventually(t, func() error {
			if metricsOf(t, g).Sum("doorkeeper_token_creations_total")-asked < float64(len(all)) || crowd.count()-visited < 2*len(all) {
				return errors.New("no new token for each owner, or nobody has come since")
			}
			return nil
		})
		now := metricsOf(t, g).Sum("doorkeeper_token_creations_total")
		t.Logf("%d tokens %s: %v more were created", len(all), way.what, now-asked)
		if now-asked != float64(len(all)) {
			t.Errorf("%d tokens %s: %v were asked for", len(all), way.what, now-asked)
		}
		before, asked = after, now
	}
	noneEnded(t, g, ends, crowd.end(t))
}

// kadmAs is a client of the control listener with the rights of that principal.
func kadmAs(t *testing.T, c *harness.Cluster, principal string) *kadm.Client {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(c.ControlAddresses()...), kgo.DialTLSConfig(site.Direct(principal).ClientTLS()))
	must(t, err)
	t.Cleanup(client.Close)
	return kadm.NewClient(client)
}

// S22: tokens that were planted for a gateway that starts.
func TestTokensThatAreNotOursAreLeftAlone(t *testing.T) {
	c := cluster(t)
	ctx := within(t, 3*time.Minute)
	const instance = "planted-instance"
	const marker, self = "doorkeeper-" + instance, harness.GatewayPrincipal
	gatekeeper, admin := kadmAs(t, c, self), kadmAs(t, c, "admin")
	plants := map[string]struct {
		by       *kadm.Client
		renewers []string
		adopted  bool
		expired  bool // since it is ours, and of no use
	}{
		"planted-good":     {gatekeeper, []string{self, marker}, true, true},
		"planted-foreign":  {admin, []string{self, marker}, false, false},                               // requested by another
		"planted-unmarked": {gatekeeper, []string{self}, false, false},                                  // of no instance
		"planted-fixed":    {gatekeeper, []string{marker}, false, false},                                // we could not expire it
		"planted-sibling":  {gatekeeper, []string{self, "doorkeeper-" + instance + "-2"}, false, false}, // of another instance
	}
	planted := map[string]kadm.DelegationToken{}
	for owner, p := range plants {
		want := kadm.CreateDelegationToken{Owner: &kadm.Principal{Type: "User", Name: owner}, MaxLifetime: time.Hour}
		for _, name := range p.renewers {
			want.Renewers = append(want.Renewers, kadm.Principal{Type: "User", Name: name})
		}
		token, err := p.by.CreateDelegationToken(ctx, want)
		must(t, err)
		planted[owner] = token
	}
	all := slices.Sorted(maps.Keys(plants))
	oneEach(t, c, all)

	g := gateway(t, c, harness.GatewayConfig{Change: func(d harness.Document) {
		d.Set("instance", instance)
		d.Set("tokens.expire_on_stop", true)
	}})
	warm(t, []string{g.Bootstrap}, all)
	m := metricsOf(t, g)
	made := m.Sum("doorkeeper_token_creations_total", `result="created"`)
	if n := m.Sum("doorkeeper_token_adoptions_total"); n != 1 || made != float64(len(plants)) { // one of them is the gateway's own
		t.Errorf("%v tokens were adopted and %v created", n, made)
	}
	if code, err := g.Terminate(time.Minute); err != nil || code != 0 {
		t.Errorf("the gateway ended with %d, %v", code, err)
	}
	eventually(t, func() error {
		for _, n := range c.Nodes {
			tokens, err := live(ctx, c, n.ID, all...)
			if err != nil {
				return err
			}
			for owner, p := range plants {
				is := len(tokens[owner]) == 1 && tokens[owner][0].TokenID == planted[owner].TokenID
				if p.expired && len(tokens[owner]) > 0 || !p.expired && !is {
					return fmt.Errorf("after the stop node %d knows %d tokens of %s", n.ID, len(tokens[owner]), owner)
				}
			}
		}
		return nil
	})
}

// S21 and B10: all that a gateway needs is one right, also one whose name is a whole DN: with
// it alone it makes tokens, and as a renewer it expires them.
func TestGatewayNeedsOneRight(t *testing.T) {
	c := cluster(t)
	ctx := within(t, 3*time.Minute)
	dn := site.ClientOf("gateway-by-dn", site.BrokerCA(), certtest.Leaf{
		Subject: certtest.Name(certtest.RDN{certtest.O("Lab, Ltd")}, certtest.RDN{certtest.OU("gateways")}), Usage: certtest.ClientOnly,
	})
	const principal = `OU=gateways,O=Lab\, Ltd`
	must(t, c.Admin.GrantTokens(ctx, principal, "*"))
	for _, name := range []string{principal, harness.GatewayPrincipal} {
		rights, err := c.Admin.DescribeACLs(ctx, kadm.NewACLs().AnyResource().Allow("User:"+name).AllowHosts().
			Operations(kadm.OpAny).ResourcePatternType(kadm.ACLPatternAny))
		must(t, err)
		for _, r := range rights {
			must(t, r.Err)
			for _, right := range r.Described {
				if right.Type != kmsg.ACLResourceTypeUser || right.Operation != kmsg.ACLOperationCreateTokens {
					t.Errorf("%s may do more: %+v", name, right)
				}
			}
		}
	}
	g := gateway(t, c, harness.GatewayConfig{Change: func(d harness.Document) {
		d.Set("kafka.control.tls.certificate", dn.Files.Cert)
		d.Set("kafka.control.tls.key", dn.Files.Key)
		d.Set("tokens.lifetime", "10s") // replaced, and the one before expired, in a few seconds
		d.Set("tokens.expire_on_stop", true)
	}})
	all := named("modest", 3)
	crowd := receive(t, g, g.Addresses(c), all, 300*time.Millisecond)
	eventually(t, func() error {
		if n := metricsOf(t, g).Sum("doorkeeper_token_expiries_total", `result="expired"`); n < 3 {
			return fmt.Errorf("%v replaced tokens were expired", n)
		}
		return nil
	})
	crowd.end(t)
	m := metricsOf(t, g)
	if n := m.Sum("doorkeeper_token_request_failures_total", `reason="owner_mismatch"`) + m.Sum("doorkeeper_token_request_failures_total", `reason="not_authorized"`); n != 0 {
		t.Errorf("%v requests were refused", n)
	}
	if code, err := g.Terminate(time.Minute); err != nil || code != 0 {
		t.Errorf("the gateway ended with %d, %v", code, err)
	}
	noneLeft(t, c, append(all, principal)...)

	const told = "may do more than it needs"
	if strings.Contains(g.Output(), told) {
		t.Error("a gateway that has one right is warned of others")
	}
	super := gateway(t, c, harness.GatewayConfig{Change: func(d harness.Document) {
		d.Set("kafka.control.tls.certificate", site.Direct("admin").Files.Cert)
		d.Set("kafka.control.tls.key", site.Direct("admin").Files.Key)
	}})
	eventually(t, func() error {
		if !strings.Contains(super.Output(), told) {
			return errors.New("a super user is not told of its rights")
		}
		return nil
	})
}

// F12: one owner without a grant (error 65), and one with.
func TestOwnerWithoutAGrant(t *testing.T) {
	c := cluster(t)
	ctx := within(t, 3*time.Minute)
	const principal = "choosy"
	must(t, c.Admin.GrantTokens(ctx, principal, "choosy-granted"))
	g := gateway(t, c, harness.GatewayConfig{Change: func(d harness.Document) {
		login := site.Direct(principal)
		d.Set("kafka.control.tls.certificate", login.Files.Cert)
		d.Set("kafka.control.tls.key", login.Files.Key)
		d.Set("tokens.expire_on_stop", true)
	}})
	crowd := receive(t, g, g.Addresses(c), []string{"choosy-granted"}, 100*time.Millisecond)
	from := time.Now()
	const visits = 60
	for range visits {
		if err := visit(g.Bootstrap, site.Client("choosy-refused")); err == nil {
			t.Error("an owner without a grant was served")
		}
	}
	took := time.Since(from)
	crowd.end(t)
	m := metricsOf(t, g)
	n := m.Sum("doorkeeper_token_creations_total", `result="not_authorized"`)
	t.Logf("%d visits within %v were refused, and Kafka was asked %v times", visits, took.Round(time.Millisecond), n)
	if most := 1 + float64(took/(5*time.Second)); n < 1 || n > most { // refusalLeast in tokens/renewal.go
		t.Errorf("Kafka was asked %v times, not once in 5 s", n)
	}
	if n := m.Sum("doorkeeper_session_ends_total", `reason="no_token"`); n != visits {
		t.Errorf("%v sessions ended with no_token", n)
	}
	if code := fmt.Sprintf(`code="%d"`, kerr.DelegationTokenAuthorizationFailed.Code); m.Sum("doorkeeper_token_request_failures_total", code) != n {
		t.Error("the figures do not name Kafka's code")
	}
}
