package tlsconf

import (
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"testing"

	"doorkeeper/internal/certtest"
)

// hostileName is a certificate that asks for a name it must not get. RefusalCode 0
// stands for certificates that crypto/tls cannot even parse and answers itself.
type hostileName struct {
	about string
	leaf  certtest.Leaf
	code  RefusalCode
}

func hostileNames() []hostileName {
	var out []hostileName
	cn := func(code RefusalCode, names ...string) {
		for _, n := range names {
			out = append(out, hostileName{fmt.Sprintf("%q", n), certtest.Leaf{Subject: certtest.Name(certtest.RDN{certtest.CN(n)})}, code})
		}
	}
	subject := func(about string, code RefusalCode, rdns ...certtest.RDN) {
		out = append(out, hostileName{about, certtest.Leaf{Subject: certtest.Name(rdns...)}, code})
	}
	// Names of power, of the configuration and of Kafka's own.
	cn(Protected, "admin", "kafka", "broker-1", "broker-2", "broker-3", "gateway", "*", "ANONYMOUS", "anonymous", "Anonymous", "<default>", "<DEFAULT>")
	cn(Empty, "")
	for _, n := range []string{"", "x", "admin", "kafka", "alice", "*", "ANONYMOUS", "gateway", "CN=admin"} {
		cn(Protected, "User:"+n, "user:"+n, "USER:"+n)
	}
	for _, n := range []string{"", "lab", "gw-1", "gateway", "x-y"} {
		cn(Protected, "doorkeeper-"+n, "Doorkeeper-"+n, "DOORKEEPER-"+n)
	}
	// Names that look like others.
	cn(BadCharacters, " admin", "admin ", " ", "  ", " alice", "alice ")
	for _, r := range []rune{0x00a0, 0x2002, 0x2003, 0x2009, 0x202f, 0x205f, 0x3000, 0x1680} {
		cn(BadCharacters, "admin"+string(r), string(r)+"admin")
	}
	for r := rune(0); r < 0x20; r++ {
		cn(BadCharacters, "ad"+string(r)+"min")
	}
	for r := rune(0x7f); r < 0xa0; r++ {
		cn(BadCharacters, "admin"+string(r))
	}
	for _, r := range []rune{
		0x061c, 0x200e, 0x200f, 0x202a, 0x202b, 0x202c, 0x202d, 0x202e, 0x2066, 0x2067, 0x2068, 0x2069, // directions
		0x200b, 0x200c, 0x200d, 0x2060, 0x2061, 0x2064, 0xfeff, 0x00ad, 0x034f, 0x115f, 0x1160, 0x3164, 0xffa0, 0x180e, // not drawn
		0xfe00, 0xfe0f, 0xe0100, 0xe0001, 0xe0061, 0xe007f, // variations, tags
		0x2028, 0x2029, 0xfff9, 0xfffd, 0xfffe, 0xffff, 0xfdd0, 0x1ffff, 0xe000, 0xf8ff, 0x10fffd, 0x0378, // ends of lines, no characters
	} {
		cn(BadCharacters, "adm"+string(r)+"in")
	}
	// Not text, or more than one text.
	oidCN := oid(2, 5, 4, 3)
	cn(0, "a\xff", "a\xc0\x80", "a\xed\xa0\x80", "\xf5\x80\x80\x80")
	subject("BMPString", Ambiguous, certtest.RDN{certtest.BMP(oidCN, "admin")})
	subject("UniversalString", 0, certtest.RDN{certtest.Universal(oidCN, "admin")})
	subject("TeletexString", Ambiguous, certtest.RDN{certtest.Teletex(oidCN, "M\xfcller")})
	subject("two CNs", Ambiguous, certtest.RDN{certtest.CN("alice")}, certtest.RDN{certtest.CN("admin")})
	subject("two CNs in one part", Ambiguous, certtest.RDN{certtest.CN("alice"), certtest.CN("admin")})
	subject("no CN", Missing, certtest.RDN{certtest.OU("admin")})
	subject("empty subject", Missing)
	// Too much of it.
	cn(TooLong, strings.Repeat("a", MaxOwner+1), strings.Repeat("é", MaxOwner/2+1), strings.Repeat("a", MaxSource+1), strings.Repeat("a", maxSubject))
	return out
}

// S7: hostile names are refused in the handshake, with an alert and a line that is
// safe to log; no owner comes out that a token could be created for.
func TestHostileNamesAreRefused(t *testing.T) {
	l := newLab(t)
	l.config.From = FromCommonName
	l.config.Protected = []string{"admin", "kafka", "broker-1", "broker-2", "broker-3"}
	source := l.source(t)
	source.SetOwnPrincipal("User:gateway")
	hostile := hostileNames()
	if len(hostile) < 200 {
		t.Fatalf("only %d hostile names", len(hostile))
	}
	for _, h := range hostile {
		t.Run(h.about, func(t *testing.T) {
			m := meet(t, source.Current(), l.clientConfig(l.clients.Issue(h.leaf), tls.VersionTLS13))
			if m.server == nil || m.identity.Owner != "" {
				t.Fatalf("admitted as %q", m.identity.Owner)
			}
			want := badCertificate
			if h.code == 0 {
				want = decodeError
			}
			if alertOf(m.client) != want {
				t.Errorf("the client saw %v, want %s", m.client, want)
			}
			_, detail := DescribeHandshakeError(m.server)
			if checkCharacters("", detail) != nil || len(detail) > 2000 {
				t.Errorf("not fit for a log: %q", detail)
			}
			var refusal *Refusal
			if h.code == 0 {
				if errors.As(m.server, &refusal) {
					t.Errorf("could be parsed after all: %v", refusal)
				}
				return
			}
			if !errors.As(m.server, &refusal) || refusal.Code != h.code || refusal.Cure == "" {
				t.Errorf("got %v, want %v", m.server, h.code)
			}
		})
	}
}

func TestOrdinaryNamesAreNot(t *testing.T) {
	n, err := newNames([]string{"admin"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"alice", "Admin", "administrator", "a", "*.apps", "CN=alice,OU=apps,O=Lab", "spiffe://lab/ns/apps/sa/alice", "a b", "Żółć", "中文", "app_1@lab",
		"users", "User", "User-x", "doorkeeper", "default", "x<default>", strings.Repeat("a", MaxOwner), "e\u0301", "😀", "none", "null", `a\,b`, "$1",
	} {
		if err := n.checkOwner(name, "gateway"); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestOwnNameIsProtectedOnceKnown(t *testing.T) {
	l := newLab(t)
	l.config.From = FromCommonName
	source := l.source(t)
	before := source.Current()
	gateway := l.clients.Issue(certtest.Leaf{CommonName: "gw"})
	if source.OwnPrincipal() != "" {
		t.Error("a name before it is set")
	}
	if m := meet(t, before, l.clientConfig(gateway, tls.VersionTLS13)); m.server != nil {
		t.Errorf("before: %v", m.server)
	}
	source.SetOwnPrincipal("gw")
	var refusal *Refusal
	if m := meet(t, before, l.clientConfig(gateway, tls.VersionTLS13)); !errors.As(m.server, &refusal) || refusal.Code != Protected {
		t.Errorf("after: %v", m.server)
	}
	if source.OwnPrincipal() != "gw" {
		t.Errorf("own name %q", source.OwnPrincipal())
	}
}

func TestAllowList(t *testing.T) {
	n, err := newNames([]string{"admin"}, []string{"alice", "bob"})
	if err != nil {
		t.Fatal(err)
	}
	for owner, code := range map[string]RefusalCode{"alice": 0, "bob": 0, "Alice": NotAllowed, "carol": NotAllowed, "admin": Protected} {
		checkFault(t, n.checkOwner(owner, "gw"), code)
	}
	checkFault(t, n.checkOwner("alice", "alice"), Protected) // its own name wins over the list
}

func TestContradictingListsAreRefused(t *testing.T) {
	for _, c := range []struct {
		protected, allow []string
		key, says        string
	}{
		{[]string{"User:admin"}, nil, "identity.protected[0]", "bare name: admin"},
		{nil, []string{"bob", "User:alice"}, "identity.allow[1]", "bare name: alice"},
		{[]string{"admin"}, []string{"admin"}, "identity.allow[0]", "identity.protected"},
		{[]string{"admin", "x", "admin"}, nil, "identity.protected[2]", "repeats"},
		{nil, []string{"ANONYMOUS"}, "identity.allow[0]", "without a name"},
		{nil, []string{""}, "identity.allow[0]", "empty"},
		{nil, []string{"doorkeeper-a"}, "identity.allow[0]", "marks"},
		{[]string{"a\u200b"}, nil, "identity.protected[0]", "no client can have"},
	} {
		_, err := newNames(c.protected, c.allow)
		if err == nil || !strings.HasPrefix(err.Error(), c.key+": ") || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%q, %q: %v", c.protected, c.allow, err)
		}
	}
}
