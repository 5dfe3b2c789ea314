//go:build integration

package integration

// This file proves that a broker which shows another host's certificate is refused,
// on the token listener and on the control listener, before any byte of a login is
// sent to it, and that the log names the broker and what is wrong with it.

import (
	"context"
	"encoding/binary"
	"net"
	"sync"
	"testing"

	"doorkeeper/integration/harness"
)

// B50. The address leads to a real broker, whose certificate is for its own alone.
func TestBrokerWithAnotherHostsCertificate(t *testing.T) {
	c := cluster(t)
	for _, tc := range []struct {
		name, key, target string
		said              []string
	}{
		{"token listener", "kafka.bootstrap", c.Node(1).TokenListener(),
			[]string{"the token path does not work", "the broker's certificate is not for", "subject alternative name"}},
		{"control listener", "kafka.control.bootstrap", c.Node(1).ControlListener(),
			[]string{"the token path does not work", "the broker's certificate is for another name"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tap := newTap(t, tc.target)
			g := startGateway(t, c, harness.GatewayConfig{Change: func(d harness.Document) {
				d.Set(tc.key, []string{tap.address})
			}})
			host, _, err := net.SplitHostPort(tap.address)
			must(t, err)
			notReady(t, g, "not proved", append(tc.said, host)...)
			endsWell(t, g)
			dials := tap.end()
			if len(dials) == 0 {
				t.Error("nothing was dialled")
			}
			for _, sent := range dials {
				checkNoLogin(t, sent)
			}
		})
	}
}

// checkNoLogin looks at the TLS records of a client: its ClientHello, and no more
// behind it than an alert, which under TLS 1.3 looks like data of 19 bytes.
func checkNoLogin(t *testing.T, sent []byte) {
	t.Helper()
	const changeCipherSpec, alert, handshake, data = 20, 21, 22, 23
	for first := true; len(sent) >= 5; first = false {
		kind, size := sent[0], int(binary.BigEndian.Uint16(sent[3:]))
		sent = sent[min(len(sent), 5+size):]
		switch {
		case first && kind == handshake, kind == changeCipherSpec, kind == alert:
		case kind == data && size <= 2+1+16:
		default:
			t.Errorf("a TLS record of type %d and %d bytes was sent to a broker that is not who it should be", kind, size)
		}
	}
}

// tap passes connections on to target and keeps what the clients sent.
type tap struct {
	address string
	target  string
	ln      net.Listener
	wg      sync.WaitGroup
	ctx     context.Context
	stop    context.CancelFunc

	mu   sync.Mutex
	sent [][]byte
}

func newTap(t *testing.T, target string) *tap {
	t.Helper()
	ln, err := net.Listen("tcp", site.LoopbackHost()+":0")
	must(t, err)
	p := &tap{address: ln.Addr().String(), target: target, ln: ln}
	p.ctx, p.stop = context.WithCancel(context.Background())
	p.wg.Go(func() {
		for {
			client, err := ln.Accept()
			if err != nil {
				return
			}
			p.wg.Go(func() { p.serve(client) })
		}
	})
	t.Cleanup(func() { p.end() })
	return p
}

func (p *tap) serve(client net.Conn) {
	defer func() { _ = client.Close() }()
	server, err := (&net.Dialer{Timeout: patience}).DialContext(p.ctx, "tcp", p.target)
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	defer context.AfterFunc(p.ctx, func() { _ = client.Close(); _ = server.Close() })()
	p.mu.Lock()
	i := len(p.sent)
	p.sent = append(p.sent, nil)
	p.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() {
		defer func() { _ = server.(*net.TCPConn).CloseWrite() }()
		_ = copyTo(client, func(b []byte) error {
			p.mu.Lock()
			p.sent[i] = append(p.sent[i], b...)
			p.mu.Unlock()
			_, err := server.Write(b)
			return err
		})
	})
	both.Go(func() {
		defer func() { _ = client.(*net.TCPConn).CloseWrite() }()
		_ = copyTo(server, func(b []byte) error { _, err := client.Write(b); return err })
	})
	both.Wait()
}

func copyTo(from net.Conn, take func([]byte) error) error {
	b := make([]byte, 16<<10)
	for {
		n, err := from.Read(b)
		if n > 0 {
			if err := take(b[:n]); err != nil {
				return err
			}
		}
		if err != nil {
			return err
		}
	}
}

// end ends all connections and returns what each client has sent.
func (p *tap) end() [][]byte {
	p.stop()
	_ = p.ln.Close()
	p.wg.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sent
}
