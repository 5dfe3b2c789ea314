//go:build integration

package integration

// This file proves that where Kafka gives no tokens (the feature is off, the
// gateway has no right, or is nobody on a one-way TLS listener) clients see a plain
// close and go on trying, the log names the cause and the cure, and once that is
// done everything works by itself, without a restart.

import (
	"strings"
	"testing"
	"time"

	"doorkeeper/integration/harness"
)

// neverFatal has a Java client try for some seconds, in vain.
func neverFatal(t *testing.T, g *harness.Gateway, user string) {
	t.Helper()
	results, _, err := site.Java(within(t, time.Minute), harness.JavaRun{Certificate: site.Client(user), Steps: []harness.JavaStep{
		{Mode: "describe", Settings: map[string]string{"bootstrap": g.Bootstrap, "p.default.api.timeout.ms": "4000", "p.request.timeout.ms": "4000"}},
	}})
	must(t, err)
	retryable(t, results[0])
	if results[0].Errors["TimeoutException"] != 1 {
		t.Errorf("java saw %v", results[0].Errors)
	}
}

// notReady waits until the gateway says these words in its log, and checks that it
// lives and is not ready for these reasons.
func notReady(t *testing.T, g *harness.Gateway, reason string, logged ...string) {
	t.Helper()
	must(t, g.AwaitOutput(within(t, patience), logged...))
	status, _, err := g.Get(within(t, patience), "/livez")
	if err != nil || status != 200 {
		t.Errorf("/livez: %d, %v", status, err)
	}
	status, body, err := g.Get(within(t, patience), "/readyz")
	if err != nil || status != 503 || !strings.Contains(body, reason) {
		t.Errorf("/readyz: %d %q, %v; without %q", status, body, err, reason)
	}
}

// B68: brokers with the token feature off (error 61).
func TestTokensSwitchedOff(t *testing.T) {
	c := ownCluster(t, harness.ClusterConfig{Nodes: 1, NoTokens: true, NoGrant: true})
	g := startGateway(t, c, harness.GatewayConfig{})
	notReady(t, g, "no delegation token of the gateway's own", "the token path does not work", "set delegation.token.secret.key on every broker and controller")
	neverFatal(t, g, "early")
	endsWell(t, g)
}

// B68: a gateway without CREATE_TOKENS (error 65) serves as soon as it has it.
func TestTokensNotGranted(t *testing.T) {
	c := loneCluster(t)
	topic := topicFor(t, c.Cluster, "patient")
	const principal = "ungranted"
	g := gateway(t, c.Cluster, harness.GatewayConfig{Change: func(d harness.Document) {
		login := site.Direct(principal)
		d.Set("kafka.control.tls.certificate", login.Files.Cert)
		d.Set("kafka.control.tls.key", login.Files.Key)
	}})
	closedPlainly(t, g, "patient", 3*time.Second)
	must(t, g.AwaitOutput(within(t, patience), `"reason":"no_token"`,
		"kafka-acls.sh --bootstrap-server <broker> --command-config <admin.properties> --add --allow-principal 'User:ungranted' --operation CreateTokens --user-principal 'User:patient'"))

	java, err := site.StartJava(harness.JavaRun{Certificate: site.Client("patient"), Steps: []harness.JavaStep{
		{Mode: "produce", Settings: map[string]string{"bootstrap": g.Bootstrap, "topic": topic, "records": "10"}},
	}})
	must(t, err)
	time.Sleep(5 * time.Second) // in vain
	grant := harness.TokenGrant(principal, "patient")
	must(t, c.Admin.Grant(within(t, time.Minute), grant))
	t.Cleanup(func() {
		ctx, cancel := afterwards()
		defer cancel()
		must(t, c.Admin.Revoke(ctx, grant))
	})
	results, err := java.Results(within(t, 2*time.Minute))
	must(t, err)
	retryable(t, results[0])
	if results[0].Count != 10 {
		t.Errorf("%d records were acknowledged: %+v", results[0].Count, results[0])
	}
	works(t, g, "patient", topic)
	// The fence holds for others.
	closedPlainly(t, g, "another", 3*time.Second)
}

// B68: a control listener with one-way TLS, where everybody is ANONYMOUS (error 64).
func TestControlListenerThatAsksForNoCertificate(t *testing.T) {
	c := loneCluster(t)
	g := startGateway(t, c.Cluster, harness.GatewayConfig{Change: func(d harness.Document) {
		d.Set("kafka.control.bootstrap", []string{c.oneWay})
	}})
	notReady(t, g, "no delegation token of the gateway's own", "the token path does not work", "ssl.client.auth=required")
	neverFatal(t, g, "early")
	endsWell(t, g)
}

// endsWell ends the gateway, which was never ready, and wants exit code 0.
func endsWell(t *testing.T, g *harness.Gateway) {
	t.Helper()
	if code, err := g.Terminate(patience); err != nil || code != 0 {
		t.Errorf("the gateway ended with %d, %v", code, err)
	}
}
