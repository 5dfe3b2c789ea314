package tlsconf

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"doorkeeper/internal/certtest"
)

func (l *lab) mapping(t *testing.T) *Mapping {
	t.Helper()
	// Neither certificate nor key of the gateway are needed.
	m, err := NewMapping(Config{ClientCA: l.config.ClientCA, From: l.config.From, Rules: l.config.Rules, Protected: l.config.Protected, Allow: l.config.Allow})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// steps shows an explanation in short: step, verdict.
func steps(e Explanation) string {
	words := map[Verdict]string{Passed: "ok", NoMatch: "no", Doubtful: "?", Failed: "FAILED", NotReached: "-"}
	var all []string
	for _, s := range e.Steps {
		all = append(all, s.Step+":"+words[s.Verdict])
	}
	return strings.Join(all, " ")
}

// failure is the first step that failed.
func failure(e Explanation) Explained {
	for _, s := range e.Steps {
		if s.Verdict == Failed {
			return s
		}
	}
	return Explained{}
}

const allPassed = "file:ok certificate:ok dates:ok key_usage:ok issuer:ok name:ok rule:ok owner:ok"

func TestExplainForms(t *testing.T) {
	l := newLab(t)
	dir := t.TempDir()
	sub := l.clients.Intermediate(certtest.Authority{Name: "sub-ca"})
	alice, below := l.clients.Issue(certtest.Leaf{CommonName: "alice"}), sub.Issue(certtest.Leaf{CommonName: "alice"})
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	request, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	pkcs12, err := asn1.Marshal(struct {
		Version int
		Data    []byte
	}{3, []byte("what a PFX holds")})
	if err != nil {
		t.Fatal(err)
	}
	block := func(kind string, der []byte) []byte { return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}) }
	for _, tc := range []struct {
		name    string
		content []byte
		owner   string
		says    []string // of the step file
	}{
		{"certificate", alice.CertPEM, "CN=alice", []string{"is PEM and holds one certificate"}},
		{"chain", below.CertPEM, "CN=alice", []string{"a chain of 2 certificates: the first is the client's own and counts"}},
		{"key store of Java", below.CombinedPEM(), "CN=alice", []string{"a chain of 2", "a private key, which is not read"}},
		{"DER", alice.Cert.Raw, "CN=alice", []string{"in DER form, which is taken here", "openssl x509 -inform der"}},
		{"key", alice.KeyPEM, "", []string{"holds a private key and no certificate", "give the certificate that was issued for this key"}},
		{"encrypted key", block("ENCRYPTED PRIVATE KEY", keyDER), "", []string{"holds a private key and no certificate", "the key itself is never needed"}},
		{"key in DER", keyDER, "", []string{"is a private key in DER form"}},
		{"PKCS#12", pkcs12, "", []string{"is a PKCS#12 file", "openssl pkcs12"}},
		{"Java keystore", append([]byte{0xfe, 0xed, 0xfe, 0xed}, "rest"...), "", []string{"is a Java keystore", "keytool"}},
		{"request", block("CERTIFICATE REQUEST", request), "", []string{"is a request for a certificate", "the certificate that the authority made of it"}},
		{"revocation list", block("X509 CRL", nil), "", []string{"revocation list"}},
		{"empty", nil, "", []string{"is empty", "give the client's certificate"}},
		{"blanks", []byte(" \n\n"), "", []string{"is empty"}},
		{"half", alice.CertPEM[:len(alice.CertPEM)/2], "", []string{"is damaged"}},
		{"garbage in a block", block("CERTIFICATE", []byte("nothing")), "", []string{"no valid certificate"}},
		{"text", []byte("CN=alice"), "", []string{"is not PEM"}},
		{"UTF-16", append([]byte{0xff, 0xfe}, "-\x00-\x00"...), "", []string{"UTF-16"}},
		{"huge", append(alice.CertPEM, make([]byte, maxFile)...), "", []string{"is larger than 4 MiB"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			file := certtest.WriteFile(dir, "client", tc.content)
			e := l.mapping(t).Explain(file, time.Now())
			first := e.Steps[0]
			for _, want := range append(tc.says, file) {
				if !strings.Contains(first.Text+" "+first.Cure, want) {
					t.Errorf("it does not say %q: %+v", want, first)
				}
			}
			if e.Identity.Owner != tc.owner || e.Refused != (tc.owner == "") {
				t.Errorf("owner %q, refused %v, want %q", e.Identity.Owner, e.Refused, tc.owner)
			}
			switch got := steps(e); {
			case tc.owner != "" && got != allPassed:
				t.Error(got)
			case tc.owner == "" && got != "file:FAILED certificate:- dates:- key_usage:- issuer:- name:- rule:- owner:-":
				t.Error(got)
			case tc.owner == "" && first.Cure == "":
				t.Error("no cure")
			}
		})
	}
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	unreadable := map[string]string{dir: "a directory", filepath.Join(dir, "absent"): "no such file", pipe: "a pipe", os.DevNull: "a device"}
	for file, want := range unreadable {
		if first := l.mapping(t).Explain(file, time.Now()).Steps[0]; first.Verdict != Failed || !strings.Contains(first.Text, want) || first.Cure == "" {
			t.Errorf("%s: %+v", file, first)
		}
	}
}

func TestExplainRefusals(t *testing.T) {
	l := newLab(t)
	l.config.Rules = []string{`RULE:^CN=svc-(.*)$/$1/`, `RULE:^CN=([a-z]+),O=Lab$/$1/`}
	l.config.Protected = []string{"admin"}
	l.config.Allow = []string{"alice", "bob"}
	now := time.Now()
	named := func(cn string) certtest.Leaf {
		return certtest.Leaf{Subject: certtest.Name(certtest.RDN{certtest.O("Lab")}, certtest.RDN{certtest.CN(cn)})}
	}
	with := func(change func(*certtest.Leaf)) certtest.Leaf {
		leaf := named("alice")
		change(&leaf)
		return leaf
	}
	const good = "file:ok certificate:ok dates:ok key_usage:ok issuer:ok "
	for _, tc := range []struct {
		name  string
		by    *certtest.CA
		leaf  certtest.Leaf
		steps string
		says  string // the first step that failed
	}{
		{"taken", l.clients, named("alice"), good + "name:ok rule:no rule:ok owner:ok", ""},
		{"expired", l.clients, with(func(l *certtest.Leaf) { l.NotAfter = now.Add(-time.Minute) }),
			"file:ok certificate:ok dates:FAILED key_usage:ok issuer:ok name:ok rule:no rule:ok owner:ok", "it expired at"},
		{"not yet valid", l.clients, with(func(l *certtest.Leaf) { l.NotBefore = now.Add(time.Hour) }),
			"file:ok certificate:ok dates:FAILED key_usage:ok issuer:ok name:ok rule:no rule:ok owner:ok", "it is not valid before"},
		{"for servers", l.clients, with(func(l *certtest.Leaf) { l.Usage = certtest.ServerOnly }),
			"file:ok certificate:ok dates:ok key_usage:FAILED issuer:ok name:ok rule:no rule:ok owner:ok", "lacks clientAuth"},
		{"of nobody", certtest.NewCA("other"), named("alice"),
			"file:ok certificate:ok dates:ok key_usage:ok issuer:FAILED name:ok rule:no rule:ok owner:ok", "leads to no authority in listen.tls.client_ca"},
		{"expired and of nobody", certtest.NewCA("other"), with(func(l *certtest.Leaf) { l.NotAfter = now.Add(-time.Minute) }),
			"file:ok certificate:ok dates:FAILED key_usage:ok issuer:FAILED name:ok rule:no rule:ok owner:ok", "it expired at"},
		{"no rule", l.clients, certtest.Leaf{CommonName: "alice"}, good + "name:ok rule:no rule:no rule:FAILED owner:-", "no rule of identity.rules matches"},
		{"protected", l.clients, named("admin"), good + "name:ok rule:no rule:ok owner:FAILED", `"admin" is in identity.protected`},
		{"not allowed", l.clients, named("carol"), good + "name:ok rule:no rule:ok owner:FAILED", `"carol" is not in identity.allow`},
		{"no name", l.clients, certtest.Leaf{DNS: []string{"alice"}}, good + "name:FAILED rule:- owner:-", "its subject is empty"},
		{"a rule that gives nothing", l.clients, certtest.Leaf{CommonName: "svc-"}, good + "name:ok rule:ok owner:FAILED", "its name is empty"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			file := certtest.WriteFile(t.TempDir(), "client.crt", tc.by.Issue(tc.leaf).CertPEM)
			e := l.mapping(t).Explain(file, now)
			if got := steps(e); got != tc.steps {
				t.Errorf("got  %s\nwant %s", got, tc.steps)
			}
			f := failure(e)
			if !strings.Contains(f.Text, tc.says) || e.Refused != (tc.says != "") || (f.Text != "") == (f.Cure == "") {
				t.Errorf("%+v, refused %v", f, e.Refused)
			}
			if e.Refused && e.Identity != (Identity{}) {
				t.Errorf("a refused one is %+v", e.Identity)
			}
		})
	}
}

// An authority's own certificate is looked at twice.
func TestExplainAnAuthority(t *testing.T) {
	l := newLab(t)
	alice := l.clients.Issue(certtest.Leaf{CommonName: "alice"})
	for content, says := range map[string]string{
		string(l.clients.PEM()):                           "no client should come with",
		string(append(l.clients.PEM(), alice.CertPEM...)): "the client's own stands behind it",
	} {
		e := l.mapping(t).Explain(certtest.WriteFile(t.TempDir(), "x", []byte(content)), time.Now())
		if s := e.Steps[1]; s.Verdict != Doubtful || !strings.Contains(s.Text, says) || s.Cure == "" {
			t.Errorf("%+v", s)
		}
	}
}

// Whoever Explain lets in, a handshake lets in under the same name, and the other way
// round.
func TestExplainAgreesWithTheHandshake(t *testing.T) {
	l := newLab(t)
	l.config.Rules = []string{`RULE:^CN=(.*),OU=(.*)$/$2-$1/L`, `RULE:^CN=([^,]+)$/$1/`}
	l.config.Protected = []string{"root"}
	deep := l.clients
	for range 4 {
		deep = deep.Intermediate(certtest.Authority{Name: "sub"})
	}
	for name, leaf := range map[string]*certtest.Issued{
		"plain":            l.clients.Issue(certtest.Leaf{CommonName: "alice"}),
		"two parts":        l.clients.Issue(certtest.Leaf{Subject: certtest.Name(certtest.RDN{certtest.OU("Apps")}, certtest.RDN{certtest.CN("Bob")})}),
		"protected":        l.clients.Issue(certtest.Leaf{CommonName: "root"}),
		"hostile":          l.clients.Issue(certtest.Leaf{CommonName: "al\u202eice"}),
		"reserved":         l.clients.Issue(certtest.Leaf{CommonName: "ANONYMOUS"}),
		"server's":         l.clients.Issue(certtest.Leaf{CommonName: "alice", Usage: certtest.ServerOnly}),
		"any purpose":      l.clients.Issue(certtest.Leaf{CommonName: "alice", Usage: certtest.AnyPurpose}),
		"foreign":          certtest.NewCA("foreign").Issue(certtest.Leaf{CommonName: "alice"}),
		"chain too long":   deep.Issue(certtest.Leaf{CommonName: "alice"}),
		"RSA":              l.clients.Issue(certtest.Leaf{CommonName: "alice", Key: certtest.RSA2048}),
		"Ed25519":          l.clients.Issue(certtest.Leaf{CommonName: "alice", Key: certtest.Ed25519}),
		"issued by a leaf": l.clients.Issue(certtest.Leaf{CommonName: "alice"}).AsIssuer().Issue(certtest.Leaf{CommonName: "bob"}),
		"expired":          l.clients.Issue(certtest.Leaf{CommonName: "alice", NotAfter: time.Now().Add(-time.Minute)}),
	} {
		t.Run(name, func(t *testing.T) {
			e := l.mapping(t).Explain(certtest.WriteFile(t.TempDir(), "x", leaf.CertPEM), time.Now())
			m := meet(t, l.source(t).Current(), l.clientConfig(leaf, tls.VersionTLS13))
			if e.Refused != (m.server != nil) {
				t.Errorf("explained: refused %v (%s); the handshake: %v", e.Refused, steps(e), m.server)
			}
			if e.Identity != m.identity {
				t.Errorf("explained %+v, the handshake %+v", e.Identity, m.identity)
			}
		})
	}
}

func TestNewMappingReportsEveryProblem(t *testing.T) {
	_, err := NewMapping(Config{ClientCA: "/nonexistent", Rules: []string{"RULE:("}, Allow: []string{"User:x"}, From: 9})
	for _, want := range []string{"listen.tls.client_ca", "identity.rules[0]", "identity.allow[0]", "identity.from"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v lacks %s", err, want)
		}
	}
}

func TestCheckOwner(t *testing.T) {
	l := newLab(t)
	l.config.Protected, l.config.Allow = []string{"admin"}, []string{"alice", "gateway"}
	for owner, code := range map[string]RefusalCode{
		"alice": 0, "admin": Protected, "gateway": Protected, "ANONYMOUS": Protected, "": Empty, "bob": NotAllowed, "a\nb": BadCharacters,
	} {
		err := CheckOwner(l.config, "User:gateway", owner)
		var refusal *Refusal
		switch {
		case code == 0 && err != nil:
			t.Errorf("%q: %v", owner, err)
		case code != 0 && (!errors.As(err, &refusal) || refusal.Code != code || refusal.Owner != owner || refusal.Cure == ""):
			t.Errorf("%q: %v, want %s", owner, err, code)
		}
	}
	if err := CheckOwner(l.config, "", "gateway"); err != nil {
		t.Errorf("before the own name is known: %v", err)
	}
	var problem *ConfigError
	if err := CheckOwner(Config{Rules: []string{"RULE:("}}, "", "alice"); !errors.As(err, &problem) {
		t.Error(err)
	}
}

// Whatever a file holds, it is either taken or named, never both, and what it is said
// to be can be printed.
func FuzzExplain(f *testing.F) {
	ca := certtest.NewCA("client-ca")
	dir := f.TempDir()
	m, err := NewMapping(Config{ClientCA: ca.Write(dir, "ca")})
	if err != nil {
		f.Fatal(err)
	}
	alice := ca.Issue(certtest.Leaf{CommonName: "alice"})
	f.Add(alice.CertPEM)
	f.Add(alice.CombinedPEM())
	f.Add(alice.KeyPEM)
	f.Add(alice.Cert.Raw)
	f.Add([]byte("-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n"))
	f.Fuzz(func(t *testing.T, content []byte) {
		e := m.Explain(certtest.WriteFile(dir, "client", content), time.Now())
		if e.Refused == (e.Identity.Owner != "") {
			t.Errorf("refused %v, owner %q", e.Refused, e.Identity.Owner)
		}
		for _, s := range e.Steps {
			if err := checkCharacters("", s.Text+s.Cure); err != nil {
				t.Errorf("%+v: %v", s, err)
			}
		}
	})
}
