//go:build integration

package integration

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"testing"

	"doorkeeper/integration/harness"
)

// meddler is what a proxy that reads Kafka's protocol can be: it takes TLS apart, passes
// logins on, and ends a connection that wants to log in a second time.
type meddler struct {
	ln     net.Listener
	target string
	dial   *tls.Config
	ctx    context.Context
	wg     sync.WaitGroup
}

// newMeddler shows a certificate of the brokers' authority for its own address.
func newMeddler(t *testing.T, address, target string, face *harness.Certificate) {
	t.Helper()
	ln, err := tls.Listen("tcp", address, face.ServerConfig())
	must(t, err)
	ctx, stop := context.WithCancel(context.Background())
	m := &meddler{ln: ln, target: target, dial: site.Direct("nobody").ClientTLS(), ctx: ctx}
	m.wg.Go(func() {
		for {
			client, err := ln.Accept()
			if err != nil {
				return
			}
			m.wg.Go(func() { m.serve(client) })
		}
	})
	t.Cleanup(func() {
		stop()
		_ = ln.Close()
		m.wg.Wait()
	})
}

func (m *meddler) serve(client net.Conn) {
	defer func() { _ = client.Close() }()
	broker, err := (&tls.Dialer{Config: m.dial}).DialContext(m.ctx, "tcp", m.target)
	if err != nil {
		return
	}
	defer func() { _ = broker.Close() }()
	defer context.AfterFunc(m.ctx, func() { _ = client.Close(); _ = broker.Close() })()
	m.wg.Go(func() {
		_, _ = io.Copy(client, broker)
		_ = client.Close()
	})
	const saslHandshake = 17
	for logins := 0; ; {
		var head [4]byte
		if _, err := io.ReadFull(client, head[:]); err != nil {
			return
		}
		request := make([]byte, min(binary.BigEndian.Uint32(head[:]), 1<<20))
		if _, err := io.ReadFull(client, request); err != nil {
			return
		}
		if binary.BigEndian.Uint16(request) == saslHandshake {
			if logins++; logins > 1 {
				return
			}
		}
		if _, err := broker.Write(append(head[:], request...)); err != nil {
			return
		}
	}
}
