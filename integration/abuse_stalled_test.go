//go:build integration

package integration

// This file proves that a thousand connections which never become a client (silent
// ones, one byte every second, stopped after the ClientHello, silent after the
// handshake) keep nobody out: a client that comes meanwhile is served, all of them
// are closed once limits.admission has passed, and one address has only so many
// handshakes at a time.

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"doorkeeper/integration/harness"
)

// B30.
func TestStalledClientsKeepNobodyOut(t *testing.T) {
	const (
		admission  = 8 * time.Second
		handshakes = 700 // limits.handshakes_per_address
		each       = 250 // of the four kinds
	)
	c := cluster(t)
	topic := topicFor(t, c, "punctual")
	g := gateway(t, c, harness.GatewayConfig{Change: func(d harness.Document) {
		d.Set("limits.admission", admission.String())
		d.Set("limits.handshakes_per_address", handshakes)
	}})
	works(t, g, "punctual", topic) // the token is there: what is measured below is admission
	before, err := g.Resources()
	must(t, err)
	goroutines := metricsOf(t, g).Sum("go_goroutines")

	crowd := stallAt(t, g, each)
	if waiting := crowd.refused(); waiting != 3*each-handshakes {
		t.Errorf("%d of %d stalled handshakes were refused at once, with %d allowed", waiting, 3*each, handshakes)
	}
	// Somebody from another address comes while all the others stall.
	fastest := time.Hour
	for range 3 {
		began := time.Now()
		rawClient(t, g, g.Bootstrap, "punctual")
		fastest = min(fastest, time.Since(began))
	}
	took := works(t, g, "punctual", topic)
	t.Logf("with 1000 stalled connections: handshake in %s, first record in %s", fastest, took)
	if fastest > 500*time.Millisecond {
		t.Errorf("a handshake took %s beside stalled ones", fastest)
	}
	if took > admission {
		t.Errorf("a client was only served when the stalled ones had gone: after %s", took)
	}

	crowd.awaitEnd(admission + patience)
	eventually(t, func() error {
		m := metricsOf(t, g)
		timedOut := m.Sum("doorkeeper_session_ends_total", `reason="admission_timeout"`)
		capped := m.Sum("doorkeeper_session_ends_total", `reason="limit_handshakes"`)
		if timedOut < 4*each-(3*each-handshakes) || capped != 3*each-handshakes {
			return fmt.Errorf("%v legs ended by admission_timeout, %v by limit_handshakes", timedOut, capped)
		}
		now, err := g.Resources()
		if err != nil || now.Sockets > before.Sockets+4 {
			return fmt.Errorf("%d sockets, %d before; %w", now.Sockets, before.Sockets, err)
		}
		if n := m.Sum("go_goroutines"); n > goroutines+8 {
			return fmt.Errorf("%v goroutines, %v before", n, goroutines)
		}
		return nil
	})
}

// crowd are connections from one address that do not behave.
type crowd struct {
	t     *testing.T
	conns []net.Conn
	done  sync.WaitGroup

	mu    sync.Mutex
	early int // closed at once
	late  int // still open after awaitEnd's time
	limit chan struct{}
}

// stallAt opens so many connections of each of the four kinds, those that stay
// within the handshake before the others.
func stallAt(t *testing.T, g *harness.Gateway, each int) *crowd {
	t.Helper()
	k := &crowd{t: t, limit: make(chan struct{})}
	config := g.TLS(site.Client("latecomer"))
	hello := clientHello(t, config)
	from := &net.Dialer{Timeout: patience, LocalAddr: &net.TCPAddr{IP: net.ParseIP(site.LoopbackHost())}}
	open := func() net.Conn {
		conn, err := from.DialContext(t.Context(), "tcp", g.Bootstrap)
		must(t, err)
		k.conns = append(k.conns, conn)
		return conn
	}
	t.Cleanup(func() {
		for _, conn := range k.conns {
			_ = conn.Close()
		}
		k.done.Wait()
	})

	// Silent after the handshake.
	for range each {
		conn := tls.Client(open(), config)
		must(t, conn.HandshakeContext(t.Context()))
		k.watch(conn)
	}
	for range each {
		silent, dripping, halfway := open(), open(), open()
		k.watch(silent)
		k.watch(dripping)
		k.done.Go(func() {
			for _, b := range hello {
				if _, err := dripping.Write([]byte{b}); err != nil {
					return
				}
				select {
				case <-time.After(time.Second):
				case <-k.limit:
					return
				}
			}
		})
		_, _ = halfway.Write(hello)
		k.watch(halfway)
	}
	return k
}

// watch notes when the gateway closes conn. The answer to a ClientHello may come
// before that.
func (k *crowd) watch(conn net.Conn) {
	opened := time.Now()
	k.done.Go(func() {
		buf := make([]byte, 16<<10)
		for {
			if _, err := conn.Read(buf); err == nil {
				continue
			}
			k.mu.Lock()
			defer k.mu.Unlock()
			if time.Since(opened) < time.Second {
				k.early++
			}
			select {
			case <-k.limit:
				k.late++
			default:
			}
			return
		}
	})
}

// refused counts what was closed at once.
func (k *crowd) refused() int {
	time.Sleep(time.Second)
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.early
}

// awaitEnd waits until the gateway has closed all of them.
func (k *crowd) awaitEnd(within time.Duration) {
	k.t.Helper()
	over, stop := context.WithTimeout(k.t.Context(), within)
	defer stop()
	all := make(chan struct{})
	go func() { defer close(all); k.done.Wait() }()
	select {
	case <-all:
	case <-over.Done():
		close(k.limit)
		for _, conn := range k.conns {
			_ = conn.Close()
		}
		<-all
		k.t.Errorf("%d of %d stalled connections were still open after %s", k.late, len(k.conns), within)
	}
}
