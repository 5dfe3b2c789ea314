//go:build integration

package integration

// This file proves that no two brokers share an address (B56): a configuration in which
// they would is refused, every node is told to be somewhere of its own, and librdkafka,
// which asks for metadata without end where brokers share one, asks no more often than
// directly.

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"doorkeeper/integration/harness"
)

func TestNoTwoBrokersShareAnAddress(t *testing.T) {
	for says, change := range map[string]func(d harness.Document){
		"is also node 2's": func(d harness.Document) { // its port is the bootstrap's
			nodes := section(section(d, "listen"), "advertise")["base_port"].(int)
			d.Set("listen.advertise.base_port", nodes-10-2) // it is 10 above the bootstrap port
		},
		"65535 is the last": func(d harness.Document) { d.Set("listen.advertise.base_port", 65_533) },
		"listen.advertise.mode": func(d harness.Document) { // one address for all
			d.Set("listen.advertise.mode", "sni")
			d.Set("listen.advertise.sni", map[string]any{"pattern": "kafka.example.com", "port": 9092})
		},
	} {
		if out := refusedConfig(t, harness.GatewayConfig{Change: change}); !strings.Contains(out, says) {
			t.Errorf("nothing says %q:\n%s", says, out)
		}
	}

	c := cluster(t)
	ctx := within(t, 2*time.Minute)
	app := name(t, "app")
	must(t, c.Admin.Grant(ctx, harness.AppGrants("lib", app)...))
	g := gateway(t, c, harness.GatewayConfig{})
	sides := bothSides(c, g, "lib")
	resp, err := rawLeg(ctx, t, g.NodeAddress(1), site.Client("lib"), app).Request(metadata())
	must(t, err)
	at := map[string]int32{}
	for _, b := range resp.(*kmsg.MetadataResponse).Brokers {
		address := fmt.Sprintf("%s:%d", b.Host, b.Port)
		if other, taken := at[address]; taken || address == g.Bootstrap {
			t.Errorf("node %d is at %s, and so is node %d or the bootstrap", b.NodeID, address, other)
		}
		at[address] = b.NodeID
	}
	if len(at) != 3 {
		t.Errorf("the brokers are at %v", at)
	}

	must(t, c.Admin.SetLogger(ctx, "kafka.request.logger", "DEBUG"))
	defer func() { must(t, c.Admin.SetLogger(ctx, "kafka.request.logger", "WARN")) }()
	var both sync.WaitGroup
	for _, s := range sides {
		of := series{app + s.topicSuffix, "a", 240}.make(ctx, t, c)
		both.Go(func() {
			did, _ := foreign(ctx, t, harness.Librdkafka, s, of.step("produce", s.bootstrap, "rate", "40", "p.client.id", of.topic))
			of.judge(t, "written "+s.name, did[0].Tally, false)
		})
	}
	both.Wait()
	asked := map[string]int{}
	eventually(t, func() error {
		for _, s := range sides {
			if asked[s.name] = requestsOf(t, c, app+s.topicSuffix)["METADATA"]; asked[s.name] == 0 {
				return fmt.Errorf("no request for metadata %s is in the brokers' logs", s.name)
			}
		}
		return nil
	})
	through, directly := asked["through the gateway"], asked["directly"]
	t.Logf("requests for metadata in 6 s: %d through the gateway, %d directly", through, directly)
	if through > directly+5 {
		t.Errorf("%d requests for metadata through the gateway, %d directly", through, directly)
	}
	noFaults(ctx, t, g)
}
