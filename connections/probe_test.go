package connections

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"doorkeeper/internal/certtest"
	"doorkeeper/internal/frugal"
)

// noSASL answers SaslHandshake as a listener for TLS alone does.
func noSASL(v *visit, r request) bool {
	response := kmsg.NewPtrSASLHandshakeResponse()
	response.ErrorCode = 34
	return v.reply(r, response)
}

func TestProbeTellsListenersApart(t *testing.T) {
	l := newLab()
	asking := l.broker.ServerConfig(l.ca)
	for _, tc := range []struct {
		name        string
		script      script
		certificate bool // the dialer has one
		sasl, wants bool
		tokens      bool
		mechanisms  []string
	}{
		{"token listener", script{}, false, true, false, true, []string{"SCRAM-SHA-256", "SCRAM-SHA-512"}},
		{"token listener that asks for certificates", script{tls: asking}, true, true, true, true, []string{"SCRAM-SHA-256", "SCRAM-SHA-512"}},
		{"PLAIN alone", script{handshake: func(v *visit, r request) bool {
			response := kmsg.NewPtrSASLHandshakeResponse()
			response.ErrorCode, response.SupportedMechanisms = 33, []string{"PLAIN"}
			return v.reply(r, response)
		}}, false, true, false, true, []string{"PLAIN"}},
		{"control listener", script{tls: asking, handshake: noSASL}, true, false, true, true, nil},
		{"one-way control listener", script{handshake: noSASL}, true, false, false, true, nil},
		{"another gateway", script{
			tls: asking, handshake: noSASL,
			versions: func(v *visit, r request) bool { return v.reply(r, versionsResponse(0, 1, 3, 18)) },
		}, true, false, true, false, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := l.listen(t, tc.script)
			cfg := l.config(nil)
			if tc.certificate {
				cfg.TLS = l.ca.Issue(certtest.Leaf{CommonName: "gateway"}).ClientConfig(l.ca)
			}
			// Twice: a resumed TLS session must not hide that a certificate is asked for.
			cfg.TLS.ClientSessionCache = tls.NewLRUClientSessionCache(8)
			d := NewDialer(cfg)
			for range 2 {
				peer, err := d.Probe(t.Context(), h.target, ClientInfo{})
				if err != nil {
					t.Fatal(err)
				}
				if peer.SASL != tc.sasl || peer.WantsCertificate != tc.wants || peer.OffersTokens() != tc.tokens || !slices.Equal(peer.Mechanisms, tc.mechanisms) {
					t.Errorf("SASL %v %q, wants a certificate %v, offers tokens %v", peer.SASL, peer.Mechanisms, peer.WantsCertificate, peer.OffersTokens())
				}
				if !peer.Certificate.Equal(l.broker.Cert) {
					t.Errorf("the certificate is %v", peer.Certificate.Subject)
				}
				v := h.visit(t)
				<-v.done // it has hung up
				for _, r := range v.requests {
					if r.key == 36 {
						t.Error("it began a login")
					}
				}
			}
		})
	}
}

func TestProbeOfWhatIsNoListener(t *testing.T) {
	l := newLab()
	for _, tc := range []struct {
		name   string
		script script
		change func(*Target)
		fault  Fault
		phase  Phase
	}{
		{"nobody", script{}, func(to *Target) { to.Port = 1 }, Unreachable, PhaseDial},
		{"no TLS", script{raw: func(c net.Conn) { _, _ = c.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n")) }}, nil, NotTLS, PhaseTLS},
		{"another host's certificate", script{tls: l.ca.Issue(certtest.Leaf{DNS: []string{"elsewhere"}}).ServerConfig()}, nil, WrongHost, PhaseTLS},
		{"another authority's", script{tls: certtest.NewCA("other").Issue(certtest.Server()).ServerConfig()}, nil, Untrusted, PhaseTLS},
		{"it wants a certificate and gets none", script{tls: l.broker.ServerConfig(l.ca)}, nil, RefusedByPeer, PhaseTLS},
		{"it closes", script{versions: hangUp}, nil, PeerClosed, PhaseVersions},
		{"it says something strange", script{handshake: func(v *visit, r request) bool {
			response := kmsg.NewPtrSASLHandshakeResponse()
			response.ErrorCode = 7
			return v.reply(r, response)
		}}, nil, Hostile, PhaseMechanism},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := l.listen(t, tc.script)
			target := h.target
			if tc.change != nil {
				tc.change(&target)
			}
			_, err := NewDialer(l.config(nil)).Probe(t.Context(), target, ClientInfo{})
			if e := asError(t, err); e.Fault != tc.fault || e.Phase != tc.phase {
				t.Errorf("%v in phase %v: %v", e.Fault, e.Phase, e)
			}
		})
	}
}

func TestProbeEndsWithItsContext(t *testing.T) {
	l := newLab()
	asked := make(chan struct{})
	h := l.listen(t, script{versions: func(v *visit, r request) bool { close(asked); return hang(v, r) }})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-asked; cancel() }()
	_, err := NewDialer(l.config(nil)).Probe(ctx, h.target, ClientInfo{})
	if e := asError(t, err); e.Fault != Canceled {
		t.Error(e)
	}
}

func TestSpeaksPlainly(t *testing.T) {
	l := newLab()
	d := NewDialer(l.config(nil))
	plain := l.listen(t, script{raw: func(c net.Conn) {
		v := &visit{Conn: c}
		if r, err := v.read(); err == nil {
			goodVersions(v, r)
		}
	}})
	if !d.SpeaksPlainly(t.Context(), plain.target) {
		t.Error("a plaintext listener is not recognised")
	}
	for name, s := range map[string]script{
		"TLS":     {},
		"silence": {raw: func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }},
		"HTTP":    {raw: func(c net.Conn) { _, _ = c.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n")) }},
	} {
		if d.SpeaksPlainly(t.Context(), l.listen(t, s).target) {
			t.Errorf("%s is taken for a plaintext listener", name)
		}
	}
	if d.SpeaksPlainly(t.Context(), Target{Host: "127.0.0.1", Port: 1}) {
		t.Error("nobody is taken for a plaintext listener")
	}
}

// Whatever a listener without TLS says, it is read within bounds.
func FuzzPlainVersions(f *testing.F) {
	f.Add([]byte{0, 0, 0, 10, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0})
	f.Add([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
	f.Fuzz(func(t *testing.T, answer []byte) {
		frugal.Check(t, len(answer), func() {
			_ = plainVersions(struct {
				io.Reader
				io.Writer
			}{bytes.NewReader(answer), io.Discard})
		})
	})
}
