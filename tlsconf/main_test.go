package tlsconf

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"go.uber.org/goleak"

	"doorkeeper/internal/certtest"
	"doorkeeper/internal/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience ends what hangs; no test depends on its being short.
const patience = time.Minute

// lab is a gateway's certificate and the authorities around it.
type lab struct {
	servers, clients *certtest.CA
	config           Config
}

func newLab(t *testing.T) *lab {
	t.Helper()
	l := &lab{servers: certtest.NewCA("server-ca"), clients: certtest.NewCA("client-ca")}
	dir := t.TempDir()
	files := l.servers.Issue(certtest.Server("gateway")).Write(dir, "gateway")
	l.config = Config{Certificate: files.Cert, Key: files.Key, ClientCA: l.clients.Write(dir, "client-ca")}
	return l
}

func (l *lab) source(t *testing.T) *Source {
	t.Helper()
	s, err := New(l.config)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// clientConfig is a client's that trusts the lab's gateway, at one TLS version; a
// nil certificate sends none.
func (l *lab) clientConfig(cert *certtest.Issued, version uint16) *tls.Config {
	cfg := &tls.Config{RootCAs: certtest.Pool(l.servers)}
	if cert != nil {
		cfg = cert.ClientConfig(l.servers)
	}
	cfg.ServerName, cfg.MinVersion, cfg.MaxVersion = "gateway", version, version
	return cfg
}

// meeting is what both sides of one connection saw.
type meeting struct {
	server    error // of the handshake
	identity  Identity
	state     tls.ConnectionState // the server's
	client    error               // of handshake and one read
	clientTLS tls.ConnectionState
}

// meet connects a client to a server over TCP, as the gateway does it: a refused
// client gets its alert and a bounded drain. The server sends one byte to whom it
// admits.
func meet(t *testing.T, snapshot *Snapshot, client *tls.Config) meeting {
	t.Helper()
	return meetWith(t, snapshot, func(c net.Conn) (tls.ConnectionState, error) {
		conn := tls.Client(c, client)
		_, err := conn.Write([]byte("a request that must not count"))
		if err == nil {
			_, err = io.ReadFull(conn, make([]byte, 1))
		}
		return conn.ConnectionState(), err
	})
}

func meetWith(t *testing.T, snapshot *Snapshot, client func(net.Conn) (tls.ConnectionState, error)) meeting {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()

	var m meeting
	served := make(chan struct{})
	go func() {
		defer close(served)
		c, err := listener.Accept()
		if err != nil {
			m.server = err
			return
		}
		_ = c.SetDeadline(time.Now().Add(patience))
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		stream := wire.Server(c, snapshot.ServerConfig(), wire.NewBuffers())
		if m.server = stream.Handshake(ctx); m.server == nil {
			m.state = stream.ConnectionState()
			if m.identity, m.server = snapshot.Identify(m.state); m.server == nil {
				_, _ = stream.Write([]byte{1})
			}
		}
		stream.Linger(patience)
	}()
	c, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	_ = c.SetDeadline(time.Now().Add(patience))
	m.clientTLS, m.client = client(c)
	_ = c.Close()
	<-served
	return m
}

// alertOf returns the text of the alert that the client read, "" if none.
func alertOf(err error) string {
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "remote error" {
		return op.Err.Error()
	}
	return ""
}

// Alerts of RFC 8446 6 and RFC 5246 7.2, as crypto/tls words them.
var (
	decodeError         = tls.AlertError(50).Error()
	handshakeFailure    = tls.AlertError(40).Error()
	badCertificate      = tls.AlertError(42).Error()
	certificateExpired  = tls.AlertError(45).Error()
	unknownCA           = tls.AlertError(48).Error()
	protocolVersion     = tls.AlertError(70).Error()
	certificateRequired = tls.AlertError(116).Error()
)

func versions() map[string]uint16 {
	return map[string]uint16{"TLS 1.2": tls.VersionTLS12, "TLS 1.3": tls.VersionTLS13}
}
