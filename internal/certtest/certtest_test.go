package certtest

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/asn1"
	"math/big"
	"net"
	"os"
	"testing"
	"time"
)

func TestEveryKeyTypeVerifies(t *testing.T) {
	for kind, name := range map[KeyType]string{P256: "P-256", P384: "P-384", RSA2048: "RSA", Ed25519: "Ed25519"} {
		t.Run(name, func(t *testing.T) {
			ca := Authority{Name: "ca", Key: kind}.Root()
			sub := ca.Intermediate(Authority{Name: "sub", Key: kind})
			leaf := sub.Issue(Leaf{CommonName: "alice", Key: kind, Serial: big.NewInt(77), URIs: []string{"spiffe://lab/alice"}})
			if leaf.Cert.Subject.CommonName != "alice" || leaf.Cert.SerialNumber.Int64() != 77 || leaf.Cert.URIs[0].Host != "lab" {
				t.Fatalf("got %v, serial %v, URIs %v", leaf.Cert.Subject, leaf.Cert.SerialNumber, leaf.Cert.URIs)
			}
			_, err := leaf.Cert.Verify(x509.VerifyOptions{
				Roots: Pool(ca), Intermediates: Pool(sub), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
			})
			if err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestFilesLoadAsPairs(t *testing.T) {
	dir := t.TempDir()
	leaf := NewCA("root").Intermediate(Authority{Name: "sub"}).Issue(Leaf{CommonName: "alice"})
	f := leaf.Write(dir, "alice")
	for _, pair := range [][2]string{{f.Cert, f.Key}, {f.Combined, f.Combined}} {
		got, err := tls.LoadX509KeyPair(pair[0], pair[1])
		if err != nil {
			t.Fatal(err)
		}
		if len(got.Certificate) != 2 {
			t.Errorf("%s: %d certificates, want leaf and intermediate", pair[0], len(got.Certificate))
		}
	}
	info, err := os.Stat(f.Key)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("key file: mode %v, error %v", info.Mode(), err)
	}
}

func TestHandshakeBothWays(t *testing.T) {
	servers, clients := NewCA("server-ca"), NewCA("client-ca")
	server, client := servers.Issue(Server("broker-1")), clients.Issue(Leaf{CommonName: "alice", Usage: ClientOnly})
	a, b := net.Pipe()
	defer func() { _, _ = a.Close(), b.Close() }()
	_ = a.SetDeadline(time.Now().Add(time.Minute))
	_ = b.SetDeadline(time.Now().Add(time.Minute))

	ended := make(chan error, 1)
	go func() {
		cfg := client.ClientConfig(servers)
		cfg.ServerName = "broker-1"
		c := tls.Client(a, cfg)
		_, err := c.Read(make([]byte, 1))
		ended <- err
	}()
	s := tls.Server(b, server.ServerConfig(clients))
	if err := s.Handshake(); err != nil {
		t.Fatal(err)
	}
	if got := s.ConnectionState().PeerCertificates[0].Subject.CommonName; got != "alice" {
		t.Errorf("peer is %q", got)
	}
	if _, err := s.Write([]byte{1}); err != nil {
		t.Error(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestSubjectKeepsShapeAndTypes(t *testing.T) {
	cn := asn1.ObjectIdentifier{2, 5, 4, 3}
	raw := Name(RDN{C("DE")}, RDN{O("Lab"), OU("apps")}, RDN{BMP(cn, "é")}, RDN{Teletex(cn, "x")})
	leaf := NewCA("ca").Issue(Leaf{Subject: raw})
	if !bytes.Equal(leaf.Cert.RawSubject, raw) {
		t.Error("the subject is not the one that was asked for")
	}
	var rdns []asn1.RawValue
	if _, err := asn1.Unmarshal(raw, &rdns); err != nil || len(rdns) != 4 {
		t.Errorf("%d RDNs, error %v", len(rdns), err)
	}
	// crypto/x509 does not know UniversalString; the certificate must still be made.
	if odd := NewCA("ca").Issue(Leaf{Subject: Name(RDN{Universal(cn, "x")})}); odd.Cert != nil || len(odd.TLS.Certificate) != 1 {
		t.Error("expected a certificate that crypto/x509 cannot parse")
	}
}

func TestIssuerWithoutTheRightIsRefused(t *testing.T) {
	ca := NewCA("ca")
	mallory := ca.Issue(Leaf{CommonName: "mallory"})
	fake := mallory.AsIssuer().Issue(Leaf{CommonName: "admin"})
	if len(fake.TLS.Certificate) != 2 {
		t.Fatalf("%d certificates, want 2", len(fake.TLS.Certificate))
	}
	inter := x509.NewCertPool()
	inter.AddCert(mallory.Cert)
	if _, err := fake.Cert.Verify(x509.VerifyOptions{Roots: Pool(ca), Intermediates: inter}); err == nil {
		t.Error("a leaf was accepted as an issuer")
	}
}

func TestValidityIsWhatWasAskedFor(t *testing.T) {
	end := time.Now().Add(-time.Minute).Truncate(time.Second)
	leaf := SelfSigned(Leaf{CommonName: "old", NotBefore: end.Add(-time.Hour), NotAfter: end})
	if !leaf.Cert.NotAfter.Equal(end) {
		t.Errorf("ends %v, want %v", leaf.Cert.NotAfter, end)
	}
}
