package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"doorkeeper/internal/certtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// output is a writer that a test may read while others write.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// gatewayUnderTest is the command in this process, with files of its own and with
// brokers that nobody runs.
type gatewayUnderTest struct {
	dir     string
	listen  string
	admin   string
	signals chan os.Signal
	stderr  output
	code    chan int
}

// freeAddress returns an address of 127.0.0.1 at which nobody listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// writeFiles writes certificates and a configuration that name each other; change
// edits the configuration's text.
func writeFiles(t *testing.T, change func(string) string) *gatewayUnderTest {
	t.Helper()
	g := &gatewayUnderTest{
		dir: t.TempDir(), listen: freeAddress(t), admin: freeAddress(t),
		signals: make(chan os.Signal, 2), code: make(chan int, 1),
	}
	clients, brokers := certtest.NewCA("clients"), certtest.NewCA("brokers")
	clients.Write(g.dir, "client-ca")
	brokers.Write(g.dir, "broker-ca")
	brokers.Issue(certtest.Server("127.0.0.1", "localhost")).Write(g.dir, "tls")
	brokers.Issue(certtest.Leaf{CommonName: "gateway"}).Write(g.dir, "gateway")
	files, err := filepath.Glob(filepath.Join(g.dir, "*-ca*"))
	if err != nil || len(files) != 2 {
		t.Fatalf("authorities: %v, %v", files, err)
	}
	extension := filepath.Ext(files[0])
	text := fmt.Sprintf(`
listen:
  address: %[2]s
  advertise: {host: gateway.example.com, base_port: 60000}
  tls: {certificate: %[1]s/tls.crt, key: %[1]s/tls.key, client_ca: %[1]s/client-ca%[4]s}
kafka:
  bootstrap: ["127.0.0.1:1"]
  tls: {ca: %[1]s/broker-ca%[4]s}
  control:
    bootstrap: ["127.0.0.1:2"]
    tls: {ca: %[1]s/broker-ca%[4]s, certificate: %[1]s/gateway.crt, key: %[1]s/gateway.key}
instance: gateway-1
limits: {sessions: 100}
admin: {address: %[3]s}
`, g.dir, g.listen, g.admin, extension)
	if change != nil {
		text = change(text)
	}
	if err := os.WriteFile(g.config(), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return g
}

func (g *gatewayUnderTest) config() string { return filepath.Join(g.dir, "doorkeeper.yaml") }

// start runs the command until it returns its code.
func (g *gatewayUnderTest) start(t *testing.T, environ ...string) {
	t.Helper()
	go func() {
		g.code <- run(t.Context(), environment{
			args: []string{"serve", "--config", g.config()}, environ: environ, signals: g.signals, stdout: io.Discard, stderr: &g.stderr,
		})
	}()
}

// ends waits for the exit code.
func (g *gatewayUnderTest) ends(t *testing.T, want int) {
	t.Helper()
	if got := <-g.code; got != want {
		t.Errorf("exit code %d, want %d; it said\n%s", got, want, &g.stderr)
	}
}

// says waits until the command has said text; its end ends the wait.
func (g *gatewayUnderTest) says(t *testing.T, text string) {
	t.Helper()
	for !strings.Contains(g.stderr.String(), text) {
		select {
		case code := <-g.code:
			g.code <- code
			if !strings.Contains(g.stderr.String(), text) {
				t.Fatalf("it ended with %d and never said %q:\n%s", code, text, &g.stderr)
			}
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (g *gatewayUnderTest) page(t *testing.T, path string) (int, string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get("http://" + g.admin + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func TestUsage(t *testing.T) {
	rows := []struct {
		name           string
		args           []string
		code           int
		stdout, stderr string
	}{
		{"nothing", nil, exitUsage, "", "expected one of"},
		{"unknown command", []string{"sevre"}, exitUsage, "", "sevre"},
		{"unknown flag", []string{"serve", "--conf", "x"}, exitUsage, "", "--conf"},
		{"no file", []string{"serve"}, exitUsage, "", "--config"},
		{"help", []string{"--help"}, exitOK, "serve", ""},
		{"help of serve", []string{"serve", "--help"}, exitOK, "DOORKEEPER_TOKENS_LIFETIME", ""},
		{"version", []string{"version"}, exitOK, "doorkeeper ", ""},
		{"absent file", []string{"serve", "--config", "/nonexistent/x.yaml"}, exitUsage, "", "no such file"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			var stdout, stderr output
			code := run(t.Context(), environment{args: row.args, stdout: &stdout, stderr: &stderr})
			if code != row.code || !strings.Contains(stdout.String(), row.stdout) || !strings.Contains(stderr.String(), row.stderr) {
				t.Errorf("code %d\nstdout: %s\nstderr: %s", code, &stdout, &stderr)
			}
		})
	}
}

// TestEveryProblemIsInOneMessage: of the file's form, of what contradicts, and of
// what the named files hold.
func TestEveryProblemIsInOneMessage(t *testing.T) {
	g := writeFiles(t, func(text string) string {
		text = strings.Replace(text, "tls.crt", "absent.crt", 1)
		text = strings.Replace(text, "sessions: 100", "sessions: 0", 1)
		text = strings.Replace(text, "client_ca:", "client_cas:", 1)
		text = strings.Replace(text, "kafka:", "kafka:\n  addresses: [10.0.0.0/8, '10.0.0.0/33']", 1)
		return text + "identity: {rules: [DEFAULT, 'RULE:(']}\nlog: {colour: blue}\nkafka.rack: x\n"
	})
	g.start(t, "DOORKEEPER_TOKENS_LIFETIME=soon", "DOORKEEPER_PORT=tcp://10.0.0.1:9092")
	g.ends(t, exitUsage)
	said := g.stderr.String()
	for _, want := range []string{
		"doorkeeper: the configuration in ", "has 9 problems:\n",
		"listen.tls.client_cas (line 5): unknown key; did you mean listen.tls.client_ca?",
		"listen.tls.client_ca: is not set",
		"absent.crt",
		"kafka.addresses (line 7): network \"10.0.0.0/33\"",
		"limits.sessions (line 14): 0 is out of bounds",
		"identity.rules[1] (line 16): ",
		"log.colour (line 17): unknown key",
		`"kafka.rack" (line 18): unknown key`,
		"tokens.lifetime (environment variable DOORKEEPER_TOKENS_LIFETIME): \"soon\" is not a duration",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("lacks %q:\n%s", want, said)
		}
	}
}

// TestBrokersDownAtStart: the gateway starts, is live, is not ready and says why,
// shows no secret, and ends as it is asked to.
func TestBrokersDownAtStart(t *testing.T) {
	g := writeFiles(t, nil)
	g.start(t, "DOORKEEPER_LOG_FORMAT=json", "DOORKEEPER_SERVICE_HOST=10.0.0.1")
	g.says(t, `"msg":"serving"`)
	if code, body := g.page(t, "/livez"); code != http.StatusOK {
		t.Errorf("/livez: %d %s", code, body)
	}
	if code, body := g.page(t, "/readyz"); code != http.StatusServiceUnavailable || !strings.Contains(body, "token") {
		t.Errorf("/readyz: %d %s", code, body)
	}
	if code, body := g.page(t, "/"); code != http.StatusOK || !strings.Contains(body, `"instance": "gateway-1"`) || !strings.Contains(body, "ready: no") {
		t.Errorf("/: %d %s", code, body)
	}
	if code, body := g.page(t, "/metrics"); code != http.StatusOK || !strings.Contains(body, "\ndoorkeeper_sessions 0\n") {
		t.Errorf("/metrics: %d %.200s", code, body)
	}
	conn, err := net.Dial("tcp", g.listen)
	if err != nil {
		t.Errorf("the listener is not bound: %v", err)
	} else {
		_ = conn.Close()
	}
	g.says(t, "the token path does not work")
	g.says(t, "DOORKEEPER_SERVICE_HOST")
	g.signals <- syscall.SIGHUP
	g.says(t, "SIGHUP is ignored")
	g.signals <- syscall.SIGTERM
	g.ends(t, exitOK)
	g.says(t, `"msg":"stopped"`)
	// Both addresses are free again.
	for _, a := range []string{g.listen, g.admin} {
		l, err := net.Listen("tcp", a)
		if err != nil {
			t.Errorf("%s is still bound: %v", a, err)
			continue
		}
		_ = l.Close()
	}
}

// TestPointedAtItself is S23: by a name that the configuration alone does not give
// away, through the control listener's address and through its own certificate.
func TestPointedAtItself(t *testing.T) {
	g := writeFiles(t, nil)
	_, port, err := net.SplitHostPort(g.listen)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(g.config())
	if err != nil {
		t.Fatal(err)
	}
	pointed := strings.ReplaceAll(string(text), "127.0.0.1:2", "localhost:"+port)
	if err := os.WriteFile(g.config(), []byte(pointed), 0o600); err != nil {
		t.Fatal(err)
	}
	g.start(t)
	g.ends(t, exitFailure)
	if said := g.stderr.String(); !strings.Contains(said, "pointed at itself") || !strings.Contains(said, "kafka.control.bootstrap") {
		t.Errorf("it said\n%s", said)
	}
}

func TestTakenAddressIsAFailureThatNamesTheKey(t *testing.T) {
	for _, key := range []string{"listen.address", "admin.address"} {
		t.Run(key, func(t *testing.T) {
			g := writeFiles(t, nil)
			taken := map[string]string{"listen.address": g.listen, "admin.address": g.admin}[key]
			l, err := net.Listen("tcp", taken)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			g.start(t)
			g.ends(t, exitFailure)
			if said := g.stderr.String(); !strings.Contains(said, key) || !strings.Contains(said, taken) {
				t.Errorf("it said\n%s", said)
			}
		})
	}
}

func TestVersionSaysWhichBuild(t *testing.T) {
	if v := version(); !regexp.MustCompile(`^\S+ go1\.\S+ \w+/\w+$`).MatchString(v) {
		t.Errorf("got %q", v)
	}
}
