package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode"
)

// devDays is how long the throw-away certificates are valid, in days.
const devDays = 30

// devConfigFile is the gateway's configuration in the directory; that it is there
// tells that the directory is one of ours.
const devConfigFile = "doorkeeper.yaml"

// devDirectory is where `dev` puts what clients need. Its files are the owner's alone.
type devDirectory struct {
	path      string
	temporary bool
}

// openDevDirectory makes the directory: a new temporary one if path is "". One that
// holds anything but an earlier run's files is refused, since its files would be
// written over.
func openDevDirectory(path string) (devDirectory, error) {
	if path == "" {
		path, err := os.MkdirTemp("", "doorkeeper-dev-")
		if err != nil {
			return devDirectory{}, fmt.Errorf("make a temporary directory: %w; name one that can be written with --dir", err)
		}
		return devDirectory{path, true}, nil
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return devDirectory{}, fmt.Errorf("--dir: %w", err)
	}
	if strings.ContainsFunc(path, unicode.IsControl) {
		return devDirectory{}, fmt.Errorf("--dir: %s has control characters, which settings files cannot hold; name another directory", quote(path))
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return devDirectory{}, fmt.Errorf("--dir: %w; name a directory that can be made and written", err)
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return devDirectory{}, fmt.Errorf("--dir: %w; name a directory that can be read and written", err)
	}
	if _, err := os.Stat(filepath.Join(path, devConfigFile)); len(entries) > 0 && errors.Is(err, fs.ErrNotExist) {
		return devDirectory{}, fmt.Errorf("--dir: %s has files that are not of an earlier `doorkeeper dev`; name a new or an empty directory", quote(path))
	}
	return devDirectory{path, false}, nil
}

// close removes a temporary directory.
func (d devDirectory) close() error {
	if !d.temporary {
		return nil
	}
	return os.RemoveAll(d.path)
}

func (d devDirectory) file(name string) string { return filepath.Join(d.path, name) }

func (d devDirectory) write(name string, content []byte) error {
	if err := os.WriteFile(d.file(name), content, 0o600); err != nil {
		return fmt.Errorf("write the files of clients: %w; name a directory that can be written with --dir", err)
	}
	return nil
}

// devAuthority issues throw-away certificates. Its key is in memory alone.
type devAuthority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// devPair is a certificate with its key, both as PEM; the key in PKCS#8, the one
// form that Java, librdkafka and Go all read.
type devPair struct {
	cert, key []byte
}

func newDevAuthority(now time.Time) (*devAuthority, error) {
	template := devTemplate("doorkeeper dev, throw-away", now)
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign
	der, key, err := devIssue(template, nil)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("make the authority: %w", err)
	}
	return &devAuthority{cert, key}, nil
}

func (a *devAuthority) pem() []byte { return devPEM("CERTIFICATE", a.cert.Raw) }

func (a *devAuthority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// client issues a certificate with the subject CN=name.
func (a *devAuthority) client(name string) (devPair, error) {
	template := devTemplate(name, a.cert.NotBefore)
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	return a.issue(template)
}

// server issues a certificate for this machine.
func (a *devAuthority) server(name string) (devPair, error) {
	template := devTemplate(name, a.cert.NotBefore)
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	template.DNSNames = []string{"localhost"}
	template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	return a.issue(template)
}

func (a *devAuthority) issue(template *x509.Certificate) (devPair, error) {
	template.KeyUsage = x509.KeyUsageDigitalSignature
	der, key, err := devIssue(template, a)
	if err != nil {
		return devPair{}, err
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return devPair{}, fmt.Errorf("write a key: %w", err)
	}
	return devPair{devPEM("CERTIFICATE", der), devPEM("PRIVATE KEY", pkcs8)}, nil
}

func (p devPair) load() (tls.Certificate, error) { return tls.X509KeyPair(p.cert, p.key) }

func devTemplate(name string, now time.Time) *x509.Certificate {
	return &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, NotBefore: now, NotAfter: now.AddDate(0, 0, devDays),
	}
}

// devIssue signs with a new key's own authority if by is nil.
func devIssue(template *x509.Certificate, by *devAuthority) ([]byte, *ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("make a key: %w", err)
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 126)); err != nil {
		return nil, nil, fmt.Errorf("make a serial number: %w", err)
	}
	template.SerialNumber.Add(template.SerialNumber, big.NewInt(1)) // 0 is not allowed
	parent, signer := template, key
	if by != nil {
		parent, signer = by.cert, by.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		return nil, nil, fmt.Errorf("make a certificate: %w", err)
	}
	return der, key, nil
}

func devPEM(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
