//go:build integration

package integration

// This file proves that no client learns of a broker's address, and none dials one:
// under load while leaders move, the Java client in a network in which nothing but
// the gateway exists, franz-go with every dial on record; and over a connection of
// which every byte is looked at, for each API that carries addresses, at every
// version that the gateway offers. The same questions asked of a broker directly
// show that the bytes looked for would be found (S11, B06).

import (
	"bytes"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/errgroup"

	"doorkeeper/integration/harness"
)

func TestLeaksNothingWhileLeadersMove(t *testing.T) {
	c := cluster(t)
	ctx := within(t, 4*time.Minute)
	app := name(t, "app")
	must(t, c.Admin.Grant(ctx, harness.AppGrants("lena", app)...))
	const records, rate = 12_000, 1_000
	byJava := series{app + "-java", "j", records}.make(ctx, t, c)
	byFranz := series{app + "-franz", "f", records}.make(ctx, t, c)
	g := gateway(t, c, harness.GatewayConfig{})
	lena := site.Client("lena")

	writer, err := site.StartJava(harness.JavaRun{Certificate: lena, Steps: []harness.JavaStep{
		byJava.step("produce", g.Bootstrap, "rate", fmt.Sprint(rate)),
		{Mode: "describe", Settings: map[string]string{"bootstrap": g.Bootstrap, "topic": byJava.topic}},
	}})
	must(t, err)
	reader, err := site.StartJava(harness.JavaRun{Certificate: lena, Steps: []harness.JavaStep{
		byJava.step("consume", g.Bootstrap, "group", app, "members", "2"),
	}})
	must(t, err)
	var dials harness.Dials
	var all errgroup.Group
	all.Go(func() error {
		wrote, err := byFranz.produce(ctx, franz(t, &dials, lena, g.Bootstrap), rate)
		byFranz.judge(t, "franz-go wrote", wrote, false)
		return err
	})
	all.Go(func() error {
		read, err := byFranz.consume(ctx, franz(t, &dials, lena, g.Bootstrap, kgo.ConsumeTopics(byFranz.topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())))
		byFranz.judge(t, "franz-go read", read, false)
		return err
	})

	// The leaders stay until every partition knows the writers: a new leader takes a
	// producer's second batch for its first if it has not seen one before, and then
	// refuses the first for ever, gateway or not.
	for _, of := range []series{byJava, byFranz} {
		for slices.Min(ends(ctx, t, c, of.topic)) == 0 {
			time.Sleep(100 * time.Millisecond)
		}
	}
	// Then all of them move, again and again until the writer is done.
	var moves atomic.Int32
	for _, of := range []series{byJava, byFranz} {
		for p := range int32(partitions) {
			all.Go(func() error {
				for at := p + 1; writer.Alive(); at++ {
					if err := c.Admin.MoveLeader(ctx, of.topic, p, 1+at%3); err != nil {
						return err
					}
					moves.Add(1)
				}
				return nil
			})
		}
	}
	must(t, all.Wait())
	wrote, err := writer.Results(ctx)
	must(t, err)
	read, err := reader.Results(ctx)
	must(t, err)
	if n := moves.Load(); n < 2*partitions {
		t.Errorf("leaders moved only %d times", n)
	} else {
		t.Logf("leaders moved %d times", n)
	}
	byJava.judgeJava(t, "Java wrote", wrote[0])
	byJava.judge(t, "Java read", read[0].Tally, read[0].Values["overtaken"] != "")

	must(t, dials.Only(g.Addresses(c)...))
	for _, output := range []string{writer.Output(), reader.Output()} {
		if strings.Contains(output, site.LoopbackPrefix()) {
			t.Errorf("a Java client has seen a broker's address:\n%s", last(output, 40))
		}
	}
	for _, node := range wrote[1].Nodes {
		if !slices.Contains(g.Addresses(c), node) {
			t.Errorf("Java was told of %s", node)
		}
	}
}

func TestLeaksNothingInAnyAnswer(t *testing.T) {
	c := cluster(t)
	ctx := within(t, time.Minute)
	app := name(t, "app")
	must(t, c.Admin.Grant(ctx, harness.AppGrants("lena", app)...))
	must(t, c.Admin.Grant(ctx, harness.Grant{
		Principal: "lena", Type: kmsg.ACLResourceTypeCluster, Name: "kafka-cluster", Operation: kmsg.ACLOperationDescribe,
	}))
	of := series{app, "l", 1}.make(ctx, t, c)
	_, err := c.Admin.GroupOn(ctx, 1, app) // makes the internal topics, if need be
	must(t, err)
	_, err = c.Admin.TxnOn(ctx, 1, app)
	must(t, err)
	// Who asks with the epoch of an earlier leader is told of the new one.
	must(t, c.Admin.MoveLeader(ctx, of.topic, 0, 2))
	must(t, c.Admin.MoveLeader(ctx, of.topic, 0, 1))
	g := gateway(t, c, harness.GatewayConfig{})

	found := map[string]map[string]bool{} // side → API and version in whose answer a broker's address was
	for _, s := range bothSides(c, g, "lena") {
		found[s.name] = map[string]bool{}
		asked := 0
		for _, n := range c.Nodes {
			leg := rawLeg(ctx, t, s.node(n.ID), s.as, app)
			for _, req := range addressed(t, leg, of) {
				_, err := leg.Send(req)
				must(t, err)
				must(t, leg.SetReadDeadline(time.Now().Add(30*time.Second)))
				_, answer, err := leg.Receive()
				if err != nil {
					t.Fatalf("%s, %s: %v", s.name, call(req), err)
				}
				asked++
				if holdsBroker(answer, c) {
					found[s.name][call(req)] = true
				}
			}
		}
		t.Logf("%s: %d answers looked at, %d calls show a broker", s.name, asked, len(found[s.name]))
	}
	for call := range found["through the gateway"] {
		t.Errorf("a broker's address is in the answer to %s", call)
	}
	direct := slices.Sorted(maps.Keys(found["directly"]))
	wanted := []string{"Metadata v0", "Metadata v12", "FindCoordinator v0", "FindCoordinator v4", "DescribeCluster v0", "Produce v10", "Fetch v16"}
	leg := rawLeg(ctx, t, c.Node(1).ControlListener(), site.Direct("lena"), app)
	if served(t, leg)[int16(kmsg.DescribeQuorum)][1] >= 2 { // from 3.9 on: before, there are no addresses in it
		wanted = append(wanted, "DescribeQuorum v2")
	}
	for _, want := range wanted {
		if !slices.Contains(direct, want) {
			t.Errorf("the search does not find brokers in %s of a direct connection, only in %v", want, direct)
		}
	}
}

func call(req kmsg.Request) string {
	return fmt.Sprintf("%s v%d", kmsg.NameForKey(req.Key()), req.GetVersion())
}

// holdsBroker tells whether an address of a broker is in b, as text or in binary.
func holdsBroker(b []byte, c *harness.Cluster) bool {
	if bytes.Contains(b, []byte(site.LoopbackPrefix())) {
		return true
	}
	return slices.ContainsFunc(c.Nodes, func(n *harness.Node) bool {
		return bytes.Contains(b, []byte(n.Host)) || bytes.Contains(b, net.ParseIP(n.Host).To4())
	})
}

// addressed are all calls whose answers carry addresses, at every version that leg
// offers, with what makes a broker put them in: produces to a broker that does not
// lead among them.
func addressed(t *testing.T, leg *harness.Raw, of series) []kmsg.Request {
	t.Helper()
	offered := served(t, leg)
	id := topicID(t, leg, of.topic)
	var out []kmsg.Request
	each := func(key int16, build func(v int16) kmsg.Request) {
		lowest := offered[key][0]
		if key == 0 {
			lowest = 3 // brokers offer older ones, and close the connection over them
		}
		for v := lowest; v <= min(offered[key][1], kmsg.RequestForKey(key).MaxVersion()); v++ {
			req := build(v)
			req.SetVersion(v)
			out = append(out, req)
		}
	}
	each(3, func(v int16) kmsg.Request { return metadataRequest(v, of.topic) })
	each(3, func(int16) kmsg.Request { r := kmsg.NewPtrMetadataRequest(); r.Topics = nil; return r })
	each(10, func(v int16) kmsg.Request { return coordinatorRequest(v, 0, of.topic) })
	each(10, func(v int16) kmsg.Request { return coordinatorRequest(v, 1, of.topic) })
	each(60, func(int16) kmsg.Request { return kmsg.NewPtrDescribeClusterRequest() })
	each(55, func(int16) kmsg.Request {
		r := kmsg.NewPtrDescribeQuorumRequest()
		r.Topics = []kmsg.DescribeQuorumRequestTopic{{Topic: "__cluster_metadata", Partitions: []kmsg.DescribeQuorumRequestTopicPartition{{}}}}
		return r
	})
	for p := range int32(3) { // led by all three, so by another than the one asked, too
		record := of.record(0)
		record.Partition = p
		each(0, func(v int16) kmsg.Request { return produceRequest(v, 1, id, record) })
		each(1, func(int16) kmsg.Request { return fetchRequest(of.topic, id, p) })
	}
	each(75, func(int16) kmsg.Request {
		r := kmsg.NewPtrDescribeTopicPartitionsRequest()
		r.Topics = []kmsg.DescribeTopicPartitionsRequestTopic{{Topic: of.topic}}
		return r
	})
	each(15, func(int16) kmsg.Request {
		r := kmsg.NewPtrDescribeGroupsRequest()
		r.Groups = []string{of.topic}
		return r
	})
	return out
}

func topicID(t *testing.T, leg *harness.Raw, topic string) [16]byte {
	t.Helper()
	resp, err := leg.Request(metadataRequest(12, topic))
	must(t, err)
	return resp.(*kmsg.MetadataResponse).Topics[0].TopicID
}

func coordinatorRequest(version int16, kind int8, name string) kmsg.Request {
	r := kmsg.NewPtrFindCoordinatorRequest()
	r.CoordinatorKey, r.CoordinatorType = name, kind
	if version >= 4 {
		r.CoordinatorKeys = []string{name, name + "-2", name + "-3"}
	}
	if version == 0 {
		r.CoordinatorType = 0
	}
	return r
}

func fetchRequest(topic string, id [16]byte, partition int32) kmsg.Request {
	r := fetch(topic, partition, 0, 1<<20, 0, 0)
	r.SessionEpoch, r.Topics[0].TopicID = -1, id
	r.Topics[0].Partitions[0].CurrentLeaderEpoch = 0 // that of the first leader, which is gone
	return r
}
