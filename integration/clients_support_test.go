//go:build integration

package integration

// What the scenarios with clients of other languages have in common: how they are
// asked, and that none of them has seen a broker's address.

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"doorkeeper/integration/harness"
)

// talkative makes librdkafka log every address that it is told of and dials.
const talkative = "broker,metadata,cgrp"

// run is so many steps of a client, from this side.
func (s side) run(client harness.Client, steps ...harness.Step) harness.ForeignRun {
	return harness.ForeignRun{Client: client, Certificate: s.as, Outside: s.outside, Steps: steps}
}

// foreign runs a client's steps to their end.
func foreign(ctx context.Context, t *testing.T, client harness.Client, s side, steps ...harness.Step) ([]harness.StepResult, *harness.ForeignClient) {
	t.Helper()
	results, ran, err := site.Foreign(ctx, s.run(client, steps...))
	must(t, err)
	return results, ran
}

// nextProtocol is the group protocol to test beside the classic one: KIP-848's,
// where librdkafka has it. It asks brokers for version 1 of ConsumerGroupHeartbeat,
// Kafka 4.0's; of 3.9, which has version 0, it waits for ever, also directly.
func nextProtocol(ctx context.Context, t *testing.T, c *harness.Cluster) string {
	t.Helper()
	directly := rawLeg(ctx, t, c.Node(1).ControlListener(), site.Direct("alice"), name(t, "versions"))
	if served(t, directly)[int16(kmsg.ConsumerGroupHeartbeat)][1] >= 1 {
		return "consumer"
	}
	t.Logf("Kafka %s has no KIP-848 that librdkafka could use: classic groups instead", c.Version())
	return "classic"
}

// knowsOnly checks what a client that logs all addresses has written: the gateway's
// for every node, and none of a broker's. The brokers' hosts are on a network of
// their own, so its beginning is in every address of theirs.
func knowsOnly(t *testing.T, c *harness.Cluster, g *harness.Gateway, what, output string) {
	t.Helper()
	if strings.Contains(output, site.LoopbackPrefix()) {
		t.Errorf("%s has seen a broker's address:\n%s", what, grep(output, site.LoopbackPrefix(), 20))
	}
	for _, n := range c.Nodes {
		if !strings.Contains(output, g.NodeAddress(n.ID)) {
			t.Errorf("%s does not log that it knows node %d: what it has not seen cannot be told from that", what, n.ID)
		}
	}
}

// storedInTheEnd is what stored is, once every new leader can tell.
func storedInTheEnd(ctx context.Context, t *testing.T, c *harness.Cluster, topic string) int {
	t.Helper()
	for {
		listed, err := c.Admin.ListEndOffsets(ctx, topic)
		if err = errors.Join(err, listed.Error()); err == nil {
			n := 0
			for _, p := range listed[topic] {
				n += int(p.Offset)
			}
			return n
		}
		select {
		case <-ctx.Done():
			t.Fatalf("the ends of %s: %v", topic, err)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// grep are the first lines that hold the text.
func grep(output, text string, atMost int) string {
	var found []string
	for line := range strings.Lines(output) {
		if strings.Contains(line, text) && len(found) < atMost {
			found = append(found, line)
		}
	}
	return strings.Join(found, "")
}
