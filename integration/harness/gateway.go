//go:build integration

package harness

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"go.yaml.in/yaml/v3"
)

// GatewayConfig changes a gateway from what Site.document says.
type GatewayConfig struct {
	Change func(Document) // nil: nothing
	Env    []string       // e.g. "DOORKEEPER_LOG_LEVEL=debug"
	Args   []string       // in place of "serve --config FILE"; FILE is the configuration's path
	Plain  bool           // without the race detector, whose shadow memory would drown what is measured
	// Hosts are names with their addresses that this gateway alone can resolve: it gets a
	// mount namespace of its own, and a hosts file in it. nil: it knows what the machine does.
	Hosts map[string]string
}

// Gateway is a process of the built binary.
type Gateway struct {
	*Process
	Host      string // where clients reach it
	Bootstrap string // host:port
	Admin     string // host:port of /metrics and /readyz
	Log       string // a file that gets all its output
	Config    string // its configuration file

	site    *Site
	base    int
	command []string // that started it, but for its arguments
	cfg     GatewayConfig
}

// build makes the binary, each kind once a run.
func (s *Site) build(name string, flags ...string) (string, error) {
	path := filepath.Join(s.Dir, name)
	args := append(append([]string{"go", "build"}, flags...), "-o", path, "./cmd/doorkeeper")
	_, err := run(command{Name: "go build", Args: args, Dir: s.Root})
	return path, err
}

// Binary is the path of the gateway, built with the race detector.
func (s *Site) Binary() (string, error) { return s.binary() }

// StartGateway starts the binary in front of c and does not wait until it is
// ready. Whatever becomes of it, its process ends with the Site at the latest.
func (s *Site) StartGateway(c *Cluster, cfg GatewayConfig) (*Gateway, error) {
	binary, err := s.Binary()
	if cfg.Plain {
		binary, err = s.plain()
	}
	if err != nil {
		return nil, err
	}
	host, err := s.Front()
	if err != nil {
		return nil, err
	}
	port := s.takePorts()
	g := &Gateway{
		Host: host, Bootstrap: net.JoinHostPort(host, strconv.Itoa(port)), site: s, base: port + 10,
		Admin: net.JoinHostPort(s.LoopbackHost(), "9644"),
	}
	doc := s.document(c, host, port, g.Admin)
	if cfg.Change != nil {
		cfg.Change(doc)
	}
	dir := filepath.Join(s.Dir, fmt.Sprintf("gateway-%d", port))
	g.Log, g.Config = filepath.Join(dir, "gateway.log"), filepath.Join(dir, "doorkeeper.yaml")
	text, err := yaml.Marshal(doc)
	if err := errors.Join(err, os.MkdirAll(dir, 0o755), os.WriteFile(g.Config, text, 0o600)); err != nil {
		return nil, err
	}
	run := []string{binary}
	if cfg.Hosts != nil {
		if run, err = withHosts(dir, binary, cfg.Hosts); err != nil {
			return nil, err
		}
	}
	g.command, g.cfg = run, cfg
	if err := g.start(); err != nil {
		return g, err
	}
	s.atClose(func() error { g.Stop(40 * time.Second); return nil })
	return g, nil
}

// Restart starts it anew, where it has ended: the same binary, configuration and ports.
// It does not wait until it is ready. Its output goes on in the same file.
func (g *Gateway) Restart() error { return g.start() }

// withHosts is the command that runs binary where these names, and localhost, have
// addresses and no others of a hosts file do.
func withHosts(dir, binary string, hosts map[string]string) ([]string, error) {
	file, text := filepath.Join(dir, "hosts"), "127.0.0.1 localhost\n"
	for name, address := range hosts {
		text += address + " " + name + "\n"
	}
	return []string{"unshare", "--mount", "--", "sh", "-c", `mount --bind "$1" /etc/hosts && shift && exec "$@"`, "sh", file, binary},
		os.WriteFile(file, []byte(text), 0o644)
}

func (g *Gateway) start() error {
	log, err := os.OpenFile(g.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	args := append(slices.Clone(g.command), "serve", "--config", g.Config)
	if g.cfg.Args != nil {
		args = append(slices.Clone(g.command), g.cfg.Args...)
		for i, a := range args {
			if a == "FILE" {
				args[i] = g.Config
			}
		}
	}
	p, err := start(command{Name: "doorkeeper", Args: args, Env: append([]string{"GOTRACEBACK=all"}, g.cfg.Env...), Dir: filepath.Dir(g.Config), Log: log})
	if err == nil {
		g.Process = p
	}
	return err
}

// NodeAddress is the address at which clients find the node of that id.
func (g *Gateway) NodeAddress(id int32) string {
	return net.JoinHostPort(g.Host, strconv.Itoa(g.base+int(id)))
}

// Addresses are all that a client may ever dial.
func (g *Gateway) Addresses(c *Cluster) []string {
	out := []string{g.Bootstrap}
	for _, n := range c.Nodes {
		out = append(out, g.NodeAddress(n.ID))
	}
	return out
}

// AwaitReady waits until /readyz says yes; ctx ends the wait, and so does the
// gateway's end.
func (g *Gateway) AwaitReady(ctx context.Context) error {
	err := until(ctx, func() error {
		if !g.Alive() {
			return nil
		}
		status, body, err := g.Get(ctx, "/readyz")
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("not ready (%d): %s", status, body)
		}
		return err
	})
	if err == nil && g.Alive() {
		return nil
	}
	if err == nil {
		err = errors.New("it has ended")
	}
	return fmt.Errorf("gateway: %w; its last lines:\n%s", err, tail(g.Log, 30))
}

// Get reads a page of the admin address.
func (g *Gateway) Get(ctx context.Context, path string) (status int, body string, err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+g.Admin+path, nil)
	if err != nil {
		return 0, "", err
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}} // leaves no connection behind
	resp, err := client.Do(req)
	if err != nil {
		return 0, "", err
	}
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b), errors.Join(err, resp.Body.Close())
}

// Terminate sends SIGTERM and returns the exit code.
func (g *Gateway) Terminate(atMost time.Duration) (int, error) {
	if err := g.Signal(syscall.SIGTERM); err != nil {
		return 0, err
	}
	return g.Wait(atMost)
}

// TLS is what a client with c needs to connect to the gateway.
func (g *Gateway) TLS(c *Certificate) *tls.Config {
	t := c.ClientTLS()
	t.ServerName = g.Host
	return t
}
