//go:build integration

package integration

// This file proves that bytes which are no Kafka request over TLS end their own
// connection, with one line in the log that says what they were, and that the
// gateway's memory does not grow by what they claim.

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"doorkeeper/integration/harness"
)

// B68, and the "HTTP or plaintext on the port".
func TestOtherProtocolsOnThePort(t *testing.T) {
	g := gateway(t, cluster(t), harness.GatewayConfig{})
	hello := kmsg.NewPtrApiVersionsRequest()
	hello.Version = 3
	for _, tc := range []struct{ name, bytes, kind, cause string }{
		{"HTTP", "GET /metrics HTTP/1.1\r\nHost: kafka\r\n\r\n", "http", "HTTP"},
		{"HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "http", "HTTP"},
		{"plaintext Kafka", string(frame(hello, 1)), "plaintext_kafka", "security.protocol=SSL"},
		{"PROXY header", "PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n", "proxy_header", "PROXY"},
		{"SSH", "SSH-2.0-OpenSSH_9.2p1\r\n", "not_tls", "TLS"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			conn, err := net.Dial("tcp", g.Bootstrap)
			must(t, err)
			defer func() { _ = conn.Close() }()
			_, err = conn.Write([]byte(tc.bytes))
			must(t, err)
			must(t, ended(conn, patience))
			oneLine(t, g, conn.LocalAddr(), map[string]string{"msg": "client refused", "reason": "handshake_failed", "kind": tc.kind, "cause": tc.cause})
		})
	}
}

// badFrame is what a client with a good certificate sends.
type badFrame struct {
	name  string
	bytes []byte
	cause string // of the log's line
	close bool   // the client closes its side behind it
}

func badFrames() []badFrame {
	whole := frame(metadata(), 1)
	header := []byte{0, 3, 0, 9, 0, 0, 0, 1} // Metadata v9, correlation id 1
	claims := func(n uint32, rest ...byte) []byte { return append(length(n), rest...) }
	return []badFrame{
		{"length -1", claims(0xffffffff), "negative frame length -1", false},
		{"length of the most negative number", claims(0x80000000), "negative frame length -2147483648", false},
		{"length 0", claims(0), "frame length 0", false},
		{"length 3", claims(3, 0, 3, 0), "frame length 3", false},
		{"length 2 GiB - 1", claims(0x7fffffff, header...), "limits.frame", false},
		{"length above limits.frame", claims(100<<20+1, header...), "limits.frame", false},
		{"HTTP inside TLS", []byte("POST / HTTP/1.1\r\n\r\n"), "HTTP", false},
		{"TLS inside TLS", []byte{0x16, 3, 1, 2, 0, 1, 0}, "TLS", false},
		{"truncated frame", whole[:len(whole)-1], "in the middle of a request", true},
		{"truncated length", whole[:2], "in the middle of a request", true},
		{"frame that ends in its header", append(claims(10), append(header, 0x7f, 0xff)...), "ends within its header", false},
		{"client id that is longer than the frame", append(claims(14), append(header, 0x7f, 0xff, 'a', 'b', 'c', 'd')...), "ends within its header", false},
	}
}

// B52: the frame lengths -1, 0, 3 and 2 GiB, and the truncated frame.
func TestFramesThatAreNone(t *testing.T) {
	g := gateway(t, cluster(t), harness.GatewayConfig{})
	stop := witness(t, g, "frame-witness")
	defer stop()
	for _, tc := range badFrames() {
		for _, first := range []bool{true, false} {
			name := tc.name + "/as the second"
			if first {
				name = tc.name + "/as the first"
			}
			t.Run(name, func(t *testing.T) {
				r := rawClient(t, g, g.Bootstrap, "framer")
				if !first {
					_, err := r.Request(metadata())
					must(t, err)
				}
				sendBad(t, r, tc)
				must(t, ended(r, patience))
				oneLine(t, g, r.LocalAddr(), map[string]string{"msg": "session ended", "reason": "bad_request", "side": "client", "cause": tc.cause})
			})
		}
	}
}

func sendBad(t *testing.T, r *harness.Raw, f badFrame) {
	t.Helper()
	if _, err := r.Write(f.bytes); err != nil {
		t.Error(err)
	}
	if f.close {
		must(t, r.CloseWrite())
	}
}

// B52, the "memory stays flat": over a thousand connections, each of which claims
// 2 GiB, 100 MiB, or what makes no sense.
func TestBadFramesLeaveMemoryFlat(t *testing.T) {
	g := gateway(t, cluster(t), harness.GatewayConfig{Plain: true})
	storm := func(connections int) {
		var wg sync.WaitGroup
		frames := badFrames()
		turns := make(chan struct{}, 16)
		for i := range connections {
			turns <- struct{}{}
			wg.Go(func() {
				defer func() { <-turns }()
				r, err := harness.DialRaw(within(t, patience), g.Bootstrap, g.TLS(site.Client("framer")))
				if err != nil {
					t.Error(err)
					return
				}
				defer func() { _ = r.Close() }()
				_, _ = r.Write(frames[i%len(frames)].bytes)
				_ = r.CloseWrite()
				if err := ended(r, patience); err != nil {
					t.Errorf("%s: %v", frames[i%len(frames)].name, err)
				}
			})
		}
		wg.Wait()
	}
	storm(400)
	before := rss(t, g)
	storm(1200)
	grown := rss(t, g) - before
	t.Logf("1200 bad connections: %s before, grown by %s", kib(before), kib(grown))
	if grown > 16<<20 {
		t.Errorf("memory grew by %s", kib(grown))
	}
	eventually(t, func() error { return noSessions(g) })
}

// noSessions is an error while the gateway has any.
func noSessions(g *harness.Gateway) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	m, err := g.Metrics(ctx)
	if err == nil && m.Sum("doorkeeper_sessions") != 0 {
		err = fmt.Errorf("%v sessions are left", m.Sum("doorkeeper_sessions"))
	}
	return err
}
