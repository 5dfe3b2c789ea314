package certtest

import (
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
)

// Issued is a certificate with its key.
type Issued struct {
	TLS     tls.Certificate   // with the intermediates, ready for a configuration
	Cert    *x509.Certificate // nil where crypto/x509 cannot parse what was asked for
	CertPEM []byte            // the leaf, then its intermediates
	KeyPEM  []byte            // PKCS#8, not encrypted
}

func newIssued(der []byte, key crypto.Signer, above [][]byte) *Issued {
	chain := append([][]byte{der}, above...)
	i := &Issued{TLS: tls.Certificate{Certificate: chain, PrivateKey: key}}
	if cert, err := x509.ParseCertificate(der); err == nil {
		i.Cert, i.TLS.Leaf = cert, cert
	}
	for _, c := range chain {
		i.CertPEM = append(i.CertPEM, certPEM(c)...)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		panic(fmt.Sprintf("certtest: key: %v", err))
	}
	i.KeyPEM = pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})
	return i
}

// CombinedPEM is the key, then the chain: one file for Java
// (ssl.keystore.type=PEM, ssl.keystore.location) and for librdkafka, where it
// serves as ssl.certificate.location and ssl.key.location alike.
func (i *Issued) CombinedPEM() []byte { return append(append([]byte{}, i.KeyPEM...), i.CertPEM...) }

// Chain returns the certificates as a verifier would list them: the leaf, its
// intermediates, and root if it is not nil.
func (i *Issued) Chain(root *CA) []*x509.Certificate {
	var out []*x509.Certificate
	for _, der := range i.TLS.Certificate {
		out = append(out, mustParse(der))
	}
	if root != nil {
		out = append(out, root.Cert)
	}
	return out
}

// ClientConfig is for a client that trusts these servers' authorities only. It
// sends this certificate whatever the server asks for: crypto/tls by itself
// sends none where the server names other authorities. ServerName is left to the
// caller (tls.Dial takes it from the address).
func (i *Issued) ClientConfig(servers ...*CA) *tls.Config {
	return &tls.Config{
		RootCAs:              Pool(servers...),
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &i.TLS, nil },
	}
}

// ServerConfig is for a server that demands a certificate of these authorities;
// with none given it asks for no certificate.
func (i *Issued) ServerConfig(clients ...*CA) *tls.Config {
	c := &tls.Config{Certificates: []tls.Certificate{i.TLS}}
	if len(clients) > 0 {
		c.ClientCAs, c.ClientAuth = Pool(clients...), tls.RequireAndVerifyClientCert
	}
	return c
}

// AsIssuer lets the certificate issue others, which it is not entitled to: every
// verifier has to refuse the result. Those bring the chain of i along.
func (i *Issued) AsIssuer() *CA {
	key, ok := i.TLS.PrivateKey.(crypto.Signer)
	if !ok || i.Cert == nil {
		panic("certtest: this certificate cannot issue")
	}
	return &CA{Cert: i.Cert, key: key, above: i.TLS.Certificate}
}

// Files are the paths that Write made.
type Files struct {
	Cert     string // the leaf, then its intermediates
	Key      string // PKCS#8
	Combined string // key, then chain
}

// Write puts dir/name.crt, dir/name.key and dir/name.pem, readable by the owner
// only.
func (i *Issued) Write(dir, name string) Files {
	return Files{
		Cert:     WriteFile(dir, name+".crt", i.CertPEM),
		Key:      WriteFile(dir, name+".key", i.KeyPEM),
		Combined: WriteFile(dir, name+".pem", i.CombinedPEM()),
	}
}
