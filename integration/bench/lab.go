package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"doorkeeper/internal/certtest"
)

// lab is what is measured on: a broker and a gateway in front of it, each a process.
type lab struct {
	dir             string
	broker, gateway *child
	direct, through side
	admin           string
	scrape          float64 // allocations of the gateway for one reading of its metrics
}

// side is one of the two ways to the broker.
type side struct {
	name    string
	address string
	tls     *tls.Config
	login   bool // with SCRAM, as brokers demand it
}

func (l *lab) sides() []side { return []side{l.direct, l.through} }

// renewing is how sessions of a lab end, and how many there are at most.
type renewing struct {
	life     time.Duration
	kind     string // connections.renewal
	sessions int
}

// newLab starts everything and waits until it is ready. binary is a built gateway; empty:
// it is built here.
func newLab(ctx context.Context, binary string, r renewing) (l *lab, err error) {
	dir, err := os.MkdirTemp("", "doorkeeper-bench-")
	if err != nil {
		return nil, err
	}
	l = &lab{dir: dir}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.close())
			l = nil
		}
	}()
	if binary == "" {
		if binary, err = build(ctx, dir); err != nil {
			return l, err
		}
	}
	// An address of this run's own, with fixed ports: nothing else listens there.
	host := fmt.Sprintf("127.%d.%d.%d", 100+os.Getpid()>>16&31, os.Getpid()>>8&255, max(1, os.Getpid()&255))
	l.admin = net.JoinHostPort(host, "9644")
	brokers, clients := certtest.NewCA("brokers"), certtest.NewCA("clients")
	server := certtest.Server()
	server.IPs = append(server.IPs, net.ParseIP(host))
	edge := clients.Issue(server)
	client := clients.Issue(certtest.Leaf{CommonName: "client"})
	control := brokers.Issue(certtest.Leaf{CommonName: "gateway"})

	listens := listeners{Host: host, Data: 9094, Control: 9095, SessionLife: r.life}
	files := brokers.Issue(server).Write(dir, "broker")
	listens.Certificate, listens.Key, listens.CA = files.Cert, files.Key, brokers.Write(dir, "brokers")
	if err := l.startBroker(ctx, listens); err != nil {
		return l, err
	}
	l.direct = side{name: "direct", address: listens.data(), tls: &tls.Config{RootCAs: certtest.Pool(brokers), ServerName: host}, login: true}
	l.through = side{name: "gateway", address: net.JoinHostPort(host, "9201"), tls: client.ClientConfig(clients)}
	l.through.tls.ServerName = host

	edgeFiles, controlFiles := edge.Write(dir, "edge"), control.Write(dir, "control")
	config := fmt.Sprintf(`
listen:
  address: %[1]s:9200
  advertise: {mode: port, host: %[1]s, base_port: 9200, nodes: "1"}
  tls: {certificate: %[2]s, key: %[3]s, client_ca: %[4]s}
identity: {from: subject, rules: ['RULE:^CN=([^,]+).*$/$1/']}
kafka:
  bootstrap: ["%[5]s"]
  tls: {ca: %[6]s}
  control:
    bootstrap: ["%[7]s"]
    tls: {ca: %[6]s, certificate: %[8]s, key: %[9]s}
instance: bench
admin: {address: %[10]s}
connections: {renewal: %[11]s}
limits: {handshakes_per_address: 1000, sessions_per_owner: %[12]d, sessions_per_address: %[12]d}
log: {level: warn}
`, host, edgeFiles.Cert, edgeFiles.Key, clients.Write(dir, "clients"), listens.data(), listens.CA, listens.control(),
		controlFiles.Cert, controlFiles.Key, l.admin, r.kind, r.sessions)
	return l, l.startGateway(ctx, binary, certtest.WriteFile(dir, "doorkeeper.yaml", []byte(config)))
}

// build makes the binary as `make build` does.
func build(ctx context.Context, dir string) (string, error) {
	root, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("find the module: %w", err)
	}
	path := filepath.Join(dir, "doorkeeper")
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", path, "./cmd/doorkeeper")
	cmd.Dir = filepath.Dir(strings.TrimSpace(string(root)))
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the gateway: %w\n%s", err, out)
	}
	return path, nil
}

func (l *lab) startBroker(ctx context.Context, listens listeners) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	in, feed, err := os.Pipe()
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	told, out, err := os.Pipe()
	if err != nil {
		return errors.Join(err, feed.Close())
	}
	defer func() { _ = told.Close() }()
	broker, err := startChild("broker", filepath.Join(l.dir, "broker.log"), in, out, self, asBroker)
	_ = out.Close()
	if err != nil {
		return errors.Join(err, feed.Close())
	}
	l.broker, broker.end = broker, feed.Close
	text, err := json.Marshal(listens)
	if err == nil {
		_, err = feed.Write(append(text, '\n'))
	}
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = told.SetReadDeadline(time.Now()) })
	defer stop()
	if line, err := bufio.NewReader(told).ReadString('\n'); err != nil || line != brokerReady {
		return fmt.Errorf("the broker says %q: %w", line, errors.Join(err, l.broker.stop()))
	}
	return nil
}

func (l *lab) startGateway(ctx context.Context, binary, config string) (err error) {
	l.gateway, err = startChild("gateway", filepath.Join(l.dir, "gateway.log"), nil, nil, binary, "serve", "--config", config)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		_, err := get(ctx, "http://"+l.admin+"/readyz")
		if err == nil {
			break
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-l.gateway.done:
			return l.gateway.failed(errors.New("it has ended"))
		case <-ctx.Done():
			return errors.Join(l.gateway.failed(err), l.broker.failed(errors.New("what it says of it")))
		}
	}
	// The second of two readings counts: the first has things to make that last.
	var read [3]float64
	for i := range read {
		if read[i], err = metric(ctx, l.admin, mallocs); err != nil {
			return err
		}
	}
	l.scrape = read[2] - read[1]
	return nil
}

// mallocs counts every allocation since the gateway's start.
const mallocs = "go_memstats_mallocs_total"

// close ends the processes and removes what they had.
func (l *lab) close() error {
	var errs []error
	if l.gateway != nil {
		errs = append(errs, l.gateway.stop())
		if said, err := os.ReadFile(l.gateway.log); err == nil && bytes.Contains(said, []byte(`"level":"error"`)) {
			errs = append(errs, l.gateway.failed(errors.New("it has logged an error")))
		}
	}
	if l.broker != nil {
		errs = append(errs, l.broker.stop())
	}
	return errors.Join(append(errs, os.RemoveAll(l.dir))...)
}
