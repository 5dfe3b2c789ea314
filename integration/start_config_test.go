//go:build integration

package integration

// This file proves that a wrong configuration is refused before anything is bound,
// with every problem in one message, each with its key's path, line and cure, and
// with exit code 2.

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"doorkeeper/integration/harness"
)

// refusedConfig starts a gateway, which has to refuse its configuration, and
// returns what it said.
func refusedConfig(t *testing.T, cfg harness.GatewayConfig) string {
	t.Helper()
	g := startGateway(t, cluster(t), cfg)
	code, err := g.Wait(patience)
	must(t, err)
	if code != 2 {
		t.Errorf("it ended with %d:\n%s", code, g.Output())
	}
	return g.Output()
}

// The "unknown or contradicting configuration".
func TestWrongConfigurationIsRefusedWhole(t *testing.T) {
	out := refusedConfig(t, harness.GatewayConfig{
		Env: []string{"DOORKEEPER_TIMEOUTS_DIAL=soon"},
		Change: func(d harness.Document) {
			d.Set("listen.tls.certficate", "x")                // misspelt
			d.Set("listen.tls.key", "/nonexistent/key.pem")    // no such file
			d.Delete("listen.tls.client_ca")                   // missing
			d.Set("identity.rules", []string{"RULE:^(/", "L"}) // no rules
			d.Set("identity.allow", []string{"admin"})         // protected too
			d.Set("limits.admission", "fast")                  // no duration
			d.Set("limits.frame", "5TB")                       // out of bounds
			d.Set("kafka.control.sasl", map[string]any{        // a second login
				"mechanism": "PLAIN", "username": "u", "password_file": "/nonexistent/password",
			})
			d.Set("connections.renewal", "sometimes")
			d.Set("log.level", "verbose")
			d.Set("no_such_section.key", true)
		},
	})
	if n := strings.Count(out, "problems:"); n != 1 {
		t.Errorf("%d messages, not one:\n%s", n, out)
	}
	for _, path := range []string{
		"listen.tls.certficate", "listen.tls.key", "listen.tls.client_ca", "identity.rules[0]", "identity.allow[0]", "limits.admission",
		"limits.frame", "kafka.control.sasl.mechanism", "kafka.control.sasl", "connections.renewal", "log.level", "no_such_section", "timeouts.dial",
	} {
		if !strings.Contains(out, "\n  "+path+" ") && !strings.Contains(out, "\n  "+path+":") {
			t.Errorf("nothing is said about %s:\n%s", path, out)
		}
	}
	for _, cure := range []string{"did you mean", "DOORKEEPER_TIMEOUTS_DIAL", "(line "} {
		if !strings.Contains(out, cure) {
			t.Errorf("%q is missing:\n%s", cure, out)
		}
	}
	if strings.Contains(out, `"msg":"serving"`) {
		t.Error("it served all the same")
	}
}

// Files that are there and wrong: a half certificate authority, a key of another
// certificate.
func TestWrongFilesAreRefused(t *testing.T) {
	dir := t.TempDir()
	half := filepath.Join(dir, "half.pem")
	whole, err := os.ReadFile(site.Client("somebody").Files.Cert)
	must(t, err)
	must(t, os.WriteFile(half, append(whole, "-----BEGIN CERTIFICATE-----\nMIIB\n"...), 0o600))
	empty := filepath.Join(dir, "empty.pem")
	must(t, os.WriteFile(empty, nil, 0o600))
	out := refusedConfig(t, harness.GatewayConfig{Change: func(d harness.Document) {
		d.Set("listen.tls.client_ca", half)
		d.Set("listen.tls.key", site.Client("somebody").Files.Key)
		d.Set("kafka.tls.ca", empty)
	}})
	for _, said := range []string{"listen.tls.client_ca (line ", "does not belong to the key in", "kafka.tls.ca (line "} {
		if !strings.Contains(out, said) {
			t.Errorf("%q is missing:\n%s", said, out)
		}
	}
}

func TestConfigurationThatIsNoFile(t *testing.T) {
	for name, args := range map[string][]string{
		"missing":     {"serve", "--config", "/nonexistent/doorkeeper.yaml"},
		"a directory": {"serve", "--config", "/"},
		"no flag":     {"serve"},
		"no command":  {"conquer"},
	} {
		t.Run(name, func(t *testing.T) {
			out := refusedConfig(t, harness.GatewayConfig{Args: args})
			if !strings.Contains(out, "doorkeeper:") {
				t.Errorf("it said nothing of use:\n%s", out)
			}
		})
	}
}
