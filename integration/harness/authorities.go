//go:build integration

package harness

import (
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"

	"doorkeeper/internal/certtest"
)

// Certificate is somebody's certificate, in memory and as files.
type Certificate struct {
	*certtest.Issued
	Files certtest.Files
	trust []*certtest.CA // of the peers that it is shown to
	ca    string         // the same as a file
}

// ClientTLS is the configuration of a client that shows this certificate; every
// call gives a new one.
func (c *Certificate) ClientTLS() *tls.Config { return c.ClientConfig(c.trust...) }

// CAFile is the trust store that fits ClientTLS.
func (c *Certificate) CAFile() string { return c.ca }

// authorities are three, so that nothing works by accident: brokers (with the
// gateway's control certificate and the administrator's), clients of the
// gateway, and the gateway's own face.
type authorities struct {
	dir                    string
	Brokers, Clients, Edge *certtest.CA
	brokers, clients, edge string // files

	mu   sync.Mutex
	made map[string]*Certificate
}

func newAuthorities(dir string) *authorities {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		panic(err)
	}
	a := &authorities{
		dir: dir, made: map[string]*Certificate{},
		Brokers: certtest.NewCA("broker-ca"), Clients: certtest.NewCA("client-ca"), Edge: certtest.NewCA("edge-ca"),
	}
	a.brokers = a.Brokers.Write(dir, "broker-ca")
	a.clients = a.Clients.Write(dir, "client-ca")
	a.edge = a.Edge.Write(dir, "edge-ca")
	return a
}

// once makes the certificate of that file name, or finds the one made before.
func (a *authorities) once(name string, by *certtest.CA, leaf certtest.Leaf, trust *certtest.CA, trustFile string) *Certificate {
	a.mu.Lock()
	defer a.mu.Unlock()
	if c, ok := a.made[name]; ok {
		return c
	}
	issued := by.Issue(leaf)
	c := &Certificate{Issued: issued, Files: issued.Write(a.dir, name), trust: []*certtest.CA{trust}, ca: trustFile}
	a.made[name] = c
	return c
}

// Client is the certificate that the user of that name shows to the gateway. Its
// subject has more than the name, as real ones do.
func (s *Site) Client(user string) *Certificate {
	subject := certtest.Name(certtest.RDN{certtest.O("Lab")}, certtest.RDN{certtest.OU("apps")}, certtest.RDN{certtest.CN(user)})
	return s.pki.once("client-"+user, s.pki.Clients, certtest.Leaf{Subject: subject, Usage: certtest.ClientOnly}, s.pki.Edge, s.pki.edge)
}

// ClientOf is a certificate for the gateway made by any authority from any leaf,
// for the cases that must be refused. The name is for its files alone.
func (s *Site) ClientOf(name string, by *certtest.CA, leaf certtest.Leaf) *Certificate {
	return s.pki.once("odd-"+name, by, leaf, s.pki.Edge, s.pki.edge)
}

// ClientCA is the authority of the gateway's clients.
func (s *Site) ClientCA() *certtest.CA { return s.pki.Clients }

// BrokerCA is the authority of the brokers and of those who may use their
// control listener.
func (s *Site) BrokerCA() *certtest.CA { return s.pki.Brokers }

// Direct is the certificate by which the user of that name would go to the
// brokers' control listener without a gateway: for what is compared with a
// direct run.
func (s *Site) Direct(user string) *Certificate {
	return s.pki.once("direct-"+user, s.pki.Brokers, certtest.Leaf{CommonName: user, Usage: certtest.ClientOnly}, s.pki.Brokers, s.pki.brokers)
}

// broker is a node's certificate: for its own host alone.
func (s *Site) broker(host string) *Certificate {
	return s.pki.once("broker-"+host, s.pki.Brokers, hostLeaf("broker", host), s.pki.Brokers, s.pki.brokers)
}

// edge is the gateway's certificate towards its clients.
func (s *Site) edge(host string) *Certificate {
	return s.pki.once("edge-"+host, s.pki.Edge, hostLeaf("doorkeeper", host), s.pki.Clients, s.pki.clients)
}

func hostLeaf(name, host string) certtest.Leaf {
	leaf := certtest.Leaf{CommonName: name}
	if ip := net.ParseIP(host); ip != nil {
		leaf.IPs = []net.IP{ip}
	} else {
		leaf.DNS = []string{host}
	}
	return leaf
}

// JavaProperties writes the ssl settings of a Java client that shows c, and
// returns the file.
func (c *Certificate) JavaProperties() (string, error) {
	path := filepath.Join(filepath.Dir(c.Files.Cert), filepath.Base(c.Files.Cert)+".properties")
	text := fmt.Sprintf("security.protocol=SSL\nssl.keystore.type=PEM\nssl.keystore.location=%s\nssl.truststore.type=PEM\nssl.truststore.location=%s\n",
		c.Files.Combined, c.ca)
	return path, os.WriteFile(path, []byte(text), 0o600)
}
