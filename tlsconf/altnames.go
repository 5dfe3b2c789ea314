package tlsconf

import (
	"crypto/x509"
	"encoding/asn1"
	"strings"
)

// nameKind is the tag of a GeneralName (RFC 5280 4.2.1.6).
type nameKind int

const (
	kindEmail nameKind = 1
	kindDNS   nameKind = 2
	kindURI   nameKind = 6
)

func (k nameKind) String() string {
	switch k {
	case kindEmail:
		return "e-mail address"
	case kindDNS:
		return "DNS name"
	case kindURI:
		return "URI"
	}
	return "name"
}

// altName returns the one subject alternative name of this kind. It reads the raw
// extension: crypto/x509 gives URIs in a form of its own, re-encoded.
func altName(c *x509.Certificate, kind nameKind) (string, error) {
	var found []string
	extensions := 0
	for _, e := range c.Extensions {
		if !e.Id.Equal(asn1.ObjectIdentifier{2, 5, 29, 17}) {
			continue
		}
		extensions++
		var names []asn1.RawValue
		if rest, err := asn1.Unmarshal(e.Value, &names); err != nil || len(rest) > 0 {
			return "", ambiguous("its subject alternative names are not valid DER")
		}
		for _, n := range names {
			if n.Class != asn1.ClassContextSpecific || n.Tag != int(kind) {
				continue
			}
			if n.IsCompound || !isASCII(n.Bytes) {
				return "", ambiguous("its subject alternative %s is not an IA5String", kind)
			}
			found = append(found, string(n.Bytes))
		}
	}
	switch {
	case extensions > 1:
		return "", ambiguous("it has %d extensions with subject alternative names", extensions)
	case len(found) == 0:
		return "", &nameFault{Missing, "it has no " + kind.String() + " among its subject alternative names"}
	case len(found) > 1:
		return "", ambiguous("it has %d of the kind %s among its subject alternative names", len(found), kind)
	case kind == kindDNS && strings.Contains(found[0], "*"):
		return "", ambiguous("its DNS name %s is a wildcard, which names nobody", clip(found[0]))
	}
	return found[0], nil
}
