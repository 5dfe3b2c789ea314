//go:build integration

package integration

// This file proves that doorkeeper check finds what is wrong with a real set-up, names
// the step, and says what to change; that it says nothing against a good one; and that
// it leaves no token and no secret behind.

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"doorkeeper/integration/harness"
	"doorkeeper/internal/certtest"
	"doorkeeper/internal/faultrelay"
)

// finding is one entry of the document that check prints.
type finding struct{ Step, Target, Status, Finding, Cure string }

type verdict struct {
	OK      bool
	Results []finding
	code    int
	output  string
}

// check runs doorkeeper check against the cluster.
func check(t *testing.T, c *harness.Cluster, change func(harness.Document), args ...string) verdict {
	t.Helper()
	g := startGateway(t, c, harness.GatewayConfig{Change: change, Args: append([]string{"check", "--json", "--config", "FILE"}, args...)})
	code, err := g.Wait(3 * time.Minute)
	must(t, err)
	v := verdict{code: code, output: g.Output()}
	if err := json.Unmarshal([]byte(v.output), &v); err != nil {
		t.Fatalf("%v in %s", err, v.output)
	}
	return v
}

// steps are those with a result of that status.
func (v verdict) steps(status string) string {
	var steps []string
	for _, r := range v.Results {
		if r.Status == status && !slices.Contains(steps, r.Step) {
			steps = append(steps, r.Step)
		}
	}
	return strings.Join(steps, " ")
}

// wants checks that there is such a result.
func (v verdict) wants(t *testing.T, want finding) {
	t.Helper()
	if !slices.ContainsFunc(v.Results, func(r finding) bool {
		return r.Step == want.Step && r.Status == want.Status && strings.Contains(r.Target, want.Target) &&
			strings.Contains(r.Finding, want.Finding) && strings.Contains(r.Cure, want.Cure)
	}) {
		t.Errorf("nothing like %+v", want)
	}
}

// noTokens checks that none is left that a check has made, once node 1 has heard of
// the last that was expired.
func noTokens(t *testing.T, c *harness.Cluster) {
	t.Helper()
	ctx := within(t, patience)
	for {
		left := ""
		tokens, err := c.Admin.Tokens(ctx, 1)
		must(t, err)
		for _, token := range tokens {
			for _, r := range token.Renewers {
				if strings.HasPrefix(r.PrincipalName, "doorkeeper-check-") {
					left += fmt.Sprintf("a token of %s, of %s; ", token.PrincipalName, r.PrincipalName)
				}
			}
		}
		if left == "" {
			return
		}
		select {
		case <-ctx.Done():
			t.Errorf("left: %s", left)
			return
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// planted is one misconfiguration.
type planted struct {
	name   string
	change func(*testing.T, harness.Document)
	owner  string    // "": sample
	failed string    // the steps that fail, all of them; "": none
	wants  []finding // among others
	quiet  bool      // nothing to warn of either, but for the test's own environment
}

func (p planted) run(t *testing.T, c *harness.Cluster) {
	t.Helper()
	owner := p.owner
	if owner == "" {
		owner = "sample"
	}
	v := check(t, c, func(d harness.Document) {
		d.Set("timeouts.dial", "30s") // a machine under load is no finding
		if p.change != nil {
			p.change(t, d)
		}
	}, "--owner", owner)
	if got := v.steps("failed"); got != p.failed {
		t.Errorf("failed: %q, want %q", got, p.failed)
	}
	waits := v.steps("not_run") != ""
	if want := map[bool]int{true: 1, false: 0}[p.failed != "" || waits]; v.code != want || v.OK != (want == 0) {
		t.Errorf("exit code %d, ok %v", v.code, v.OK)
	}
	for _, w := range p.wants {
		v.wants(t, w)
	}
	for _, r := range v.Results {
		if p.quiet && r.Status == "warning" && !strings.Contains(r.Finding, "environment variable") {
			t.Errorf("a warning: %+v", r)
		}
		if (r.Status == "failed" || r.Status == "warning") && (r.Finding == "" || r.Cure == "") {
			t.Errorf("without a finding or a cure: %+v", r)
		}
	}
	if t.Failed() {
		for _, r := range v.Results {
			if r.Status != "ok" {
				t.Logf("%+v", r)
			}
		}
	}
}

// set makes a change of one key.
func set(path string, value any) func(*testing.T, harness.Document) {
	return func(_ *testing.T, d harness.Document) { d.Set(path, value) }
}

// control gives the gateway another certificate for the control listener.
func control(c *harness.Certificate) func(*testing.T, harness.Document) {
	return func(_ *testing.T, d harness.Document) {
		d.Set("kafka.control.tls.certificate", c.Files.Cert)
		d.Set("kafka.control.tls.key", c.Files.Key)
	}
}

// byPassword makes the control login one by SCRAM, on the token listener.
func byPassword(c *harness.Cluster, user, password string) func(*testing.T, harness.Document) {
	return func(t *testing.T, d harness.Document) {
		file := certtest.WriteFile(t.TempDir(), "password", []byte(password+"\n"))
		d.Set("kafka.control.bootstrap", c.TokenAddresses())
		d.Delete("kafka.control.tls.certificate")
		d.Delete("kafka.control.tls.key")
		d.Set("kafka.control.sasl", map[string]any{"mechanism": "SCRAM-SHA-512", "username": user, "password_file": file})
	}
}

// taken occupies an address of the configuration.
func taken(key func(harness.Document) string) func(*testing.T, harness.Document) {
	return func(t *testing.T, d harness.Document) {
		l, err := net.Listen("tcp", key(d))
		must(t, err)
		t.Cleanup(func() { must(t, l.Close()) })
	}
}

func section(d harness.Document, name string) map[string]any { return d[name].(map[string]any) }

// The set-up that all other tests use, and what is wrong with the gateway's own side of
// it: its configuration, its files, its rights, its listeners.
func TestCheckTheGatewaysSide(t *testing.T) {
	c := cluster(t)
	ctx := within(t, time.Minute)
	salted := kadm.UpsertSCRAM{User: "by-password", Mechanism: kadm.ScramSha512, Iterations: 4096, Password: "correct horse"}
	altered, err := c.Admin.AlterUserSCRAMs(ctx, nil, []kadm.UpsertSCRAM{salted})
	must(t, err)
	must(t, altered.Error())
	must(t, c.Admin.GrantTokens(ctx, "by-password", "*"))
	t.Cleanup(func() {
		ctx, cancel := afterwards()
		defer cancel()
		must(t, c.Admin.Revoke(ctx, harness.TokenGrant("by-password", "*")))
		_, err := c.Admin.AlterUserSCRAMs(ctx, []kadm.DeleteSCRAM{{User: "by-password", Mechanism: kadm.ScramSha512}}, nil)
		must(t, err)
	})
	front, err := site.Front()
	must(t, err)
	ip := []net.IP{net.ParseIP(front)}
	ended := certtest.Leaf{CommonName: harness.GatewayPrincipal, IPs: ip, NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: time.Now().Add(-24 * time.Hour)}
	endedFace := site.ClientOf("face-ended", site.ClientCA(), ended)
	endedLogin := site.ClientOf("login-ended", site.BrokerCA(), ended)
	foreignCA := certtest.NewCA("foreign").Write(t.TempDir(), "foreign")

	for _, p := range []planted{
		{name: "nothing", wants: []finding{
			{"token_rights", "the gateway's own token", "ok", "the gateway is User:gateway", ""},
			{"token_rights", "User:sample", "ok", "may stand for it", ""},
			{"secret_key", "node 3", "ok", "", ""},
			{"token_login", "node 1", "ok", "logged in with the token of User:sample", ""},
			{"reauthentication", "node 2", "ok", "", ""},
			{"session_lifetime", "node 3", "ok", "", ""},
			{"listeners", "node 2", "ok", "free", ""},
			{"broker_addresses", "node 1", "ok", "", ""},
			{"cleaning_up", "", "ok", "2 tokens were made and expired again", ""},
		}, quiet: true},
		{name: "nothing, by password", change: byPassword(c, "by-password", "correct horse"), wants: []finding{
			{"control_login", "node 1", "ok", `by SCRAM-SHA-512 as "by-password"`, ""},
			{"token_rights", "the gateway's own token", "ok", "the gateway is User:by-password", ""},
		}},
		{name: "wrong password", change: byPassword(c, "by-password", "wrong horse"), failed: "control_login", wants: []finding{
			{"control_login", c.TokenAddresses()[0], "failed", "the broker refused the login", "check kafka.control.sasl: username, the password"},
			{"token_login", c.TokenAddresses()[0], "not_run", "the login waits for token_rights", ""},
		}},
		{name: "no CREATE_TOKENS", change: control(site.Direct("check-ungranted")), failed: "token_rights", wants: []finding{
			{"token_rights", "User:sample", "failed", "error 65, DELEGATION_TOKEN_AUTHORIZATION_FAILED",
				"kafka-acls.sh --bootstrap-server <broker> --command-config <admin.properties> --add --allow-principal 'User:check-ungranted' --operation CreateTokens --user-principal 'User:sample'"},
			{"token_login", "node 1", "ok", "logged in with the token of User:check-ungranted", ""},
		}},
		{name: "a super user", change: control(site.Direct("admin")), wants: []finding{
			{"token_rights", "User:admin", "warning", "it may do more than it needs on the cluster itself: CREATE, ALTER, CLUSTER_ACTION", "take it out of super.users"},
		}},
		{name: "protected sample owner", owner: "admin", failed: "token_rights", wants: []finding{
			{"token_rights", "User:admin", "failed", `"admin" (from --owner) can be no client's name: its name "admin" is in identity.protected`, "--owner NAME"},
		}},
		{name: "the gateway itself as the sample owner", owner: "User:gateway", failed: "token_rights", wants: []finding{
			{"token_rights", "User:gateway", "failed", "is the gateway's own", "--owner NAME"},
		}},
		{name: "wrong CA for the brokers", change: set("kafka.tls.ca", foreignCA), failed: "token_login", wants: []finding{
			{"token_login", c.TokenAddresses()[0], "failed", "certificate signed by unknown authority", "kafka.tls.ca must hold the authority"},
			{"secret_key", "node 1", "ok", "", ""},
		}},
		{name: "wrong CA for the control listener", change: set("kafka.control.tls.ca", foreignCA), failed: "control_login", wants: []finding{
			{"control_login", c.ControlAddresses()[0], "failed", "certificate signed by unknown authority", "kafka.control.tls.ca must hold the authority"},
			{"token_login", c.TokenAddresses()[0], "not_run", "TLS, host name and mechanism are as they should be", ""},
		}},
		{name: "a login of another CA", change: control(site.Client(harness.GatewayPrincipal)), failed: "control_login", wants: []finding{
			{"control_login", c.ControlAddresses()[0], "failed", "remote error: tls", "of an authority in the listener's ssl.truststore.location"},
		}},
		{name: "expired certificate towards clients", change: func(_ *testing.T, d harness.Document) {
			d.Set("listen.tls.certificate", endedFace.Files.Cert)
			d.Set("listen.tls.key", endedFace.Files.Key)
		}, failed: "files", wants: []finding{{"files", "listen.tls.certificate", "failed", "it expired at", "put a certificate in place that is valid now"}}},
		{name: "expired certificate of the control login", change: control(endedLogin), failed: "files control_login", wants: []finding{
			{"files", "kafka.control.tls.certificate", "failed", "it expired at", "put a certificate in place"},
			{"control_login", c.ControlAddresses()[0], "failed", "remote error: tls", "kafka.control.tls.certificate must be valid now"},
		}},
		{name: "key of another certificate", change: set("listen.tls.key", site.Client("somebody").Files.Key), failed: "files", wants: []finding{
			{"files", "listen.tls.certificate", "failed", "does not belong to the key in", "give the pair that was issued together"},
			{"advertised_names", "listen.advertise.host", "not_run", "waits for files", ""},
		}},
		{name: "advertised name not in the certificate", change: set("listen.advertise.host", "gw.example.com"), failed: "advertised_names", wants: []finding{
			{"advertised_names", "gw.example.com", "failed", "clients will refuse the gateway's certificate", `the subject alternative name "gw.example.com"`},
		}},
		{name: "node ids of another cluster", change: set("listen.advertise.nodes", "7-9"), wants: []finding{
			{"advertised_names", "listen.advertise.nodes", "warning", "it leaves out the nodes [1 2 3]", "name every broker"},
			{"advertised_names", "listen.advertise.nodes", "warning", "it names the nodes [7 8 9]", "take it out"},
		}},
		{name: "node ids outside the ports", change: func(_ *testing.T, d harness.Document) {
			d.Delete("listen.advertise.nodes")
			d.Set("listen.advertise.base_port", 65533)
		}, failed: "advertised_names", wants: []finding{
			{"advertised_names", "node 3", "failed", "65533 + 3 = 65536, and 65535 is the last", "lower listen.advertise.base_port"},
			{"listeners", "node 2", "ok", "free", ""},
		}},
		{name: "listener taken", change: taken(func(d harness.Document) string { return section(d, "listen")["address"].(string) }), failed: "listeners", wants: []finding{
			{"listeners", "listen.address", "failed", "address already in use", "free the address"},
		}},
		{name: "admin listener taken", change: taken(func(d harness.Document) string { return section(d, "admin")["address"].(string) }), failed: "listeners", wants: []finding{
			{"listeners", "admin.address", "failed", "address already in use", "admin.address"},
		}},
		{name: "broker addresses not allowed", change: set("kafka.addresses", []string{"10.0.0.0/8", "*.kafka.internal"}), failed: "broker_addresses", wants: []finding{
			{"broker_addresses", "node 2", "failed", "is in none of the networks of kafka.addresses", "to kafka.addresses"},
		}},
		{name: "control and token listeners exchanged", change: func(_ *testing.T, d harness.Document) {
			d.Set("kafka.bootstrap", c.ControlAddresses())
			d.Set("kafka.control.bootstrap", c.TokenAddresses())
		}, failed: "control_login token_login", wants: []finding{
			{"control_login", c.TokenAddresses()[1], "failed", "it wants a SASL login", "the wrong way round"},
			{"token_login", c.ControlAddresses()[1], "failed", "remote error: tls", "a control listener (SSL)"},
		}},
		{name: "a configuration that is wrong elsewhere", change: set("limits.frame", "5TB"), failed: "configuration", wants: []finding{
			{"configuration", "limits.frame", "failed", "(line ", ""},
			{"token_login", "node 1", "ok", "", ""},
		}},
	} {
		t.Run(p.name, func(t *testing.T) { p.run(t, c) })
	}
	noTokens(t, c)
}

// What is wrong with the brokers' side.
func TestCheckTheBrokersSide(t *testing.T) {
	c := oddCluster(t)
	newMeddler(t, c.meddler, c.at("MEDDLED")[0], site.ClientOf("meddler", site.BrokerCA(), certtest.Leaf{CommonName: "meddler", IPs: []net.IP{net.ParseIP(c.Node(1).Host)}}))
	// through points the gateway at one listener for tokens and at one for itself.
	through := func(tokens, login string) func(*testing.T, harness.Document) {
		return func(_ *testing.T, d harness.Document) {
			d.Set("kafka.bootstrap", c.at(tokens))
			d.Set("kafka.control.bootstrap", c.at(login))
		}
	}
	for _, p := range []planted{
		{name: "secret keys", failed: "secret_key token_login", wants: []finding{
			{"secret_key", "node 1", "ok", "", ""},
			{"secret_key", "node 2", "failed", "is not that of the active controller", "the same delegation.token.secret.key on every broker and every controller"},
			{"secret_key", "node 3", "failed", "it has no delegation.token.secret.key (error 61)", "in the server.properties of this node"},
			{"token_login", "node 1", "ok", "", ""},
			{"token_login", "node 2", "failed", "the broker refused the login", "mend what secret_key says of this node"},
			{"token_login", "node 3", "failed", "", "mend what secret_key says of this node"},
			{"reauthentication", "node 1", "ok", "", ""},
			{"reauthentication", "node 2", "not_run", "waits for token_login", ""},
		}},
		{name: "one-way TLS on the control listener", change: through("HOURLY", "ONEWAY"), failed: "control_login", wants: []finding{
			{"control_login", c.at("ONEWAY")[0], "failed", "one-way TLS: it asks for no client certificate, so that the gateway is ANONYMOUS", "ssl.client.auth=required"},
		}},
		{name: "a control listener without TLS", change: through("HOURLY", "CLEAR"), failed: "control_login", wants: []finding{
			{"control_login", c.at("CLEAR")[0], "failed", "it speaks Kafka without TLS", "of the protocol SSL"},
		}},
		{name: "PLAIN alone on the token listener", change: through("PASSWORDS", "LONE"), failed: "token_login", wants: []finding{
			{"token_login", c.at("PASSWORDS")[0], "failed", `it does not offer SCRAM-SHA-512: it offers "[PLAIN]"`, "sasl.enabled.mechanisms"},
		}},
		{name: "a token listener without TLS", change: through("CLEAR", "LONE"), failed: "token_login", wants: []finding{
			{"token_login", c.at("CLEAR")[0], "failed", "it speaks Kafka without TLS", "of the protocol SASL_SSL"},
		}},
		{name: "a token listener without SASL", change: through("ONEWAY", "LONE"), failed: "token_login", wants: []finding{
			{"token_login", c.at("ONEWAY")[0], "failed", "it takes no SASL login", "must name the token listener (SASL_SSL)"},
		}},
		{name: "expired certificate of a broker", change: through("ENDED", "LONE"), failed: "token_login", wants: []finding{
			{"token_login", c.at("ENDED")[0], "failed", "certificate has expired", "renew the broker's certificate"},
		}},
		{name: "another host's certificate", change: through("ELSEWHERE", "LONE"), failed: "token_login", wants: []finding{
			{"token_login", c.at("ELSEWHERE")[0], "failed", "the broker's certificate is not for", "a subject alternative name"},
		}},
		{name: "sessions of two seconds", change: through("SHORT", "LONE"), failed: "session_lifetime", wants: []finding{
			{"session_lifetime", "node 1", "failed", "less than 3s", "connections.max.reauth.ms"},
			{"reauthentication", "node 1", "not_run", "waits for session_lifetime", ""},
		}},
		{name: "sessions of an hour", change: through("HOURLY", "LONE"), wants: []finding{
			{"session_lifetime", "node 1", "warning", "its sessions live for 1h0m0s (connections.max.reauth.ms)", "raise connections.max.reauth.ms"},
			{"reauthentication", "node 1", "ok", "", ""},
		}},
		{name: "two brokers at one address", change: through("DOUBLE", "LONE"), failed: "broker_addresses", wants: []finding{
			{"broker_addresses", "node 1", "failed", "node 2 advertises the same address", "an address of its own in advertised.listeners"},
			{"broker_addresses", "node 2", "failed", "node 1 advertises the same address", "an address of its own"},
			{"broker_addresses", "node 2", "failed", "the control listener does not", "a control listener of the same name"},
		}},
		{name: "advertised where nobody listens", change: through("NOWHERE", "LONE"), failed: "token_login", wants: []finding{
			{"token_login", "node 1 (" + c.Node(1).Host + ":1)", "failed", "connection refused", "advertised.listeners"},
		}},
		{name: "advertised by a name that does not resolve", change: through("UNNAMED", "LONE"), failed: "token_login broker_addresses", wants: []finding{
			{"token_login", "node 1 (broker-1.invalid:9094)", "failed", "no such host", "does its name resolve here"},
			{"broker_addresses", "node 1 (broker-1.invalid:9094)", "failed", "its name does not resolve here", "advertised.listeners resolve on this machine"},
		}},
		{name: "something that ends re-authentications", change: through("MEDDLED", "LONE"), failed: "reauthentication", wants: []finding{
			{"reauthentication", "node 1 (" + c.meddler + ")", "failed", "logging in anew on the same connection failed: mechanism: EOF", "a proxy that reads Kafka's protocol"},
			{"token_login", "node 1 (" + c.meddler + ")", "ok", "", ""},
		}},
	} {
		t.Run(p.name, func(t *testing.T) { p.run(t, c.Cluster) })
	}
	noTokens(t, c.Cluster)

	t.Run("a broker that is down", func(t *testing.T) {
		c.Node(3).Kill()
		planted{failed: "control_login secret_key token_login", wants: []finding{
			{"control_login", c.ControlAddresses()[2], "failed", "connection refused", "is the broker up"},
			{"token_login", c.TokenAddresses()[2], "failed", "connection refused", "is the broker up"},
			{"secret_key", "node 1", "ok", "", ""},
		}}.run(t, c.Cluster)
	})
}

// Another gateway in front of the brokers.
func TestCheckPointedAtAnotherGateway(t *testing.T) {
	c := cluster(t)
	front, err := site.Front()
	must(t, err)
	face := site.ClientOf("check-other", site.BrokerCA(), certtest.Leaf{CommonName: "other", IPs: []net.IP{net.ParseIP(front)}})
	other := gateway(t, c, harness.GatewayConfig{Change: func(d harness.Document) {
		d.Set("listen.tls.certificate", face.Files.Cert)
		d.Set("listen.tls.key", face.Files.Key)
	}})
	client := site.Client("chained")
	planted{change: func(_ *testing.T, d harness.Document) {
		d.Set("kafka.bootstrap", []string{other.Bootstrap})
		d.Set("kafka.tls.certificate", client.Files.Cert)
		d.Set("kafka.tls.key", client.Files.Key)
	}, failed: "token_login", wants: []finding{
		{"token_login", other.Bootstrap, "failed", "it is another gateway", "the brokers' own token listener"},
	}}.run(t, c)
}

// Tokens that end before anything could be done with them: the controllers' setting.
func TestCheckShortTokens(t *testing.T) {
	c := ownCluster(t, harness.ClusterConfig{Nodes: 1, TokenExpiry: 2 * time.Second})
	planted{failed: "session_lifetime", wants: []finding{
		{"session_lifetime", "tokens", "failed", "they live for 2s", "raise delegation.token.expiry.time.ms on every controller and broker"},
		{"token_login", c.TokenAddresses()[0], "not_run", "the login waits for session_lifetime", ""},
	}}.run(t, c)
	if !c.Version().Reload4j() {
		return // Kafka 4 cannot be set up as what follows
	}
	old := ownCluster(t, harness.ClusterConfig{Nodes: 1, Properties: map[string]string{"inter.broker.protocol.version": "3.5-IV2"}})
	planted{failed: "token_rights metadata_version", wants: []finding{
		{"metadata_version", "the cluster", "failed", "metadata.version is at level 11", "upgrade --feature metadata.version=14"},
		{"token_rights", "the gateway's own token", "failed", "error 35", "metadata.version 3.6-IV2"},
	}}.run(t, old)
}

// Ctrl-C while a broker says nothing: the tokens that were made are expired, and none
// of their secrets was in the output.
func TestCheckInterrupted(t *testing.T) {
	c := cluster(t)
	front, err := site.Front()
	must(t, err)
	relay, err := faultrelay.New(front+":0", c.Node(1).TokenListener())
	must(t, err)
	defer func() { must(t, relay.Close()) }()
	relay.SetBoth(faultrelay.Faults{Stall: true})
	g := startGateway(t, c, harness.GatewayConfig{
		Args: []string{"check", "--config", "FILE", "--owner", "interrupted"},
		Change: func(d harness.Document) {
			d.Set("kafka.bootstrap", []string{relay.Address()})
			d.Set("timeouts.dial", "100s")
		},
	})
	for relay.Accepted() == 0 {
		time.Sleep(20 * time.Millisecond)
		if !g.Alive() {
			t.Fatalf("it has ended: %s", g.Output())
		}
	}
	tokens, err := c.Admin.Tokens(within(t, patience), 1, "interrupted")
	must(t, err)
	if len(tokens) != 1 {
		t.Errorf("%d tokens", len(tokens))
	}
	must(t, g.Signal(syscall.SIGINT))
	code, err := g.Wait(patience)
	must(t, err)
	out := g.Output()
	if code != 130 || !strings.Contains(out, "2 tokens were made and expired again") || !strings.Contains(out, "cut short: interrupted") {
		t.Errorf("exit code %d:\n%s", code, out)
	}
	if strings.Contains(out, "\x1b") {
		t.Error("colours where no terminal is")
	}
	for _, token := range tokens {
		for _, secret := range []string{string(token.HMAC), base64.StdEncoding.EncodeToString(token.HMAC), hex.EncodeToString(token.HMAC)} {
			if strings.Contains(out, secret) {
				t.Error("the token's secret is in the output")
			}
		}
	}
	noTokens(t, c)
}
