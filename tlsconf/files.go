package tlsconf

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// maxFile bounds what is read of one file: a bundle of every public authority is
// a quarter of a megabyte.
const maxFile = 4 << 20

// The types of PEM blocks that are taken (RFC 7468, and the older key formats).
const (
	blockCertificate = "CERTIFICATE"
	blockPKCS8       = "PRIVATE KEY"
	blockPKCS1       = "RSA PRIVATE KEY"
	blockSEC1        = "EC PRIVATE KEY"
	blockECParams    = "EC PARAMETERS"
)

// purpose is what a pair is for; it has to be in the certificate's extended key
// usage, if there is one.
type purpose int

const (
	forServer purpose = iota
	forClient
)

// loadPair reads a certificate with its chain, and its key. Both may be in one
// file. The returned chain is leaf first, without a root. prefix is the
// configuration section's path.
func loadPair(certFile, keyFile, prefix string, use purpose) (tls.Certificate, []*x509.Certificate, error) {
	certKey, keyKey := prefix+".certificate", prefix+".key"
	chain, certErr := loadChain(certFile, certKey, keyKey)
	key, keyErr := loadKey(keyFile, certKey, keyKey)
	if err := errors.Join(certErr, keyErr); err != nil {
		return tls.Certificate{}, nil, err
	}
	if err := checkPair(chain, key, certKey, certFile, keyFile); err != nil {
		return tls.Certificate{}, nil, err
	}
	if err := checkUsage(chain[0], certKey, certFile, use); err != nil {
		return tls.Certificate{}, nil, err
	}
	pair := tls.Certificate{PrivateKey: key, Leaf: chain[0]}
	for i, c := range chain {
		if i > 0 && isSelfIssued(c) {
			chain = chain[:i] // peers have their own copy of the root
			break
		}
		pair.Certificate = append(pair.Certificate, c.Raw)
	}
	return pair, chain, nil
}

// readPEM returns the blocks of a file, all of them or an error.
func readPEM(file, key, want string) ([]*pem.Block, error) {
	content, err := readContent(file, key, want)
	if err != nil {
		return nil, err
	}
	if countBegins(content) == 0 {
		problem, cure := diagnoseBinary(content, file)
		return nil, &ConfigError{Key: key, File: file, Problem: problem, Cure: cure}
	}
	return decodeBlocks(content, file, key)
}

// readContent reads a file that is there, has something in it and is not too large.
func readContent(file, key, want string) ([]byte, error) {
	if file == "" {
		return nil, &ConfigError{Key: key, Problem: "is not set", Cure: "give the path of " + want + " in PEM form"}
	}
	fail := func(problem, cure string, err error) error {
		return &ConfigError{Key: key, File: file, Problem: problem, Cure: cure, Err: err}
	}
	content, err := readBounded(file)
	switch {
	case errors.Is(err, errNoFile):
		return nil, fail("cannot be read", "give the path of "+want+" in PEM form", err)
	case err != nil:
		return nil, fail("cannot be read", "check the path, and that this process may read the file", err)
	case len(content) > maxFile:
		return nil, fail(fmt.Sprintf("is larger than %d MiB", maxFile>>20), "give "+want+" in PEM form", nil)
	case len(bytes.TrimSpace(content)) == 0:
		return nil, fail("is empty", "give "+want+" in PEM form", nil)
	}
	return content, nil
}

// decodeBlocks decodes every block that content begins.
func decodeBlocks(content []byte, file, key string) ([]*pem.Block, error) {
	var blocks []*pem.Block
	for rest := content; ; {
		var b *pem.Block
		if b, rest = pem.Decode(rest); b == nil {
			break
		}
		blocks = append(blocks, b)
	}
	// pem.Decode passes over what it cannot decode. Half a bundle is not taken.
	if begun := countBegins(content); len(blocks) != begun {
		return nil, &ConfigError{
			Key: key, File: file, Problem: fmt.Sprintf("is damaged: it begins %d PEM blocks, of which %d can be decoded", begun, len(blocks)),
			Cure: "look for a block that is cut off, indented or pasted twice into one line, and for a byte order mark at the start",
		}
	}
	return blocks, nil
}

// errNoFile is the error for directories, and for pipes and devices, which could keep
// a read waiting or never end.
var errNoFile = errors.New("it is no regular file")

func readBounded(file string) (_ []byte, err error) {
	switch info, err := os.Stat(file); {
	case err != nil:
		return nil, err
	case info.IsDir():
		return nil, fmt.Errorf("%w but a directory", errNoFile)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%w but a pipe, a socket or a device", errNoFile)
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return io.ReadAll(io.LimitReader(f, maxFile+1))
}

// countBegins counts the beginnings of PEM blocks, those included that
// pem.Decode does not recognise (behind white space or other text in a line).
func countBegins(content []byte) int { return bytes.Count(content, []byte("-----BEGIN ")) }

// loadChain reads the certificates of a file; a key beside them is left alone.
func loadChain(file, certKey, keyKey string) ([]*x509.Certificate, error) {
	blocks, err := readPEM(file, certKey, "a certificate, followed by its intermediates")
	if err != nil {
		return nil, err
	}
	return chainOf(blocks, file, certKey, keyKey)
}

func chainOf(blocks []*pem.Block, file, certKey, keyKey string) ([]*x509.Certificate, error) {
	var chain []*x509.Certificate
	for i, b := range blocks {
		switch b.Type {
		case blockCertificate:
			c, err := x509.ParseCertificate(b.Bytes)
			if err != nil {
				return nil, &ConfigError{Key: certKey, File: file, Problem: fmt.Sprintf("cannot be used: block %d is no valid certificate", i+1), Err: err, Cure: "have it issued anew"}
			}
			chain = append(chain, c)
		case blockPKCS8, blockPKCS1, blockSEC1, blockECParams, blockEncrypted:
			// One file for both is common; loadKey reads its part of it.
		default:
			problem, cure := diagnoseBlock(b, file)
			return nil, &ConfigError{Key: certKey, File: file, Problem: problem, Cure: cure}
		}
	}
	if len(chain) == 0 {
		return nil, &ConfigError{Key: certKey, File: file, Problem: "holds a private key and no certificate", Cure: "give the certificate here and the key in " + keyKey}
	}
	return chain, nil
}

// loadKey reads the one private key of a file; certificates beside it are left
// alone.
func loadKey(file, certKey, keyKey string) (crypto.Signer, error) {
	blocks, err := readPEM(file, keyKey, "the private key")
	if err != nil {
		return nil, err
	}
	fail := func(problem, cure string, err error) error {
		return &ConfigError{Key: keyKey, File: file, Problem: problem, Cure: cure, Err: err}
	}
	var found []*pem.Block
	certificates := 0
	for _, b := range blocks {
		switch {
		case isEncrypted(b):
			return nil, fail("is an encrypted key", "decrypt it (openssl pkey -in "+file+" -out NEW) and protect it by the file's mode", nil)
		case b.Type == blockPKCS8, b.Type == blockPKCS1, b.Type == blockSEC1:
			found = append(found, b)
		case b.Type == blockCertificate:
			certificates++
		case b.Type == blockECParams: // openssl ecparam -genkey writes them in front of the key
		default:
			problem, cure := diagnoseBlock(b, file)
			return nil, fail(problem, cure, nil)
		}
	}
	switch {
	case len(found) == 0 && certificates > 0:
		return nil, fail("holds a certificate and no private key", "give the key here and the certificate in "+certKey, nil)
	case len(found) == 0:
		return nil, fail("holds no private key", "give the key that belongs to "+certKey, nil)
	case len(found) > 1:
		return nil, fail(fmt.Sprintf("holds %d private keys", len(found)), "leave the one that belongs to "+certKey, nil)
	}
	key, err := parseKey(found[0])
	if err != nil {
		return nil, fail("holds a private key that cannot be used", "give an ECDSA (P-256, P-384, P-521), RSA or Ed25519 key; "+
			"openssl pkey -in "+file+" -out NEW rewrites one in a common form", err)
	}
	return key, nil
}

func parseKey(b *pem.Block) (crypto.Signer, error) {
	var key any
	var err error
	switch b.Type {
	case blockPKCS1:
		key, err = x509.ParsePKCS1PrivateKey(b.Bytes)
	case blockSEC1:
		key, err = x509.ParseECPrivateKey(b.Bytes)
	default:
		key, err = x509.ParsePKCS8PrivateKey(b.Bytes)
	}
	if err != nil {
		return nil, err
	}
	switch key := key.(type) {
	case *rsa.PrivateKey:
		return key, nil
	case *ecdsa.PrivateKey:
		if key.Curve.Params().BitSize < 256 {
			return nil, fmt.Errorf("curve %s is not one of TLS 1.3", key.Curve.Params().Name)
		}
		return key, nil
	case ed25519.PrivateKey:
		return key, nil
	}
	return nil, fmt.Errorf("%T cannot sign TLS handshakes", key)
}

// checkPair holds the key against the first certificate, and each certificate
// against the one before it.
func checkPair(chain []*x509.Certificate, key crypto.Signer, certKey, certFile, keyFile string) error {
	fail := func(problem, cure string) error {
		return &ConfigError{Key: certKey, File: certFile, Problem: problem, Cure: cure}
	}
	own := slices.IndexFunc(chain, func(c *x509.Certificate) bool { return samePublicKey(c, key) })
	switch {
	case own < 0:
		return fail(fmt.Sprintf("does not belong to the key in %s: the certificate is for another key (subject %s)", keyFile, clip(displaySubject(chain[0]))),
			"give the pair that was issued together")
	case own > 0:
		return fail(fmt.Sprintf("is in the wrong order: the certificate that belongs to the key is number %d", own+1),
			"put it first, then its issuer, and so on upwards")
	}
	for i := 1; i < len(chain); i++ {
		if !bytes.Equal(chain[i-1].RawIssuer, chain[i].RawSubject) || chain[i-1].CheckSignatureFrom(chain[i]) != nil {
			return fail(fmt.Sprintf("is not one chain: certificate %d (%s) is not the issuer of certificate %d (issued by %s)",
				i+1, clip(displaySubject(chain[i])), i, clip(displayName(chain[i-1].RawIssuer, chain[i-1].Issuer.String()))),
				"put the certificate first, then its issuer, and so on upwards; leave out the rest")
		}
	}
	return nil
}

func samePublicKey(c *x509.Certificate, key crypto.Signer) bool {
	pub, ok := key.Public().(interface{ Equal(crypto.PublicKey) bool })
	return ok && pub.Equal(c.PublicKey)
}

func checkUsage(leaf *x509.Certificate, certKey, certFile string, use purpose) error {
	want, who := x509.ExtKeyUsageServerAuth, "a server (serverAuth)"
	if use == forClient {
		want, who = x509.ExtKeyUsageClientAuth, "a client (clientAuth)"
	}
	stated := len(leaf.ExtKeyUsage) + len(leaf.UnknownExtKeyUsage)
	if stated == 0 || slices.Contains(leaf.ExtKeyUsage, want) || slices.Contains(leaf.ExtKeyUsage, x509.ExtKeyUsageAny) {
		return nil
	}
	return &ConfigError{
		Key: certKey, File: certFile, Problem: "is not for " + who + ": its extended key usage says otherwise, so every peer will refuse it",
		Cure: "have a certificate issued with that usage",
	}
}

// pinning tells whether a self-signed certificate that is no authority may be
// trusted: it then vouches for itself alone.
type pinning int

const (
	onlyAuthorities pinning = iota
	selfSignedToo
)

// loadAuthorities reads a trust file. It is taken whole or not at all, and the
// system's authorities never stand in for it.
func loadAuthorities(file, key string, pins pinning) (*x509.CertPool, error) {
	certificates, err := readAuthorities(file, key, pins)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	for _, c := range certificates {
		pool.AddCert(c)
	}
	return pool, nil
}

func readAuthorities(file, key string, pins pinning) ([]*x509.Certificate, error) {
	blocks, err := readPEM(file, key, "the authorities' certificates")
	if err != nil {
		return nil, err
	}
	fail := func(problem, cure string, err error) error {
		return &ConfigError{Key: key, File: file, Problem: problem, Cure: cure, Err: err}
	}
	certificates := make([]*x509.Certificate, 0, len(blocks))
	for i, b := range blocks {
		if strings.HasSuffix(b.Type, blockPKCS8) {
			return nil, fail("holds a private key", "leave only the authorities' certificates in it, and take the key off every machine that does not need it", nil)
		}
		if b.Type != blockCertificate {
			problem, cure := diagnoseBlock(b, file)
			return nil, fail(problem, cure, nil)
		}
		c, err := x509.ParseCertificate(b.Bytes)
		if err != nil {
			return nil, fail(fmt.Sprintf("cannot be used: block %d is no valid certificate", i+1), "take it out or have it replaced", err)
		}
		if !isAuthority(c) && (pins == onlyAuthorities || !isSelfIssued(c)) {
			return nil, fail(fmt.Sprintf("holds a certificate that is no authority's: number %d (%s)", i+1, clip(displaySubject(c))),
				"give the certificate of the authority that issued it", nil)
		}
		certificates = append(certificates, c)
	}
	return certificates, nil
}

// isAuthority tells whether c may issue. Certificates of X.509 version 1, which
// cannot say so, do not count: crypto/x509 would not accept them as issuers.
func isAuthority(c *x509.Certificate) bool {
	return c.BasicConstraintsValid && c.IsCA && (c.KeyUsage == 0 || c.KeyUsage&x509.KeyUsageCertSign != 0)
}

func isSelfIssued(c *x509.Certificate) bool { return bytes.Equal(c.RawIssuer, c.RawSubject) }
