//go:build integration

package integration

// This file proves that what passes through the gateway is what a broker says, byte for
// byte: every API key and version that a broker serves is asked directly and through the
// gateway, with success and with an error, and the answers are compared; what the gateway
// replaces is the gateway's, what it refuses ends as Kafka ends it, and no broker's name,
// address or port is in anything that came through (S5, S6, S11; B12, B58).

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"doorkeeper/integration/conformance"
	"doorkeeper/integration/harness"
)

// reportTo names the file that the report goes to. The one in the repository,
// docs/conformance.md, is about the default version; without this setting a run against
// that version checks that it still holds.
const reportTo = "DOORKEEPER_CONFORMANCE_REPORT"

func TestConformance(t *testing.T) {
	c, tokens := conformanceCluster(t)
	g, err := site.StartGateway(c, harness.GatewayConfig{Hosts: c.SecretHosts()})
	must(t, err)
	endWithTest(t, g)
	must(t, g.AwaitReady(within(t, time.Minute)))
	began := time.Now()

	through, directly := c.Leaks(), c.Leaks()
	world := &conformance.World{Nodes: []int32{1, 2, 3}}
	world.Fenced, world.Controllers = absent(c)
	suite := conformance.Suite{
		World:   world,
		Brokers: map[int32]conformance.Address{}, Addresses: map[int32]conformance.Address{},
		Direct: conformance.NewSide("directly", "d1r3ct", func(ctx context.Context, node int32, user conformance.User, via conformance.Via) (net.Conn, error) {
			if via == conformance.ViaCertificate {
				return harness.DialRaw(ctx, c.Node(node).ControlListener(), site.Direct(string(user)).ClientTLS())
			}
			return c.Node(node).DialWith(ctx, tokens[user])
		}, directly.Answer),
		Gateway: conformance.NewSide("through the gateway", "g4t3wy", func(ctx context.Context, node int32, user conformance.User, _ conformance.Via) (net.Conn, error) {
			return harness.DialRaw(ctx, g.NodeAddress(node), g.TLS(site.Client(string(user))))
		}, through.Answer),
	}
	for _, id := range append(suite.World.Nodes, suite.World.Fenced[:]...) {
		suite.Brokers[id] = conformance.Address{Host: harness.SecretName(id), Port: port(t, c.Node(1).TokenListener())}
		suite.Addresses[id] = conformance.Address{Host: g.Host, Port: port(t, g.NodeAddress(id))}
	}
	defer suite.Direct.Close()
	defer suite.Gateway.Close()

	report, err := suite.Run(within(t, 5*time.Minute))
	if report == nil {
		t.Fatal(err)
	}
	if err != nil {
		t.Error(err)
	}
	t.Logf("%d planted differences, %d of them not noticed, all of those in fields that may differ", report.Flips.Planted, report.Flips.Unnoticed)
	for _, d := range report.Differences {
		t.Errorf("unexplained difference: %s", d)
	}
	for _, f := range report.Faults {
		t.Errorf("the suite: %s", f)
	}
	judgeLeaks(t, through, directly, world.Served)
	judgeSessionEnds(t, g)
	report.Leaks = through.Exempted()
	var text strings.Builder
	must(t, report.WriteMarkdown(&text, string(c.Version())))
	if path := os.Getenv(reportTo); path != "" {
		must(t, os.WriteFile(path, []byte(text.String()), 0o644))
	} else if c.Version() == harness.DefaultVersion {
		kept, err := os.ReadFile(filepath.Join(site.Root, "docs", "conformance.md"))
		must(t, err)
		if string(kept) != text.String() {
			t.Errorf("docs/conformance.md does not say what this run has found; set %s to write it anew", reportTo)
		}
	}
	t.Logf("all questions took %v, the longest: %v", time.Since(began).Round(time.Second), report.Slow)
}

// conformanceCluster has brokers with secret names, internal topics of one partition
// each, members of groups whose time does not run out, and tokens for both users.
func conformanceCluster(t *testing.T) (*harness.Cluster, map[conformance.User]harness.Token) {
	t.Helper()
	const halfAnHour = "1800000"
	p := map[string]string{
		"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1", "share.coordinator.state.topic.num.partitions": "1",
		"min.insync.replicas": "1", "log.retention.ms": "-1",
		// Nothing is written to the cluster's metadata but what somebody asks for.
		"metadata.max.idle.interval.ms": "0",
	}
	for _, kind := range []string{"consumer", "share", "streams"} {
		p["group."+kind+".session.timeout.ms"], p["group."+kind+".max.session.timeout.ms"] = halfAnHour, halfAnHour
		// Members get their partitions at once.
		p["group."+kind+".assignment.interval.ms"], p["group."+kind+".min.assignment.interval.ms"] = "0", "0"
	}
	p["group.streams.initial.rebalance.delay.ms"] = "0"
	c := ownCluster(t, site.SecretNames(harness.ClusterConfig{Properties: p}))
	ctx := within(t, time.Minute)
	rich := string(conformance.Rich)
	must(t, c.Admin.Grant(ctx,
		harness.Grant{Principal: rich, Type: kmsg.ACLResourceTypeCluster, Name: "kafka-cluster", Operation: kmsg.ACLOperationAll},
		harness.Grant{Principal: rich, Type: kmsg.ACLResourceTypeTopic, Name: "*", Operation: kmsg.ACLOperationAll},
		harness.Grant{Principal: rich, Type: kmsg.ACLResourceTypeGroup, Name: "*", Operation: kmsg.ACLOperationAll},
		harness.Grant{Principal: rich, Type: kmsg.ACLResourceTypeTransactionalId, Name: "*", Operation: kmsg.ACLOperationAll},
	))
	brokers, controllers := absent(c)
	must(t, c.RegisterAbsent(ctx, brokers[:], slices.DeleteFunc(controllers[:], func(id int32) bool { return id == 0 })))
	tokens := map[conformance.User]harness.Token{}
	for _, user := range []conformance.User{conformance.Rich, conformance.Poor} {
		token, err := c.TokenFor(ctx, string(user))
		must(t, err)
		tokens[user] = token
	}
	return c, tokens
}

// absent are the brokers and controllers that are registered and not there. Before Kafka
// 4 nobody could have controllers unregistered.
func absent(c *harness.Cluster) (brokers [3]int32, controllers [2]int32) {
	brokers = [3]int32{41, 42, 43}
	if !c.Version().Reload4j() {
		controllers = [2]int32{51, 52}
	}
	return brokers, controllers
}

// endWithTest is what gateway does for gateways that are started in another way.
func endWithTest(t *testing.T, g *harness.Gateway) {
	t.Helper()
	t.Cleanup(func() {
		if code, err := g.Terminate(time.Minute); err != nil || code != 0 {
			t.Errorf("gateway ended with %d, %v", code, err)
		}
		if err := g.Races(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("gateway's log:\n%s", last(g.Output(), 60))
		}
	})
}

// judgeLeaks: nothing came through the gateway, and what came directly was found: where
// the broker serves such versions (S11).
func judgeLeaks(t *testing.T, through, directly *conformance.Leaks, served map[int16][2]int16) {
	t.Helper()
	if err := through.Err(); err != nil {
		t.Errorf("through the gateway came:\n%v", err)
	}
	answers, size := through.Looked()
	t.Logf("leaks: %d answers of %d bytes through the gateway looked at; exempt: %v", answers, size, through.Exempted())
	if answers == 0 || len(through.Exempted()) == 0 {
		t.Error("the oracle has not looked at anything, or not found a broker in its own configuration")
	}
	found := strings.Join(directly.Hits(), "\n")
	for want, at := range map[string][2]int16{
		"Metadata v0 has": {3, 0}, "Metadata v13 gives port": {3, 13}, "FindCoordinator v0 has": {10, 0}, "FindCoordinator v4 gives port": {10, 4},
		"DescribeCluster v0 has": {60, 0}, "Produce v10 has": {0, 10}, "Fetch v16 gives port": {1, 16}, "ShareFetch v1 has": {78, 1}, "DescribeQuorum v2 gives port": {55, 2},
	} {
		if in, ok := served[at[0]]; ok && in[0] <= at[1] && at[1] <= in[1] && !strings.Contains(found, want) {
			t.Errorf("the oracle does not say %q of the direct connection: it found\n%s", want, found)
		}
	}
}

// judgeSessionEnds: sessions ended because the client closed them, sent what is not served, or
// something over which the broker closed the connection.
func judgeSessionEnds(t *testing.T, g *harness.Gateway) {
	t.Helper()
	m := metricsOf(t, g)
	if n := m.Sum("doorkeeper_panics_total"); n != 0 {
		t.Errorf("%v panics", n)
	}
	for _, line := range g.Lines() {
		reason, ended := line["reason"].(string)
		if ended && !slices.Contains([]string{"client_closed", "refused_api", "broker_lost"}, reason) {
			t.Errorf("a session ended by %s: %v", reason, line)
		}
	}
}

func port(t *testing.T, address string) int32 {
	t.Helper()
	_, text, err := net.SplitHostPort(address)
	must(t, err)
	n, err := strconv.ParseInt(text, 10, 32)
	must(t, err)
	return int32(n)
}
