package tlsconf

import (
	"strings"
	"testing"

	"doorkeeper/internal/certtest"
)

func TestInspectLooksAtEachFileByItself(t *testing.T) {
	l := newLab(t)
	dir := t.TempDir()
	other := l.servers.Issue(certtest.Server("other")).Write(dir, "other")
	forClients := l.servers.Issue(certtest.Leaf{CommonName: "x", Usage: certtest.ClientOnly}).Write(dir, "client")
	for _, tc := range []struct {
		name   string
		change func(*Config)
		bad    map[string]string // key → what is said
	}{
		{"all good", func(*Config) {}, nil},
		{"another's key", func(c *Config) { c.Key = other.Key }, map[string]string{"listen.tls.certificate": "does not belong to the key"}},
		{"a client's pair", func(c *Config) { c.Certificate, c.Key = forClients.Cert, forClients.Key }, map[string]string{"listen.tls.certificate": "is not for a server"}},
		{"both absent", func(c *Config) { c.Certificate, c.Key = dir+"/no", dir+"/nope" },
			map[string]string{"listen.tls.certificate": "cannot be read", "listen.tls.key": "cannot be read"}},
		{"a leaf for an authority", func(c *Config) { c.ClientCA = other.Cert }, map[string]string{"listen.tls.client_ca": "is no authority's"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cfg := l.config
			tc.change(&cfg)
			found := InspectServer(cfg)
			if len(found) != 3 {
				t.Fatalf("%d files", len(found))
			}
			whole := "" // what New says
			if _, err := New(cfg); err != nil {
				whole = err.Error()
			}
			for _, f := range found {
				want := tc.bad[f.Key]
				if (f.Err != nil) != (want != "") || f.Err != nil && !strings.Contains(f.Err.Error(), want) {
					t.Errorf("%s: %v, want %q", f.Key, f.Err, want)
				}
				if f.Err != nil && !strings.Contains(whole, f.Err.Error()) {
					t.Errorf("New does not say %q: %s", f.Err, whole)
				}
				if holds := f.Err == nil && f.Key != "listen.tls.key"; (len(f.Certificates) > 0) != holds {
					t.Errorf("%s holds %d certificates", f.Key, len(f.Certificates))
				}
			}
			if (whole != "") != (len(tc.bad) > 0) {
				t.Errorf("New says %q", whole)
			}
		})
	}
}

func TestInspectClient(t *testing.T) {
	l := newLab(t)
	pair := l.clients.Issue(certtest.Leaf{CommonName: "gateway"}).Write(t.TempDir(), "gateway")
	if found := InspectClient(ClientFiles{CA: l.config.ClientCA}, "kafka.tls"); len(found) != 1 || found[0].Key != "kafka.tls.ca" || found[0].Err != nil {
		t.Errorf("%+v", found)
	}
	found := InspectClient(ClientFiles{CA: l.config.ClientCA, Certificate: pair.Cert, Key: pair.Key}, "kafka.control.tls")
	keys := ""
	for _, f := range found {
		keys += f.Key + " "
		if f.Err != nil {
			t.Error(f.Err)
		}
	}
	if keys != "kafka.control.tls.ca kafka.control.tls.certificate kafka.control.tls.key " {
		t.Error(keys)
	}
}
