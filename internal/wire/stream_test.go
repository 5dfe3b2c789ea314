package wire

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"math/big"
	"net"
	"os"
	"sync/atomic"
	"testing"
	"time"
)

// configs makes a server and a client that trust each other.
func configs(t testing.TB) (server, client *tls.Config) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"peer"}, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	server = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, MinVersion: tls.VersionTLS12}
	return server, &tls.Config{RootCAs: pool, ServerName: "peer", MinVersion: tls.VersionTLS12}
}

// counting counts the writes that reach TCP.
type counting struct {
	net.Conn
	writes atomic.Int64
}

func (c *counting) Write(p []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(p)
}

func (c *counting) CloseWrite() error { return c.Conn.(*net.TCPConn).CloseWrite() }

// pair connects two streams over loopback TCP.
func pair(t testing.TB) (server, client *Stream, sent *counting) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dialled, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	accepted, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	s, c := configs(t)
	buffers := NewBuffers()
	sent = &counting{Conn: dialled}
	server, client = Server(accepted, s, buffers), Client(sent, c, buffers)
	done := make(chan error, 1)
	go func() { done <- server.Handshake(context.Background()) }()
	if err := client.Handshake(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Abort(); _ = client.Abort() })
	return server, client, sent
}

func TestStreamGathersUntilFlush(t *testing.T) {
	server, client, sent := pair(t)
	before := sent.writes.Load()
	const n = 200
	for range n {
		if _, err := client.Write([]byte("request")); err != nil {
			t.Fatal(err)
		}
	}
	if got := sent.writes.Load() - before; got != 0 {
		t.Fatalf("%d system calls before the flush", got)
	}
	if err := client.Flush(); err != nil {
		t.Fatal(err)
	}
	if got := sent.writes.Load() - before; got != 1 {
		t.Fatalf("%d system calls for %d small writes, want 1", got, n)
	}
	b := make([]byte, n*len("request"))
	if err := server.ReadFull(b); err != nil || !bytes.Equal(b, bytes.Repeat([]byte("request"), n)) {
		t.Fatalf("got %q, %v", b[:20], err)
	}
}

func TestStreamMovesMoreThanABuffer(t *testing.T) {
	server, client, _ := pair(t)
	payload := make([]byte, 5*BufferSize+123)
	_, _ = rand.Read(payload)
	go func() {
		_, _ = client.Write(payload)
		_ = client.CloseWrite()
	}()
	got, err := io.ReadAll(server)
	if err != nil || !bytes.Equal(got, payload) {
		t.Fatalf("%d of %d bytes, %v", len(got), len(payload), err)
	}
}

// What was made of earlier bytes must leave before a read waits for more.
func TestBeforeWaitRunsBeforeEveryWait(t *testing.T) {
	server, client, _ := pair(t)
	server.BeforeWait(func() { _ = server.Flush() })
	go func() { // echoes, and never flushes itself
		b := make([]byte, 64)
		for {
			n, err := server.Read(b)
			if err != nil {
				return
			}
			_, _ = server.Write(b[:n])
		}
	}()
	for i := range 100 {
		_, _ = client.Write([]byte{byte(i)})
		_ = client.Flush()
		var b [1]byte
		if err := client.ReadFull(b[:]); err != nil || b[0] != byte(i) {
			t.Fatalf("round %d: %v, %v", i, b, err)
		}
	}
}

// A read that ran into its deadline can go on.
func TestReadDeadlineLeavesTheStreamUsable(t *testing.T) {
	server, client, _ := pair(t)
	_ = server.SetReadDeadline(time.Unix(1, 0))
	var b [4]byte
	if _, err := server.Read(b[:]); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("got %v", err)
	}
	_ = server.SetReadDeadline(time.Time{})
	_, _ = client.Write([]byte("ping"))
	_ = client.Flush()
	if err := server.ReadFull(b[:]); err != nil || string(b[:]) != "ping" {
		t.Fatalf("got %q, %v", b, err)
	}
}

// With bytes of the peer unread, a plain close would reset the connection and take
// the last words with it.
func TestLingerLetsThePeerReadTheLastWords(t *testing.T) {
	server, client, _ := pair(t)
	for range 100 { // never read by the server
		_, _ = client.Write(make([]byte, 1000))
	}
	_ = client.Flush()
	_, _ = server.Write([]byte("last words"))
	done := make(chan struct{})
	go func() { server.Linger(10 * time.Second); close(done) }()
	got, err := io.ReadAll(client)
	if err != nil || string(got) != "last words" {
		t.Fatalf("got %q, %v", got, err)
	}
	_ = client.Close()
	<-done
}

func TestCloseDeliversWhatWasGathered(t *testing.T) {
	server, client, _ := pair(t)
	_, _ = client.Write([]byte("gathered"))
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
	_ = client.Close()
	got, err := io.ReadAll(server)
	if err != nil || string(got) != "gathered" {
		t.Fatalf("got %q, %v", got, err)
	}
}

func TestReadAtHandNeverWaits(t *testing.T) {
	server, client, _ := pair(t)
	var b [8]byte
	if n, err := server.ReadAtHand(b[:]); n != 0 || err != nil {
		t.Fatalf("before anything came: %d, %v", n, err)
	}
	for range 3 {
		_, _ = client.Write([]byte("0123456789"))
	}
	_ = client.Flush()
	got := make([]byte, 1)
	if err := server.ReadFull(got); err != nil {
		t.Fatal(err)
	}
	for {
		n, err := server.ReadAtHand(b[:])
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			break
		}
		got = append(got, b[:n]...)
	}
	if string(got) != "012345678901234567890123456789" {
		t.Fatalf("at hand were %q", got)
	}
	_, _ = client.Write([]byte("more"))
	_ = client.Flush()
	if err := server.ReadFull(b[:4]); err != nil || string(b[:4]) != "more" {
		t.Fatalf("reading does not go on: %q, %v", b[:4], err)
	}
}

func TestAnErrorOfAWriteStays(t *testing.T) {
	_, client, _ := pair(t)
	_ = client.Abort()
	_, _ = client.Write([]byte("x"))
	if err := client.Flush(); !errors.Is(err, net.ErrClosed) {
		t.Fatalf("got %v", err)
	}
	if _, err := client.Write([]byte("x")); err == nil {
		t.Fatal("a write after the error was taken")
	}
}

// BenchmarkPing is one small round trip over warm streams.
func BenchmarkPing(b *testing.B) {
	server, client, _ := pair(b)
	server.BeforeWait(func() { _ = server.Flush() })
	go func() {
		buf := make([]byte, 64)
		for {
			n, err := server.Read(buf)
			if err != nil {
				return
			}
			_, _ = server.Write(buf[:n])
		}
	}()
	var answer [64]byte
	b.ReportAllocs()
	for b.Loop() {
		_, _ = client.Write(answer[:])
		_ = client.Flush()
		if err := client.ReadFull(answer[:]); err != nil {
			b.Fatal(err)
		}
	}
}
