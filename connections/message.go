package connections

import (
	"bytes"
	"encoding/base64"
	"strings"
)

// Bounds of what a broker may ask for. Kafka takes 4,096 iterations at least and
// itself uses 4,096 for tokens, with a salt of about 25 bytes. The upper bounds keep
// a hostile broker from having the gateway compute for it: 16,384 iterations cost
// less than 10 ms.
const (
	minIterations = 4096
	maxIterations = 16384
	minSalt       = 8
	maxSalt       = 256
	maxNonce      = 1024
)

// serverFirst is the server's first message.
type serverFirst struct {
	nonce      string // the client's, extended by the server
	salt       []byte
	iterations int
}

// parseServerFirst reads
//
//	r=<nonce>,s=<base64>,i=<number>[,<extensions>]
//
// as RFC 5802 section 7 has it, and refuses everything else before anything is
// computed from it. clientNonce is ours.
func parseServerFirst(msg []byte, clientNonce string) (serverFirst, error) {
	var first serverFirst
	attributes, err := split(msg)
	if err != nil {
		return first, err
	}
	if err := serverError(attributes); err != nil {
		return first, err
	}
	if attributes[0].name == "m" {
		return first, hostile("the server demands a SCRAM extension (m=), and none is known that would need one")
	}
	if err := wantNames(attributes, "r", "s", "i"); err != nil {
		return first, err
	}

	first.nonce = attributes[0].value
	switch {
	case !printable(first.nonce):
		return first, hostile("the server's nonce is not printable")
	case len(first.nonce) > maxNonce:
		return first, hostile("the server's nonce has %d bytes", len(first.nonce))
	case !strings.HasPrefix(first.nonce, clientNonce):
		return first, hostile("the server's nonce does not begin with ours")
	case len(first.nonce) == len(clientNonce):
		return first, hostile("the server added nothing to our nonce")
	}

	if first.salt, err = strictBase64(attributes[1].value); err != nil {
		return first, hostile("the salt is not base64")
	}
	if n := len(first.salt); n < minSalt || n > maxSalt {
		return first, hostile("a salt of %d bytes: %d to %d are taken", n, minSalt, maxSalt)
	}

	if first.iterations, err = iterations(attributes[2].value); err != nil {
		return first, err
	}
	return first, nil
}

// parseServerFinal reads
//
//	v=<base64>[,<extensions>]   or   e=<error>
//
// and returns the server's signature, not verified yet.
func parseServerFinal(msg []byte) ([]byte, error) {
	attributes, err := split(msg)
	if err != nil {
		return nil, err
	}
	if err := serverError(attributes); err != nil {
		return nil, err
	}
	if err := wantNames(attributes, "v"); err != nil {
		return nil, err
	}
	signature, err := strictBase64(attributes[0].value)
	if err != nil {
		return nil, hostile("the server's signature is not base64")
	}
	return signature, nil
}

// attribute is name=value.
type attribute struct{ name, value string }

// maxAttributes bounds the work on one message; Kafka's have three.
const maxAttributes = 32

func split(msg []byte) ([]attribute, error) {
	if len(msg) == 0 {
		return nil, hostile("the server's SCRAM message is empty")
	}
	if bytes.Count(msg, []byte{','}) >= maxAttributes {
		return nil, hostile("the server's SCRAM message has more than %d attributes", maxAttributes)
	}
	var out []attribute
	for part := range strings.SplitSeq(string(msg), ",") {
		name, value, found := strings.Cut(part, "=")
		if !found || !letters(name) || value == "" || strings.ContainsRune(value, 0) {
			return nil, hostile("attribute %d of the server's SCRAM message is malformed", len(out)+1)
		}
		out = append(out, attribute{name, value})
	}
	return out, nil
}

// serverError tells of e=, which stands alone or first. The broker's own word for it
// is passed on where it looks like one of RFC 5802's.
func serverError(attributes []attribute) error {
	if attributes[0].name != "e" {
		return nil
	}
	word := attributes[0].value
	if len(word) > 64 || strings.Trim(word, "abcdefghijklmnopqrstuvwxyz-") != "" {
		word = "an error without a proper name"
	}
	return refuse(CredentialRefused, credentialCure, "the broker refused the SCRAM login: %s", word)
}

// wantNames demands these attributes in this order. What follows are extensions,
// which may be ignored, but none may have a name that means something (a second
// nonce, a late m=).
func wantNames(attributes []attribute, names ...string) error {
	for i, name := range names {
		if i >= len(attributes) {
			return hostile("the server's SCRAM message lacks %s=", name)
		}
		if attributes[i].name != name {
			return hostile("the server's SCRAM message does not have %s= as attribute %d", name, i+1)
		}
	}
	for i, extension := range attributes[len(names):] {
		if len(extension.name) == 1 && strings.Contains("aceimnprsv", extension.name) {
			return hostile("attribute %d of the server's SCRAM message is out of place", len(names)+i+1)
		}
	}
	return nil
}

// iterations reads a posit-number: no sign, no leading zero.
func iterations(s string) (int, error) {
	n := 0
	for i, c := range []byte(s) {
		if c < '0' || c > '9' || i == 0 && c == '0' {
			return 0, hostile("the iteration count is not a positive number")
		}
		if n = n*10 + int(c-'0'); n > maxIterations {
			return 0, hostile("an iteration count above %d", maxIterations)
		}
	}
	if n < minIterations {
		return 0, hostile("an iteration count of %d, below the %d that RFC 7677 demands", n, minIterations)
	}
	return n, nil
}

// strictBase64 decodes padded standard base64 and nothing near it: the standard
// library skips line ends and, unless told, takes stray bits.
func strictBase64(s string) ([]byte, error) {
	if strings.ContainsAny(s, "\r\n") {
		return nil, base64.CorruptInputError(0)
	}
	return base64.StdEncoding.Strict().DecodeString(s)
}

// printable is RFC 5802's: %x21-2B / %x2D-7E.
func printable(s string) bool {
	for _, c := range []byte(s) {
		if c < 0x21 || c > 0x7e || c == ',' {
			return false
		}
	}
	return s != ""
}

func letters(s string) bool {
	for _, c := range []byte(s) {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
			return false
		}
	}
	return s != ""
}
