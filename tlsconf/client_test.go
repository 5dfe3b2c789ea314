package tlsconf

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"doorkeeper/internal/certtest"
)

// dialBroker runs a handshake with a broker and reads one byte. It returns what
// the broker saw.
func dialBroker(t *testing.T, client *tls.Config, host string, broker *tls.Config) (tls.ConnectionState, error) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	done := make(chan tls.ConnectionState, 1)
	go func() {
		c, err := listener.Accept()
		if err != nil {
			done <- tls.ConnectionState{}
			return
		}
		_ = c.SetDeadline(time.Now().Add(patience))
		s := tls.Server(c, broker)
		if s.Handshake() == nil {
			_, _ = s.Write([]byte{1})
		}
		done <- s.ConnectionState()
		_ = c.Close()
	}()
	c, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	_ = c.SetDeadline(time.Now().Add(patience))
	cfg := client.Clone()
	cfg.ServerName = host
	_, err = io.ReadFull(tls.Client(c, cfg), make([]byte, 1))
	_ = c.Close()
	return <-done, err
}

func TestBrokersAreVerifiedAgainstTheFileAlone(t *testing.T) {
	dir := t.TempDir()
	brokers, gateways := certtest.NewCA("broker-ca"), certtest.NewCA("gateway-ca")
	files := gateways.Issue(certtest.Leaf{CommonName: "gateway", Usage: certtest.ClientOnly}).Write(dir, "gateway")
	cfg, err := NewClient(ClientFiles{CA: brokers.Write(dir, "broker-ca"), Certificate: files.Cert, Key: files.Key}, "kafka.tls")
	if err != nil {
		t.Fatal(err)
	}
	if cfg.InsecureSkipVerify || cfg.RootCAs == nil || cfg.MinVersion != tls.VersionTLS12 || cfg.ClientSessionCache == nil || !cfg.DynamicRecordSizingDisabled || cfg.ServerName != "" {
		t.Errorf("%+v", cfg)
	}
	good := brokers.Issue(certtest.Server("broker-1"))
	state, err := dialBroker(t, cfg, "broker-1", good.ServerConfig(gateways))
	if err != nil || len(state.PeerCertificates) != 1 || state.PeerCertificates[0].Subject.CommonName != "gateway" {
		t.Errorf("a good broker: %v, it saw %d certificates", err, len(state.PeerCertificates))
	}
	// The certificate is sent even to a broker that names other authorities.
	if state, _ := dialBroker(t, cfg, "broker-1", good.ServerConfig(brokers)); len(state.PeerCertificates) != 0 {
		t.Error("a broker with another trust file accepted the gateway")
	}
	for about, broker := range map[string]*certtest.Issued{
		"another authority":  certtest.NewCA("broker-ca").Issue(certtest.Server("broker-1")),
		"another host":       brokers.Issue(certtest.Leaf{CommonName: "broker-1", DNS: []string{"broker-2"}}),
		"name in CN only":    brokers.Issue(certtest.Leaf{CommonName: "broker-1"}),
		"a client's":         brokers.Issue(certtest.Leaf{CommonName: "x", DNS: []string{"broker-1"}, Usage: certtest.ClientOnly}),
		"expired":            brokers.Issue(certtest.Leaf{CommonName: "x", DNS: []string{"broker-1"}, NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: time.Now().Add(-time.Hour)}),
		"issued by a broker": good.AsIssuer().Issue(certtest.Server("broker-1")),
	} {
		var verify *tls.CertificateVerificationError
		if _, err := dialBroker(t, cfg, "broker-1", broker.ServerConfig()); !errors.As(err, &verify) {
			t.Errorf("%s: %v", about, err)
		}
	}
	old := good.ServerConfig()
	old.MaxVersion = tls.VersionTLS11
	if _, err := dialBroker(t, cfg, "broker-1", old); err == nil {
		t.Error("TLS 1.1 accepted")
	}
}

func TestSelfSignedBrokerCanBePinned(t *testing.T) {
	dir := t.TempDir()
	broker := certtest.SelfSigned(certtest.Server("broker-1"))
	cfg, err := NewClient(ClientFiles{CA: broker.Write(dir, "broker").Cert}, "kafka.tls")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := dialBroker(t, cfg, "broker-1", broker.ServerConfig()); err != nil {
		t.Error(err)
	}
	if _, err := dialBroker(t, cfg, "broker-1", certtest.SelfSigned(certtest.Server("broker-1")).ServerConfig()); err == nil {
		t.Error("another self-signed certificate accepted")
	}
}

func TestClientProblems(t *testing.T) {
	dir := t.TempDir()
	ca := certtest.NewCA("ca")
	auth := ca.Write(dir, "ca")
	client := ca.Issue(certtest.Leaf{CommonName: "gateway"}).Write(dir, "client")
	server := ca.Issue(certtest.Leaf{CommonName: "gateway", Usage: certtest.ServerOnly}).Write(dir, "server")
	for _, c := range []struct {
		files     ClientFiles
		key, says string
	}{
		{ClientFiles{}, "kafka.control.tls.ca", "not set"},
		{ClientFiles{CA: client.Cert}, "kafka.control.tls.ca", "no authority's"},
		{ClientFiles{CA: auth, Certificate: client.Cert}, "kafka.control.tls.key", "not set"},
		{ClientFiles{CA: auth, Key: client.Key}, "kafka.control.tls.certificate", "not set"},
		{ClientFiles{CA: auth, Certificate: client.Key, Key: client.Key}, "kafka.control.tls.certificate", "no certificate"},
		{ClientFiles{CA: auth, Certificate: server.Cert, Key: server.Key}, "kafka.control.tls.certificate", "clientAuth"},
		{ClientFiles{CA: auth, Certificate: server.Cert, Key: client.Key}, "kafka.control.tls.certificate", "another key"},
	} {
		cfg, err := NewClient(c.files, "kafka.control.tls")
		if cfg != nil {
			t.Errorf("%+v: a configuration all the same", c.files)
		}
		checkConfigError(t, err, c.key, c.says, "")
	}
	_, err := NewClient(ClientFiles{CA: "/nowhere", Key: client.Key}, "kafka.tls")
	if err == nil || strings.Count(err.Error(), "\n") != 1 {
		t.Errorf("not both problems: %v", err)
	}
}
