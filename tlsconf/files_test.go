package tlsconf

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"doorkeeper/internal/certtest"
)

// material is a directory with good files, from which tests make bad ones.
type material struct {
	dir             string
	root, sub       *certtest.CA
	gateway, other  *certtest.Issued
	cert, key, auth string
}

func newMaterial(t *testing.T) *material {
	t.Helper()
	m := &material{dir: t.TempDir(), root: certtest.NewCA("root")}
	m.sub = m.root.Intermediate(certtest.Authority{Name: "sub"})
	m.gateway, m.other = m.sub.Issue(certtest.Server("gateway")), m.sub.Issue(certtest.Server("other"))
	files := m.gateway.Write(m.dir, "gateway")
	m.cert, m.key, m.auth = files.Cert, files.Key, m.root.Write(m.dir, "ca")
	return m
}

func (m *material) file(name string, parts ...[]byte) string {
	return certtest.WriteFile(m.dir, name, bytes.Join(parts, nil))
}

func (m *material) openssl(t *testing.T, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "openssl", args...)
	cmd.Dir = m.dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("openssl %v: %v\n%s", args, err, out)
	}
}

func (m *material) path(name string) string { return filepath.Join(m.dir, name) }

func pemOf(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func TestGoodFiles(t *testing.T) {
	m := newMaterial(t)
	m.openssl(t, "pkey", "-in", "gateway.key", "-traditional", "-out", "sec1.key")
	params, err := exec.CommandContext(t.Context(), "openssl", "ecparam", "-name", "prime256v1").Output()
	if err != nil {
		t.Fatal(err)
	}
	sec1, err := os.ReadFile(m.path("sec1.key"))
	if err != nil {
		t.Fatal(err)
	}
	rsa := m.sub.Issue(certtest.Leaf{CommonName: "gateway", Key: certtest.RSA2048})
	rsaFiles := rsa.Write(m.dir, "rsa")
	m.openssl(t, "pkey", "-in", "rsa.key", "-traditional", "-out", "pkcs1.key")
	selfSigned := certtest.SelfSigned(certtest.Server()).Write(m.dir, "self")

	for _, c := range []struct{ about, cert, key string }{
		{"two files", m.cert, m.key},
		{"one file", m.path("gateway.pem"), m.path("gateway.pem")},
		{"with text between, CRLF", m.file("text.pem", []byte("subject=CN=gateway\r\n"), bytes.ReplaceAll(m.gateway.CertPEM, []byte("\n"), []byte("\r\n"))), m.key},
		{"with the root", m.file("full.pem", m.gateway.CertPEM, m.root.PEM()), m.key},
		{"SEC1", m.cert, m.path("sec1.key")},
		{"SEC1 behind its parameters", m.cert, m.file("params.key", params, sec1)},
		{"RSA in PKCS#8", rsaFiles.Cert, rsaFiles.Key},
		{"RSA in PKCS#1", rsaFiles.Cert, m.path("pkcs1.key")},
		{"self-signed", selfSigned.Cert, selfSigned.Key},
	} {
		t.Run(c.about, func(t *testing.T) {
			pair, chain, err := loadPair(c.cert, c.key, "listen.tls", forServer)
			if err != nil {
				t.Fatal(err)
			}
			for i, c := range chain {
				if i > 0 && isSelfIssued(c) {
					t.Error("the root is sent along")
				}
			}
			if len(pair.Certificate) != len(chain) {
				t.Errorf("%d certificates, %d parsed", len(pair.Certificate), len(chain))
			}
		})
	}
}

// Bad input: each wrong file is called what it is, and the message says what to
// give instead.
func TestWrongFilesAreNamed(t *testing.T) {
	m := newMaterial(t)
	leaf, err := x509.ParseCertificate(m.gateway.TLS.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	m.openssl(t, "pkcs12", "-export", "-in", "gateway.crt", "-inkey", "gateway.key", "-out", "gateway.p12", "-passout", "pass:x")
	m.openssl(t, "pkey", "-in", "gateway.key", "-aes256", "-passout", "pass:x", "-out", "encrypted.key")
	m.openssl(t, "pkey", "-in", "gateway.key", "-aes256", "-traditional", "-passout", "pass:x", "-out", "encrypted-old.key")
	m.openssl(t, "pkey", "-in", "gateway.key", "-outform", "der", "-out", "key.der")
	m.openssl(t, "pkey", "-in", "gateway.key", "-pubout", "-out", "public.pem")
	m.openssl(t, "crl2pkcs7", "-nocrl", "-certfile", "gateway.crt", "-out", "bundle.p7")
	m.openssl(t, "crl2pkcs7", "-nocrl", "-certfile", "gateway.crt", "-outform", "der", "-out", "bundle.p7b")
	m.openssl(t, "req", "-new", "-key", "gateway.key", "-subj", "/CN=x", "-out", "request.pem")
	m.openssl(t, "genpkey", "-algorithm", "X25519", "-out", "x25519.key")
	m.openssl(t, "ecparam", "-genkey", "-name", "secp224r1", "-noout", "-out", "p224.key")
	m.openssl(t, "x509", "-in", "gateway.crt", "-trustout", "-out", "trusted.pem")
	certs := bytes.SplitAfter(m.gateway.CertPEM, []byte("-----END CERTIFICATE-----\n"))
	wrongUse := m.sub.Issue(certtest.Leaf{CommonName: "gateway", Usage: certtest.ClientOnly}).Write(m.dir, "client")
	damaged := bytes.Replace(certs[1], []byte("\n"), []byte("\n*"), 2)

	certRow := func(file string) [2]string { return [2]string{file, m.key} }
	keyRow := func(file string) [2]string { return [2]string{m.cert, file} }
	for _, c := range []struct {
		about string
		pair  [2]string
		key   string // that the message begins with
		says  string
		cure  string
	}{
		{"not set", certRow(""), "listen.tls.certificate", "not set", "PEM"},
		{"missing", certRow(m.path("nowhere")), "listen.tls.certificate", "cannot be read", "path"},
		{"a directory", certRow(m.dir), "listen.tls.certificate", "cannot be read", "path"},
		{"empty", certRow(m.file("empty")), "listen.tls.certificate", "is empty", "PEM"},
		{"blank", certRow(m.file("blank", []byte(" \n"))), "listen.tls.certificate", "is empty", "PEM"},
		{"text", certRow(m.file("text", []byte("hello"))), "listen.tls.certificate", "not PEM", "PEM"},
		{"huge", certRow(m.file("huge", make([]byte, maxFile+1))), "listen.tls.certificate", "larger than 4 MiB", "PEM"},
		{"DER", certRow(m.file("cert.der", leaf.Raw)), "listen.tls.certificate", "certificate in DER", "openssl x509 -inform der"},
		{"PKCS#12", certRow(m.path("gateway.p12")), "listen.tls.certificate", "PKCS#12", "openssl pkcs12"},
		{"PKCS#7", certRow(m.path("bundle.p7")), "listen.tls.certificate", "PKCS#7", "-print_certs"},
		{"PKCS#7 in DER", certRow(m.path("bundle.p7b")), "listen.tls.certificate", "PKCS#7", "-inform der"},
		{"Java keystore", certRow(m.file("x.jks", []byte{0xfe, 0xed, 0xfe, 0xed, 0, 0, 0, 2})), "listen.tls.certificate", "Java keystore", "keytool"},
		{"UTF-16", certRow(m.file("utf16.pem", []byte{0xff, 0xfe, '-', 0, '-', 0})), "listen.tls.certificate", "UTF-16", "ASCII"},
		{"other DER", certRow(m.file("other.der", []byte{0x30, 0x03, 0x01, 0x01, 0xff})), "listen.tls.certificate", "DER", "openssl"},
		{"request", certRow(m.path("request.pem")), "listen.tls.certificate", "request", "authority"},
		{"public key", certRow(m.path("public.pem")), "listen.tls.certificate", "public key", "certificate"},
		{"openssl's own form", certRow(m.path("trusted.pem")), "listen.tls.certificate", "TRUSTED CERTIFICATE", "openssl x509"},
		{"revocation list", certRow(m.file("crl.pem", pemOf("X509 CRL", []byte{1}))), "listen.tls.certificate", "revocation list", "listen.tls.crl"},
		{"the key", certRow(m.key), "listen.tls.certificate", "private key and no certificate", "listen.tls.key"},
		{"garbage in a block", certRow(m.file("garbage.pem", pemOf("CERTIFICATE", []byte("x")))), "listen.tls.certificate", "block 1 is no valid", "anew"},
		{"damaged block", certRow(m.file("damaged.pem", certs[0], damaged)), "listen.tls.certificate", "2 PEM blocks, of which 1", "cut off"},
		{"cut off", certRow(m.file("cut.pem", certs[0], certs[1][:200])), "listen.tls.certificate", "2 PEM blocks, of which 1", "cut off"},
		{"byte order mark", certRow(m.file("bom.pem", []byte("\ufeff"), m.gateway.CertPEM)), "listen.tls.certificate", "of which 1", "byte order mark"},
		{"wrong order", certRow(m.file("order.pem", certs[1], certs[0])), "listen.tls.certificate", "wrong order", "put it first"},
		{"two certificates of one issuer", certRow(m.file("two.pem", certs[0], m.other.CertPEM)), "listen.tls.certificate", "not one chain", "leave out"},
		{"another's key", keyRow(m.other.Write(m.dir, "other").Key), "listen.tls.certificate", "another key", "together"},
		{"a client's", [2]string{wrongUse.Cert, wrongUse.Key}, "listen.tls.certificate", "serverAuth", "issued"},

		{"key not set", keyRow(""), "listen.tls.key", "not set", "private key"},
		{"key: the certificate", keyRow(m.cert), "listen.tls.key", "certificate and no private key", "listen.tls.certificate"},
		{"key: encrypted", keyRow(m.path("encrypted.key")), "listen.tls.key", "encrypted", "openssl pkey"},
		{"key: encrypted, old form", keyRow(m.path("encrypted-old.key")), "listen.tls.key", "encrypted", "openssl pkey"},
		{"key: DER", keyRow(m.path("key.der")), "listen.tls.key", "private key in DER", "openssl pkey -inform der"},
		{"key: public", keyRow(m.path("public.pem")), "listen.tls.key", "public key", "private key"},
		{"key: two", keyRow(m.file("two.key", m.gateway.KeyPEM, m.other.KeyPEM)), "listen.tls.key", "2 private keys", "leave the one"},
		{"key: garbage", keyRow(m.file("garbage.key", pemOf("PRIVATE KEY", []byte("x")))), "listen.tls.key", "cannot be used", "ECDSA"},
		{"key: of a curve without signatures", keyRow(m.path("x25519.key")), "listen.tls.key", "cannot be used", "ECDSA"},
		{"key: small curve", keyRow(m.path("p224.key")), "listen.tls.key", "cannot be used", "P-256"},
		{"key: OpenSSH", keyRow(m.file("ssh.key", pemOf("OPENSSH PRIVATE KEY", []byte("x")))), "listen.tls.key", "OpenSSH", "PKCS8"},
		{"key: DSA", keyRow(m.file("dsa.key", pemOf("DSA PRIVATE KEY", []byte("x")))), "listen.tls.key", "DSA", "ECDSA"},
		{"key: parameters only", keyRow(m.file("params.pem", pemOf("EC PARAMETERS", []byte("x")))), "listen.tls.key", "no private key", "belongs to"},
	} {
		t.Run(c.about, func(t *testing.T) {
			_, err := New(Config{Certificate: c.pair[0], Key: c.pair[1], ClientCA: m.auth})
			checkConfigError(t, err, c.key, c.says, c.cure)
		})
	}
}

func checkConfigError(t *testing.T, err error, key, says, cure string) {
	t.Helper()
	var bad *ConfigError
	if !errors.As(err, &bad) {
		t.Fatalf("no *ConfigError: %v", err)
	}
	if bad.Key != key || !strings.Contains(bad.Problem, says) || !strings.Contains(bad.Cure, cure) {
		t.Errorf("%v\nshould be about %s, say %q and advise %q", err, key, says, cure)
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("more than one line: %v", err)
	}
}

// An authorities' file is taken whole, or not at all (CVE-2026-27586 and its like).
func TestAuthoritiesAreTakenWhole(t *testing.T) {
	m := newMaterial(t)
	leaf := certtest.SelfSigned(certtest.Leaf{CommonName: "alice"})
	for _, c := range []struct{ about, file, says, cure string }{
		{"not set", "", "not set", "PEM"},
		{"missing", m.path("nowhere"), "cannot be read", "path"},
		{"empty", m.file("empty"), "is empty", "PEM"},
		{"only text", m.file("text", []byte("# none yet")), "not PEM", "PEM"},
		{"half", m.file("half", m.root.PEM(), m.sub.PEM()[:300]), "2 PEM blocks, of which 1", "cut off"},
		{"second is garbage", m.file("second", m.root.PEM(), pemOf("CERTIFICATE", []byte("x"))), "block 2", "take it out"},
		{"a private key beside it", m.file("withkey", m.root.PEM(), m.gateway.KeyPEM), "private key", "take the key off"},
		{"a revocation list beside it", m.file("withcrl", m.root.PEM(), pemOf("X509 CRL", []byte("x"))), "revocation list", "listen.tls.crl"},
		{"a client's certificate", m.file("leaf", m.gateway.CertPEM), "no authority's: number 1", "issued it"},
		{"a self-signed client's", m.file("self", m.root.PEM(), leaf.CertPEM), "no authority's: number 2", "issued it"},
		{"DER", m.file("ca.der", m.root.Cert.Raw), "DER", "openssl"},
	} {
		t.Run(c.about, func(t *testing.T) {
			pool, err := loadAuthorities(c.file, "listen.tls.client_ca", onlyAuthorities)
			if pool != nil {
				t.Error("a pool all the same")
			}
			checkConfigError(t, err, "listen.tls.client_ca", c.says, c.cure)
		})
	}
	pool, err := loadAuthorities(m.file("both", m.root.PEM(), []byte("text\n"), m.sub.PEM()), "k", onlyAuthorities)
	if err != nil || !pool.Equal(certtest.Pool(m.root, m.sub)) {
		t.Errorf("two good ones: %v", err)
	}
}

func TestEveryProblemAtOnce(t *testing.T) {
	m := newMaterial(t)
	_, err := New(Config{
		Certificate: m.key, Key: m.cert, ClientCA: m.path("nowhere"), From: From(9),
		Rules: []string{"DEFAULT", "RULE:x"}, Protected: []string{"User:admin"}, Allow: []string{"*"},
	})
	for _, key := range []string{
		"listen.tls.certificate: ", "listen.tls.key: ", "listen.tls.client_ca: ", "identity.from: ", "identity.rules[1]: ", "identity.protected[0]: ", "identity.allow[0]: ",
	} {
		if err == nil || !strings.Contains("\n"+err.Error(), "\n"+key) {
			t.Errorf("nothing about %s in\n%v", key, err)
		}
	}
}

// Messages never hold what is in a key file.
func TestKeysDoNotShowInErrors(t *testing.T) {
	m := newMaterial(t)
	secret := string(bytes.Split(m.gateway.KeyPEM, []byte("\n"))[1])
	for _, file := range []string{m.key, m.file("damaged.key", m.gateway.KeyPEM[:100]), m.file("wrong.key", bytes.ReplaceAll(m.gateway.KeyPEM, []byte("PRIVATE"), []byte("PRIVATER")))} {
		_, err := New(Config{Certificate: file, Key: file, ClientCA: file})
		if err == nil || strings.Contains(err.Error(), secret[:20]) {
			t.Errorf("%s: %v", file, err)
		}
	}
}

func TestCertificateUsable(t *testing.T) {
	m := newMaterial(t)
	now := time.Now().Truncate(time.Second)
	sub := m.root.Intermediate(certtest.Authority{Name: "sub", NotBefore: now.Add(-time.Hour), NotAfter: now.Add(2 * time.Hour)})
	leaf := certtest.Server("gateway")
	leaf.NotBefore, leaf.NotAfter = now, now.Add(3*time.Hour)
	files := sub.Issue(leaf).Write(m.dir, "timed")
	s, err := New(Config{Certificate: files.Cert, Key: files.Key, ClientCA: m.auth})
	if err != nil {
		t.Fatal(err)
	}
	snapshot := s.Current()
	if !snapshot.CertificateNotAfter().Equal(now.Add(2 * time.Hour)) {
		t.Errorf("ends %v", snapshot.CertificateNotAfter())
	}
	for _, c := range []struct {
		at   time.Duration
		says string
	}{
		{-time.Second, "not valid before"}, {0, ""}, {2 * time.Hour, ""}, {2*time.Hour + time.Second, `intermediate "CN=sub"`}, {4 * time.Hour, "the gateway's certificate expired"},
	} {
		err := snapshot.CertificateUsable(now.Add(c.at))
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("at %v: %v, want %q", c.at, err, c.says)
		}
	}
}
