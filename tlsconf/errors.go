package tlsconf

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// ConfigError is one problem of the configuration. Trying again helps only after
// somebody has changed something.
type ConfigError struct {
	Key     string // the setting's path, such as "listen.tls.certificate" or "identity.rules[1]"
	File    string // the file that it names; "" where there is none
	Problem string
	Cure    string
	Err     error // what the system said; nil where the problem says it all
}

func (e *ConfigError) Error() string {
	var b strings.Builder
	b.WriteString(e.Key)
	b.WriteString(": ")
	if e.File != "" {
		b.WriteString(e.File)
		b.WriteString(" ")
	}
	b.WriteString(e.Problem)
	if e.Err != nil {
		fmt.Fprintf(&b, " (%v)", e.Err)
	}
	if e.Cure != "" {
		b.WriteString("; ")
		b.WriteString(e.Cure)
	}
	return b.String()
}

func (e *ConfigError) Unwrap() error { return e.Err }

// RefusalCode says which part of the policy refused a client.
type RefusalCode int

// The order is that of the checks: a client gets the first that applies.
const (
	Unverified    RefusalCode = iota + 1 // no verified chain was handed in
	ChainTooLong                         // more than MaxChain certificates
	Missing                              // nothing of the kind that identity.from asks for
	Ambiguous                            // more than one reading of the name
	BadCharacters                        // control, invisible or direction-changing characters
	TooLong                              // longer than MaxSource or MaxOwner
	NoRule                               // no mapping rule matches
	Empty                                // the name is empty
	Protected                            // a name that no client may have
	NotAllowed                           // not in identity.allow
)

// String returns the code as a metric's label: lower case, underscores.
func (c RefusalCode) String() string {
	switch c {
	case Unverified:
		return "unverified"
	case ChainTooLong:
		return "chain_too_long"
	case Missing:
		return "missing"
	case Ambiguous:
		return "ambiguous"
	case BadCharacters:
		return "bad_characters"
	case TooLong:
		return "too_long"
	case NoRule:
		return "no_rule"
	case Empty:
		return "empty"
	case Protected:
		return "protected"
	case NotAllowed:
		return "not_allowed"
	}
	return fmt.Sprintf("refusal_%d", int(c))
}

// Refusal is the policy's no to a certificate that is valid as such. The client
// gets the alert bad_certificate; trying again with the same certificate and the
// same configuration gives the same answer.
//
// Subject, Source and Owner are the certificate's words, not escaped; Error
// escapes them.
type Refusal struct {
	Code    RefusalCode
	Subject string // as far as it can be shown at all
	Serial  string // hexadecimal, upper case, as openssl prints it
	Source  string // what the rules were applied to; "" if it was not found
	Owner   string // what the rules made of it; "" if they did not
	Reason  string
	Cure    string
}

func (r *Refusal) Error() string {
	var b strings.Builder
	b.WriteString("client certificate refused")
	if r.Subject != "" || r.Serial != "" {
		fmt.Fprintf(&b, " (subject %s, serial %s)", clip(r.Subject), r.Serial)
	}
	fmt.Fprintf(&b, ": %s: %s", r.Code, r.Reason)
	if r.Cure != "" {
		b.WriteString("; ")
		b.WriteString(r.Cure)
	}
	return b.String()
}

// clip quotes s for a message: 256 bytes of it at most, and everything escaped
// that checkCharacters would refuse.
func clip(s string) string {
	const most = 256
	var b strings.Builder
	b.WriteByte('"')
	for i, r := range s {
		if i >= most {
			return fmt.Sprintf("%s\"...(%d bytes)", b.String(), len(s))
		}
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], "\ufffd"):
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case checkCharacters("", string(r)) != nil:
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
