package tlsconf

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"doorkeeper/internal/certtest"
)

// B48: none of these gets in, each reads the alert that fits, over TLS 1.2 and 1.3.
func TestUntrustedClientsAreRefused(t *testing.T) {
	l := newLab(t)
	snapshot := l.source(t).Current()
	now := time.Now()
	sub := l.clients.Intermediate(certtest.Authority{Name: "sub"})
	deep := l.clients
	for range MaxChain - 1 {
		deep = deep.Intermediate(certtest.Authority{Name: "deep"})
	}
	expiredCA := l.clients.Intermediate(certtest.Authority{Name: "old", NotBefore: now.Add(-2 * time.Hour), NotAfter: now.Add(-time.Hour)})
	without := sub.Issue(certtest.Leaf{CommonName: "alice"})
	without.TLS.Certificate = without.TLS.Certificate[:1]

	for _, c := range []struct {
		about      string
		cert       *certtest.Issued
		alert12    string
		alert13    string
		reason     string
		detailSays string
	}{
		{"no certificate", nil, handshakeFailure, certificateRequired, ReasonNoCertificate, "sent no certificate"},
		{"self-signed", certtest.SelfSigned(certtest.Leaf{CommonName: "alice"}), unknownCA, unknownCA, ReasonUnknownCA, `"CN=alice"`},
		{"right subject, wrong authority", certtest.NewCA("client-ca").Issue(certtest.Leaf{CommonName: "alice"}), unknownCA, unknownCA, ReasonUnknownCA, `issuer "CN=client-ca"`},
		{"the gateway's own authority", l.servers.Issue(certtest.Leaf{CommonName: "alice"}), unknownCA, unknownCA, ReasonUnknownCA, `issuer "CN=server-ca"`},
		{"intermediate not sent", without, unknownCA, unknownCA, ReasonUnknownCA, "send its intermediates"},
		{"expired", l.clients.Issue(certtest.Leaf{CommonName: "alice", NotBefore: now.Add(-2 * time.Hour), NotAfter: now.Add(-time.Minute)}), certificateExpired, certificateExpired, ReasonExpired, "expired at"},
		{"expired intermediate", expiredCA.Issue(certtest.Leaf{CommonName: "alice"}), certificateExpired, certificateExpired, ReasonExpired, "expired at"},
		{"not yet valid", l.clients.Issue(certtest.Leaf{CommonName: "alice", NotBefore: now.Add(time.Hour), NotAfter: now.Add(2 * time.Hour)}), certificateExpired, certificateExpired, ReasonNotYetValid, "not valid before"},
		{"for servers only", l.clients.Issue(certtest.Leaf{CommonName: "alice", Usage: certtest.ServerOnly}), badCertificate, badCertificate, ReasonWrongUsage, "clientAuth"},
		{"for signing code only", l.clients.Issue(certtest.Leaf{CommonName: "alice", Usage: certtest.CodeSigning}), badCertificate, badCertificate, ReasonWrongUsage, "clientAuth"},
		{"issued by a client", l.clients.Issue(certtest.Leaf{CommonName: "mallory"}).AsIssuer().Issue(certtest.Leaf{CommonName: "alice"}), unknownCA, unknownCA, ReasonBadChain, "no authority's"},
		{"chain too long", deep.Issue(certtest.Leaf{CommonName: "alice"}), badCertificate, badCertificate, "chain_too_long", "6 certificates"},
		{"protected name", l.clients.Issue(certtest.Leaf{Subject: certtest.Name()}), badCertificate, badCertificate, "empty", "subject is empty"},
	} {
		for name, version := range versions() {
			t.Run(c.about+", "+name, func(t *testing.T) {
				m := meet(t, snapshot, l.clientConfig(c.cert, version))
				if m.server == nil {
					t.Fatalf("admitted as %+v", m.identity)
				}
				want := c.alert12
				if version == tls.VersionTLS13 {
					want = c.alert13
				}
				if got := alertOf(m.client); got != want {
					t.Errorf("the client saw %q (%v), want %q", got, m.client, want)
				}
				reason, detail := DescribeHandshakeError(m.server)
				if reason != c.reason || !strings.Contains(detail, c.detailSays) {
					t.Errorf("reason %s, want %s; detail %q should say %q", reason, c.reason, detail, c.detailSays)
				}
			})
		}
	}
}

func TestGoodClientIsTheSameOverBothVersions(t *testing.T) {
	l := newLab(t)
	snapshot := l.source(t).Current()
	end := time.Now().Add(2 * time.Hour).Truncate(time.Second)
	sub := l.clients.Intermediate(certtest.Authority{Name: "sub", NotAfter: end})
	for _, usage := range []certtest.Usage{certtest.ClientAndServer, certtest.ClientOnly, certtest.AnyPurpose, certtest.NoUsage} {
		for _, key := range []certtest.KeyType{certtest.P256, certtest.RSA2048, certtest.Ed25519} {
			alice := sub.Issue(certtest.Leaf{Subject: certtest.Name(certtest.RDN{certtest.O("Lab")}, certtest.RDN{certtest.CN("alice")}), Usage: usage, Key: key})
			want := Identity{
				Owner: "CN=alice,O=Lab", Rule: "DEFAULT", Source: "CN=alice,O=Lab", Subject: "CN=alice,O=Lab",
				Serial: fmt.Sprintf("%X", alice.Cert.SerialNumber), NotAfter: end.UTC(),
			}
			for name, version := range versions() {
				m := meet(t, snapshot, l.clientConfig(alice, version))
				if m.server != nil || m.client != nil {
					t.Fatalf("%s, usage %d, key %d: server %v, client %v", name, usage, key, m.server, m.client)
				}
				if m.identity != want {
					t.Errorf("%s: got %+v, want %+v", name, m.identity, want)
				}
				if m.state.Version != version {
					t.Errorf("%s: negotiated %s", name, tls.VersionName(m.state.Version))
				}
			}
		}
	}
}

// Trust in an intermediate is trust in its children, not in its siblings' or its
// root's: whatever certificates a client sends along.
func TestTrustInAnIntermediateGoesNoFurther(t *testing.T) {
	l := newLab(t)
	root := certtest.NewCA("root")
	good, other := root.Intermediate(certtest.Authority{Name: "good"}), root.Intermediate(certtest.Authority{Name: "other"})
	l.config.ClientCA = good.Write(t.TempDir(), "good")
	snapshot := l.source(t).Current()
	for _, c := range []struct {
		ca   *certtest.CA
		want bool
	}{{good, true}, {other, false}, {root, false}} {
		cert := c.ca.Issue(certtest.Leaf{CommonName: "alice"})
		cert.TLS.Certificate = append(cert.TLS.Certificate, root.Cert.Raw)
		m := meet(t, snapshot, l.clientConfig(cert, tls.VersionTLS13))
		if (m.server == nil) != c.want {
			t.Errorf("issued by %s: %v", c.ca.Cert.Subject, m.server)
		}
	}
}

func TestSuitesAndVersions(t *testing.T) {
	l := newLab(t)
	alice := l.clients.Issue(certtest.Leaf{CommonName: "alice"})
	rsa := newLab(t)
	files := rsa.servers.Issue(certtest.Leaf{CommonName: "gateway", DNS: []string{"gateway"}, Key: certtest.RSA2048}).Write(t.TempDir(), "rsa")
	rsa.config.Certificate, rsa.config.Key = files.Cert, files.Key
	bob := rsa.clients.Issue(certtest.Leaf{CommonName: "bob"})

	for _, suite := range append(tls.CipherSuites(), tls.InsecureCipherSuites()...) {
		if suite.SupportedVersions[len(suite.SupportedVersions)-1] == tls.VersionTLS13 {
			continue
		}
		good := strings.Contains(suite.Name, "ECDHE") && (strings.Contains(suite.Name, "GCM") || strings.Contains(suite.Name, "CHACHA20"))
		side, cert := rsa, bob
		if strings.Contains(suite.Name, "ECDSA") {
			side, cert = l, alice
		}
		cfg := side.clientConfig(cert, tls.VersionTLS12)
		cfg.CipherSuites = []uint16{suite.ID}
		m := meet(t, side.source(t).Current(), cfg)
		if (m.server == nil) != good {
			t.Errorf("%s: server %v, client %v", suite.Name, m.server, m.client)
		}
		if !good && alertOf(m.client) != handshakeFailure {
			t.Errorf("%s: the client saw %v", suite.Name, m.client)
		}
	}
	for _, version := range []uint16{tls.VersionTLS10, tls.VersionTLS11} {
		m := meet(t, l.source(t).Current(), l.clientConfig(alice, version))
		if m.server == nil || alertOf(m.client) != protocolVersion {
			t.Errorf("%s: server %v, client %v", tls.VersionName(version), m.server, m.client)
		}
	}
}

// rememberingCache counts what a server gives to resume with.
type rememberingCache struct {
	tls.ClientSessionCache
	puts int
}

func (c *rememberingCache) Put(key string, s *tls.ClientSessionState) {
	if s != nil {
		c.puts++
	}
	c.ClientSessionCache.Put(key, s)
}

// S1 in part: what is never issued cannot be used after a revocation.
func TestNoSessionTickets(t *testing.T) {
	l := newLab(t)
	snapshot := l.source(t).Current()
	for name, version := range versions() {
		cache := &rememberingCache{ClientSessionCache: tls.NewLRUClientSessionCache(4)}
		cfg := l.clientConfig(l.clients.Issue(certtest.Leaf{CommonName: "alice"}), version)
		cfg.ClientSessionCache = cache
		for range 2 {
			if m := meet(t, snapshot, cfg); m.server != nil || m.client != nil || m.state.DidResume || m.clientTLS.DidResume {
				t.Errorf("%s: server %v, client %v, resumed %v", name, m.server, m.client, m.state.DidResume)
			}
		}
		if cache.puts != 0 {
			t.Errorf("%s: %d tickets issued", name, cache.puts)
		}
	}
}

func TestServerConfigIsShared(t *testing.T) {
	snapshot := newLab(t).source(t).Current()
	cfg := snapshot.ServerConfig()
	if cfg != snapshot.ServerConfig() {
		t.Error("a new configuration each time")
	}
	if cfg.ClientAuth != tls.RequireAndVerifyClientCert || !cfg.SessionTicketsDisabled || !cfg.DynamicRecordSizingDisabled ||
		cfg.MinVersion != tls.VersionTLS12 || cfg.VerifyConnection == nil || cfg.InsecureSkipVerify {
		t.Errorf("%+v", cfg)
	}
}

// Whatever speaks something else is told apart, so that the log line helps.
func TestOtherProtocolsAreNamed(t *testing.T) {
	l := newLab(t)
	snapshot := l.source(t).Current()
	for _, c := range []struct{ about, sent, reason, says string }{
		{"HTTP", "GET / HTTP/1.1\r\nHost: kafka\r\n\r\n", ReasonHTTP, "HTTP"},
		{"HTTP, long method", "OPTIONS * HTTP/1.1\r\n\r\n", ReasonHTTP, "HTTP"},
		{"HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", ReasonHTTP, "HTTP"},
		{"plaintext Kafka", "\x00\x00\x00\x2a\x00\x12\x00\x04\x00\x00\x00\x01\x00\x05hello", ReasonPlainKafka, "security.protocol=SSL"},
		{"PROXY v1", "PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\n", ReasonProxyHeader, "PROXY"},
		{"PROXY v2", "\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c", ReasonProxyHeader, "PROXY"},
		{"SSH", "SSH-2.0-OpenSSH_9.2\r\n", ReasonNotTLS, "53 53 48"},
		{"nothing", "", ReasonEOF, "port probe"},
		{"half a record", "\x16\x03\x01", ReasonEOF, "closed"},
		{"an alert", "\x15\x03\x03\x00\x02\x02\x30", ReasonClientAlert, "unknown certificate authority"},
	} {
		t.Run(c.about, func(t *testing.T) {
			m := meetWith(t, snapshot, func(conn net.Conn) (tls.ConnectionState, error) {
				_, err := io.WriteString(conn, c.sent)
				if tcp, ok := conn.(*net.TCPConn); ok && err == nil {
					err = tcp.CloseWrite()
				}
				if err == nil {
					_, err = io.Copy(io.Discard, conn)
				}
				return tls.ConnectionState{}, err
			})
			if m.client != nil {
				t.Errorf("client: %v", m.client)
			}
			reason, detail := DescribeHandshakeError(m.server)
			if reason != c.reason || !strings.Contains(detail, c.says) {
				t.Errorf("got %s, %q (of %v); want %s, %q", reason, detail, m.server, c.reason, c.says)
			}
		})
	}
}

func TestClientThatDistrustsTheGateway(t *testing.T) {
	l := newLab(t)
	cfg := l.clientConfig(l.clients.Issue(certtest.Leaf{CommonName: "alice"}), tls.VersionTLS12)
	cfg.RootCAs = certtest.Pool(certtest.NewCA("another"))
	m := meet(t, l.source(t).Current(), cfg)
	if reason, detail := DescribeHandshakeError(m.server); reason != ReasonClientAlert || !strings.Contains(detail, "listen.tls.certificate") {
		t.Errorf("%s: %s (of %v)", reason, detail, m.server)
	}
}

func TestTimeouts(t *testing.T) {
	for _, err := range []error{
		context.DeadlineExceeded, fmt.Errorf("read: %w", os.ErrDeadlineExceeded),
	} {
		if reason, detail := DescribeHandshakeError(err); reason != ReasonTimeout || !strings.Contains(detail, "limits.admission") {
			t.Errorf("%v: %s, %s", err, reason, detail)
		}
	}
	if reason, _ := DescribeHandshakeError(context.Canceled); reason != ReasonStopped {
		t.Errorf("canceled: %s", reason)
	}
	if reason, detail := DescribeHandshakeError(fmt.Errorf("bad\nnews")); reason != ReasonOther || strings.Contains(detail, "\n") {
		t.Errorf("other: %s, %q", reason, detail)
	}
}
