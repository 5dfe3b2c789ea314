package certtest

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"fmt"
	"math/big"
	"net"
	"time"
)

// Usage is the extended key usage of a leaf.
type Usage int

// The zero value is good for both sides, as the certificates of most private
// authorities are.
const (
	ClientAndServer Usage = iota
	ClientOnly
	ServerOnly
	AnyPurpose
	CodeSigning // neither a client's nor a server's
	NoUsage     // no such extension at all
)

// Leaf describes an end-entity certificate. The zero value is valid from an hour
// ago for a day, for both sides, with an empty subject and no names.
type Leaf struct {
	CommonName string
	Subject    []byte // raw DER, made by Name or by hand; comes before CommonName

	DNS    []string // all kinds of names go into the certificate unchecked, NUL and all
	Emails []string
	IPs    []net.IP
	URIs   []string

	Usage     Usage
	NotBefore time.Time // zero: an hour ago; certificates know whole seconds only
	NotAfter  time.Time // zero: in a day
	Key       KeyType
	Serial    *big.Int // nil: random, 127 bits

	Extensions []pkix.Extension
}

// Server describes a server's certificate for 127.0.0.1, ::1, localhost and the
// given host names; the first of them, or localhost, is its common name.
func Server(hosts ...string) Leaf {
	l := Leaf{
		CommonName: "localhost",
		DNS:        append([]string{"localhost"}, hosts...),
		IPs:        []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
	if len(hosts) > 0 {
		l.CommonName = hosts[0]
	}
	return l
}

// Issue makes a certificate and its key.
func (ca *CA) Issue(l Leaf) *Issued {
	key := newKey(l.Key)
	der := sign(l.template(), ca.Cert, key.Public(), ca.key)
	return newIssued(der, key, ca.above)
}

// SelfSigned makes a certificate that nobody else vouches for.
func SelfSigned(l Leaf) *Issued {
	key := newKey(l.Key)
	t := l.template()
	return newIssued(sign(t, t, key.Public(), key), key, nil)
}

func (l Leaf) template() *x509.Certificate {
	t := &x509.Certificate{
		RawSubject:            l.Subject,
		SerialNumber:          serialOr(l.Serial),
		NotBefore:             timeOr(l.NotBefore, -time.Hour),
		NotAfter:              timeOr(l.NotAfter, 24*time.Hour),
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           l.Usage.extended(),
		ExtraExtensions:       l.Extensions,
	}
	if l.Key == RSA2048 {
		t.KeyUsage |= x509.KeyUsageKeyEncipherment
	}
	if t.RawSubject == nil {
		t.RawSubject = Name()
		if l.CommonName != "" {
			t.RawSubject = Name(RDN{CN(l.CommonName)})
		}
	}
	if names := l.altNames(); len(names) > 0 {
		value, err := asn1.Marshal(names)
		if err != nil {
			panic(fmt.Sprintf("certtest: alternative names: %v", err))
		}
		t.ExtraExtensions = append([]pkix.Extension{{Id: asn1.ObjectIdentifier{2, 5, 29, 17}, Value: value}}, t.ExtraExtensions...)
	}
	return t
}

func (u Usage) extended() []x509.ExtKeyUsage {
	switch u {
	case ClientAndServer:
		return []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	case ClientOnly:
		return []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	case ServerOnly:
		return []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	case AnyPurpose:
		return []x509.ExtKeyUsage{x509.ExtKeyUsageAny}
	case CodeSigning:
		return []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning}
	case NoUsage:
		return nil
	}
	panic(fmt.Sprintf("certtest: unknown usage %d", u))
}

// altNames encodes the GeneralNames of RFC 5280 4.2.1.6 by hand, since crypto/x509
// would refuse the hostile ones.
func (l Leaf) altNames() []asn1.RawValue {
	var out []asn1.RawValue
	add := func(tag int, b []byte) {
		out = append(out, asn1.RawValue{Class: asn1.ClassContextSpecific, Tag: tag, Bytes: b})
	}
	for _, s := range l.Emails {
		add(1, []byte(s))
	}
	for _, s := range l.DNS {
		add(2, []byte(s))
	}
	for _, s := range l.URIs {
		add(6, []byte(s))
	}
	for _, ip := range l.IPs {
		if v4 := ip.To4(); v4 != nil {
			ip = v4
		}
		add(7, ip)
	}
	return out
}
