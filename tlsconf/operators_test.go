package tlsconf

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"doorkeeper/internal/certtest"
)

// operatorConfig is a good one, with the authority of its operators.
func operatorConfig(t *testing.T) (OperatorConfig, *material) {
	t.Helper()
	m := newMaterial(t)
	return OperatorConfig{
		Certificate: m.cert, Key: m.key, ClientCA: m.auth,
		From: FromSubject, Rules: []string{"RULE:^CN=([^,]+).*$/$1/"}, Allow: []string{"ops", "admin"},
	}, m
}

// S14: names of the list come in, though clients could not have them; nobody else does.
func TestOperatorsAreNamedInTheList(t *testing.T) {
	cfg, m := operatorConfig(t)
	o, err := NewOperators(cfg)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	for _, row := range []struct {
		cn   string
		now  time.Time
		want string
		code RefusalCode
		says string
	}{
		{"ops", now, "ops", 0, ""},
		{"admin", now, "admin", 0, ""},
		{"alice", now, "", NotAllowed, "add the name to admin.allow"},
		{"OPS", now, "", NotAllowed, "admin.allow"},
		{"ops ", now, "", BadCharacters, "blank"},
		{"ANONYMOUS", now, "", Protected, "ANONYMOUS"},
		{"ops", now.Add(24 * 365 * 100 * time.Hour), "", Unverified, "was valid until"},
	} {
		name, err := o.Name(verified(t, m.root, m.sub.Issue(certtest.Leaf{CommonName: row.cn, Usage: certtest.ClientOnly})), row.now)
		var refusal *Refusal
		switch {
		case row.code == 0 && (err != nil || name != row.want):
			t.Errorf("%q: %q, %v", row.cn, name, err)
		case row.code != 0 && (!errors.As(err, &refusal) || refusal.Code != row.code || !strings.Contains(err.Error(), row.says) || name != ""):
			t.Errorf("%q: %q, %v", row.cn, name, err)
		}
	}
	if _, err := o.Name(tls.ConnectionState{}, now); err == nil {
		t.Error("somebody without a certificate has a name")
	}
}

// Probes come in without a certificate; one that is shown has to be good. Without
// authorities none is asked for.
func TestOperatorsHandshake(t *testing.T) {
	cfg, m := operatorConfig(t)
	good := m.sub.Issue(certtest.Leaf{CommonName: "ops", Usage: certtest.ClientOnly})
	foreign := certtest.NewCA("elsewhere").Issue(certtest.Leaf{CommonName: "ops", Usage: certtest.ClientOnly})
	for _, row := range []struct {
		about    string
		ca       string
		show     *certtest.Issued
		chains   int
		protocol string
		refused  bool
	}{
		{"no certificate", cfg.ClientCA, nil, 0, "http/1.1", false},
		{"a good one", cfg.ClientCA, good, 1, "http/1.1", false},
		{"a stranger's", cfg.ClientCA, foreign, 0, "", true},
		{"nobody is asked", "", good, 0, "http/1.1", false},
	} {
		t.Run(row.about, func(t *testing.T) {
			cfg := cfg
			if cfg.ClientCA = row.ca; row.ca == "" {
				cfg.Allow = nil
			}
			o, err := NewOperators(cfg)
			if err != nil {
				t.Fatal(err)
			}
			here, there := net.Pipe()
			defer here.Close()
			defer there.Close()
			client := &tls.Config{RootCAs: certtest.Pool(m.root), ServerName: "gateway", NextProtos: []string{"h2", "http/1.1"}}
			if row.show != nil {
				client.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &row.show.TLS, nil }
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			done := make(chan struct{})
			go func() {
				defer close(done)
				c := tls.Client(there, client)
				if c.HandshakeContext(ctx) == nil {
					_, _ = c.Read(make([]byte, 1))
				}
			}()
			s := tls.Server(here, o.ServerConfig())
			err = s.HandshakeContext(ctx)
			if state := s.ConnectionState(); (err != nil) != row.refused || len(state.VerifiedChains) != row.chains || !row.refused && state.NegotiatedProtocol != row.protocol {
				t.Errorf("%v, %d chains, protocol %q", err, len(state.VerifiedChains), state.NegotiatedProtocol)
			}
			_ = here.Close()
			<-done
		})
	}
}

func TestOperatorsSayWhatIsWrong(t *testing.T) {
	good, m := operatorConfig(t)
	for _, row := range []struct {
		about  string
		change func(*OperatorConfig)
		says   string
	}{
		{"no certificate", func(c *OperatorConfig) { c.Certificate = m.path("absent") }, "admin.tls.certificate: "},
		{"another key", func(c *OperatorConfig) { c.Key = m.other.Write(m.dir, "other").Key }, "admin.tls.certificate: "},
		{"no authority", func(c *OperatorConfig) { c.ClientCA = m.cert }, "admin.tls.client_ca: "},
		{"a type in front", func(c *OperatorConfig) { c.Allow = []string{"ops", "User:x"} }, "admin.allow[1]: begins with User:"},
		{"nobody's name", func(c *OperatorConfig) { c.Allow = []string{"a\x00b"} }, "admin.allow[0]: is "},
		{"Kafka's name", func(c *OperatorConfig) { c.Allow = []string{"ANONYMOUS"} }, "admin.allow[0]: is "},
	} {
		cfg := good
		row.change(&cfg)
		if _, err := NewOperators(cfg); err == nil || !strings.Contains(err.Error(), row.says) {
			t.Errorf("%s: %v", row.about, err)
		}
	}
	if found := InspectOperators(good); len(found) != 3 || found[0].Err != nil || found[1].Err != nil || found[2].Key != "admin.tls.client_ca" {
		t.Errorf("%+v", found)
	}
}
