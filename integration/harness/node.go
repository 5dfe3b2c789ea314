//go:build integration

package harness

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// NodeConfig changes one node.
type NodeConfig struct {
	Version              Version           // another than the cluster's, as in the middle of an upgrade; empty: the cluster's
	Host                 string            // to listen on and be known by; empty: an address of the site's network
	Certificate          *Certificate      // empty: one for Host
	AdvertisedToken      string            // host:port, e.g. of a relay; empty: the listener's own
	AdvertisedControl    string            // the same
	AdvertisedController string            // the same, where brokers that are no controllers find it; from Kafka 3.9 on
	Listeners            map[string]string // further ones: name → security protocol; Node.Listener has their addresses
	Advertised           map[string]string // of Listeners: name → host:port; those that are not here advertise their own address
	Properties           map[string]string // an empty value takes a setting away
	BrokerOnly           bool              // it is no controller; one node at least has to be
	Clock                *Clock            // nil: the machine's; only with the engine AsProcesses
}

// Node is one broker, and a controller too unless it is BrokerOnly.
type Node struct {
	ID   int32
	Host string

	cluster     *Cluster
	cfg         NodeConfig
	certificate *Certificate
	dir         string
	running     Running
	ended       bool // by Stop or Kill, not by itself
}

// TokenAddress is where clients with tokens find the node: SASL_SSL.
func (n *Node) TokenAddress() string {
	if n.cfg.AdvertisedToken != "" {
		return n.cfg.AdvertisedToken
	}
	return n.TokenListener()
}

// ControlAddress is where those with a certificate find it: SSL.
func (n *Node) ControlAddress() string {
	if n.cfg.AdvertisedControl != "" {
		return n.cfg.AdvertisedControl
	}
	return n.ControlListener()
}

// TokenListener is where clients' tokens log in, without any relay in between.
func (n *Node) TokenListener() string { return n.at(tokenPort) }

// ControlListener is where the node listens for the gateway's own connections.
func (n *Node) ControlListener() string { return n.at(controlPort) }

// JMX is where the node's MBeans are read, without a password.
func (n *Node) JMX() string { return n.at(jmxPort) }

// Version is the Kafka that the node runs.
func (n *Node) Version() Version { return first(n.cfg.Version, n.cluster.cfg.Version) }

func (n *Node) at(port int) string { return net.JoinHostPort(n.Host, strconv.Itoa(port)) }

// Log is the node's own log.
func (n *Node) Log() string { return filepath.Join(n.dir, "out.log") }

// AuthorizerLog is the file of the authorizer's decisions.
func (n *Node) AuthorizerLog() string { return filepath.Join(n.dir, "authorizer.log") }

// Start starts the node and does not wait until it serves (Cluster.Await does).
// One that runs already stays as it is.
func (n *Node) Start() error {
	if n.running != nil && n.running.Alive() {
		return nil
	}
	r, err := n.cluster.cfg.Engine.Start(n.spec())
	if err != nil {
		return err
	}
	n.running, n.ended = r, false
	return nil
}

func (n *Node) spec() NodeSpec {
	return NodeSpec{
		Version: n.Version(), Dir: n.dir, Heap: n.cluster.cfg.Heap, Clock: n.cfg.Clock, ClassPath: n.cluster.cfg.ClassPath,
		JVM: []string{
			"-Dfile.encoding=UTF-8", // of its logs, whatever the locale
			// At every SASL login a broker looks up the name of its own address, on the
			// thread that serves the connections: never in a DNS that may take seconds.
			"-Djdk.net.hosts.file=" + n.hostsFile(),
			"-Djava.rmi.server.hostname=" + n.Host,
			"-Dcom.sun.management.jmxremote.host=" + n.Host,
			fmt.Sprintf("-Dcom.sun.management.jmxremote.port=%d", jmxPort),
			fmt.Sprintf("-Dcom.sun.management.jmxremote.rmi.port=%d", jmxPort),
			"-Dcom.sun.management.jmxremote.authenticate=false",
			"-Dcom.sun.management.jmxremote.ssl=false",
		},
	}
}

// Stop asks the node to end and waits until it has: leaders move away first.
func (n *Node) Stop() {
	n.ended = true
	n.running.Stop(60 * time.Second)
}

// Kill ends it at once, as a power cut would.
func (n *Node) Kill() {
	n.ended = true
	n.running.Kill()
}

// Pause suspends the node and returns when none of its threads runs: its sockets stay
// open and silent. Resume wakes it.
func (n *Node) Pause() error { return n.running.Suspend() }

// Resume lets a paused node go on.
func (n *Node) Resume() error { return n.running.Signal(syscall.SIGCONT) }

// PID is the node's process.
func (n *Node) PID() int { return n.running.PID() }

// died is an error with the end of the node's log if it runs no more.
func (n *Node) died() error {
	if n.running == nil || n.running.Alive() {
		return nil
	}
	return fmt.Errorf("node %d has ended by itself; its last lines:\n%s", n.ID, tail(n.Log(), 40))
}

// answers tells whether the token listener answers a TLS handshake.
func (n *Node) answers(c *tls.Config) error {
	conn, err := tls.DialWithDialer(&net.Dialer{Timeout: 3 * time.Second}, "tcp", n.TokenListener(), c)
	if err != nil {
		return err
	}
	return conn.Close()
}

func (n *Node) writeAll() error {
	return errors.Join(os.MkdirAll(n.dir, 0o755), n.cluster.writeFiles(n), n.writeHosts())
}

func (n *Node) hostsFile() string { return filepath.Join(n.dir, "hosts") }

// writeHosts gives all nodes' addresses names, beside what this machine knows.
func (n *Node) writeHosts() error {
	hosts, err := os.ReadFile("/etc/hosts")
	if err != nil {
		return err
	}
	for _, of := range n.cluster.Nodes {
		if net.ParseIP(of.Host) != nil {
			hosts = fmt.Appendf(hosts, "\n%s node-%d\n", of.Host, of.ID)
		}
	}
	return os.WriteFile(n.hostsFile(), hosts, 0o644)
}
