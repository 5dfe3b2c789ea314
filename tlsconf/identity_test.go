package tlsconf

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"strings"
	"testing"
	"time"

	"doorkeeper/internal/certtest"
)

// verified is the state that crypto/tls hands to VerifyConnection.
func verified(t *testing.T, ca *certtest.CA, leaf *certtest.Issued) tls.ConnectionState {
	t.Helper()
	inter := x509.NewCertPool()
	for _, c := range leaf.Chain(nil)[1:] {
		inter.AddCert(c)
	}
	chains, err := leaf.Cert.Verify(x509.VerifyOptions{
		Roots: certtest.Pool(ca), Intermediates: inter, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err != nil {
		t.Fatal(err)
	}
	return tls.ConnectionState{PeerCertificates: leaf.Chain(nil), VerifiedChains: chains}
}

// S8: one source, chosen by the configuration; what is there twice, or is of
// another type, does not count as the name.
func TestIdentityComesFromOnePlace(t *testing.T) {
	l := newLab(t)
	full := certtest.Leaf{
		Subject: certtest.Name(certtest.RDN{certtest.O("Lab")}, certtest.RDN{certtest.CN("alice")}),
		DNS:     []string{"alice.apps.lab"}, Emails: []string{"Alice@lab"}, URIs: []string{"spiffe://lab/ns/apps/sa/%61lice"},
	}
	raw := func(names ...asn1.RawValue) []pkix.Extension {
		value, err := asn1.Marshal(names)
		if err != nil {
			t.Fatal(err)
		}
		return []pkix.Extension{{Id: oid(2, 5, 29, 17), Value: value}}
	}
	general := func(tag int, s string) asn1.RawValue {
		return asn1.RawValue{Class: asn1.ClassContextSpecific, Tag: tag, Bytes: []byte(s)}
	}
	for _, c := range []struct {
		about string
		from  From
		leaf  certtest.Leaf
		want  string
		code  RefusalCode
	}{
		{"subject", FromSubject, full, "CN=alice,O=Lab", 0},
		{"common name", FromCommonName, full, "alice", 0},
		{"URI, as it is", FromSANURI, full, "spiffe://lab/ns/apps/sa/%61lice", 0},
		{"DNS name", FromSANDNS, full, "alice.apps.lab", 0},
		{"e-mail address, case kept", FromSANEmail, full, "Alice@lab", 0},

		{"no URI", FromSANURI, certtest.Leaf{CommonName: "alice"}, "", Missing},
		{"no DNS name", FromSANDNS, certtest.Leaf{CommonName: "alice", URIs: full.URIs}, "", Missing},
		{"no e-mail address", FromSANEmail, certtest.Leaf{Subject: certtest.Name(certtest.RDN{certtest.Email("a@b")})}, "", Missing},
		{"two URIs", FromSANURI, certtest.Leaf{URIs: []string{"spiffe://lab/a", "spiffe://lab/b"}}, "", Ambiguous},
		{"twice the same URI", FromSANURI, certtest.Leaf{URIs: []string{"spiffe://lab/a", "spiffe://lab/a"}}, "", Ambiguous},
		{"two DNS names", FromSANDNS, certtest.Leaf{DNS: []string{"a", "b"}}, "", Ambiguous},
		{"two e-mail addresses", FromSANEmail, certtest.Leaf{Emails: []string{"a@b", "c@d"}}, "", Ambiguous},
		{"wildcard", FromSANDNS, certtest.Leaf{DNS: []string{"*.apps.lab"}}, "", Ambiguous},
		{"two CNs, but the name is elsewhere", FromSANDNS, certtest.Leaf{Subject: certtest.Name(certtest.RDN{certtest.CN("a")}, certtest.RDN{certtest.CN("b")}), DNS: []string{"x.lab"}}, "x.lab", 0},
		{"a URI in the place of a DNS name", FromSANDNS, certtest.Leaf{Extensions: raw(general(6, "spiffe://lab/a"))}, "", Missing},
		{"a DNS name in the place of a URI", FromSANURI, certtest.Leaf{Extensions: raw(general(2, "spiffe"))}, "", Missing},
		{"other kinds beside it", FromSANURI, certtest.Leaf{Extensions: raw(general(2, "a"), general(6, "urn:x"), general(8, "*"))}, "urn:x", 0},
		{"blank in a DNS name", FromSANDNS, certtest.Leaf{DNS: []string{"admin "}}, "", BadCharacters},
		{"protected DNS name", FromSANDNS, certtest.Leaf{DNS: []string{"ANONYMOUS"}}, "", Protected},
	} {
		t.Run(c.about, func(t *testing.T) {
			l.config.From = c.from
			leaf := l.clients.Issue(c.leaf)
			if leaf.Cert == nil {
				t.Fatal("crypto/x509 does not take it")
			}
			id, err := l.source(t).Current().Identify(verified(t, l.clients, leaf))
			var refusal *Refusal
			if err != nil && !errors.As(err, &refusal) {
				t.Fatalf("not a *Refusal: %v", err)
			}
			code := RefusalCode(0)
			if refusal != nil {
				code = refusal.Code
			}
			if code != c.code || id.Owner != c.want {
				t.Errorf("got %q (%v), want %q", id.Owner, err, c.want)
			}
		})
	}
}

// S8: NUL and what is no IA5String in alternative names. crypto/x509 refuses some
// of them when it parses; none may come out as a name.
func TestDamagedAlternativeNames(t *testing.T) {
	for _, bad := range []string{"admin\x00.lab", "a\xff", "ä", "a\nb", "\u202elab"} {
		for kind, leaf := range map[nameKind]certtest.Leaf{
			kindDNS: {DNS: []string{bad}}, kindEmail: {Emails: []string{bad}}, kindURI: {URIs: []string{bad}},
		} {
			value, err := asn1.Marshal([]asn1.RawValue{{Class: asn1.ClassContextSpecific, Tag: int(kind), Bytes: []byte(bad)}})
			if err != nil {
				t.Fatal(err)
			}
			c := &x509.Certificate{Extensions: []pkix.Extension{{Id: oid(2, 5, 29, 17), Value: value}}}
			if got, err := altName(c, kind); err == nil && checkCharacters("", got) == nil {
				t.Errorf("%s %q came out as %q", kind, bad, got)
			}
			_ = certtest.NewCA("ca").Issue(leaf) // it can be issued
		}
	}
}

// Rule 2: nothing is decided over a chain that was not verified.
func TestUnverifiedIsRefused(t *testing.T) {
	l := newLab(t)
	alice := l.clients.Issue(certtest.Leaf{CommonName: "alice"})
	_, err := l.source(t).Current().Identify(tls.ConnectionState{PeerCertificates: alice.Chain(l.clients)})
	var refusal *Refusal
	if !errors.As(err, &refusal) || refusal.Code != Unverified {
		t.Errorf("%v", err)
	}
}

func TestRefusalTellsWhatRuleMadeOfIt(t *testing.T) {
	l := newLab(t)
	l.config.Rules = []string{`RULE:^CN=(.*),OU=(.*)$/$2-$1/L`}
	l.config.Protected = []string{"apps-admin"}
	s := l.source(t).Current()
	named := func(ou, cn string) tls.ConnectionState {
		return verified(t, l.clients, l.clients.Issue(certtest.Leaf{Subject: certtest.Name(certtest.RDN{certtest.OU(ou)}, certtest.RDN{certtest.CN(cn)})}))
	}
	id, err := s.Identify(named("Apps", "Alice"))
	if err != nil || id.Owner != "apps-alice" || id.Source != "CN=Alice,OU=Apps" || id.Rule != l.config.Rules[0] {
		t.Errorf("%+v, %v", id, err)
	}
	_, err = s.Identify(named("Apps", "Admin"))
	var refusal *Refusal
	if !errors.As(err, &refusal) || refusal.Owner != "apps-admin" || refusal.Source != "CN=Admin,OU=Apps" || refusal.Code != Protected {
		t.Errorf("%+v", refusal)
	}
	if !strings.Contains(err.Error(), `"apps-admin"`) || !strings.Contains(err.Error(), "serial ") {
		t.Errorf("%v", err)
	}
	_, err = s.Identify(verified(t, l.clients, l.clients.Issue(certtest.Leaf{CommonName: "alice"})))
	if !errors.As(err, &refusal) || refusal.Code != NoRule {
		t.Errorf("%v", err)
	}
}

// S2 in part: the session's end is that of the first certificate to end; where an
// authority is certified twice, that of the better chain.
func TestIdentityEndsWithItsChain(t *testing.T) {
	now := time.Now().Truncate(time.Second).UTC()
	in := func(h int) *x509.Certificate {
		return &x509.Certificate{NotAfter: now.Add(time.Duration(h) * time.Hour)}
	}
	long := make([]*x509.Certificate, MaxChain+1)
	for i := range long {
		long[i] = in(90)
	}
	for _, c := range []struct {
		about  string
		chains [][]*x509.Certificate
		hours  int // 0: refused
	}{
		{"leaf first", [][]*x509.Certificate{{in(1), in(2), in(3)}}, 1},
		{"intermediate first", [][]*x509.Certificate{{in(5), in(2), in(9)}}, 2},
		{"root first", [][]*x509.Certificate{{in(5), in(4), in(3)}}, 3},
		{"the better of two chains", [][]*x509.Certificate{{in(5), in(1)}, {in(5), in(4)}}, 4},
		{"a chain too long does not count", [][]*x509.Certificate{long, {in(2), in(3)}}, 2},
		{"the longest chain", [][]*x509.Certificate{long[:MaxChain]}, 90},
		{"only one too long", [][]*x509.Certificate{long}, 0},
	} {
		end, err := boundChains(c.chains)
		if c.hours == 0 {
			if err == nil {
				t.Errorf("%s: accepted", c.about)
			}
			continue
		}
		if want := now.Add(time.Duration(c.hours) * time.Hour); err != nil || !end.Equal(want) {
			t.Errorf("%s: %v (%v), want %v", c.about, end, err, want)
		}
	}
}

func TestFromNames(t *testing.T) {
	for _, name := range fromNames() {
		f, err := ParseFrom(name)
		if err != nil || f.String() != name || !f.valid() {
			t.Errorf("%s: %v, %v", name, f, err)
		}
	}
	for _, name := range []string{"", "Subject", "cn", "san"} {
		if _, err := ParseFrom(name); err == nil || !strings.Contains(err.Error(), "identity.from") || !strings.Contains(err.Error(), "common_name") {
			t.Errorf("%q: %v", name, err)
		}
	}
	if From(7).valid() || From(-1).valid() {
		t.Error("unknown values are valid")
	}
}

func TestEveryRefusalCodeHasItsLabel(t *testing.T) {
	seen := map[string]bool{}
	for c := Unverified; c <= NotAllowed; c++ {
		label := c.String()
		if seen[label] || strings.HasPrefix(label, "refusal_") || label != strings.ToLower(label) {
			t.Errorf("code %d: %q", c, label)
		}
		seen[label] = true
	}
}

func TestMessagesEscapeAndClip(t *testing.T) {
	for in, want := range map[string]string{
		"a\"b\\c":       `"a\"b\\c"`,
		"a\n\x00\u202e": `"a\n\x00\u202e"`,
		"\u115f\xffé":   `"\u115f\xffé"`,
		"\ufffd":        `"\ufffd"`,
	} {
		if got := clip(in); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if got := clip(strings.Repeat("é", 1000)); len(got) > 300 || !strings.HasSuffix(got, "(2000 bytes)") {
		t.Errorf("%s", got)
	}
}
