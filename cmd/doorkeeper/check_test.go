package main

import (
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kmsg"

	"doorkeeper/internal/certtest"
)

// checked is what a check in this process has said.
type checked struct {
	code   int
	stdout string
	checkDocument
}

// runCheck runs the command with --json.
func runCheck(t *testing.T, g *gatewayUnderTest, args ...string) checked {
	t.Helper()
	var stdout, stderr output
	code := run(t.Context(), environment{
		args: append([]string{"check", "--json", "--config", g.config()}, args...), signals: g.signals, stdout: &stdout, stderr: &stderr,
	})
	c := checked{code: code, stdout: stdout.String()}
	if err := json.Unmarshal([]byte(c.stdout), &c.checkDocument); err != nil {
		t.Fatalf("%v in %s (%s)", err, &stdout, &stderr)
	}
	return c
}

// find returns the results of a step whose target contains the text.
func (c checked) find(step, target string) []checkResult {
	var found []checkResult
	for _, r := range c.Results {
		if r.Step == step && strings.Contains(r.Target, target) {
			found = append(found, r)
		}
	}
	return found
}

// wants checks that there is such a result, with these texts in finding and cure.
func (c checked) wants(t *testing.T, step, target string, status checkStatus, finding, cure string) {
	t.Helper()
	for _, r := range c.find(step, target) {
		if r.Status == status && strings.Contains(r.Finding, finding) && strings.Contains(r.Cure, cure) {
			return
		}
	}
	t.Errorf("no %s %s %s with %q and %q in\n%s", step, target, status, finding, cure, c.stdout)
}

// withHost makes the harness's certificate fit its name.
func withHost(text string) string {
	return strings.Replace(text, "gateway.example.com", "localhost", 1)
}

// What can be said without a single broker is said, and what waits says for what.
func TestCheckWithoutBrokers(t *testing.T) {
	g := writeFiles(t, withHost)
	c := runCheck(t, g)
	if c.code != exitFailure || c.OK {
		t.Errorf("code %d, ok %v", c.code, c.OK)
	}
	c.wants(t, stepConfiguration, "", checkOK, "", "")
	for _, key := range []string{"listen.tls.certificate", "listen.tls.key", "listen.tls.client_ca", "kafka.tls.ca", "kafka.control.tls.ca", "kafka.control.tls.certificate", "kafka.control.tls.key"} {
		c.wants(t, stepFiles, key, checkOK, "", "")
	}
	c.wants(t, stepControl, "127.0.0.1:2", checkFailed, "dial: dial tcp 127.0.0.1:2", "is the broker up")
	c.wants(t, stepControl, "the other nodes", checkNotRun, "waits for", "")
	c.wants(t, stepRights, "the gateway's own token", checkNotRun, "waits for control_login", "")
	c.wants(t, stepKey, "", checkNotRun, "waits for control_login", "")
	c.wants(t, stepMetadata, "", checkNotRun, "waits for control_login", "")
	c.wants(t, stepToken, "127.0.0.1:1", checkFailed, "dial", "is the broker up")
	c.wants(t, stepReauth, "", checkNotRun, "waits for token_login", "")
	c.wants(t, stepLifetime, "tokens", checkNotRun, "waits for token_rights", "")
	c.wants(t, stepListeners, "listen.address", checkOK, "free", "")
	c.wants(t, stepListeners, "admin.address", checkOK, "free", "")
	c.wants(t, stepNames, "listen.advertise.host", checkOK, "certificate is for that name", "")
	c.wants(t, stepNames, "listen.advertise.nodes", checkNotRun, "waits for control_login", "")
	c.wants(t, stepBrokers, "the token listener", checkNotRun, "waits for token_login", "")
	if len(c.find(stepCleaning, "")) > 0 {
		t.Error("it speaks of cleaning up where nothing was made")
	}
	steps := []string{}
	for _, r := range c.Results {
		if !slices.Contains(steps, r.Step) {
			steps = append(steps, r.Step)
		}
	}
	if got := strings.Join(steps, " "); got != "configuration files control_login token_rights secret_key metadata_version token_login reauthentication session_lifetime listeners advertised_names broker_addresses" {
		t.Errorf("steps %s", got)
	}
}

// A fault hides nothing that does not lean on it.
func TestCheckFilesAndNames(t *testing.T) {
	now := time.Now()
	brokers := certtest.NewCA("brokers")
	expired := brokers.Issue(certtest.Leaf{CommonName: "gateway", NotAfter: now.Add(-time.Hour), NotBefore: now.Add(-2 * time.Hour)})
	for _, tc := range []struct {
		name   string
		spoil  func(t *testing.T, g *gatewayUnderTest) // the files
		change func(string) string                     // the configuration
		step   string
		target string
		status checkStatus
		says   string
		cure   string
		waits  string // another step that waits for it
	}{
		{name: "key of another certificate", spoil: func(_ *testing.T, g *gatewayUnderTest) {
			certtest.WriteFile(g.dir, "tls.key", expired.KeyPEM)
		}, step: stepFiles, target: "listen.tls.certificate", status: checkFailed, says: "does not belong to the key", cure: "the pair that was issued together", waits: stepNames},
		{name: "expired", spoil: func(_ *testing.T, g *gatewayUnderTest) { expired.Write(g.dir, "gateway") },
			step: stepFiles, target: "kafka.control.tls.certificate", status: checkFailed, says: "expired at", cure: "a certificate in place that is valid now"},
		{name: "ends soon", spoil: func(_ *testing.T, g *gatewayUnderTest) {
			brokers.Issue(certtest.Leaf{CommonName: "gateway", NotBefore: now.Add(-300 * 24 * time.Hour), NotAfter: now.Add(10*24*time.Hour + time.Hour)}).Write(g.dir, "gateway")
		}, step: stepFiles, target: "kafka.control.tls.certificate", status: checkWarning, says: "ends in 10 days", cure: "in time"},
		{name: "an authority that has ended", spoil: func(_ *testing.T, g *gatewayUnderTest) {
			certtest.WriteFile(g.dir, "broker-ca.pem", certtest.Authority{Name: "old", NotBefore: now.Add(-2 * time.Hour), NotAfter: now.Add(-time.Hour)}.Root().PEM())
		}, step: stepFiles, target: "kafka.tls.ca", status: checkFailed, says: "no authority in it is valid now", cure: "present certificates"},
		{name: "one of two authorities has ended", spoil: func(_ *testing.T, g *gatewayUnderTest) {
			certtest.WriteFile(g.dir, "broker-ca.pem", certtest.Bundle(certtest.Authority{Name: "old", NotBefore: now.Add(-2 * time.Hour), NotAfter: now.Add(-time.Hour)}.Root(), brokers))
		}, step: stepFiles, target: "kafka.tls.ca", status: checkWarning, says: `"CN=old" expired at`, cure: "take the old one out"},
		{name: "no such file", spoil: func(t *testing.T, g *gatewayUnderTest) {
			if err := os.Remove(filepath.Join(g.dir, "broker-ca.pem")); err != nil {
				t.Fatal(err)
			}
		}, step: stepFiles, target: "kafka.tls.ca", status: checkFailed, says: "no such file", cure: "check the path", waits: stepToken},
		{name: "a rule that is none", change: func(s string) string { return s + "identity: {rules: ['RULE:(']}\n" },
			step: stepConfiguration, target: "identity.rules[0]", status: checkFailed, says: "(line "},
		{name: "a network that is none", change: func(s string) string {
			return strings.Replace(s, "kafka:", "kafka:\n  addresses: ['10.0.0.0/33']", 1)
		}, step: stepConfiguration, target: "kafka.addresses", status: checkFailed, says: "10.0.0.0/33", waits: stepBrokers},
		{name: "an unknown key", change: func(s string) string { return s + "log: {colour: blue}\n" },
			step: stepConfiguration, target: "log.colour", status: checkFailed, says: "unknown key", cure: "known here"},
		{name: "no bootstrap", change: func(s string) string { return strings.Replace(s, `bootstrap: ["127.0.0.1:2"]`, "bootstrap: []", 1) },
			step: stepConfiguration, target: "kafka.control.bootstrap", status: checkFailed, says: "is not set", cure: "broker-1:9093", waits: stepControl},
		{name: "advertised name not in the certificate", change: func(s string) string { return strings.Replace(s, "localhost", "gw.example.com", 1) },
			step: stepNames, target: "listen.advertise.host (gw.example.com)", status: checkFailed, says: "clients will refuse", cure: `subject alternative name "gw.example.com"`},
		{name: "advertised name that does not resolve", change: func(s string) string { return strings.Replace(s, "localhost", "gw.invalid", 1) },
			step: stepNames, target: "listen.advertise.host (gw.invalid)", status: checkWarning, says: "does not resolve here", cure: "where the clients are"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := writeFiles(t, func(text string) string {
				text = withHost(text)
				if tc.change != nil {
					text = tc.change(text)
				}
				return text
			})
			if tc.spoil != nil {
				tc.spoil(t, g)
			}
			c := runCheck(t, g)
			c.wants(t, tc.step, tc.target, tc.status, tc.says, tc.cure)
			c.wants(t, stepListeners, "listen.address", checkOK, "free", "")
			if tc.waits != "" {
				c.wants(t, tc.waits, "", checkNotRun, "waits for "+tc.step, "")
			}
			if tc.status == checkFailed && c.code != exitFailure {
				t.Errorf("exit code %d", c.code)
			}
		})
	}
}

func TestCheckOfNoConfigurationAtAll(t *testing.T) {
	g := writeFiles(t, func(string) string { return "- no\n- mapping\n" })
	c := runCheck(t, g)
	if c.code != exitFailure {
		t.Errorf("code %d", c.code)
	}
	for _, r := range c.Results {
		if (r.Step == stepConfiguration) != (r.Status == checkFailed) || r.Step != stepConfiguration && r.Status != checkNotRun {
			t.Errorf("%+v", r)
		}
	}
}

func TestCheckOfTakenAddresses(t *testing.T) {
	g := writeFiles(t, withHost)
	for target, address := range map[string]string{"listen.address": g.listen, "admin.address": g.admin} {
		t.Run(target, func(t *testing.T) {
			l, err := net.Listen("tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			c := runCheck(t, g)
			c.wants(t, stepListeners, target, checkFailed, "address already in use", "ss -ltnp")
		})
	}
}

// A gateway that serves by that configuration is no reason to say that it cannot.
func TestCheckBesideItsOwnGateway(t *testing.T) {
	g := writeFiles(t, withHost)
	g.start(t)
	g.says(t, "serving")
	c := runCheck(t, &gatewayUnderTest{dir: g.dir})
	c.wants(t, stepListeners, "listen.address", checkWarning, "a gateway with this certificate", "as it should be")
	c.wants(t, stepListeners, "admin.address", checkWarning, "in use", "as it should be")
	g.signals <- syscall.SIGTERM
	g.ends(t, exitOK)
}

// A signal ends a check that waits for a broker that says nothing.
func TestCheckInterrupted(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	accepted := make(chan net.Conn, 100)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				close(accepted)
				return
			}
			accepted <- conn
		}
	}()
	g := writeFiles(t, func(text string) string {
		return strings.Replace(withHost(text), "127.0.0.1:2", l.Addr().String(), 1) + "timeouts: {dial: 2m}\n"
	})
	go func() {
		if conn := <-accepted; conn != nil {
			defer func() { _ = conn.Close() }()
		}
		g.signals <- syscall.SIGHUP // is not for it
		g.signals <- syscall.SIGINT
	}()
	began := time.Now()
	c := runCheck(t, g)
	if c.code != 130 {
		t.Errorf("code %d", c.code)
	}
	if took := time.Since(began); took > time.Minute {
		t.Errorf("it took %s", took)
	}
	c.wants(t, stepControl, l.Addr().String(), checkNotRun, "cut short: interrupted", "")
	c.wants(t, stepBrokers, "", checkNotRun, "not reached: interrupted", "")
	c.wants(t, stepFiles, "listen.tls.key", checkOK, "", "")
}

func TestCheckInPlainText(t *testing.T) {
	g := writeFiles(t, withHost)
	var stdout, stderr output
	code := run(t.Context(), environment{args: []string{"check", "--config", g.config()}, stdout: &stdout, stderr: &stderr})
	said := stdout.String()
	if code != exitFailure || stderr.String() != "" {
		t.Errorf("code %d, %s", code, &stderr)
	}
	for _, want := range []string{"OK       configuration", "FAILED   control_login    127.0.0.1:2: dial", "to change: is the broker up", "NOT RUN  secret_key", " failed, "} {
		if !strings.Contains(said, want) {
			t.Errorf("lacks %q:\n%s", want, said)
		}
	}
	if strings.Contains(said, "\x1b") {
		t.Error("colours where no terminal is")
	}
}

// Pure.
func TestCheckDates(t *testing.T) {
	now := time.Date(2030, 5, 1, 12, 0, 0, 0, time.UTC)
	const day = 24 * time.Hour
	for _, tc := range []struct {
		from, to time.Duration // from now
		status   checkStatus
		says     string
	}{
		{-365 * day, 365 * day, checkOK, "valid until 2031-05-01"},
		{-365 * day, 31 * day, checkOK, "valid until"},
		{-365 * day, 29*day + time.Minute, checkWarning, "ends in 29 days"},
		{-365 * day, time.Hour, checkWarning, "ends in 1h0m0s"},
		{-365 * day, 0, checkWarning, "ends in 0s"},
		{-365 * day, -time.Second, checkFailed, "expired at"},
		{time.Second, 365 * day, checkFailed, "is not valid before"},
		// Short ones are renewed by machines: the last third counts.
		{-time.Hour, 24 * time.Hour, checkOK, "valid until"},
		{-20 * time.Hour, 4 * time.Hour, checkWarning, "ends in 4h0m0s"},
		{-30 * day, 60 * day, checkOK, "valid until"},
		{-61 * day, 29 * day, checkWarning, "ends in 29 days"},
	} {
		status, says := checkDates(now.Add(tc.from), now.Add(tc.to), now)
		if status != tc.status || !strings.HasPrefix(says, tc.says) {
			t.Errorf("%s to %s: %s %q, want %s %q", tc.from, tc.to, status, says, tc.status, tc.says)
		}
	}
}

func TestCheckLifetimesJudged(t *testing.T) {
	const day = 24 * time.Hour
	for _, tc := range []struct {
		asked, life, longest time.Duration
		status               checkStatus
		says, cure           string
	}{
		{day, day, day, checkOK, "24h0m0s", ""},
		{day, time.Hour, day, checkWarning, "Kafka gives 1h0m0s: delegation.token.expiry.time.ms", "tokens.lifetime: 1h0m0s"},
		{day, time.Hour, time.Hour, checkWarning, "delegation.token.max.lifetime.ms", "raise delegation.token.max.lifetime.ms"},
		{day, 2 * time.Second, day, checkFailed, "they live for 2s", "delegation.token.expiry.time.ms"},
		{day, -time.Second, day, checkFailed, "they live for -1s", "raise"},
	} {
		r := judgeTokenLife(tc.asked, tc.life, tc.longest)
		if r.Status != tc.status || !strings.Contains(r.Finding, tc.says) || !strings.Contains(r.Cure, tc.cure) {
			t.Errorf("%+v: %+v", tc, r)
		}
	}
	for _, tc := range []struct {
		lifetime, left time.Duration
		status         checkStatus
		cure           string
	}{
		{day - time.Second, day - 2*time.Second, checkOK, ""},
		{time.Hour, day, checkWarning, "connections.max.reauth.ms"},
		{2 * time.Second, day, checkFailed, "connections.max.reauth.ms"},
		{0, day, checkFailed, "connections.max.reauth.ms"},
		{2 * time.Second, time.Second, checkFailed, "tokens.lifetime"},
	} {
		if r := judgeSession("node 1", tc.lifetime, tc.left); r.Status != tc.status || !strings.Contains(r.Cure, tc.cure) {
			t.Errorf("%+v: %+v", tc, r)
		}
	}
}

func TestCheckMetadataJudged(t *testing.T) {
	feature := func(name string, level int16) *kmsg.ApiVersionsResponse {
		v := kmsg.NewPtrApiVersionsResponse()
		v.FinalizedFeatures = []kmsg.ApiVersionsResponseFinalizedFeature{{Name: "kraft.version", MaxVersionLevel: 1}, {Name: name, MaxVersionLevel: level}}
		return v
	}
	for _, tc := range []struct {
		versions *kmsg.ApiVersionsResponse
		status   checkStatus
		says     string
	}{
		{feature("metadata.version", 14), checkOK, "level 14"},
		{feature("metadata.version", 31), checkOK, "level 31"},
		{feature("metadata.version", 13), checkFailed, "level 13"},
		{feature("group.version", 1), checkFailed, "no KRaft cluster"},
	} {
		if r := judgeMetadata(tc.versions); r.Status != tc.status || !strings.Contains(r.Finding, tc.says) || (r.Cure == "") != (r.Status == checkOK) {
			t.Errorf("%+v", r)
		}
	}
}

// Every error code of the token APIs has its name and its cure.
func TestCheckTokenErrors(t *testing.T) {
	for code, want := range map[int16][2]string{
		35: {"UNSUPPORTED_VERSION", "kafka-features.sh"},
		61: {"DELEGATION_TOKEN_AUTH_DISABLED", "delegation.token.secret.key"},
		63: {"DELEGATION_TOKEN_OWNER_MISMATCH", "ssl.principal.mapping.rules"},
		64: {"DELEGATION_TOKEN_REQUEST_NOT_ALLOWED", "ssl.client.auth=required"},
		65: {"DELEGATION_TOKEN_AUTHORIZATION_FAILED", `--add --allow-principal 'User:gate'\''way' --operation CreateTokens --user-principal 'User:alice'`},
		67: {"INVALID_PRINCIPAL_TYPE", "principal.builder.class"},
		41: {"NOT_CONTROLLER", "log of the active controller"},
		-1: {"UNKNOWN_SERVER_ERROR", "log of the active controller"},
	} {
		finding, cure := checkTokenError(code, "alice", "gate'way")
		if !strings.Contains(finding, want[0]) || !strings.Contains(cure, want[1]) {
			t.Errorf("%d: %q; %q", code, finding, cure)
		}
	}
}

// What comes from outside can neither forge a line nor colour it.
func TestCheckLinesAreEscaped(t *testing.T) {
	var out output
	s := checkSheet{out: newTerminal(&out, nil)}
	s.add(checkBad("step", "a\nOK       b", checkFailed, "x\x1b[31m\u202ey\xff\r", "c\nd"))
	if got := strings.Count(out.String(), "\n"); got != 2 || strings.ContainsAny(out.String(), "\x1b\r\u202e") || !utf8.ValidString(out.String()) {
		t.Errorf("%d lines: %q", got, &out)
	}
}
