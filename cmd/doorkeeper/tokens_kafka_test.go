package main

import (
	"crypto/tls"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"doorkeeper/admin"
	"doorkeeper/internal/certtest"
	"doorkeeper/internal/devkafka"
)

// runTokens runs the command against g.
func runTokens(t *testing.T, g *gatewayUnderTest, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs output
	code = run(t.Context(), environment{args: append(append([]string{"tokens"}, args...), "--config", g.config()), stdout: &out, stderr: &errs})
	return code, out.String(), errs.String()
}

// leg is a client connection through the gateway.
type leg struct {
	*tls.Conn
	t *testing.T
}

// ask sends a Metadata request and waits for the answer.
func (l leg) ask() error {
	_ = l.SetDeadline(time.Now().Add(time.Minute))
	request := kmsg.NewPtrMetadataRequest()
	request.SetVersion(9)
	if _, err := l.Write(kmsg.NewRequestFormatter(kmsg.FormatterClientID("app")).AppendRequest(nil, request, 1)); err != nil {
		return err
	}
	var size [4]byte
	if _, err := io.ReadFull(l, size[:]); err != nil {
		return err
	}
	_, err := io.CopyN(io.Discard, l, int64(binary.BigEndian.Uint32(size[:])))
	return err
}

// closed waits for a plain close.
func (l leg) closed() {
	l.t.Helper()
	_ = l.SetDeadline(time.Now().Add(time.Minute))
	if _, err := l.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		l.t.Errorf("the connection is not closed: %v", err)
	}
}

// served is a gateway that is ready, and how to be its client.
type served struct {
	*gatewayUnderTest
	clients, servers *certtest.CA
}

func serveTokens(t *testing.T, change func(string) string) served {
	t.Helper()
	s := served{clients: certtest.NewCA("clients"), servers: certtest.NewCA("servers")}
	s.gatewayUnderTest = beforeKafka(t, devkafka.Config{SuperUsers: []string{"gateway"}}, func(text string) string {
		text = strings.Replace(text, ", nodes: 1-3", "", 1) + "identity: {from: common_name}\n"
		if change != nil {
			text = change(text)
		}
		return text
	})
	s.clients.Write(s.dir, "client-ca")
	s.servers.Issue(certtest.Server("127.0.0.1")).Write(s.dir, "tls")
	s.start(t, "DOORKEEPER_LOG_FORMAT=json")
	t.Cleanup(func() {
		s.signals <- syscall.SIGTERM
		s.ends(t, exitOK)
		if t.Failed() {
			t.Logf("it said\n%s", &s.stderr)
		}
	})
	s.says(t, `"msg":"serving"`)
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		code, body := s.page(t, "/readyz")
		if code == http.StatusOK {
			return s
		}
		if time.Now().After(end) {
			t.Fatal(body)
		}
	}
}

func (s served) dial(t *testing.T, name string) leg {
	t.Helper()
	cfg := s.clients.Issue(certtest.Leaf{CommonName: name, Usage: certtest.ClientOnly}).ClientConfig(s.servers)
	cfg.ServerName = "127.0.0.1"
	conn, err := tls.Dial("tcp", s.listen, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return leg{conn, t}
}

// list is the document that --json gives, by owner.
func (s served) list(t *testing.T) map[string]admin.Owner {
	t.Helper()
	code, stdout, stderr := runTokens(t, s.gatewayUnderTest, "list", "--json")
	var listing admin.Listing
	if err := json.Unmarshal([]byte(stdout), &listing); err != nil || code != exitOK || stderr != "" || listing.Instance != "gateway-1" {
		t.Fatalf("code %d, %v: %s %s", code, err, stdout, stderr)
	}
	owners := make(map[string]admin.Owner)
	for _, o := range listing.Owners {
		owners[o.Name] = o
	}
	return owners
}

// S9 (token part): what a gateway holds is shown, and of one owner expired, with its
// sessions and nobody else's.
func TestTokensOfAGatewayThatRuns(t *testing.T) {
	s := serveTokens(t, nil)
	first, second, bob := s.dial(t, "alice"), s.dial(t, "alice"), s.dial(t, "bob")
	for _, l := range []leg{first, second, bob} {
		if err := l.ask(); err != nil {
			t.Fatal(err)
		}
	}
	carol := s.dial(t, "carol") // admitted, and has asked for nothing
	var owners map[string]admin.Owner
	for owners = s.list(t); owners["carol"].Sessions == 0; owners = s.list(t) {
		time.Sleep(10 * time.Millisecond)
	}
	if o := owners["gateway"]; len(owners) != 4 || !o.Own || o.State != "live" || o.Sessions != 0 || o.Token == nil {
		t.Errorf("%+v", owners)
	}
	for name, sessions := range map[string]int{"alice": 2, "bob": 1} {
		o := owners[name]
		if o.Own || o.State != "live" || o.Sessions != sessions || o.Held != 1 || o.Failure != "" || o.Token == nil ||
			o.Token.ID == "" || len(o.Token.Ready) == 0 || o.Token.Age < 0 || o.Token.Left < 23*3600 {
			t.Errorf("%s: %+v %+v", name, o, o.Token)
		}
	}
	if o := owners["carol"]; o.State != "absent" || o.Token != nil || o.Sessions != 1 {
		t.Errorf("carol: %+v", o)
	}
	code, stdout, stderr := runTokens(t, s.gatewayUnderTest, "list")
	table := regexp.MustCompile(`^OWNER +STATE +AGE +LEFT +BROKERS READY +SESSIONS\n` +
		`alice +live +\d+s +23h5\dm\d+s +\d(-\d)?(,\d)? +2\n` +
		`bob +live +\d+s +23h5\dm\d+s +\d(-\d)?(,\d)? +1\n` +
		`carol +absent +- +- +- +1\n` +
		`gateway \(the gateway itself\) +live +\d+s +23h5\dm\d+s +\d?-?(-\d)?(,\d)? +0\n` +
		`4 owners, 4 sessions at gateway-1\n$`)
	if code != exitOK || stderr != "" || !table.MatchString(stdout) {
		t.Errorf("code %d\n%s%s", code, stdout, stderr)
	}

	before := owners["alice"].Token.ID
	code, stdout, stderr = runTokens(t, s.gatewayUnderTest, "expire", "alice")
	if want := "alice: its token is expired, and 2 sessions were ended\n"; code != exitOK || stdout != want || stderr != "" {
		t.Errorf("code %d, %s%s", code, stdout, stderr)
	}
	first.closed()
	second.closed()
	if err := bob.ask(); err != nil {
		t.Errorf("bob: %v", err)
	}
	if _, metrics := s.page(t, "/metrics"); !strings.Contains(metrics, `doorkeeper_session_ends_total{reason="expired_by_operator"} 2`+"\n") {
		t.Error("the ends were not counted for their reason")
	}
	if err := s.dial(t, "alice").ask(); err != nil {
		t.Errorf("alice comes back: %v", err)
	}
	owners = s.list(t)
	if a, b := owners["alice"], owners["bob"]; a.Sessions != 1 || a.Token == nil || a.Token.ID == before || b.Sessions != 1 {
		t.Errorf("%+v %+v", a, b)
	}

	code, stdout, _ = runTokens(t, s.gatewayUnderTest, "expire", "carol", "--json")
	var done admin.Expired
	if err := json.Unmarshal([]byte(stdout), &done); err != nil || code != exitOK || done != (admin.Expired{Owner: "carol", Sessions: 1}) {
		t.Errorf("code %d, %s", code, stdout)
	}
	carol.closed()
	code, stdout, stderr = runTokens(t, s.gatewayUnderTest, "expire", "nobody", "--json")
	var failed admin.Failed
	if err := json.Unmarshal([]byte(stdout), &failed); err != nil || code != exitFailure || failed.Problem.Code != admin.ProblemUnknownOwner || !strings.Contains(stderr, "doorkeeper: nobody: this gateway has neither a token nor a session") {
		t.Errorf("code %d, %s%s", code, stdout, stderr)
	}
	code, stdout, _ = runTokens(t, s.gatewayUnderTest, "expire", "gateway")
	if want := "gateway: its token is expired, and no session was there to end\n"; code != exitOK || stdout != want {
		t.Errorf("code %d, %s", code, stdout)
	}
}

// S14: the admin address with TLS. Everybody reads the pages that change nothing; the
// others are for those whom admin.allow names, by the rules for clients' names.
func TestTokensOverTLS(t *testing.T) {
	dir := t.TempDir()
	authority, operators := certtest.NewCA("admin"), certtest.NewCA("operators")
	own := authority.Issue(certtest.Server("127.0.0.1")).Write(dir, "admin")
	ca, clientCA := authority.Write(dir, "admin-ca"), operators.Write(dir, "operators-ca")
	pair := func(name string, by *certtest.CA, cn string) []string {
		f := by.Issue(certtest.Leaf{CommonName: cn, Usage: certtest.ClientOnly}).Write(dir, name)
		return []string{"--certificate", f.Cert, "--key", f.Key}
	}
	g := writeFiles(t, func(text string) string {
		return strings.Replace(text, "admin: {", fmt.Sprintf("admin: {tls: {certificate: %s, key: %s, client_ca: %s}, allow: [ops], ", own.Cert, own.Key, clientCA), 1) +
			"identity: {rules: ['RULE:^CN=([^,]+).*$/$1/'], protected: [ops]}\n" // a client could not have that name
	})
	g.start(t, "DOORKEEPER_LOG_FORMAT=json")
	g.says(t, `"msg":"serving"`)
	list := func(args ...string) (int, string, string) {
		t.Helper()
		return runTokens(t, g, append([]string{"list"}, args...)...)
	}
	ops := pair("ops", operators, "ops")
	for _, row := range []struct {
		about string
		args  []string
		code  int
		says  string
	}{
		{"an operator", append([]string{"--ca", ca}, ops...), exitOK, "SESSIONS"},
		{"by the address", append([]string{"--ca", ca, "--admin", g.admin}, ops...), exitOK, "SESSIONS"},
		{"by the whole address", append([]string{"--ca", ca, "--admin", "https://" + g.admin + "/"}, ops...), exitOK, "SESSIONS"},
		{"nobody", []string{"--ca", ca}, exitFailure, "show a certificate"},
		{"somebody else", append([]string{"--ca", ca}, pair("alice", operators, "alice")...), exitFailure, `"alice" is not in admin.allow`},
		{"another authority's", append([]string{"--ca", ca}, pair("x", certtest.NewCA("x"), "ops")...), exitFailure, "admin.tls.client_ca must hold"},
		{"another gateway's authority", append([]string{"--ca", clientCA}, ops...), exitFailure, "--ca must hold"},
		{"no authority", ops, exitUsage, "--ca"},
		{"half a pair", append([]string{"--ca", ca}, ops[:2]...), exitUsage, "go together"},
		{"no TLS", []string{"--admin", "http://" + g.admin}, exitFailure, "answered 400"},
		{"files without TLS", append([]string{"--admin", "http://" + g.admin}, ops...), exitUsage, "without TLS"},
		{"no file", []string{"--ca", dir + "/absent"}, exitUsage, "--ca: "},
	} {
		t.Run(row.about, func(t *testing.T) {
			if code, stdout, stderr := list(row.args...); code != row.code || !strings.Contains(stdout+stderr, row.says) {
				t.Errorf("code %d\n%s%s", code, stdout, stderr)
			}
		})
	}
	if code, _, stderr := runTokens(t, g, append([]string{"expire", "alice", "--ca", ca}, ops...)...); code != exitFailure || !strings.Contains(stderr, "neither a token nor a session") {
		t.Errorf("code %d, %s", code, stderr)
	}
	g.says(t, `"by":"ops"`)

	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: certtest.Pool(authority)}}}
	for _, path := range []string{"/livez", "/metrics"} {
		resp, err := client.Get("https://" + g.admin + path)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Errorf("%s: %d", path, resp.StatusCode)
		}
	}
	c := runCheck(t, g)
	for _, key := range []string{"admin.tls.certificate", "admin.tls.key", "admin.tls.client_ca"} {
		c.wants(t, stepFiles, key, checkOK, "", "")
	}
	g.signals <- syscall.SIGTERM
	g.ends(t, exitOK)
}
