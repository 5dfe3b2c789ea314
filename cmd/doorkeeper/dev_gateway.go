package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"go.yaml.in/yaml/v3"

	"doorkeeper/internal/pause"
)

const (
	devHost    = "127.0.0.1"
	devLogFile = "doorkeeper.log"
	devDrain   = 5 * time.Second
	// devReady bounds the wait for the gateway to be ready.
	devReady = 15 * time.Second
	// devPortTries bounds how often other ports are looked for.
	devPortTries = 20
)

// devGateway is the real gateway, built from a configuration file as `serve` does.
type devGateway struct {
	bootstrap string // host:port
	parts     *parts
	files     devClients
	stop      context.CancelFunc
	ended     chan struct{} // closed when supervise has returned
	err       error         // what it returned
}

// devClients are the throw-away certificates of the clients, by name.
type devClients map[string]devPair

// openDevLog makes the file of the gateway's own lines: the terminal is for the proof.
func openDevLog(dir devDirectory) (*os.File, error) {
	f, err := os.OpenFile(dir.file(devLogFile), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("make the log file: %w; name a directory that can be written with --dir", err)
	}
	return f, nil
}

// startDevGateway writes certificates and configuration into dir and runs the gateway
// with them, at the default ports where these are free. The caller closes it.
func startDevGateway(ctx context.Context, dir devDirectory, kafka *devKafka, log io.Writer) (*devGateway, error) {
	clients, err := writeDevPairs(dir, kafka.authority)
	if err != nil {
		return nil, err
	}
	standard := defaults()
	ports := devPorts{bootstrap: standard.Listen.Address.Port, base: standard.Listen.Advertise.BasePort, admin: standard.Admin.Address.Port}
	for try := 1; ; try++ {
		if err := ports.makeFree(ctx, kafka.cluster.Nodes()); err != nil {
			return nil, err
		}
		g, err := tryDevGateway(ctx, dir, kafka, ports, log)
		if err == nil {
			g.files = clients
			return g, nil
		}
		// Somebody else took a port between the look and the bind.
		if !errors.Is(err, syscall.EADDRINUSE) || try == devPortTries {
			return nil, err
		}
	}
}

func tryDevGateway(ctx context.Context, dir devDirectory, kafka *devKafka, ports devPorts, log io.Writer) (*devGateway, error) {
	text, err := devConfig(dir, kafka, ports)
	if err != nil {
		return nil, err
	}
	if err := dir.write(devConfigFile, text); err != nil {
		return nil, err
	}
	// The environment is not for this gateway, whose every setting is known.
	config, report := loadConfig(dir.file(devConfigFile), nil)
	m := readMaterial(config, report)
	if err := report.err(dir.file(devConfigFile)); err != nil {
		return nil, err
	}
	p, err := build(config, m, newLogger(config.Log, log))
	if err != nil {
		return nil, err
	}
	if err := p.listen(ctx); err != nil {
		p.close()
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	g := &devGateway{bootstrap: config.Listen.Address.String(), parts: p, stop: stop, ended: make(chan struct{})}
	go func() {
		defer close(g.ended)
		g.err = supervise(ctx, p.tasks()...)
	}()
	return g, nil
}

// close stops the gateway and waits for it, for devDrain and a little more.
func (g *devGateway) close() error {
	g.stop()
	<-g.ended
	g.parts.close()
	return g.err
}

// run waits until ctx ends. It is an error if the gateway does so before, or has found
// that trying again cannot help; close says what ended it.
func (g *devGateway) run(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case err := <-g.parts.loops.found:
		return err
	case <-g.ended:
		return errors.New("the gateway has ended by itself")
	}
}

// awaitReady waits until a client could be served, for devReady at most.
func (g *devGateway) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, devReady)
	defer cancel()
	for {
		err := g.parts.ready()
		if err == nil {
			return nil
		}
		if !pause.For(ctx, 20*time.Millisecond) {
			return fmt.Errorf("the gateway did not become ready: %w", err)
		}
	}
}

// writeDevPairs issues and writes the certificates of all who have one.
func writeDevPairs(dir devDirectory, authority *devAuthority) (devClients, error) {
	server, err := authority.server("doorkeeper dev")
	if err != nil {
		return nil, err
	}
	errs := []error{
		dir.write("ca.pem", authority.pem()),
		dir.write("server.crt", server.cert), dir.write("server.key", server.key),
	}
	clients := make(devClients)
	for _, name := range []string{"gateway", "alice", "bob"} {
		pair, err := authority.client(name)
		if err != nil {
			return nil, err
		}
		clients[name] = pair
		errs = append(errs, dir.write(name+".crt", pair.cert), dir.write(name+".key", pair.key),
			dir.write(name+".pem", append(append([]byte(nil), pair.key...), pair.cert...))) // as Java wants it
	}
	return clients, errors.Join(errs...)
}

// devConfig is the configuration, as an operator would write it.
func devConfig(dir devDirectory, kafka *devKafka, ports devPorts) ([]byte, error) {
	nodes := make([]string, 0, 3)
	for _, id := range kafka.cluster.Nodes() {
		nodes = append(nodes, strconv.Itoa(int(id)))
	}
	type m = map[string]any
	ca := dir.file("ca.pem")
	text, err := yaml.Marshal(m{
		"listen": m{
			"address":   net.JoinHostPort(devHost, strconv.Itoa(ports.bootstrap)),
			"advertise": m{"mode": "port", "host": devHost, "base_port": ports.base, "nodes": strings.Join(nodes, ",")},
			"tls":       m{"certificate": dir.file("server.crt"), "key": dir.file("server.key"), "client_ca": ca},
		},
		"identity": m{"from": "common_name", "protected": []string{"admin"}},
		"kafka": m{
			"bootstrap": kafka.cluster.TokenAddresses(),
			"tls":       m{"ca": ca},
			"control": m{
				"bootstrap": kafka.cluster.ControlAddresses(),
				"tls":       m{"ca": ca, "certificate": dir.file("gateway.crt"), "key": dir.file("gateway.key")},
			},
		},
		"instance": "dev",
		"tokens":   m{"lifetime": devLife.String()},
		"timeouts": m{"drain": devDrain.String()},
		"admin":    m{"address": net.JoinHostPort(devHost, strconv.Itoa(ports.admin))},
	})
	if err != nil {
		return nil, fmt.Errorf("write the configuration: %w", err)
	}
	return append([]byte("# Made by `doorkeeper dev`, and valid while it runs.\n"), text...), nil
}

// devPorts are where the gateway of `dev` listens.
type devPorts struct{ bootstrap, base, admin int }

// makeFree exchanges what is taken for ports that are free now. That they still are
// when they are bound is not promised.
func (p *devPorts) makeFree(ctx context.Context, nodes []int32) error {
	err := nextFree(ctx, &p.bootstrap, 0)
	err = errors.Join(err, nextFree(ctx, &p.admin, 0))
	offsets := make([]int, len(nodes))
	for i, id := range nodes {
		offsets[i] = int(id)
	}
	return errors.Join(err, nextFree(ctx, &p.base, offsets...))
}

// nextFree moves port on until port+offset can be bound for all offsets.
func nextFree(ctx context.Context, port *int, offsets ...int) error {
	for try := range devPortTries {
		var taken error
		for _, offset := range offsets {
			taken = errors.Join(taken, bindable(ctx, *port+offset))
		}
		switch {
		case taken == nil:
			return nil
		case !errors.Is(taken, syscall.EADDRINUSE):
			return taken
		}
		// First in steps that people can remember, then where the system has room.
		if *port += 1000; try >= 3 {
			l, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(devHost, "0"))
			if err != nil {
				return fmt.Errorf("find a free port: %w", err)
			}
			*port = l.Addr().(*net.TCPAddr).Port
			if err := l.Close(); err != nil {
				return err
			}
		}
	}
	return fmt.Errorf("no free port was found on %s in %d attempts", devHost, devPortTries)
}

func bindable(ctx context.Context, port int) error {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(devHost, strconv.Itoa(port)))
	if err != nil {
		return fmt.Errorf("find a free port: %w", err)
	}
	return l.Close()
}
