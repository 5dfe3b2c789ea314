package tlsconf

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"time"
)

// From is the part of a certificate that a client's name is taken from
// (identity.from).
type From int

// The zero value is what a broker does.
const (
	FromSubject    From = iota // the whole subject, as a broker prints it
	FromCommonName             // the subject's one CN, unescaped
	FromSANURI                 // the one URI among the subject alternative names
	FromSANDNS                 // the one DNS name
	FromSANEmail               // the one e-mail address
)

func fromNames() []string {
	return []string{"subject", "common_name", "san_uri", "san_dns", "san_email"}
}

func (f From) valid() bool { return f >= 0 && int(f) < len(fromNames()) }

// String returns the word that the configuration has for it.
func (f From) String() string {
	if !f.valid() {
		return fmt.Sprintf("from_%d", int(f))
	}
	return fromNames()[f]
}

// ParseFrom is String's inverse; the error, a *ConfigError, names all the words.
func ParseFrom(s string) (From, error) {
	for i, name := range fromNames() {
		if s == name {
			return From(i), nil
		}
	}
	return 0, &ConfigError{Key: "identity.from", Problem: "is " + clip(s), Cure: "give one of " + strings.Join(fromNames(), ", ")}
}

// Identity is who a client is, frozen at its TLS handshake.
type Identity struct {
	Owner    string    // principal name, without "User:"
	Rule     string    // the rule that gave it, as it is configured
	Source   string    // what the rule was applied to
	Serial   string    // of the leaf: hexadecimal, upper case
	Subject  string    // of the leaf, for people
	NotAfter time.Time // when the first certificate of the verified chain ends
}

// Identify applies the policy to a connection whose chain crypto/tls has
// verified: name, rules, characters, protected names, allowed names. The error is
// a *Refusal. The answer depends on the certificate, the snapshot and the
// gateway's own name alone, not on the TLS version or the peer's address.
func (s *Snapshot) Identify(cs tls.ConnectionState) (Identity, error) {
	if len(cs.VerifiedChains) == 0 || len(cs.VerifiedChains[0]) == 0 {
		return Identity{}, &Refusal{Code: Unverified, Reason: "there is no verified certificate", Cure: "this is a fault of the gateway: report it"}
	}
	leaf := cs.VerifiedChains[0][0]
	id := Identity{Serial: fmt.Sprintf("%X", leaf.SerialNumber), Subject: displaySubject(leaf)}
	var err error
	if id.NotAfter, err = boundChains(cs.VerifiedChains); err != nil {
		return Identity{}, s.refuse(id, &nameFault{ChainTooLong, err.Error()})
	}
	if id.Source, err = s.from.extract(leaf); err != nil {
		return Identity{}, s.refuse(id, err)
	}
	if err := s.identify(&id, nil); err != nil {
		return Identity{}, s.refuse(id, err)
	}
	return id, nil
}

// identify goes from id.Source to id.Owner. tried, unless nil, hears of every rule that
// was held against the source.
func (s *Snapshot) identify(id *Identity, tried func(r rule, owner string, matched bool)) error {
	if len(id.Source) > MaxSource {
		return &nameFault{TooLong, fmt.Sprintf("its %s has %d bytes, %d are the most", s.from, len(id.Source), MaxSource)}
	}
	if err := checkCharacters("its "+s.from.String(), id.Source); err != nil {
		return err
	}
	if id.Source == "" {
		return &nameFault{Empty, "its " + s.from.String() + " is empty"}
	}
	owner, rule, err := applyRules(s.rules, id.Source, tried)
	if err != nil {
		return err
	}
	id.Owner, id.Rule = owner, rule
	return s.names.checkOwner(owner, ownName(s.own))
}

// refuse makes a Refusal of a fault. It is only called with *nameFault; anything
// else would still refuse.
func (s *Snapshot) refuse(id Identity, err error) *Refusal {
	r := &Refusal{Code: Ambiguous, Subject: id.Subject, Serial: id.Serial, Source: id.Source, Owner: id.Owner, Reason: err.Error()}
	var fault *nameFault
	if errors.As(err, &fault) {
		r.Code = fault.code
	}
	r.Cure = s.cure(r.Code)
	return r
}

func (s *Snapshot) cure(code RefusalCode) string {
	switch code {
	case ChainTooLong:
		return "issue client certificates closer to a root, or put the issuing authority's own certificate into listen.tls.client_ca"
	case Missing, Ambiguous:
		return fmt.Sprintf("issue a certificate that has exactly one plain name for identity.from: %s, or choose another source there", s.from)
	case BadCharacters, TooLong:
		return "issue a certificate with a plain name"
	case NoRule:
		return "add a rule for such names to identity.rules, or DEFAULT at their end"
	case Empty:
		return "issue a certificate with a name, or correct the rule in identity.rules"
	case Protected:
		return "issue a certificate with another name, or correct the rule that gives this one; a protected name is never a client's"
	case NotAllowed:
		return "add the name to identity.allow if this client is meant to come in"
	}
	return ""
}

// extract finds the string that the rules are applied to.
func (f From) extract(leaf *x509.Certificate) (string, error) {
	switch f {
	case FromSubject:
		return renderDN(leaf.RawSubject)
	case FromCommonName:
		return commonName(leaf.RawSubject)
	case FromSANURI:
		return altName(leaf, kindURI)
	case FromSANDNS:
		return altName(leaf, kindDNS)
	case FromSANEmail:
		return altName(leaf, kindEmail)
	}
	return "", ambiguous("identity.from is not set to anything known")
}

// commonName returns the subject's only CN. crypto/x509's CommonName is the last
// of several.
func commonName(raw []byte) (string, error) {
	rdns, err := parseDN(raw)
	if err != nil {
		return "", err
	}
	var found []attribute
	for _, rdn := range rdns {
		for _, a := range rdn {
			if keyword(a.oid) == "CN" {
				found = append(found, a)
			}
		}
	}
	switch len(found) {
	case 0:
		return "", &nameFault{Missing, "its subject has no CN"}
	case 1:
		return found[0].text()
	}
	return "", ambiguous("its subject has %d CNs", len(found))
}

// displaySubject shows a subject to people: as a broker would where that is
// possible, else as crypto/x509 does. It decides nothing.
func displaySubject(c *x509.Certificate) string {
	return displayName(c.RawSubject, c.Subject.String())
}

func displayName(raw []byte, otherwise string) string {
	if s, err := renderDN(raw); err == nil {
		return s
	}
	return otherwise
}
