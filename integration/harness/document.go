//go:build integration

package harness

import (
	"fmt"
	"path/filepath"
	"strings"
)

// Document is the gateway's configuration file as a tree.
type Document map[string]any

// Set sets the key of a dotted path, such as "listen.tls.key".
func (d Document) Set(path string, value any) {
	node, last := d.descend(path)
	node[last] = value
}

// Delete takes a key away with all that is below it.
func (d Document) Delete(path string) {
	node, last := d.descend(path)
	delete(node, last)
}

func (d Document) descend(path string) (map[string]any, string) {
	keys := strings.Split(path, ".")
	node := map[string]any(d)
	for _, k := range keys[:len(keys)-1] {
		next, ok := node[k].(map[string]any)
		if !ok {
			next = map[string]any{}
			node[k] = next
		}
		node = next
	}
	return node, keys[len(keys)-1]
}

// document is the configuration of a gateway at these ports in front of c.
func (s *Site) document(c *Cluster, host string, port int, admin string) Document {
	edge := s.edge(host)
	control := s.Direct(GatewayPrincipal)
	d := Document{}
	d.Set("listen.address", fmt.Sprintf("%s:%d", host, port))
	d.Set("listen.advertise.mode", "port")
	d.Set("listen.advertise.host", host)
	d.Set("listen.advertise.base_port", port+10)
	d.Set("listen.advertise.nodes", fmt.Sprintf("1-%d", len(c.Nodes)))
	d.Set("listen.tls.certificate", edge.Files.Cert)
	d.Set("listen.tls.key", edge.Files.Key)
	d.Set("listen.tls.client_ca", edge.CAFile())
	d.Set("identity.from", "subject")
	d.Set("identity.rules", []string{"RULE:^CN=([^,]+).*$/$1/", "DEFAULT"})
	d.Set("identity.protected", []string{"admin", "broker"})
	d.Set("kafka.bootstrap", c.TokenAddresses())
	d.Set("kafka.tls.ca", s.pki.brokers)
	d.Set("kafka.control.bootstrap", c.ControlAddresses())
	d.Set("kafka.control.tls.ca", s.pki.brokers)
	d.Set("kafka.control.tls.certificate", control.Files.Cert)
	d.Set("kafka.control.tls.key", control.Files.Key)
	d.Set("instance", filepath.Base(s.Dir)+fmt.Sprintf("-%d", port))
	d.Set("admin.address", admin)
	d.Set("log.level", "info")
	d.Set("log.format", "json")
	return d
}
