//go:build integration

package integration

import (
	"context"
	"fmt"
	"maps"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"doorkeeper/integration/harness"
	"doorkeeper/internal/certtest"
)

// odd is a cluster in which much is wrong, each thing where it disturbs no other. Node 1
// alone is a controller, so that the others may lack what a controller needs: node 2
// has another secret key, node 3 has none. The listeners of node 1 below have one fault
// each. A test leaves the cluster as it found it, but for the last, which stops node 3.
type odd struct {
	*harness.Cluster
	meddler string // what the listener MEDDLED advertises; its target is that listener
}

// at is the address of one of node 1's listeners.
func (o *odd) at(listener string) []string { return []string{o.Node(1).Listener(listener)} }

// likeToken makes a listener of node 1 a token listener like TOKEN, with further settings.
func likeToken(name string, more map[string]string) map[string]string {
	at := "listener.name." + strings.ToLower(name) + "."
	p := map[string]string{at + "ssl.client.auth": "none"}
	for _, mechanism := range []string{"256", "512"} {
		p[at+"scram-sha-"+mechanism+".sasl.jaas.config"] = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
	}
	for k, v := range more {
		p[at+k] = v
	}
	return p
}

var oddShared = sync.OnceValues(func() (*odd, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	hosts := []string{site.LoopbackHost(), site.LoopbackHost(), site.LoopbackHost()}
	ip := func(host string) []net.IP { return []net.IP{net.ParseIP(host)} }
	ended := site.ClientOf("broker-ended", site.BrokerCA(), certtest.Leaf{
		CommonName: "broker", IPs: ip(hosts[0]), NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: time.Now().Add(-24 * time.Hour),
	})
	elsewhere := site.ClientOf("broker-elsewhere", site.BrokerCA(), certtest.Leaf{CommonName: "broker", IPs: ip("192.0.2.1"), DNS: []string{"broker-9.example.com"}})

	listeners := map[string]string{
		"CLEAR": "PLAINTEXT", "DOUBLE": "SASL_SSL", "ELSEWHERE": "SASL_SSL", "ENDED": "SASL_SSL", "HOURLY": "SASL_SSL", "NOWHERE": "SASL_SSL",
		"LONE": "SSL", "MEDDLED": "SASL_SSL", "ONEWAY": "SSL", "PASSWORDS": "SASL_SSL", "SHORT": "SASL_SSL", "UNNAMED": "SASL_SSL",
	}
	properties := map[string]string{
		"listener.name.oneway.ssl.client.auth":            "none",
		"listener.name.passwords.ssl.client.auth":         "none",
		"listener.name.passwords.sasl.enabled.mechanisms": "PLAIN",
		"listener.name.passwords.plain.sasl.jaas.config":  `org.apache.kafka.common.security.plain.PlainLoginModule required user_x="y";`,
	}
	maps.Copy(properties, likeToken("DOUBLE", nil))
	maps.Copy(properties, likeToken("ENDED", map[string]string{"ssl.keystore.location": ended.Files.Combined}))
	maps.Copy(properties, likeToken("ELSEWHERE", map[string]string{"ssl.keystore.location": elsewhere.Files.Combined}))
	maps.Copy(properties, likeToken("HOURLY", map[string]string{"connections.max.reauth.ms": "3600000"}))
	maps.Copy(properties, likeToken("SHORT", map[string]string{"connections.max.reauth.ms": "2000"}))
	maps.Copy(properties, likeToken("NOWHERE", nil))
	maps.Copy(properties, likeToken("MEDDLED", nil))
	maps.Copy(properties, likeToken("UNNAMED", nil))

	meddler := net.JoinHostPort(hosts[0], "9094")
	double := net.JoinHostPort(hosts[0], fmt.Sprint(harness.ExtraPort(listeners, "DOUBLE")))
	c, err := site.StartCluster(ctx, harness.ClusterConfig{Node: func(id int32) harness.NodeConfig {
		n := harness.NodeConfig{Host: hosts[id-1], BrokerOnly: id > 1}
		switch id {
		case 1:
			n.Listeners, n.Properties = listeners, properties
			n.Advertised = map[string]string{
				"NOWHERE": net.JoinHostPort(hosts[0], "1"), "UNNAMED": "broker-1.invalid:9094", "MEDDLED": meddler,
			}
		case 2:
			n.Listeners = map[string]string{"DOUBLE": "SASL_SSL"}
			n.Advertised = map[string]string{"DOUBLE": double}
			n.Properties = likeToken("DOUBLE", map[string]string{})
			n.Properties["delegation.token.secret.key"] = strings.Repeat("another-key-", 3)
		case 3:
			n.Properties = map[string]string{"delegation.token.secret.key": ""}
		}
		return n
	}})
	if err != nil {
		return nil, err
	}
	return &odd{Cluster: c, meddler: meddler}, nil
})

func oddCluster(t *testing.T) *odd {
	t.Helper()
	c, err := oddShared()
	must(t, err)
	return c
}
