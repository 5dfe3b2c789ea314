//go:build integration

package harness

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"go.yaml.in/yaml/v3"

	"doorkeeper/integration/conformance"
	"doorkeeper/internal/certtest"
)

// secretDomain is the end of the names by which brokers with secret names are known to
// clients with tokens: nothing else has it.
const secretDomain = "secret.internal"

// SecretName is the name of a node on its token listener in a cluster that SecretNames
// has named.
func SecretName(node int32) string { return fmt.Sprintf("br0ker-%d.%s", node, secretDomain) }

// SecretNames gives the nodes of a cluster, on their token listeners, names that nobody
// can resolve but a gateway that StartInformedGateway has started. They listen at
// addresses of the site's network all the same, and their certificates have both. The
// other listeners, none of which a client ever sees, are known by their addresses.
func (s *Site) SecretNames(cfg ClusterConfig) ClusterConfig {
	more := cfg.Node
	cfg.Node = func(id int32) NodeConfig {
		n := NodeConfig{}
		if more != nil {
			n = more(id)
		}
		name := SecretName(id)
		n.Host = s.LoopbackHost()
		n.Certificate = s.pki.once("broker-"+n.Host, s.pki.Brokers,
			certtest.Leaf{CommonName: "broker", IPs: []net.IP{net.ParseIP(n.Host)}, DNS: []string{name}}, s.pki.Brokers, s.pki.brokers)
		n.AdvertisedToken = net.JoinHostPort(name, strconv.Itoa(tokenPort))
		return n
	}
	return cfg
}

// StartInformedGateway is StartGateway for a cluster with secret names. The gateway finds
// them in a hosts file that it alone has: it runs in a mount namespace of its own.
func (s *Site) StartInformedGateway(c *Cluster, cfg GatewayConfig) (*Gateway, error) {
	binary, err := s.Binary()
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
	names := filepath.Join(dir, "hosts")
	hosts := "127.0.0.1 localhost\n"
	for _, n := range c.Nodes {
		hosts += fmt.Sprintf("%s %s\n", n.Host, SecretName(n.ID))
	}
	if err := errors.Join(err, os.MkdirAll(dir, 0o755), os.WriteFile(g.Config, text, 0o600), os.WriteFile(names, []byte(hosts), 0o644)); err != nil {
		return nil, err
	}
	cfg.Args = []string{"--mount", "--", "sh", "-c", `mount --bind "$1" /etc/hosts && exec "$2" serve --config "$3"`, "sh", names, binary, "FILE"}
	return g, g.start("unshare", dir, cfg)
}

// Leaks looks for c's brokers in what clients receive: for their names and addresses on
// all listeners, and for their ports in address fields.
func (c *Cluster) Leaks() *conformance.Leaks {
	hosts := []string{secretDomain}
	for _, n := range c.Nodes {
		hosts = append(hosts, n.Host, string(net.ParseIP(n.Host).To4()))
	}
	return conformance.NewLeaks(hosts, []int32{controlPort, tokenPort, internalPort, controllerPort})
}
