package connections

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"doorkeeper/internal/certtest"
)

// hostileCase is one thing that a broker can do wrong, and what must come of it. In
// every case Open fails, no frame of a client was sent, and nothing stays behind.
type hostileCase struct {
	name   string
	script func(l *lab) script
	dial   func(l *lab, cfg *Config, target *Target) // nil: dial what listens

	phase   Phase
	fault   Fault
	proofs  int   // client-final messages that the broker may have got
	derived int64 // keys that may have been derived
}

const (
	goodSalt = "c2FsdHNhbHRzYWx0"
	afterSig = 1 // the proof goes out before the server's signature can come
)

func first(text string) func(*lab) script {
	return func(*lab) script { return script{first: sayFirst(text)} }
}

func final(do step) func(*lab) script {
	return func(*lab) script { return script{final: do} }
}

func sayFinal(text string) func(*lab) script {
	return final(func(v *visit, r request) bool { return v.say(r, text, 3600_000) })
}

// twistFinal lets the honest server speak, then twists what it says.
func twistFinal(twist func(string) string) func(*lab) script {
	return final(func(v *visit, r request) bool {
		out, err := v.scram.Step(string(message(r)))
		return err == nil && v.say(r, twist(out), 3600_000)
	})
}

func lifetime(ms int64) func(*lab) script {
	return final(func(v *visit, r request) bool {
		out, err := v.scram.Step(string(message(r)))
		return err == nil && v.say(r, out, ms)
	})
}

func errorCode(code int16) step {
	return func(v *visit, r request) bool { return v.refuse(r, code, "no\nforged log line") }
}

// rawAnswer sends bytes as they are; CORR in a head is the right correlation id.
func rawAnswer(length uint32, body string) step {
	return func(v *visit, r request) bool {
		b := binary.BigEndian.AppendUint32(nil, length)
		b = binary.BigEndian.AppendUint32(b, uint32(r.correlation))
		v.bytes(append(b, body...))
		return true
	}
}

func handshakeCode(code int16) step {
	return func(v *visit, r request) bool {
		response := kmsg.NewPtrSASLHandshakeResponse()
		response.ErrorCode = code
		response.SupportedMechanisms = []string{"PLAIN", "GSSAPI"}
		v.reply(r, response)
		return false
	}
}

func certificate(issue func(l *lab) *certtest.Issued) func(*lab) script {
	return func(l *lab) script { return script{tls: issue(l).ServerConfig()} }
}

func hostileCases() []hostileCase {
	scramCase := func(name, text string) hostileCase {
		return hostileCase{name: name, script: first(text), phase: PhaseAuthenticate, fault: Hostile}
	}
	finalCase := func(name string, s func(*lab) script, fault Fault) hostileCase {
		return hostileCase{name: name, script: s, phase: PhaseAuthenticate, fault: fault, proofs: afterSig, derived: 1}
	}
	loginCase := func(name string, s script, phase Phase, fault Fault) hostileCase {
		return hostileCase{name: name, script: func(*lab) script { return s }, phase: phase, fault: fault}
	}
	tlsCase := func(name string, issue func(l *lab) *certtest.Issued, fault Fault) hostileCase {
		return hostileCase{name: name, script: certificate(issue), phase: PhaseTLS, fault: fault}
	}
	ip := net.IPv4(127, 0, 0, 1)
	long := base64.StdEncoding.EncodeToString(make([]byte, maxSalt+1))

	return []hostileCase{
		// The server's first message.
		scramCase("nonce not extending ours", "r=somethingelse,s="+goodSalt+",i=4096"),
		scramCase("nonce equal to ours", "r=NONCE,s="+goodSalt+",i=4096"),
		scramCase("nonce empty", "r=,s="+goodSalt+",i=4096"),
		scramCase("nonce unprintable", "r=NONCE\x07,s="+goodSalt+",i=4096"),
		scramCase("nonce huge", "r=NONCE"+strings.Repeat("x", 4096)+",s="+goodSalt+",i=4096"),
		scramCase("iterations missing", "r=NONCEx,s="+goodSalt),
		scramCase("iterations 0", "r=NONCEx,s="+goodSalt+",i=0"),
		scramCase("iterations 1", "r=NONCEx,s="+goodSalt+",i=1"),
		scramCase("iterations 4095", "r=NONCEx,s="+goodSalt+",i=4095"),
		scramCase("iterations 16385", "r=NONCEx,s="+goodSalt+",i=16385"),
		scramCase("iterations 2^31", "r=NONCEx,s="+goodSalt+",i=2147483648"),
		scramCase("iterations negative", "r=NONCEx,s="+goodSalt+",i=-4096"),
		scramCase("iterations no number", "r=NONCEx,s="+goodSalt+",i=many"),
		scramCase("salt missing", "r=NONCEx,i=4096"),
		scramCase("salt empty", "r=NONCEx,s=,i=4096"),
		scramCase("salt bad base64", "r=NONCEx,s=!!!!,i=4096"),
		scramCase("salt tiny", "r=NONCEx,s=c2FsdA==,i=4096"),
		scramCase("salt huge", "r=NONCEx,s="+long+",i=4096"),
		scramCase("mandatory extension", "m=ext,r=NONCEx,s="+goodSalt+",i=4096"),
		scramCase("mandatory extension late", "r=NONCEx,s="+goodSalt+",i=4096,m=ext"),
		scramCase("extra attribute before", "x=y,r=NONCEx,s="+goodSalt+",i=4096"),
		scramCase("second nonce behind", "r=NONCEx,s="+goodSalt+",i=4096,r=NONCEy"),
		scramCase("wrong order", "s="+goodSalt+",r=NONCEx,i=4096"),
		scramCase("empty first message", ""),
		scramCase("truncated first message", "r=NONCEx,s="),
		scramCase("final message first", "v="+goodSalt),
		{name: "error attribute first", script: first("e=unknown-user"), phase: PhaseAuthenticate, fault: CredentialRefused},

		// The server's final message.
		finalCase("error attribute in final", sayFinal("e=invalid-proof"), CredentialRefused),
		finalCase("wrong signature", sayFinal("v="+base64.StdEncoding.EncodeToString(make([]byte, 64))), Hostile),
		finalCase("signature of another length", sayFinal("v="+goodSalt), Hostile),
		finalCase("missing signature", sayFinal("x=y"), Hostile),
		finalCase("empty signature", sayFinal("v="), Hostile),
		finalCase("empty final message", sayFinal(""), Hostile),
		finalCase("truncated signature", twistFinal(func(s string) string { return s[:len(s)-4] }), Hostile),
		finalCase("signature bad base64", twistFinal(func(s string) string { return s[:10] + "!" + s[11:] }), Hostile),
		finalCase("extra attribute before signature", twistFinal(func(s string) string { return "x=y," + s }), Hostile),
		finalCase("error behind the signature", twistFinal(func(s string) string { return s + ",e=other-error" }), Hostile),

		// Session lifetimes.
		finalCase("lifetime 0", lifetime(0), CredentialExpired),
		finalCase("lifetime below any margin", lifetime(1000), CredentialExpired),
		finalCase("lifetime negative", lifetime(-1), Hostile),
		finalCase("lifetime most negative", lifetime(math.MinInt64), Hostile),

		// Frames.
		loginCase("first answer oversized", script{versions: rawAnswer(maxVersionsAnswer+1, "")}, PhaseVersions, Hostile),
		loginCase("later answer oversized", script{first: rawAnswer(maxLoginAnswer+1, "")}, PhaseAuthenticate, Hostile),
		loginCase("length 2 GiB", script{first: rawAnswer(math.MaxInt32, "")}, PhaseAuthenticate, Hostile),
		loginCase("length negative", script{first: rawAnswer(math.MaxUint32, "")}, PhaseAuthenticate, Hostile),
		loginCase("length 0", script{first: rawAnswer(0, "")}, PhaseAuthenticate, Hostile),
		loginCase("length 3", script{handshake: rawAnswer(3, "")}, PhaseMechanism, Hostile),
		loginCase("no body at all", script{handshake: rawAnswer(4, "")}, PhaseMechanism, Hostile),
		loginCase("HTTP", script{versions: func(v *visit, _ request) bool { return v.bytes([]byte("HTTP/1.1 400 Bad Request\r\n\r\n")) }}, PhaseVersions, Hostile),
		loginCase("wrong correlation id", script{first: func(v *visit, r request) bool {
			r.correlation++
			return goodFirst(v, r)
		}}, PhaseAuthenticate, Hostile),
		loginCase("frame truncated", script{first: func(v *visit, r request) bool {
			rawAnswer(100, "abc")(v, r)
			return hangUp(v, r)
		}}, PhaseAuthenticate, PeerClosed),
		loginCase("answer header's tags truncated", script{first: rawAnswer(4+2, "\x05\x00")}, PhaseAuthenticate, Hostile),

		// Error codes.
		loginCase("credential refused at first", script{first: errorCode(58)}, PhaseAuthenticate, CredentialRefused),
		finalCase("credential refused at final", final(errorCode(58)), CredentialRefused),
		loginCase("state error from SaslAuthenticate", script{first: errorCode(34)}, PhaseAuthenticate, Hostile),
		loginCase("unknown error from SaslAuthenticate", script{first: errorCode(31999)}, PhaseAuthenticate, Hostile),
		loginCase("mechanism missing", script{handshake: handshakeCode(33)}, PhaseMechanism, NoMechanism),
		loginCase("SSL listener without SASL", script{handshake: handshakeCode(34)}, PhaseMechanism, NoSasl),
		loginCase("another gateway", script{
			versions:  func(v *visit, r request) bool { return v.reply(r, versionsResponse(0, 1, 3, 18)) },
			handshake: handshakeCode(34),
		}, PhaseMechanism, AnotherGateway),
		loginCase("unknown error from SaslHandshake", script{handshake: handshakeCode(-1)}, PhaseMechanism, Hostile),
		loginCase("ApiVersions garbage", script{versions: rawAnswer(4+9, "\x00\x00\xff\xff\xff\xff\xff\xff\xff")}, PhaseVersions, Hostile),
		loginCase("ApiVersions array bomb", script{versions: rawAnswer(4+2+5, "\x00\x00\xff\xff\xff\xff\x0f")}, PhaseVersions, Hostile),
		loginCase("ApiVersions without APIs", script{versions: func(v *visit, r request) bool { return v.reply(r, versionsResponse()) }}, PhaseVersions, Hostile),
		loginCase("ApiVersions error 35", script{versions: rawAnswer(4+6, "\x00\x23\x00\x00\x00\x00")}, PhaseVersions, Unsupported),
		loginCase("ApiVersions error 42", script{versions: func(v *visit, r request) bool {
			response := versionsResponse(18)
			response.ErrorCode = 42
			return v.reply(r, response)
		}}, PhaseVersions, Unsupported),

		// Certificates. B50 is in host_test.go.
		tlsCase("certificate for another host", func(l *lab) *certtest.Issued {
			return l.ca.Issue(certtest.Leaf{CommonName: "other", DNS: []string{"other.test"}})
		}, WrongHost),
		tlsCase("IP address without such a SAN", func(l *lab) *certtest.Issued {
			return l.ca.Issue(certtest.Leaf{CommonName: "127.0.0.1", DNS: []string{"localhost", "127.0.0.1"}})
		}, WrongHost),
		tlsCase("common name only", func(l *lab) *certtest.Issued { return l.ca.Issue(certtest.Leaf{CommonName: "127.0.0.1"}) }, WrongHost),
		tlsCase("untrusted authority", func(*lab) *certtest.Issued { return certtest.NewCA("broker-ca").Issue(certtest.Server()) }, Untrusted),
		tlsCase("self-signed", func(*lab) *certtest.Issued { return certtest.SelfSigned(certtest.Server()) }, Untrusted),
		tlsCase("expired", func(l *lab) *certtest.Issued {
			leaf := certtest.Server()
			leaf.NotBefore, leaf.NotAfter = time.Now().Add(-2*time.Hour), time.Now().Add(-time.Hour)
			return l.ca.Issue(leaf)
		}, Untrusted),
		tlsCase("not yet valid", func(l *lab) *certtest.Issued {
			leaf := certtest.Server()
			leaf.NotBefore = time.Now().Add(time.Hour)
			return l.ca.Issue(leaf)
		}, Untrusted),
		tlsCase("a client's certificate", func(l *lab) *certtest.Issued {
			return l.ca.Issue(certtest.Leaf{IPs: []net.IP{ip}, Usage: certtest.ClientOnly})
		}, Untrusted),
		{
			name: "asks for a client certificate", phase: PhaseTLS, fault: RefusedByPeer,
			script: func(l *lab) script { return script{tls: l.broker.ServerConfig(l.ca)} },
		},
		{
			name: "TLS 1.1 only", phase: PhaseTLS, fault: RefusedByPeer,
			script: func(l *lab) script {
				cfg := l.broker.ServerConfig()
				cfg.MinVersion, cfg.MaxVersion = tls.VersionTLS11, tls.VersionTLS11
				return script{tls: cfg}
			},
		},
		{
			name: "plaintext", phase: PhaseTLS, fault: NotTLS,
			script: func(*lab) script {
				return script{raw: func(c net.Conn) { _, _ = c.Write([]byte("220 mail.test ESMTP\r\n")); _, _ = io.Copy(io.Discard, c) }}
			},
		},
		{
			name: "closes during the handshake, as a plaintext Kafka does", phase: PhaseTLS, fault: PeerClosed,
			script: func(*lab) script {
				return script{raw: func(c net.Conn) { _, _ = c.Read(make([]byte, 1)) }}
			},
		},

		// S23: ourselves.
		{
			name: "our own listener", phase: PhaseDial, fault: SelfDetected,
			script: func(*lab) script { return script{} },
			dial: func(_ *lab, cfg *Config, target *Target) {
				own := target.address()
				cfg.OwnListener = func(a net.Addr) bool { return a.String() == own }
			},
		},
		{
			name: "our own certificate, trusted", phase: PhaseTLS, fault: SelfDetected,
			script: func(*lab) script { return script{} },
			dial: func(l *lab, cfg *Config, _ *Target) {
				cfg.OwnCertificate = func() []byte { return l.broker.Cert.Raw }
			},
		},
		{
			name: "our own certificate, of a foreign authority", phase: PhaseTLS, fault: SelfDetected,
			script: func(l *lab) script {
				l.broker = certtest.NewCA("client-ca").Issue(certtest.Server())
				return script{tls: l.broker.ServerConfig()}
			},
			dial: func(l *lab, cfg *Config, _ *Target) {
				cfg.OwnCertificate = func() []byte { return l.broker.Cert.Raw }
			},
		},
		{
			name: "nobody listens", phase: PhaseDial, fault: Unreachable,
			script: func(*lab) script { return script{} },
			dial:   func(_ *lab, _ *Config, target *Target) { target.Port = 1 },
		},
		{
			name: "no such name", phase: PhaseDial, fault: Unreachable,
			script: func(*lab) script { return script{} },
			dial:   func(_ *lab, _ *Config, target *Target) { target.Host = "no-such-broker.invalid" },
		},

		// Closing at each step.
		loginCase("closes before ApiVersions", script{versions: hangUp}, PhaseVersions, PeerClosed),
		loginCase("closes before SaslHandshake", script{handshake: hangUp}, PhaseMechanism, PeerClosed),
		loginCase("closes before server-first", script{first: hangUp}, PhaseAuthenticate, PeerClosed),
		finalCase("closes before server-final", final(hangUp), PeerClosed),
	}
}

// S10, B40: a hostile or hijacked broker. Each case is refused with its reason, with
// no proof sent that it must not have, no client byte forwarded, and no work done for
// it. The broker is a script, since no real one can be made to behave so; TLS and TCP
// are real.
func TestHostileBroker(t *testing.T) {
	if n := len(hostileCases()); n < 30 {
		t.Fatalf("%d cases, want 30 at least", n)
	}
	for _, tc := range hostileCases() {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			l, observer := newLab(), new(counter)
			s := tc.script(l)
			h := l.listen(t, s)
			cfg, target := l.config(observer), h.target
			if tc.dial != nil {
				tc.dial(l, &cfg, &target)
			}
			c, err := NewDialer(cfg).Open(t.Context(), target, ScramOverMtls, sampleCredential(), ClientInfo{})
			if err == nil {
				_ = c.Close()
				t.Fatal("the login succeeded")
			}
			e := asError(t, err)
			if e.Phase != tc.phase || e.Fault != tc.fault {
				t.Errorf("%s/%s, want %s/%s: %v", e.Phase, e.Fault, tc.phase, tc.fault, err)
			}
			if e.Retry != tc.fault.retry() || e.Target != target {
				t.Errorf("retry %v, target %v", e.Retry, e.Target)
			}
			if strings.ContainsAny(err.Error(), "\n\r\x00\x07") {
				t.Errorf("the error can forge log lines: %q", err)
			}
			if n := observer.derived.Load(); n != tc.derived {
				t.Errorf("%d derivations, want %d", n, tc.derived)
			}
			h.mustHaveSeenNothingMore(t, tc.proofs)
		})
	}
}

// mustHaveSeenNothingMore waits until the broker has read to the end of its
// connection, if one came about, and counts.
func (h *host) mustHaveSeenNothingMore(t *testing.T, proofs int) {
	t.Helper()
	_ = h.ln.Close()
	for {
		select {
		case v := <-h.visits:
			select {
			case <-v.done:
			case <-t.Context().Done():
				t.Fatal("the connection stayed open")
			}
			v.mu.Lock()
			if v.proofs != proofs || v.late != 0 {
				t.Errorf("the broker got %d proofs and %d frames behind the login, want %d and 0", v.proofs, v.late, proofs)
			}
			for _, r := range v.requests {
				if r.key != 17 && r.key != 18 && r.key != 36 {
					t.Errorf("the broker got a request of key %d", r.key)
				}
			}
			v.mu.Unlock()
		default:
			return
		}
	}
}

// A broker that hangs at any step is given up when the context ends, by deadline or
// by cancelling, or after DialTimeout.
func TestHangingBrokerIsGivenUp(t *testing.T) {
	steps := map[string]struct {
		script script
		phase  Phase
	}{
		"TLS":          {script{raw: func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }}, PhaseTLS},
		"ApiVersions":  {script{versions: hang}, PhaseVersions},
		"half a frame": {script{versions: func(v *visit, r request) bool { rawAnswer(100, "abc")(v, r); return hang(v, r) }}, PhaseVersions},
		"handshake":    {script{handshake: hang}, PhaseMechanism},
		"server-first": {script{first: hang}, PhaseAuthenticate},
		"server-final": {script{final: hang}, PhaseAuthenticate},
	}
	ends := map[string]struct {
		fault Fault
		open  func(ctx context.Context, cfg Config, target Target, cameFirst func()) error
	}{
		"deadline": {Timeout, func(ctx context.Context, cfg Config, target Target, _ func()) error {
			ctx, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
			defer cancel()
			return try(ctx, cfg, target)
		}},
		"DialTimeout": {Timeout, func(ctx context.Context, cfg Config, target Target, _ func()) error {
			cfg.DialTimeout = 300 * time.Millisecond
			return try(ctx, cfg, target)
		}},
		"cancel": {Canceled, func(ctx context.Context, cfg Config, target Target, came func()) error {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			go func() {
				came()
				time.Sleep(200 * time.Millisecond) // lets it come to the step
				cancel()
			}()
			return try(ctx, cfg, target)
		}},
	}
	for stepName, s := range steps {
		for endName, end := range ends {
			t.Run(stepName+"/"+endName, func(t *testing.T) {
				t.Parallel()
				l := newLab()
				h := l.listen(t, s.script)
				seen := make(chan *visit, 1)
				err := end.open(t.Context(), l.config(nil), h.target, func() { seen <- h.visit(t) })
				e := asError(t, err)
				if e.Fault != end.fault || !e.Retry {
					t.Errorf("%s, want %s: %v", e.Fault, end.fault, err)
				}
				// Under load the time may be up before the step is reached.
				if e.Phase > s.phase {
					t.Errorf("phase %s, want %s", e.Phase, s.phase)
				}
			})
		}
	}
}

func try(ctx context.Context, cfg Config, target Target) error {
	c, err := NewDialer(cfg).Open(ctx, target, ScramOverMtls, sampleCredential(), ClientInfo{})
	if err == nil {
		_ = c.Close()
	}
	return err
}

// What looks odd but is allowed: unknown attributes behind the known ones, a lifetime
// beyond all measure, bounds hit exactly.
func TestOddButHonestBrokerIsTaken(t *testing.T) {
	cases := map[string]script{
		"attribute behind the signature": twistFinal(func(s string) string { return s + ",x=y" })(nil),
		"endless lifetime":               lifetime(math.MaxInt64)(nil),
		"least iterations":               {iterations: minIterations},
		"most iterations":                {iterations: maxIterations},
		"SHA-256":                        {mech: ScramSHA256},
	}
	for name, s := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab()
			h := l.listen(t, s)
			cfg := l.config(nil)
			cfg.Mechanism = s.mech
			c := open(t, NewDialer(cfg), h.target)
			end, ok := c.SessionEnd()
			if !ok || time.Until(end) > maxLifetime || time.Until(end) < 30*time.Minute {
				t.Errorf("session end in %v (%v)", time.Until(end), ok)
			}
		})
	}
}

// The login says whose client it is, which mechanism, and that it is a token's; and it
// writes nothing before the last answer came (see Dialer.login for why).
func TestLoginSaysWhoItIsInTurns(t *testing.T) {
	inTurns := func(good step) step {
		return func(v *visit, r request) bool {
			_ = v.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
			if n, err := v.Read(make([]byte, 1)); n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("more came before the answer to key %d (%v)", r.key, err)
			}
			_ = v.SetReadDeadline(time.Time{})
			return good(v, r)
		}
	}
	l := newLab()
	h := l.listen(t, script{versions: inTurns(goodVersions), handshake: inTurns(goodHandshake), first: inTurns(goodFirst)})
	d := NewDialer(l.config(nil))
	c, err := d.Open(t.Context(), h.target, ScramOverMtls, sampleCredential(), ClientInfo{ID: kmsg.StringPtr("app-1"), SoftwareName: "apache-kafka-java", SoftwareVersion: "4.4.0"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	v := h.visit(t)
	v.mu.Lock()
	defer v.mu.Unlock()
	keys := []int16{18, 17, 36, 36}
	for i, want := range keys {
		r := v.requests[i]
		if r.key != want || r.clientID == nil || *r.clientID != "app-1" {
			t.Errorf("request %d: key %d, client id %v", i, r.key, r.clientID)
		}
	}
	versions := kmsg.NewPtrApiVersionsRequest()
	versions.SetVersion(3)
	if err := versions.ReadFrom(v.requests[0].body); err != nil || versions.ClientSoftwareName != "apache-kafka-java" || versions.ClientSoftwareVersion != "4.4.0" {
		t.Errorf("ApiVersions %+v, %v", versions, err)
	}
	if m := string(message(v.requests[2])); !strings.HasPrefix(m, "n,,n="+tokenID+",r=") || !strings.HasSuffix(m, ",tokenauth=true") {
		t.Errorf("client-first %q", m)
	}
	if len(c.Versions().ApiKeys) != 9 {
		t.Errorf("versions %+v", c.Versions())
	}
}
