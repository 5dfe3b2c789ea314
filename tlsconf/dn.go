package tlsconf

import (
	"encoding/asn1"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Bounds of a subject; a longer one is refused before it is walked.
const (
	maxSubject = 8 << 10 // bytes of DER
	maxRDNs    = 64      // attributes of one RDN as well
)

// tagTeletex is T61String, which encoding/asn1 does not name.
const tagTeletex = asn1.TagT61String

// nameFault is why a name cannot be taken; identity.go makes a Refusal of it.
type nameFault struct {
	code   RefusalCode
	reason string
}

func (f *nameFault) Error() string { return f.reason }

func ambiguous(format string, args ...any) error {
	return &nameFault{Ambiguous, fmt.Sprintf(format, args...)}
}

// attribute is one type and value of a distinguished name, undecoded.
type attribute struct {
	oid   string // dotted decimal
	value asn1.RawValue
}

// keywords are the attribute types that java.security's RFC 2253 form has a word
// for. All others appear as dotted numbers with the value in hexadecimal, even
// where every other tool has a word: e-mail addresses and serial numbers too.
func keyword(oid string) string {
	switch oid {
	case "2.5.4.3":
		return "CN"
	case "2.5.4.6":
		return "C"
	case "2.5.4.7":
		return "L"
	case "2.5.4.8":
		return "ST"
	case "2.5.4.9":
		return "STREET"
	case "2.5.4.10":
		return "O"
	case "2.5.4.11":
		return "OU"
	case "0.9.2342.19200300.100.1.1":
		return "UID"
	case "0.9.2342.19200300.100.1.25":
		return "DC"
	}
	return ""
}

// parseDN takes a DER-encoded Name apart: outermost RDN first, as encoded.
func parseDN(raw []byte) ([][]attribute, error) {
	if len(raw) > maxSubject {
		return nil, &nameFault{TooLong, fmt.Sprintf("the subject has %d bytes, %d are the most", len(raw), maxSubject)}
	}
	name, err := parseOne(raw, asn1.TagSequence)
	if err != nil {
		return nil, err
	}
	var rdns [][]attribute
	for rest := name.Bytes; len(rest) > 0; {
		var set asn1.RawValue
		if set, rest, err = parseNext(rest, asn1.TagSet); err != nil {
			return nil, err
		}
		rdn, err := parseRDN(set.Bytes)
		if err != nil {
			return nil, err
		}
		if rdns = append(rdns, rdn); len(rdns) > maxRDNs {
			return nil, ambiguous("the subject has more than %d parts", maxRDNs)
		}
	}
	return rdns, nil
}

func parseRDN(rest []byte) ([]attribute, error) {
	var rdn []attribute
	for len(rest) > 0 {
		pair, after, err := parseNext(rest, asn1.TagSequence)
		if err != nil {
			return nil, err
		}
		rest = after
		var oid asn1.ObjectIdentifier
		valueDER, err := asn1.Unmarshal(pair.Bytes, &oid)
		if err != nil {
			return nil, ambiguous("the subject is not valid DER: %v", err)
		}
		var value asn1.RawValue
		if after, err := asn1.Unmarshal(valueDER, &value); err != nil || len(after) > 0 {
			return nil, ambiguous("the subject is not valid DER: an attribute needs exactly one value")
		}
		if value.Class != asn1.ClassUniversal || value.Tag >= 31 {
			return nil, ambiguous("the subject holds a value of no known type")
		}
		if rdn = append(rdn, attribute{oid.String(), value}); len(rdn) > maxRDNs {
			return nil, ambiguous("a part of the subject has more than %d attributes", maxRDNs)
		}
	}
	if len(rdn) == 0 {
		return nil, ambiguous("the subject has an empty part")
	}
	return rdn, nil
}

func parseOne(raw []byte, tag int) (asn1.RawValue, error) {
	v, rest, err := parseNext(raw, tag)
	if err == nil && len(rest) > 0 {
		err = ambiguous("the subject is not valid DER: bytes follow its end")
	}
	return v, err
}

func parseNext(raw []byte, tag int) (v asn1.RawValue, rest []byte, err error) {
	rest, err = asn1.Unmarshal(raw, &v)
	if err != nil {
		return v, nil, ambiguous("the subject is not valid DER: %v", err)
	}
	if v.Class != asn1.ClassUniversal || v.Tag != tag || !v.IsCompound {
		return v, nil, ambiguous("the subject is not valid DER: unexpected tag %d", v.Tag)
	}
	return v, rest, nil
}

// renderDN returns what X500Principal.getName() of Java 17 returns for the same
// bytes, which is what a broker applies ssl.principal.mapping.rules to. A name
// for which that depends on the version, or that Java would garble, is refused.
func renderDN(raw []byte) (string, error) {
	rdns, err := parseDN(raw)
	if err != nil {
		return "", err
	}
	slices.Reverse(rdns) // RFC 2253 2.1: the last RDN comes first
	var b strings.Builder
	for i, rdn := range rdns {
		if i > 0 {
			b.WriteByte(',')
		}
		for j, a := range rdn {
			if j > 0 {
				b.WriteByte('+')
			}
			if err := renderAttribute(&b, a); err != nil {
				return "", err
			}
		}
	}
	return b.String(), nil
}

func renderAttribute(b *strings.Builder, a attribute) error {
	word := keyword(a.oid)
	if word == "" || !isJavaString(a.value.Tag) {
		if word == "" {
			word = a.oid
		}
		b.WriteString(word + "=#" + hex.EncodeToString(a.value.FullBytes))
		return nil
	}
	s, err := a.text()
	if err != nil {
		return err
	}
	b.WriteString(word)
	b.WriteByte('=')
	escapeValue(b, s)
	return nil
}

// isJavaString tells which types Java prints as text; a NumericString for example
// comes out in hexadecimal.
func isJavaString(tag int) bool {
	switch tag {
	case asn1.TagPrintableString, asn1.TagUTF8String, asn1.TagIA5String, tagTeletex, asn1.TagBMPString,
		asn1.TagGeneralString:
		return true
	}
	return false
}

// tagUniversal is UniversalString, which encoding/asn1 does not name either.
const tagUniversal = 28

// text returns the value as a string, where all readers agree on what it says.
// Java takes the bytes of every string type for UTF-8, which is wrong for some
// and has changed between versions for others.
func (a attribute) text() (string, error) {
	var kind string
	switch a.value.Tag {
	case asn1.TagUTF8String:
		if !a.value.IsCompound && utf8.Valid(a.value.Bytes) {
			return a.checked()
		}
		return "", &nameFault{BadCharacters, "the subject holds a UTF8String that is not valid UTF-8"}
	case asn1.TagPrintableString:
		kind = "PrintableString"
	case asn1.TagIA5String:
		kind = "IA5String"
	case asn1.TagNumericString:
		kind = "NumericString"
	case tagTeletex:
		kind = "TeletexString"
	case asn1.TagBMPString:
		return "", ambiguous("the subject holds a BMPString, which programs read differently")
	case tagUniversal:
		return "", ambiguous("the subject holds a UniversalString, which programs read differently")
	case asn1.TagGeneralString:
		return "", ambiguous("the subject holds a GeneralString, which programs read differently")
	default:
		return "", ambiguous("the subject holds a value that is not text (ASN.1 tag %d)", a.value.Tag)
	}
	if a.value.IsCompound || !isASCII(a.value.Bytes) {
		return "", ambiguous("the subject holds a %s with other characters than ASCII, which programs read differently", kind)
	}
	return a.checked()
}

// checked refuses here what would be out of sight once it is escaped: Java prints
// NUL as \00.
func (a attribute) checked() (string, error) {
	s := string(a.value.Bytes)
	if err := checkCharacters("the subject", s); err != nil {
		return "", err
	}
	return s, nil
}

func isASCII(b []byte) bool {
	return !slices.ContainsFunc(b, func(c byte) bool { return c >= utf8.RuneSelf })
}

// escapeValue writes s with Java's escapes: a backslash before each of ,=+<>#;"\
// wherever it stands, and before every blank of the leading and trailing ones.
func escapeValue(b *strings.Builder, s string) {
	lead := len(s) - len(strings.TrimLeft(s, " "))
	trail := len(strings.TrimRight(s, " "))
	for i := range len(s) {
		if i < lead || i >= trail || strings.IndexByte(`,=+<>#;"\`, s[i]) >= 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(s[i])
	}
}
