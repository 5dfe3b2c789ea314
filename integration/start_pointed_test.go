//go:build integration

package integration

// This file proves that a gateway which was pointed at the wrong thing says what
// that is: at itself it says so and ends, whatever way leads back to it; at another
// gateway, at a listener without SASL or at one without TLS it says that, and waits
// for somebody to mend it.

import (
	"net"
	"testing"
	"time"

	"doorkeeper/integration/harness"
	"doorkeeper/internal/certtest"
	"doorkeeper/internal/faultrelay"
)

// S23: the way back to itself is hidden behind a relay, as behind a load balancer;
// where the configuration shows it, the check of the configuration finds it.
func TestPointedAtItself(t *testing.T) {
	c := cluster(t)
	for _, key := range []string{"kafka.bootstrap", "kafka.control.bootstrap"} {
		t.Run(key, func(t *testing.T) {
			front, err := site.Front()
			must(t, err)
			back := &lateRelay{}
			g := startGateway(t, c, harness.GatewayConfig{Change: func(d harness.Document) {
				own := d["listen"].(map[string]any)["address"].(string)
				back.open(t, front, own)
				d.Set(key, []string{back.relay.Address()})
			}})
			began := time.Now()
			code, err := g.Wait(patience)
			must(t, err)
			if code != 1 {
				t.Errorf("it ended with %d", code)
			}
			t.Logf("it ended after %s", time.Since(began))
			must(t, g.AwaitOutput(within(t, patience), "the gateway is pointed at itself"))
		})
		t.Run(key+" by the configuration", func(t *testing.T) {
			g := startGateway(t, c, harness.GatewayConfig{Change: func(d harness.Document) {
				d.Set(key, []string{d["listen"].(map[string]any)["address"].(string)})
			}})
			code, err := g.Wait(patience)
			must(t, err)
			if code != 2 {
				t.Errorf("it ended with %d", code)
			}
			must(t, g.AwaitOutput(within(t, patience), key+"[0]", "is this gateway itself"))
		})
	}
}

// lateRelay is opened once the gateway's address is known.
type lateRelay struct{ relay *faultrelay.Relay }

func (l *lateRelay) open(t *testing.T, host, target string) {
	t.Helper()
	r, err := faultrelay.New(host+":0", target)
	must(t, err)
	t.Cleanup(func() { must(t, r.Close()) })
	l.relay = r
}

// S23 and the "pointed at another gateway or at a listener without tokens".
func TestPointedAtWhatIsNoTokenListener(t *testing.T) {
	c := loneCluster(t)
	// Another gateway whose certificate is of the brokers' authority, so that TLS does
	// not give it away.
	front, err := site.Front()
	must(t, err)
	face := site.ClientOf("other-gateway", site.BrokerCA(), certtest.Leaf{CommonName: "other", IPs: []net.IP{net.ParseIP(front)}})
	other := gateway(t, c.Cluster, harness.GatewayConfig{Change: func(d harness.Document) {
		d.Set("listen.tls.certificate", face.Files.Cert)
		d.Set("listen.tls.key", face.Files.Key)
	}})
	client := site.Client("chained") // whom the other gateway lets in
	direct := site.Direct("chained") // whom the brokers let in
	for _, tc := range []struct {
		name   string
		change func(harness.Document)
		said   []string
	}{
		{"another gateway", func(d harness.Document) {
			d.Set("kafka.bootstrap", []string{other.Bootstrap})
			d.Set("kafka.tls.certificate", client.Files.Cert)
			d.Set("kafka.tls.key", client.Files.Key)
		}, []string{other.Bootstrap, "the peer is another gateway"}},
		{"another gateway for control", func(d harness.Document) {
			d.Set("kafka.control.bootstrap", []string{other.Bootstrap})
			d.Set("kafka.control.tls.certificate", client.Files.Cert)
			d.Set("kafka.control.tls.key", client.Files.Key)
		}, []string{"another gateway"}},
		{"a listener without SASL", func(d harness.Document) {
			d.Set("kafka.bootstrap", []string{c.Node(1).ControlListener()})
			d.Set("kafka.tls.certificate", direct.Files.Cert)
			d.Set("kafka.tls.key", direct.Files.Key)
		}, []string{c.Node(1).ControlListener(), "takes no SASL login", "must name the token listener (SASL_SSL)"}},
		{"a listener without SASL, without a certificate for it", func(d harness.Document) {
			d.Set("kafka.bootstrap", []string{c.Node(1).ControlListener()})
		}, []string{c.Node(1).ControlListener(), "asks for a client certificate", "kafka.tls.certificate"}},
		{"a listener without TLS", func(d harness.Document) {
			d.Set("kafka.bootstrap", []string{c.plain})
		}, []string{c.plain, "is this a TLS listener of the broker (SASL_SSL)?"}},
		{"a listener without TLS for control", func(d harness.Document) {
			d.Set("kafka.control.bootstrap", []string{c.plain})
		}, []string{"the client is using TLS when the broker is not expecting it"}},
		{"the token listener for control", func(d harness.Document) {
			d.Set("kafka.bootstrap", []string{c.plain})
			d.Set("kafka.control.bootstrap", c.TokenAddresses())
		}, []string{"the control listener may want another kind of login"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := startGateway(t, c.Cluster, harness.GatewayConfig{Change: tc.change})
			notReady(t, g, "not proved", append(tc.said, "the token path does not work")...)
			endsWell(t, g)
		})
	}
}
