package certtest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"time"
)

// KeyType chooses a key pair's algorithm.
type KeyType int

// The zero value is the one that costs least.
const (
	P256 KeyType = iota
	P384
	RSA2048
	Ed25519
)

// CA is a certificate authority: a root, an intermediate, or a certificate that
// issues without being allowed to (see Issued.AsIssuer).
type CA struct {
	Cert *x509.Certificate
	key  crypto.Signer

	above [][]byte // DER of the intermediates to present behind a leaf, this CA's own first; no root
}

// Authority describes a CA to be made. Subject, if set, is raw DER and comes
// before Name.
type Authority struct {
	Name      string // common name
	Subject   []byte
	NotBefore time.Time // zero: an hour ago
	NotAfter  time.Time // zero: in ten days
	Key       KeyType
	Serial    *big.Int // nil: random, 127 bits
	PathLen   int      // 0: no bound; n: n-1 intermediates below it at most
}

// NewCA makes a root that is valid from an hour ago for ten days.
func NewCA(name string) *CA { return Authority{Name: name}.Root() }

// Root makes a self-signed authority.
func (a Authority) Root() *CA {
	key := newKey(a.Key)
	t := a.template()
	return &CA{Cert: mustParse(sign(t, t, key.Public(), key)), key: key}
}

// Intermediate makes an authority below ca. Certificates of it bring its own
// along, so that a peer that trusts only the root can verify them.
func (ca *CA) Intermediate(a Authority) *CA {
	key := newKey(a.Key)
	der := sign(a.template(), ca.Cert, key.Public(), ca.key)
	return &CA{Cert: mustParse(der), key: key, above: append([][]byte{der}, ca.above...)}
}

func (a Authority) template() *x509.Certificate {
	t := &x509.Certificate{
		RawSubject:            a.Subject,
		SerialNumber:          serialOr(a.Serial),
		NotBefore:             timeOr(a.NotBefore, -time.Hour),
		NotAfter:              timeOr(a.NotAfter, 240*time.Hour),
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	if t.RawSubject == nil {
		t.RawSubject = Name(RDN{CN(a.Name)})
	}
	if a.PathLen > 0 {
		t.MaxPathLen = a.PathLen - 1
		t.MaxPathLenZero = a.PathLen == 1
	}
	return t
}

// PEM is the authority's own certificate.
func (ca *CA) PEM() []byte { return certPEM(ca.Cert.Raw) }

// Write puts the authority's certificate into dir/name.pem and returns the path:
// a trust file for Go, for librdkafka (ssl.ca.location) and for Java
// (ssl.truststore.type=PEM).
func (ca *CA) Write(dir, name string) string {
	return WriteFile(dir, name+".pem", ca.PEM())
}

// Pool returns a pool that trusts these authorities only.
func Pool(cas ...*CA) *x509.CertPool {
	pool := x509.NewCertPool()
	for _, ca := range cas {
		pool.AddCert(ca.Cert)
	}
	return pool
}

// Bundle returns the certificates of several authorities in one PEM text.
func Bundle(cas ...*CA) []byte {
	var out []byte
	for _, ca := range cas {
		out = append(out, ca.PEM()...)
	}
	return out
}

// WriteFile puts content into dir/name, readable by the owner only, and returns
// the path.
func WriteFile(dir, name string, content []byte) string {
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		panic(fmt.Sprintf("certtest: %v", err))
	}
	return path
}

func newKey(kind KeyType) crypto.Signer {
	var key crypto.Signer
	var err error
	switch kind {
	case P256:
		key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case P384:
		key, err = ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	case RSA2048:
		key, err = rsa.GenerateKey(rand.Reader, 2048)
	case Ed25519:
		_, key, err = ed25519.GenerateKey(rand.Reader)
	default:
		err = fmt.Errorf("unknown key type %d", kind)
	}
	if err != nil {
		panic(fmt.Sprintf("certtest: key: %v", err))
	}
	return key
}

func sign(t, parent *x509.Certificate, pub crypto.PublicKey, key crypto.Signer) []byte {
	der, err := x509.CreateCertificate(rand.Reader, t, parent, pub, key)
	if err != nil {
		panic(fmt.Sprintf("certtest: certificate: %v", err))
	}
	return der
}

func mustParse(der []byte) *x509.Certificate {
	c, err := x509.ParseCertificate(der)
	if err != nil {
		panic(fmt.Sprintf("certtest: certificate: %v", err))
	}
	return c
}

func serialOr(s *big.Int) *big.Int {
	if s != nil {
		return s
	}
	// Never 0, which crypto/x509 refuses.
	s, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 126))
	if err != nil {
		panic(fmt.Sprintf("certtest: serial: %v", err))
	}
	return s.Add(s, new(big.Int).Lsh(big.NewInt(1), 126))
}

func timeOr(t time.Time, offset time.Duration) time.Time {
	if t.IsZero() {
		return time.Now().Add(offset)
	}
	return t
}

func certPEM(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}
