//go:build integration

package harness

import (
	"fmt"
	"net"
	"strconv"

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
// can resolve but a gateway that has SecretHosts.
func (s *Site) SecretNames(cfg ClusterConfig) ClusterConfig { return s.Names(cfg, SecretName) }

// Names gives the nodes of a cluster names of one's own choice in that manner, for a
// gateway that has Hosts. They listen at addresses of the site's network all the same,
// and their certificates have both. The other listeners, none of which a client ever sees,
// are known by their addresses.
func (s *Site) Names(cfg ClusterConfig, called func(node int32) string) ClusterConfig {
	more := cfg.Node
	cfg.Node = func(id int32) NodeConfig {
		n := NodeConfig{}
		if more != nil {
			n = more(id)
		}
		name := called(id)
		n.Host = s.LoopbackHost()
		n.Certificate = s.pki.once("broker-"+n.Host, s.pki.Brokers,
			certtest.Leaf{CommonName: "broker", IPs: []net.IP{net.ParseIP(n.Host)}, DNS: []string{name}}, s.pki.Brokers, s.pki.brokers)
		n.AdvertisedToken = net.JoinHostPort(name, strconv.Itoa(tokenPort))
		return n
	}
	return cfg
}

// SecretHosts is where SecretNames are, for GatewayConfig.Hosts: nobody else knows.
func (c *Cluster) SecretHosts() map[string]string { return c.Hosts(SecretName) }

// Hosts is where Names are.
func (c *Cluster) Hosts(called func(node int32) string) map[string]string {
	hosts := make(map[string]string)
	for _, n := range c.Nodes {
		hosts[called(n.ID)] = n.Host
	}
	return hosts
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
