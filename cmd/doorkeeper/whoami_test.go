package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"doorkeeper/internal/certtest"
)

// runWhoami runs the command on a certificate that lies in g's directory.
func runWhoami(t *testing.T, g *gatewayUnderTest, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs output
	code = run(t.Context(), environment{args: append([]string{"whoami", "--config", g.config()}, args...), stdout: &out, stderr: &errs})
	return code, out.String(), errs.String()
}

func TestWhoami(t *testing.T) {
	g := writeFiles(t, func(text string) string {
		return text + "identity: {rules: ['RULE:^CN=svc-.*$/service/', 'RULE:^CN=([^,]+).*$/$1/'], protected: [admin]}\n"
	})
	clients := certtest.NewCA("clients")
	clients.Write(g.dir, "client-ca")
	file := func(name string, ca *certtest.CA, leaf certtest.Leaf) string {
		return ca.Issue(leaf).Write(g.dir, name).Cert
	}
	alice := file("alice", clients, certtest.Leaf{Subject: certtest.Name(certtest.RDN{certtest.O("Lab")}, certtest.RDN{certtest.CN("alice")})})
	// The gateway's own key need not be there, nor any other part of the set-up.
	if err := os.Remove(filepath.Join(g.dir, "tls.key")); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name string
		file string
		code int
		says []string
	}{
		{"taken", alice, exitOK, []string{
			"User:alice, by the rule RULE:^CN=([^,]+).*$/$1/\n", `name             identity.from: subject gives "CN=alice,O=Lab"`,
			"NO MATCH rule             RULE:^CN=svc-.*$/service/ does not match", `OK       rule             RULE:^CN=([^,]+).*$/$1/ matches and makes "alice" of it`,
			"WARNING  own_principal", "cannot be said without a connection",
		}},
		{"protected", file("admin", clients, certtest.Leaf{CommonName: "admin"}), exitFailure, []string{"refused: ", `FAILED   owner            its name "admin" is in identity.protected`, "to change: issue a certificate with another name"}},
		{"of nobody", file("x", certtest.NewCA("x"), certtest.Leaf{CommonName: "alice"}), exitFailure, []string{"FAILED   issuer", "leads to no authority in listen.tls.client_ca", "to change: add its authority there"}},
		{"expired", file("y", clients, certtest.Leaf{CommonName: "alice", NotAfter: time.Now().Add(-time.Minute)}), exitFailure, []string{"FAILED   dates            it expired at", "to change: issue a new one"}},
		{"a key", filepath.Join(g.dir, "alice.key"), exitFailure, []string{"holds a private key and no certificate", "to change: give the certificate that was issued for this key", "NOT RUN  owner"}},
		{"no file", filepath.Join(g.dir, "nobody.crt"), exitFailure, []string{"no such file", "refused: "}},
		{"a directory", g.dir, exitFailure, []string{"a directory", "give the path of the client's certificate"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			code, stdout, stderr := runWhoami(t, g, tc.file)
			if code != tc.code || stderr != "" {
				t.Errorf("code %d, %s", code, stderr)
			}
			for _, want := range tc.says {
				if !strings.Contains(stdout, want) {
					t.Errorf("lacks %q:\n%s", want, stdout)
				}
			}
			if strings.Contains(stdout, "\x1b") {
				t.Error("colours where no terminal is")
			}
		})
	}

	code, stdout, _ := runWhoami(t, g, "--json", alice)
	var doc whoamiDocument
	if err := json.Unmarshal([]byte(stdout), &doc); err != nil || code != exitOK || doc.Owner != "alice" || !doc.OK || doc.Rule != "RULE:^CN=([^,]+).*$/$1/" || len(doc.Results) != 10 {
		t.Errorf("code %d, %v: %s", code, err, stdout)
	}
}

// A configuration that does not say who is who is an error of its own; what else is
// wrong with it does not matter here.
func TestWhoamiWithAWrongConfiguration(t *testing.T) {
	wrong := writeFiles(t, func(text string) string { return text + "identity: {rules: ['RULE:(']}\n" })
	code, stdout, stderr := runWhoami(t, wrong, filepath.Join(wrong.dir, "gateway.crt"))
	if code != exitUsage || stdout != "" || !strings.Contains(stderr, "identity.rules[0]") {
		t.Errorf("code %d, %q, %q", code, stdout, stderr)
	}
	elsewhere := writeFiles(t, func(text string) string {
		return strings.Replace(text, `bootstrap: ["127.0.0.1:1"]`, "bootstrap: []", 1) + "log: {colour: blue}\n"
	})
	if code, _, stderr := runWhoami(t, elsewhere, filepath.Join(elsewhere.dir, "nobody.crt")); code != exitFailure || stderr != "" {
		t.Errorf("code %d, %q", code, stderr)
	}
	var out, errs output
	if code := run(t.Context(), environment{args: []string{"whoami", "--config", wrong.config()}, stdout: &out, stderr: &errs}); code != exitUsage {
		t.Errorf("without a certificate: code %d", code)
	}
}
