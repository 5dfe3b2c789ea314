package devkafka_test

import (
	"crypto/tls"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"doorkeeper/internal/certtest"
	"doorkeeper/internal/devkafka"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// site is a cluster with the authority that everybody's certificate is of.
type site struct {
	*devkafka.Cluster
	ca     *certtest.CA
	server *certtest.Issued

	mu    sync.Mutex
	users map[string]*certtest.Issued
}

func newSite() *site {
	ca := certtest.NewCA("ca")
	return &site{ca: ca, server: ca.Issue(certtest.Server()), users: map[string]*certtest.Issued{}}
}

// start starts a cluster with "admin" for a super user; it ends with the test.
func (s *site) start(t testing.TB, cfg devkafka.Config) *site {
	t.Helper()
	cfg.Certificate, cfg.ClientCA, cfg.SuperUsers = s.server.TLS, certtest.Pool(s.ca), []string{"admin"}
	c, err := devkafka.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	s.Cluster = c
	return s
}

// as is the configuration of a client that shows a certificate of that name.
func (s *site) as(name string) *tls.Config {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users[name] == nil {
		s.users[name] = s.ca.Issue(certtest.Leaf{CommonName: name, Usage: certtest.ClientOnly})
	}
	c := s.users[name].ClientConfig(s.ca)
	c.MinVersion = tls.VersionTLS12
	return c
}
