//go:build integration

package integration

// This file proves that a client whose certificate is not accepted learns so at
// once, by the TLS alert that is meant for it and with both versions of TLS, and
// reports an authentication error instead of trying for ever; that the log says
// once what is wrong and what would mend it; and that nothing is asked of Kafka on
// its behalf: no session, no token.

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"doorkeeper/integration/harness"
	"doorkeeper/internal/certtest"
)

// badCertificate is one that must be refused.
type badCertificate struct {
	name           string
	certificate    *harness.Certificate // nil: none is sent
	alert12, alert string               // as crypto/tls calls it, in TLS 1.2 where that is another
	kind, cause    string               // of the log's line
}

func badCertificates() []badCertificate {
	const owner = "mallory"
	ours := site.ClientCA()
	// Clients hold back certificates of authorities that the gateway does not name:
	// this one has its name and not its key.
	foreign := certtest.NewCA(ours.Cert.Subject.CommonName)
	leaf := func(change func(*certtest.Leaf)) certtest.Leaf {
		l := certtest.Leaf{CommonName: owner, Usage: certtest.ClientOnly}
		change(&l)
		return l
	}
	same := func(*certtest.Leaf) {}
	of := func(name string, by *certtest.CA, l certtest.Leaf) *harness.Certificate {
		return site.ClientOf(name, by, l)
	}
	return []badCertificate{
		{"none", nil, "handshake failure", "certificate required", "no_certificate", "set a key store"},
		{"of a foreign authority", of("foreign", foreign, leaf(same)),
			"", "unknown certificate authority", "unknown_ca", "listen.tls.client_ca"},
		{"issued by another client", of("by-client", site.Client("issuer").AsIssuer(), leaf(same)),
			"", "unknown certificate authority", "bad_chain", "no authority's"},
		{"expired", of("expired", ours, leaf(func(l *certtest.Leaf) { l.NotAfter = time.Now().Add(-time.Minute) })),
			"", "expired certificate", "expired", "issue a new one"},
		{"not yet valid", of("early", ours, leaf(func(l *certtest.Leaf) { l.NotBefore = time.Now().Add(time.Hour) })),
			"", "expired certificate", "not_yet_valid", "check the clocks"},
		{"for servers only", of("server", ours, leaf(func(l *certtest.Leaf) { l.Usage = certtest.ServerOnly })),
			"", "bad certificate", "wrong_key_usage", "clientAuth"},
		{"of a protected name", of("protected", ours, leaf(func(l *certtest.Leaf) { l.CommonName = "admin" })),
			"", "bad certificate", "protected", "admin"},
		{"of the gateway's own name", of("own", ours, leaf(func(l *certtest.Leaf) { l.CommonName = harness.GatewayPrincipal })),
			"", "bad certificate", "protected", harness.GatewayPrincipal},
		{"without any name", of("empty", ours, leaf(func(l *certtest.Leaf) { l.Subject = certtest.Name() })),
			"", "bad certificate", "empty", "subject"},
	}
}

// wanted is the alert for a version of TLS.
func (b badCertificate) wanted(version uint16) string {
	if version == tls.VersionTLS12 && b.alert12 != "" {
		return b.alert12
	}
	return b.alert
}

func (b badCertificate) config(g *harness.Gateway, version uint16) *tls.Config {
	c := g.TLS(site.Client("somebody"))
	if b.certificate != nil {
		c = g.TLS(b.certificate)
	} else {
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &tls.Certificate{}, nil }
	}
	c.MinVersion, c.MaxVersion = version, version
	return c
}

// B48, B68.
func TestBadCertificatesAreRefused(t *testing.T) {
	c := cluster(t)
	g := gateway(t, c, harness.GatewayConfig{})
	before := metricsOf(t, g)

	for _, b := range badCertificates() {
		for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
			t.Run(b.name+"/"+tls.VersionName(version), func(t *testing.T) {
				want := "remote error: tls: " + b.wanted(version)
				began := time.Now()
				client, err := refusedHandshake(within(t, patience), g.Bootstrap, b.config(g, version))
				if err == nil || err.Error() != want {
					t.Errorf("by hand: %v, not %q", err, want)
				}
				oneLine(t, g, client, map[string]string{"msg": "client refused", "reason": "certificate_refused", "kind": b.kind, "cause": b.cause})

				kafka, err := kgo.NewClient(kgo.SeedBrokers(g.Bootstrap), kgo.DialTLSConfig(b.config(g, version)), kgo.RequestRetries(2))
				must(t, err)
				defer kafka.Close()
				if err := kafka.Ping(within(t, patience)); err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("franz-go: %v, without %q", err, want)
				}
				// Both bounds on waiting, limits.admission and the client's own, are 10 s.
				if took := time.Since(began); took > 9*time.Second {
					t.Errorf("it took %s to be refused", took)
				}
			})
		}
	}
	t.Run("java", func(t *testing.T) { javaIsRefused(t, g) })
	untouchedKafka(t, c, g, before, "mallory", "admin", "somebody")
}

// javaIsRefused runs an administrator's client with every certificate: it must
// report an authentication error, long before its own time is over.
func javaIsRefused(t *testing.T, g *harness.Gateway) {
	run := harness.JavaRun{}
	var cases []string
	for _, b := range badCertificates() {
		if b.kind == "empty" { // Java itself loads no certificate without a subject
			continue
		}
		for _, version := range []string{"TLSv1.2", "TLSv1.3"} {
			config := withoutCertificate(t)
			if b.certificate != nil {
				var err error
				config, err = b.certificate.JavaProperties()
				must(t, err)
			}
			cases = append(cases, b.name+"/"+version)
			run.Steps = append(run.Steps, harness.JavaStep{Mode: "describe", Settings: map[string]string{
				"bootstrap": g.Bootstrap, "config": config, "p.ssl.enabled.protocols": version, "p.ssl.protocol": version,
				"p.default.api.timeout.ms": "60000",
			}})
		}
	}
	// The two other clients meet such an error in other places.
	expired := run.Steps[7].Settings
	for _, mode := range []string{"produce", "consume"} {
		cases = append(cases, mode)
		run.Steps = append(run.Steps, harness.JavaStep{Mode: mode, Settings: map[string]string{
			"bootstrap": g.Bootstrap, "config": expired["config"], "topic": "t", "records": "1",
		}})
	}
	results, client, err := site.Java(within(t, 3*time.Minute), run)
	must(t, err)
	for i, r := range results {
		if r.Errors["SslAuthenticationException"] != 1 || len(r.Errors) != 1 || len(r.Fatal) != 1 {
			t.Errorf("%s: %v %v", cases[i], r.Errors, r.Messages)
		}
		if r.Millis > 20_000 {
			t.Errorf("%s: it took %d ms to be refused", cases[i], r.Millis)
		}
	}
	if t.Failed() {
		t.Log(last(client.Output(), 60))
	}
}

// withoutCertificate are a Java client's settings with a trust store alone.
func withoutCertificate(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "none.properties")
	text := fmt.Sprintf("security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.location=%s\n", site.Client("somebody").CAFile())
	must(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// refusedHandshake does a TLS handshake and writes a request, as a client does that
// does not know yet that it was refused (TLS 1.3), and returns its own address and
// the first error.
func refusedHandshake(ctx context.Context, address string, config *tls.Config) (net.Addr, error) {
	var d net.Dialer
	plain, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	defer func() { _ = plain.Close() }()
	local := plain.LocalAddr()
	r := &harness.Raw{Conn: tls.Client(plain, config)}
	if err := r.HandshakeContext(ctx); err != nil {
		return local, err
	}
	for range 20 { // what a client writes before it reads must not cost it the alert
		if _, err := r.Write(make([]byte, 4<<10)); err != nil {
			break
		}
	}
	if err = r.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return local, err
	}
	_, err = io.Copy(io.Discard, r)
	return local, err
}

// untouchedKafka checks that the cluster has not heard of these owners, and the
// gateway has made no token and had no session since.
func untouchedKafka(t *testing.T, c *harness.Cluster, g *harness.Gateway, before harness.Metrics, owners ...string) {
	t.Helper()
	after := metricsOf(t, g)
	if made := after.Sum("doorkeeper_token_creations_total") - before.Sum("doorkeeper_token_creations_total"); made != 0 {
		t.Errorf("%v tokens were asked for", made)
	}
	if ended := after.Sum("doorkeeper_session_ends_total", `reason="certificate_refused"`); ended == 0 {
		t.Error("the refusals are not counted")
	}
	for _, n := range c.Nodes {
		tokens, err := c.Admin.Tokens(within(t, patience), n.ID, owners...)
		must(t, err)
		if len(tokens) > 0 {
			t.Errorf("node %d has %d tokens of %v", n.ID, len(tokens), owners)
		}
		log, err := os.ReadFile(n.AuthorizerLog())
		must(t, err)
		if strings.Contains(string(log), "User:mallory") {
			t.Errorf("node %d was asked something by mallory", n.ID)
		}
	}
}

// B48: an old version of TLS, and cipher suites that are none of those allowed.
func TestOldTLSIsRefused(t *testing.T) {
	g := gateway(t, cluster(t), harness.GatewayConfig{})
	for name, change := range map[string]func(*tls.Config){
		"protocol version not supported": func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS10, tls.VersionTLS11 },
		"handshake failure": func(c *tls.Config) {
			c.MaxVersion, c.CipherSuites = tls.VersionTLS12, []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA}
		},
	} {
		config := g.TLS(site.Client("somebody"))
		change(config)
		client, err := refusedHandshake(within(t, patience), g.Bootstrap, config)
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%v, without %q", err, name)
		}
		oneLine(t, g, client, map[string]string{"msg": "client refused", "reason": "handshake_failed"})
	}

	// And the other way round: a client that does not trust the gateway says so, and
	// the log says what to do.
	config := g.TLS(site.Client("somebody"))
	config.RootCAs = certtest.Pool(certtest.NewCA("another"))
	client, err := refusedHandshake(within(t, patience), g.Bootstrap, config)
	var mine *tls.CertificateVerificationError
	if !errors.As(err, &mine) {
		t.Errorf("the client took a certificate of a foreign authority: %v", err)
	}
	oneLine(t, g, client, map[string]string{"msg": "client refused", "kind": "client_alert", "cause": "listen.tls.certificate"})
}
