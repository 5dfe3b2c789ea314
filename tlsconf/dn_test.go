package tlsconf

import (
	"encoding/asn1"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"doorkeeper/internal/certtest"
	"doorkeeper/internal/frugal"
)

func oid(arcs ...int) asn1.ObjectIdentifier { return arcs }

type goldenName struct {
	about string
	der   []byte
	want  string // what Java 17 prints
	code  RefusalCode
}

// goldenNames are names with what X500Principal.getName() of Java 17 prints, or
// the refusal instead. TestNamesAgreeWithJava puts them to the Java at hand too.
func goldenNames() []goldenName {
	name, cn := certtest.Name, certtest.CN
	one := func(a certtest.Attribute) []byte { return name(certtest.RDN{a}) }
	return []goldenName{
		{"empty", name(), "", 0},
		{"one CN", one(cn("alice")), "CN=alice", 0},
		{"outermost part last", name(certtest.RDN{certtest.C("DE")}, certtest.RDN{certtest.O("Lab")}, certtest.RDN{certtest.OU("apps")}, certtest.RDN{cn("alice")}), "CN=alice,OU=apps,O=Lab,C=DE", 0},
		{"all words", name(certtest.RDN{certtest.UID("u")}, certtest.RDN{certtest.DC("d")}, certtest.RDN{certtest.UTF8(oid(2, 5, 4, 9), "s")}, certtest.RDN{certtest.ST("t")}, certtest.RDN{certtest.L("l")}), "L=l,ST=t,STREET=s,DC=d,UID=u", 0},
		{"two attributes in one part, as encoded", name(certtest.RDN{certtest.OU("b"), cn("a")}), "OU=b+CN=a", 0},
		{"two CNs", name(certtest.RDN{cn("a")}, certtest.RDN{cn("b")}), "CN=b,CN=a", 0},
		{"specials", one(cn(`a,b=c+d<e>f#g;h"i\j`)), `CN=a\,b\=c\+d\<e\>f\#g\;h\"i\\j`, 0},
		{"a name that pretends to have parts", one(cn("alice,O=Lab")), `CN=alice\,O\=Lab`, 0},
		{"blanks around", one(cn("  a b ")), `CN=\ \ a b\ `, 0},
		{"blanks only", one(cn("   ")), `CN=\ \ \ `, 0},
		{"blank behind a backslash", one(cn(`a\ `)), `CN=a\\\ `, 0},
		{"empty value", one(cn("")), "CN=", 0},
		{"not ASCII", one(cn("Żółć 中文 😀")), "CN=Żółć 中文 😀", 0},
		{"composed and decomposed stay apart", one(cn("e\u0301")), "CN=e\u0301", 0},
		{"PrintableString", one(certtest.Printable(oid(2, 5, 4, 3), "a_b@c")), "CN=a_b@c", 0},
		{"IA5String", one(certtest.IA5(oid(2, 5, 4, 3), "a*")), "CN=a*", 0},
		{"TeletexString in ASCII", one(certtest.Teletex(oid(2, 5, 4, 3), "abc")), "CN=abc", 0},
		{"NumericString", one(certtest.Attribute{OID: oid(2, 5, 4, 3), Tag: 18, Value: []byte("12")}), "CN=#12023132", 0},
		{"e-mail address", name(certtest.RDN{cn("a")}, certtest.RDN{certtest.Email("a@b")}), "1.2.840.113549.1.9.1=#1603614062,CN=a", 0},
		{"serial number", one(certtest.Printable(oid(2, 5, 4, 5), "12")), "2.5.4.5=#13023132", 0},
		{"title", one(certtest.UTF8(oid(2, 5, 4, 12), "Dr")), "2.5.4.12=#0c024472", 0},
		{"BMPString without a word", one(certtest.BMP(oid(2, 5, 4, 12), "Dr")), "2.5.4.12=#1e0400440072", 0},
		{"large arcs", one(certtest.UTF8(oid(2, 999, 2147483647), "x")), "2.999.2147483647=#0c0178", 0},

		{"BMPString", one(certtest.BMP(oid(2, 5, 4, 3), "alice")), "", Ambiguous},
		{"UniversalString is hexadecimal in Java", one(certtest.Universal(oid(2, 5, 4, 3), "a")), "CN=#1c0400000061", 0},
		{"GeneralString", one(certtest.Attribute{OID: oid(2, 5, 4, 3), Tag: 27, Value: []byte("a")}), "", Ambiguous},
		{"TeletexString, Latin-1", one(certtest.Teletex(oid(2, 5, 4, 3), "M\xfcller")), "", Ambiguous},
		{"TeletexString with UTF-8", one(certtest.Teletex(oid(2, 5, 4, 3), "Müller")), "", Ambiguous},
		{"PrintableString with UTF-8", one(certtest.Printable(oid(2, 5, 4, 3), "Müller")), "", Ambiguous},
		{"broken UTF-8", one(cn("a\xff")), "", BadCharacters},
		{"over-long UTF-8", one(cn("a\xc0\xaf")), "", BadCharacters},
		{"half a surrogate pair", one(cn("a\xed\xa0\x80")), "", BadCharacters},
		{"NUL", one(cn("admin\x00.evil")), "", BadCharacters},
		{"line end", one(cn("a\nb")), "", BadCharacters},
		{"right to left", one(cn("a\u202eb")), "", BadCharacters},
		{"replacement character", one(cn("a\ufffd")), "", BadCharacters},
		{"an empty part", name(certtest.RDN{}, certtest.RDN{cn("a")}), "", Ambiguous},
		{"trailing bytes", append(one(cn("a")), 0), "", Ambiguous},
		{"no name at all", []byte{5, 0}, "", Ambiguous},
		{"cut off", one(cn("alice"))[:10], "", Ambiguous},
		{"a huge one", one(cn(strings.Repeat("a", maxSubject))), "", TooLong},
	}
}

// S8: each name is Java's or refused.
func TestGoldenNames(t *testing.T) {
	for _, g := range goldenNames() {
		t.Run(g.about, func(t *testing.T) {
			got, err := renderDN(g.der)
			checkFault(t, err, g.code)
			if got != g.want {
				t.Errorf("got  %s\nwant %s", got, g.want)
			}
		})
	}
}

func checkFault(t *testing.T, err error, code RefusalCode) {
	t.Helper()
	var fault *nameFault
	if err != nil && !errors.As(err, &fault) {
		t.Fatalf("not a *nameFault: %v", err)
	}
	got := RefusalCode(0)
	if fault != nil {
		got = fault.code
	}
	if got != code {
		t.Errorf("got %v (%v), want %v", got, err, code)
	}
}

// S8: one CN, whole and unescaped, or no name.
func TestCommonName(t *testing.T) {
	cn, ou := certtest.CN, certtest.OU
	for _, c := range []struct {
		about string
		der   []byte
		want  string
		code  RefusalCode
	}{
		{"one", certtest.Name(certtest.RDN{ou("apps")}, certtest.RDN{cn("al,ice")}), "al,ice", 0},
		{"beside another attribute", certtest.Name(certtest.RDN{ou("apps"), cn("alice")}), "alice", 0},
		{"numeric", certtest.Name(certtest.RDN{{OID: oid(2, 5, 4, 3), Tag: 18, Value: []byte("42")}}), "42", 0},
		{"none", certtest.Name(certtest.RDN{ou("apps")}), "", Missing},
		{"two parts", certtest.Name(certtest.RDN{cn("alice")}, certtest.RDN{cn("admin")}), "", Ambiguous},
		{"twice the same", certtest.Name(certtest.RDN{cn("alice")}, certtest.RDN{cn("alice")}), "", Ambiguous},
		{"two in one part", certtest.Name(certtest.RDN{cn("alice"), cn("admin")}), "", Ambiguous},
		{"BMPString", certtest.Name(certtest.RDN{certtest.BMP(oid(2, 5, 4, 3), "alice")}), "", Ambiguous},
		{"UniversalString", certtest.Name(certtest.RDN{certtest.Universal(oid(2, 5, 4, 3), "alice")}), "", Ambiguous},
		{"octets", certtest.Name(certtest.RDN{{OID: oid(2, 5, 4, 3), Tag: 4, Value: []byte("alice")}}), "", Ambiguous},
	} {
		t.Run(c.about, func(t *testing.T) {
			got, err := commonName(c.der)
			checkFault(t, err, c.code)
			if got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func FuzzDN(f *testing.F) {
	for _, g := range goldenNames() {
		f.Add(g.der)
	}
	f.Fuzz(func(t *testing.T, der []byte) {
		got, err := renderDN(der)
		frugal.Check(t, len(der), func() { _, _ = renderDN(der) })
		if err != nil {
			var fault *nameFault
			if !errors.As(err, &fault) || got != "" {
				t.Fatalf("%q, %v", got, err)
			}
			return
		}
		if !utf8.ValidString(got) || checkCharacters("", got) != nil {
			t.Fatalf("unfit for a log line: %q", got)
		}
		// Unescaped commas separate parts, and nothing else does.
		rdns, err := parseDN(der)
		if err != nil {
			t.Fatal(err)
		}
		parts, escaped := 0, false
		if got != "" {
			parts = 1
		}
		for _, c := range got {
			if c == ',' && !escaped {
				parts++
			}
			escaped = c == '\\' && !escaped
		}
		if parts != len(rdns) {
			t.Fatalf("%d parts became %d in %q", len(rdns), parts, got)
		}
		if cn, err := commonName(der); err == nil && !strings.Contains(got, "CN=") {
			t.Fatalf("a CN %q that is not in %q", cn, got)
		}
	})
}
