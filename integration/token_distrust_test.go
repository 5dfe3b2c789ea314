//go:build integration

package integration

// This file proves what becomes of tokens when a broker is at odds with the gateway's set-up:
// one that has another secret key is named in the log, serves nobody, and costs no second
// token; brokers that no longer trust the gateway's control certificate get no new owner
// served, while all who have a token go on, and the log says what to mend.

import (
	"errors"
	"testing"
	"time"

	"doorkeeper/integration/harness"
	"doorkeeper/internal/certtest"
)

// F11, on the cluster of TestCheck, whose node 2 has another delegation.token.secret.key.
func TestTokenLifeWhereASecretKeyDiffers(t *testing.T) {
	t.Parallel()
	o := oddCluster(t)
	g := gateway(t, o.Cluster, harness.GatewayConfig{Change: func(d harness.Document) {
		d.Set("kafka.bootstrap", []string{o.Node(1).TokenAddress()})
		d.Set("kafka.control.bootstrap", []string{o.Node(1).ControlAddress()})
	}})
	ctx := within(t, 2*time.Minute)
	comeUntilServed(ctx, t, g.NodeAddress(1), "keyed")
	crowd := receive(t, g, []string{g.NodeAddress(1)}, []string{"keyed"}, 100*time.Millisecond)
	for range 20 {
		if err := visit(g.NodeAddress(2), site.Client("keyed")); err == nil {
			t.Error("a broker with another secret key has served")
		}
	}
	must(t, pauseOrEnd(ctx, 6*time.Second)) // its refusal is believed for 5 s
	for range 5 {
		if err := visit(g.NodeAddress(2), site.Client("keyed")); err == nil {
			t.Error("a broker with another secret key has served")
		}
	}
	crowd.end(t)
	must(t, g.AwaitOutput(ctx, "a broker cannot accept the gateway's tokens", `"node":2`,
		"delegation.token.secret.key must be the same on every broker and controller: set it on this broker and restart it"))
	m := metricsOf(t, g)
	if n := m.Sum("doorkeeper_token_creations_total"); n != 2 { // the gateway's own is one
		t.Errorf("%v tokens were asked for", n)
	}
	if n := m.Sum("doorkeeper_token_request_failures_total", `reason="key_differs"`); n < 1 || n > 10 {
		t.Errorf("the broker was seen %v times to have another key: it is asked once in 5 s for each token", n)
	}
	if n := m.Sum("doorkeeper_session_ends_total", `reason="no_token"`); n != 25 {
		t.Errorf("%v sessions ended with no_token", n)
	}
}

// F13
func TestTokenLifeWithoutTrustInTheGateway(t *testing.T) {
	t.Parallel()
	c := loneCluster(t)
	ctx := within(t, 3*time.Minute)
	const key = "listener.name.control.ssl.truststore.location"
	alone := site.Direct(harness.GatewayPrincipal).CAFile()
	both := certtest.WriteFile(t.TempDir(), "both.pem", certtest.Bundle(site.BrokerCA(), site.ClientCA()))
	must(t, c.Admin.SetBrokerConfig(ctx, key, both))
	restore := func() {
		ctx, cancel := afterwards()
		defer cancel()
		must(t, c.Admin.SetBrokerConfig(ctx, key, alone))
	}
	t.Cleanup(restore)
	g := gateway(t, c.Cluster, harness.GatewayConfig{Change: func(d harness.Document) {
		other := site.Client(harness.GatewayPrincipal) // the same name by an authority that can be taken away
		d.Set("kafka.control.tls.certificate", other.Files.Cert)
		d.Set("kafka.control.tls.key", other.Files.Key)
		d.Set("tokens.expire_on_stop", true)
	}})
	all := named("trusting", 3)
	crowd := receive(t, g, g.Addresses(c.Cluster), all, 200*time.Millisecond)

	must(t, c.Admin.SetBrokerConfig(ctx, key, alone))
	eventually(t, func() error { // the broker reads it a moment later
		leg, err := harness.DialRaw(ctx, c.Node(1).ControlListener(), site.Client(harness.GatewayPrincipal).ClientConfig(site.BrokerCA()))
		if err != nil {
			return nil
		}
		defer func() { _ = leg.Close() }()
		if _, err := leg.Request(metadata()); err == nil { // under TLS 1.3 the first read tells
			return errors.New("the broker still trusts the gateway's certificate")
		}
		return nil
	})
	c.control.Cut() // those that are open would stay
	served := crowd.count()
	closedPlainly(t, g, "trusting-late", hangBound+slowness)
	must(t, g.AwaitOutput(ctx, `"reason":"no_token"`, "the broker refused the gateway's certificate"))
	if n := metricsOf(t, g).Sum("doorkeeper_token_request_failures_total", `reason="tls"`); n == 0 {
		t.Error("no figure tells of it")
	}
	eventually(t, func() error {
		if crowd.count() < served+10 {
			return errors.New("who has a token was not served")
		}
		return nil
	})

	must(t, c.Admin.SetBrokerConfig(ctx, key, both))
	comeUntilServed(ctx, t, g.Bootstrap, "trusting-late")
	crowd.end(t)
	oneEach(t, c.Cluster, append(all, "trusting-late"))
}
