package gateway

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"doorkeeper/connections"
	"doorkeeper/internal/certtest"
	"doorkeeper/internal/wire"
	"doorkeeper/nodestatus"
	"doorkeeper/tlsconf"
	"doorkeeper/tokens"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds what should happen soon; nothing is judged by how soon.
const patience = 60 * time.Second

// fixture is a whole gateway in front of one scripted broker.
type fixture struct {
	*Gateway
	t        testing.TB
	broker   *broker
	observer *observer
	log      *logBuffer
	clients  *certtest.CA
	servers  *certtest.CA
	stop     context.CancelFunc
	done     chan error
}

// logBuffer keeps what was logged.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// oneBroker answers node status in place of a login of the gateway's own.
type oneBroker struct{ b *broker }

func (o oneBroker) Request(_ context.Context, request kmsg.Request) (kmsg.Response, error) {
	request.SetVersion(request.MaxVersion())
	a := asked{key: request.Key(), version: request.MaxVersion()}
	r := request.ResponseKind()
	r.SetVersion(a.version)
	body := o.b.sensible(a)
	if r.IsFlexible() && a.key != 18 {
		body = body[1:]
	}
	return r, r.ReadFrom(body)
}

func (oneBroker) Close() error { return nil }

func newFixture(t testing.TB, change func(*Config)) *fixture {
	t.Helper()
	return newRenewingFixture(t, connections.RenewAuto, change)
}

// newRenewingFixture is newFixture with a policy of renewals.
func newRenewingFixture(t testing.TB, renewal connections.RenewalPolicy, change func(*Config)) *fixture {
	t.Helper()
	f := &fixture{t: t, observer: newObserver(), log: new(logBuffer), done: make(chan error, 1)}
	f.clients, f.servers = certtest.NewCA("client-ca"), certtest.NewCA("gateway-ca")
	brokers := certtest.NewCA("broker-ca")
	f.broker = newBroker(t, brokers)
	logger := zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), zapcore.AddSync(f.log), zap.DebugLevel))

	dir := t.TempDir()
	server := f.servers.Issue(certtest.Server("127.0.0.1")).Write(dir, "gateway")
	source, err := tlsconf.New(tlsconf.Config{
		Certificate: server.Cert, Key: server.Key, ClientCA: f.clients.Write(dir, "client-ca"),
		From: tlsconf.FromSubject, Rules: []string{"RULE:^CN=([^,]+).*$/$1/"}, Protected: []string{"admin"},
	})
	if err != nil {
		t.Fatal(err)
	}
	issuing := tokens.New(tokens.Config{Issuer: f.broker.issuer, Instance: "test", Lifetime: time.Hour, Logger: logger})
	nodes, err := nodestatus.New(nodestatus.Config{
		Bootstrap: []nodestatus.Address{{Host: "127.0.0.1", Port: f.broker.port()}},
		Dial:      func(context.Context, nodestatus.Address) (nodestatus.Conn, error) { return oneBroker{f.broker}, nil },
		Refresh:   time.Minute, Logger: logger,
	})
	if err != nil {
		t.Fatal(err)
	}
	buffers := wire.NewBuffers()
	cfg := Config{
		Listen: "127.0.0.1:0", TLS: source, Tokens: issuing, Nodes: nodes, Buffers: buffers,
		Advertise: Advertise{Host: "127.0.0.1", BasePort: freePort(t) - 1, Nodes: []int32{1}},
		Dialer: connections.NewDialer(connections.Config{
			TLS:     &tls.Config{RootCAs: certtest.Pool(brokers), MinVersion: tls.VersionTLS12},
			Buffers: buffers, Mechanism: connections.ScramSHA512, DialTimeout: patience, Stall: patience, Renewal: renewal,
		}),
		Limits:   Limits{InFlight: 1000, Frame: 100 << 20},
		Timeouts: Timeouts{Admission: patience, Drain: patience, Stall: patience},
		Observer: f.observer, Logger: logger,
	}
	if change != nil {
		change(&cfg)
	}
	if f.Gateway, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	f.stop = cancel
	if err := f.Listen(ctx); err != nil {
		t.Fatal(err)
	}
	var leaves sync.WaitGroup
	below, end := context.WithCancel(context.Background())
	leaves.Go(func() { _ = issuing.Run(below) })
	leaves.Go(func() { _ = nodes.Run(below) })
	own, err := issuing.AcquireOwn(ctx)
	if err != nil {
		t.Fatal(err)
	}
	own.Release()
	source.SetOwnPrincipal(issuing.Own())
	go func() { f.done <- f.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		f.broker.cut()
		if err := <-f.done; err != nil {
			t.Errorf("Run: %v", err)
		}
		end()
		leaves.Wait()
		if t.Failed() {
			t.Logf("log:\n%s", f.log)
		}
	})
	f.eventually("a broker is up", func() bool { return nodes.Table().Up() == 1 })
	return f
}

func freePort(t testing.TB) int32 {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return int32(l.Addr().(*net.TCPAddr).Port)
}

// eventually waits for what happens in other goroutines.
func (f *fixture) eventually(what string, ok func() bool) {
	f.t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			f.t.Fatalf("in vain: %s", what)
		}
	}
}

// ended waits for a session's end and its reason.
func (f *fixture) ended(want Reason) {
	f.t.Helper()
	f.eventually("an end for reason "+string(want), func() bool { return f.observer.count(want) > 0 })
}

func (f *fixture) bootstrap() string { return f.routes.bootstrap.Addr().String() }

// client is a raw client leg.
type client struct {
	net.Conn
	t testing.TB
}

// dial connects as name.
func (f *fixture) dial(name string) *client {
	f.t.Helper()
	cfg := f.clients.Issue(certtest.Leaf{CommonName: name}).ClientConfig(f.servers)
	cfg.ServerName = "127.0.0.1"
	conn, err := tls.Dial("tcp", f.bootstrap(), cfg)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(patience))
	return &client{Conn: conn, t: f.t}
}

// encode makes a request's frame.
func encode(request kmsg.Request, version int16, correlation int32) []byte {
	request.SetVersion(version)
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID("app")).AppendRequest(nil, request, correlation)
}

func (c *client) send(frames ...[]byte) {
	c.t.Helper()
	if _, err := c.Write(bytes.Join(frames, nil)); err != nil {
		c.t.Fatal(err)
	}
}

// receive reads one answer: its correlation id and what is behind it.
func (c *client) receive() (int32, []byte) {
	c.t.Helper()
	correlation, body, err := c.tryReceive()
	if err != nil {
		c.t.Fatalf("no answer: %v", err)
	}
	return correlation, body
}

func (c *client) tryReceive() (int32, []byte, error) {
	var head [8]byte
	if _, err := io.ReadFull(c, head[:]); err != nil {
		return 0, nil, err
	}
	body := make([]byte, binary.BigEndian.Uint32(head[:])-4)
	_, err := io.ReadFull(c, body)
	return int32(binary.BigEndian.Uint32(head[4:])), body, err
}

// closed expects a plain close: the end of the stream or a reset, never an alert.
func (c *client) closed() {
	c.t.Helper()
	_, body, err := c.tryReceive()
	var remote *net.OpError // crypto/tls's form of an alert that came
	switch {
	case err == nil:
		c.t.Fatalf("an answer instead of a close: %x", body)
	case errors.Is(err, os.ErrDeadlineExceeded):
		c.t.Fatal("the connection stays open")
	case errors.As(err, &remote) && remote.Op == "remote error":
		c.t.Fatalf("closed with an alert: %v", err)
	}
}
