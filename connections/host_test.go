package connections

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"doorkeeper/internal/certtest"
)

// names has a dialer find these hosts at these addresses, in place of DNS.
func (d *Dialer) names(to map[string]*host) {
	dial := d.dial
	d.dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		name, _, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		if h := to[name]; h != nil {
			address = h.target.address()
		}
		return dial(ctx, network, address)
	}
}

// B50: the certificate must be for the very name or address that is dialled, whatever
// else is true of it; a mismatch ends the connection before any SCRAM byte, and names
// are sent as SNI.
func TestBrokerMustOwnTheDialledName(t *testing.T) {
	leaf := func(cn string, dns []string, ips ...net.IP) certtest.Leaf {
		return certtest.Leaf{CommonName: cn, DNS: dns, IPs: ips}
	}
	cases := []struct {
		name string
		host string
		leaf certtest.Leaf
		fits bool
		sni  string
	}{
		{"its own name", "b1.test", leaf("x", []string{"b1.test"}), true, "b1.test"},
		{"its own name in capitals", "B1.test", leaf("x", []string{"b1.TEST"}), true, "B1.test"},
		{"its own name with the root's dot", "b1.test.", leaf("x", []string{"b1.test"}), true, "b1.test"},
		{"another name of the same authority", "b1.test", leaf("x", []string{"b2.test"}), false, "b1.test"},
		{"one of several names", "b2.test", leaf("x", []string{"b1.test", "b2.test"}), true, "b2.test"},
		{"wildcard", "b1.test.example", leaf("x", []string{"*.test.example"}), true, "b1.test.example"},
		{"wildcard for one label only", "b1.rack.test.example", leaf("x", []string{"*.test.example"}), false, "b1.rack.test.example"},
		{"wildcard is not for its parent", "test.example", leaf("x", []string{"*.test.example"}), false, "test.example"},
		{"common name only", "b1.test", leaf("b1.test", nil), false, "b1.test"},
		{"common name beside another SAN", "b1.test", leaf("b1.test", []string{"b2.test"}), false, "b1.test"},
		{"IP address with its SAN", "127.0.0.1", leaf("x", nil, net.IPv4(127, 0, 0, 1)), true, ""},
		{"IP address with another's SAN", "127.0.0.1", leaf("x", nil, net.IPv4(127, 0, 0, 2)), false, ""},
		{"IP address as a DNS name", "127.0.0.1", leaf("127.0.0.1", []string{"127.0.0.1"}), false, ""},
		{"name where only the IP address fits", "b1.test", leaf("x", nil, net.IPv4(127, 0, 0, 1)), false, "b1.test"},
		{"NUL in the certificate's name", "b1.test", leaf("x", []string{"b1.test\x00.evil.example"}), false, "b1.test"},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			l := newLab()
			h := l.listen(t, script{tls: l.ca.Issue(tc.leaf).ServerConfig()})
			d := NewDialer(l.config(nil))
			d.names(map[string]*host{tc.host: h})
			c, err := d.Open(t.Context(), Target{Node: -1, Host: tc.host, Port: 9094}, ScramOverMtls, sampleCredential(), ClientInfo{})
			v := h.visit(t)
			if tc.fits {
				if err != nil {
					t.Fatal(err)
				}
				_ = c.Close()
			} else {
				if err == nil {
					_ = c.Close()
					t.Fatal("the certificate was taken")
				}
				if e := asError(t, err); e.Fault != WrongHost && e.Fault != Untrusted || e.Phase != PhaseTLS {
					t.Errorf("%s/%s: %v", e.Phase, e.Fault, err)
				}
			}
			<-v.done
			v.mu.Lock()
			defer v.mu.Unlock()
			if v.sni != tc.sni {
				t.Errorf("server name %q, want %q", v.sni, tc.sni)
			}
			if !tc.fits && len(v.requests) > 0 {
				t.Errorf("the broker got %d requests", len(v.requests))
			}
		})
	}
}

// B50: two brokers' addresses are swapped; also with TLS sessions to resume.
func TestSwappedBrokersAreRefused(t *testing.T) {
	l := newLab()
	one := l.listen(t, script{tls: l.ca.Issue(certtest.Leaf{DNS: []string{"b1.test"}}).ServerConfig()})
	two := l.listen(t, script{tls: l.ca.Issue(certtest.Leaf{DNS: []string{"b2.test"}}).ServerConfig()})
	cfg := l.config(nil)
	cfg.TLS.ClientSessionCache = tls.NewLRUClientSessionCache(0)
	dial := func(to map[string]*host, name string) error {
		d := NewDialer(cfg)
		d.names(to)
		c, err := d.Open(t.Context(), Target{Node: 1, Host: name, Port: 9094}, ScramOverMtls, sampleCredential(), ClientInfo{})
		if err == nil {
			_ = c.Close()
		}
		return err
	}
	right := map[string]*host{"b1.test": one, "b2.test": two}
	wrong := map[string]*host{"b1.test": two, "b2.test": one}
	for name := range right {
		for range 2 { // the second resumes
			if err := dial(right, name); err != nil {
				t.Fatal(err)
			}
		}
		if e := asError(t, dial(wrong, name)); e.Fault != WrongHost {
			t.Errorf("%s: %v", name, e)
		}
	}
}

// A broker's backlog is 50: no more dials to one address are under way than allowed,
// those to others are not held up, and one that waits ends with its context.
func TestDialsToOneBrokerAreBounded(t *testing.T) {
	var now, most atomic.Int64
	l := newLab()
	hold := make(chan struct{})
	h := l.listen(t, script{raw: func(net.Conn) {
		most.Store(max(most.Load(), now.Add(1)))
		<-hold
		now.Add(-1)
	}})
	other := l.listen(t, script{})
	cfg := l.config(nil)
	cfg.DialsPerBroker = 3
	d := NewDialer(cfg)

	var wg sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	for range 10 {
		wg.Go(func() {
			c, err := d.Open(ctx, h.target, ScramOverMtls, sampleCredential(), ClientInfo{})
			if err == nil {
				_ = c.Close()
				t.Error("logged in at a broker that says nothing")
			}
		})
	}
	for range 3 {
		h.visit(t)
	}
	open(t, d, other.target)
	waiting, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer stop()
	_, err := d.Open(waiting, h.target, ScramOverMtls, sampleCredential(), ClientInfo{})
	if e := asError(t, err); e.Fault != Timeout || e.Phase != PhaseDial {
		t.Errorf("%s/%s: %v", e.Phase, e.Fault, err)
	}
	cancel()
	wg.Wait()
	close(hold)
	if n := most.Load(); n > 3 {
		t.Errorf("%d dials at a time, want 3", n)
	}
	if n := len(d.slots.of); n != 0 {
		t.Errorf("%d addresses are remembered, want 0", n)
	}
}

// Configurations are shared by the connections to one host, and by no others; there is
// an end to how many are kept.
func TestHostsShareNoConfiguration(t *testing.T) {
	h := hosts{base: &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13}}
	a, b := h.config("a.test"), h.config("b.test")
	if a == b || a != h.config("a.test") || b != h.config("b.test") {
		t.Error("one configuration for two hosts, or two for one")
	}
	for host, c := range map[string]*tls.Config{"a.test": a, "b.test": b} {
		if c.ServerName != host || c.InsecureSkipVerify || c.MinVersion != tls.VersionTLS13 {
			t.Errorf("%s: verifies %q, skips %t, from version %x", host, c.ServerName, c.InsecureSkipVerify, c.MinVersion)
		}
	}
	for i := range 2 * hostsMost {
		h.config(fmt.Sprint(i))
		if len(h.of) > hostsMost {
			t.Fatalf("%d configurations", len(h.of))
		}
	}
}
