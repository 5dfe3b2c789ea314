//go:build integration

package integration

// This file proves that Java clients of two generations, 3.9 and 4.x, get through the
// gateway what they get from the brokers, whatever version those have: idempotent and
// transactional writes and groups of both protocols, exact by count and checksum, and the
// same answers to all that their administration client can ask; and that none of them is
// told of a broker's address.

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"doorkeeper/integration/harness"
)

// Cases B16, B58.
func TestJavaClientsOfTwoGenerations(t *testing.T) {
	c := cluster(t)
	ctx := within(t, 6*time.Minute)
	app := name(t, "app")
	must(t, c.Admin.Grant(ctx, allGrants("jana", app)...))
	g := gateway(t, c, harness.GatewayConfig{})

	for _, version := range []harness.Version{harness.OlderClientVersion, harness.ClientVersion} {
		t.Run(string(version), func(t *testing.T) {
			// Both at once, since each waits for brokers most of the time.
			var running []javaGeneration
			for _, s := range bothSides(c, g, "jana") {
				of := javaGeneration{side: s, prefix: app + "-" + string(version) + s.topicSuffix}
				of.plain = series{of.prefix + "-plain", "j", 4_000}.make(ctx, t, c)
				of.txn = series{of.prefix + "-txn", "x", 4_000}.make(ctx, t, c)
				of.start(t, version)
				running = append(running, of)
			}
			through, directly := running[0], running[1]
			told, toldDirectly := through.judge(t), directly.judge(t)
			if !maps.Equal(told.Values, toldDirectly.Values) {
				for call, was := range toldDirectly.Values {
					if told.Values[call] != was {
						t.Errorf("%s: through the gateway %q, directly %q", call, told.Values[call], was)
					}
				}
			}
			for _, node := range told.Nodes {
				if !slices.Contains(g.Addresses(c), node) {
					t.Errorf("it was told of %s", node)
				}
			}
			if len(told.Nodes) != len(c.Nodes) {
				t.Errorf("it was told of %v alone", told.Nodes)
			}
			if !slices.Equal(toldDirectly.Nodes, c.ControlAddresses()) {
				t.Errorf("directly it was told of %v: what is not told through the gateway says nothing", toldDirectly.Nodes)
			}
			namesNoBroker(t, "the client", through.java.Output())
		})
	}
	noFaults(ctx, t, g)
}

// javaGeneration is a client of one version on one side, and what it works on.
type javaGeneration struct {
	side       side
	prefix     string
	plain, txn series
	java       *harness.JavaClient
}

func (of *javaGeneration) start(t *testing.T, version harness.Version) {
	t.Helper()
	at := of.side.bootstrap
	java, err := site.StartJava(harness.JavaRun{Certificate: of.side.as, Version: version, Outside: of.side.outside, Steps: []harness.JavaStep{
		of.plain.step("produce", at),
		of.txn.step("produce", at, "txn", of.prefix, "per.txn", "1000", "abort.every", "2"),
		of.plain.step("consume", at, "group", of.prefix+"-classic", "protocol", "classic", "members", "2"),
		of.txn.step("consume", at, "group", of.prefix+"-next", "protocol", "consumer", "members", "2"),
		{Mode: "administer", Settings: map[string]string{"bootstrap": at, "topic": of.prefix + "-made", "group": of.prefix + "-group"}},
	}})
	must(t, err)
	of.java = java
}

// judge waits for the client's end and returns what its administration client was told,
// without its own names.
func (of *javaGeneration) judge(t *testing.T) harness.JavaResult {
	t.Helper()
	results, err := of.java.Results(within(t, 3*time.Minute))
	must(t, err)
	if len(results) != 5 {
		t.Fatalf("%s: %d steps were done:\n%s", of.side.name, len(results), last(of.java.Output(), 40))
	}
	of.plain.judgeJava(t, of.side.name+", idempotent", results[0])
	of.txn.judgeJava(t, of.side.name+", transactions", results[1])
	of.plain.judgeJava(t, of.side.name+", classic group", results[2])
	of.txn.judgeJava(t, of.side.name+", KIP-848 group, read_committed", results[3])

	told := results[4]
	t.Logf("%s: %d calls of the administration client in %d ms", of.side.name, told.Count, told.Millis)
	wanted := map[string]string{
		"createTopics again":              "TopicExistsException",
		"describeTopics of nothing":       "UnknownTopicOrPartitionException",
		"deleteRecords beyond the end":    "OffsetOutOfRangeException",
		"describeTransactions of nothing": "TransactionalIdNotFoundException",
		"describeConsumerGroups":          "0 members",
		"listConsumerGroupOffsets":        "0 m",
		"the leader that was elected":     "1",
		"listPartitionReassignments":      "none",
		"incrementalAlterConfigs":         "null",
		"describeConfigs":                 "1",
		"describeTopics":                  "[0 led by 1, 1 led by 2]",
		"describeLogDirs":                 "2",
		"deleteTopics":                    "null",
	}
	for call, was := range told.Values {
		told.Values[call] = strings.ReplaceAll(was, of.prefix, "APP")
		if want, known := wanted[call]; known && was != want {
			t.Errorf("%s: %s: %s, not %s", of.side.name, call, was, want)
		} else if !known && (was == "nothing" || strings.HasSuffix(was, "Exception")) {
			t.Errorf("%s: %s: %s", of.side.name, call, was)
		}
	}
	if t.Failed() {
		t.Logf("%s: %s", of.side.name, strings.Join(told.Messages, "\n"))
	}
	return told
}

// allGrants let a user do everything to topics, groups and transactional ids whose names
// begin with prefix, and administer the cluster.
func allGrants(user, prefix string) []harness.Grant {
	all := func(t kmsg.ACLResourceType, name string, prefixed bool) harness.Grant {
		return harness.Grant{Principal: user, Type: t, Name: name, Prefixed: prefixed, Operation: kmsg.ACLOperationAll}
	}
	return []harness.Grant{
		all(kmsg.ACLResourceTypeTopic, prefix, true), all(kmsg.ACLResourceTypeGroup, prefix, true),
		all(kmsg.ACLResourceTypeTransactionalId, prefix, true), all(kmsg.ACLResourceTypeCluster, "kafka-cluster", false),
	}
}

// brokerPort is a broker's port, as a word.
var brokerPort = regexp.MustCompile(`\b2909[3-6]\b`)

// namesBroker says which of the lines name a broker's host or port. The brokers' hosts are
// on a network of their own, so its beginning is in every address of theirs.
func namesBroker(output string) []string {
	var found []string
	for line := range strings.Lines(output) {
		if strings.Contains(line, site.LoopbackPrefix()) || brokerPort.MatchString(line) {
			found = append(found, line)
		}
	}
	return found
}

// namesNoBroker checks that it has none.
func namesNoBroker(t *testing.T, what, output string) {
	t.Helper()
	if found := namesBroker(output); len(found) > 0 {
		t.Errorf("%s has seen a broker's address:\n%s", what, strings.Join(found[:min(len(found), 20)], ""))
	}
}
