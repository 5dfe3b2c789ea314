//go:build integration

package integration

// This file proves that clients and brokers of any age agree on versions through the
// gateway as they do directly: a request for versions that is too new is answered with
// what works, on the same connection; everything else that a broker says of itself is
// its own, but for what the gateway withholds; transactions work as its features say; and
// each coordinator that is asked for comes once, as the gateway's address of the node that
// the broker names.

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"doorkeeper/integration/checker"
	"doorkeeper/integration/harness"
)

// B13: a first request in versions that are known, and in one that nobody knows, with a
// body that nobody knows, either.
func TestVersionsAreAskedForInAnyVersion(t *testing.T) {
	c := cluster(t)
	ctx := within(t, time.Minute)
	g := gateway(t, c, harness.GatewayConfig{})
	answers := map[string]map[int16][]byte{}
	for _, s := range bothSides(c, g, "vera") {
		answers[s.name] = map[int16][]byte{}
		for _, version := range []int16{4, 5, 6, 99} {
			leg := rawLeg(ctx, t, s.node(1), s.as, "vera")
			head := kbin.AppendInt16(kbin.AppendInt16(nil, 18), version)
			head = append(kbin.AppendNullableString(kbin.AppendInt32(head, 77), kmsg.StringPtr("vera")), 0)
			body := append([]byte{4}, "raw"...) // software: raw 1
			body = append(body, 2, '1')
			if version == 5 {
				body = append(body, 0, 0xff, 0xff, 0xff, 0xff) // no cluster, no node
			}
			body = append(body, 0)
			if version == 99 {
				body = bytes.Repeat([]byte{0xee}, 300)
			}
			_, err := leg.Write(framed(0, append(head, body...)))
			must(t, err)
			must(t, leg.SetReadDeadline(time.Now().Add(patience)))
			correlation, answer, err := leg.Receive()
			must(t, err)
			if correlation != 77 {
				t.Errorf("%s, version %d: an answer to %d", s.name, version, correlation)
			}
			answers[s.name][version] = answer
			// The same connection goes on, in the version that it was told.
			told := kmsg.NewPtrApiVersionsResponse()
			if told.Version = version; answer[0] == 0 && answer[1] == 35 {
				told.Version = 0
			}
			must(t, told.ReadFrom(answer)) // no header tags at any version (KIP-511)
			again := kmsg.NewPtrApiVersionsRequest()
			again.Version, again.ClientSoftwareName, again.ClientSoftwareVersion = min(version, told.ApiKeys[0].MaxVersion), "raw", "1"
			if told.Version > 0 || told.ErrorCode == 0 {
				again.Version = 3
			}
			resp, err := leg.Request(again)
			must(t, err)
			if r := resp.(*kmsg.ApiVersionsResponse); r.ErrorCode != 0 || len(r.ApiKeys) < 30 {
				t.Errorf("%s, after version %d: error %d, %d keys", s.name, version, r.ErrorCode, len(r.ApiKeys))
			}
			_, err = leg.Request(metadata())
			must(t, err)
		}
	}
	for version, direct := range answers["directly"] {
		through := answers["through the gateway"][version]
		if tooNew := direct[1] == 35; tooNew && !bytes.Equal(through, direct) {
			t.Errorf("version %d: %x through the gateway, %x directly", version, through, direct)
		} else if version == 99 && !tooNew {
			t.Errorf("version 99 is no error: %x", direct)
		}
	}
}

// B12, B14: what brokers say of themselves is theirs: features and their epoch, the lowest
// versions, tags. Of the highest ones, none is more than the broker's.
func TestFeaturesAreTheBrokersOwn(t *testing.T) {
	c := cluster(t)
	ctx := within(t, time.Minute)
	g := gateway(t, c, harness.GatewayConfig{})
	sides := bothSides(c, g, "vera")
	for version := int16(0); version <= 4; version++ {
		ask := func(s side) *kmsg.ApiVersionsResponse {
			req := kmsg.NewPtrApiVersionsRequest()
			req.Version, req.ClientSoftwareName, req.ClientSoftwareVersion = version, "raw", "1"
			resp, err := rawLeg(ctx, t, s.node(2), s.as, "vera").Request(req)
			must(t, err)
			return resp.(*kmsg.ApiVersionsResponse)
		}
		through, directly := ask(sides[0]), ask(sides[1])
		if directly.ErrorCode != 0 { // an older broker does not know the version
			if through.ErrorCode != directly.ErrorCode {
				t.Errorf("version %d: error %d, directly %d", version, through.ErrorCode, directly.ErrorCode)
			}
			continue
		}
		own := map[int16]kmsg.ApiVersionsResponseApiKey{}
		for _, k := range directly.ApiKeys {
			own[k.ApiKey] = k
		}
		for _, k := range through.ApiKeys {
			has, there := own[k.ApiKey]
			if !there || k.MinVersion != has.MinVersion || k.MaxVersion > has.MaxVersion || !reflect.DeepEqual(k.UnknownTags, has.UnknownTags) {
				t.Errorf("version %d, %s: %+v, the broker has %+v", version, kmsg.NameForKey(k.ApiKey), k, has)
			}
		}
		if version >= 3 && (len(directly.FinalizedFeatures) == 0 || directly.FinalizedFeaturesEpoch < 0) {
			t.Errorf("version %d: the broker tells of no features: %+v", version, directly)
		}
		through.FinalizedFeaturesEpoch = max(through.FinalizedFeaturesEpoch, directly.FinalizedFeaturesEpoch) // it moves on
		directly.FinalizedFeaturesEpoch = through.FinalizedFeaturesEpoch
		through.ApiKeys, directly.ApiKeys = nil, nil
		if !reflect.DeepEqual(through, directly) {
			t.Errorf("version %d: %+v, the broker says %+v", version, through, directly)
		}
	}
}

// B14: transactions of the second kind (KIP-890), where the cluster has them, and of the
// first, where not: committed ones are read, and aborted ones are not. (Java's are in
// TestMainJobIsExact.)
func TestTransactionsAsTheFeaturesSay(t *testing.T) {
	c := cluster(t)
	ctx := within(t, 2*time.Minute)
	app := name(t, "app")
	must(t, c.Admin.Grant(ctx, harness.AppGrants("vera", app)...))
	of := series{app, "t", 60}.make(ctx, t, c)
	g := gateway(t, c, harness.GatewayConfig{})
	req := kmsg.NewPtrApiVersionsRequest()
	req.Version, req.ClientSoftwareName, req.ClientSoftwareVersion = 3, "raw", "1"
	resp, err := rawLeg(ctx, t, g.NodeAddress(1), site.Client("vera"), app).Request(req)
	must(t, err)
	level := int16(0)
	for _, f := range resp.(*kmsg.ApiVersionsResponse).FinalizedFeatures {
		if f.Name == "transaction.version" {
			level = f.MaxVersionLevel
		}
	}
	if newer := !c.Version().Reload4j(); newer != (level == 2) {
		t.Errorf("transaction.version is %d in Kafka %s", level, c.Version())
	}

	var dials harness.Dials
	writer := franz(t, &dials, site.Client("vera"), g.Bootstrap, kgo.TransactionalID(app+"-txn"))
	for i := range 6 {
		must(t, writer.BeginTransaction())
		for n := range 10 {
			r := of.record(10*i + n)
			if i%2 == 1 {
				r.Key = fmt.Appendf(nil, "aborted%d", n)
			}
			must(t, checker.Send(ctx, writer, r))
		}
		must(t, writer.EndTransaction(ctx, kgo.TransactionEndTry(i%2 == 0)))
	}
	reader := franz(t, &dials, site.Client("vera"), g.Bootstrap, kgo.ConsumeTopics(of.topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	var tally harness.Tally
	for tally.Count+tally.Foreign < 30 {
		fetches := reader.PollFetches(ctx)
		must(t, fetches.Err())
		fetches.EachRecord(func(r *kgo.Record) { tally.Add(of.prefix, recordSize, r.Key, r.Value) })
	}
	if tally.Count != 30 || tally.Foreign != 0 || tally.Duplicates != 0 {
		t.Errorf("read: %+v", tally)
	}
	must(t, dials.Only(g.Addresses(c)...))
	noFaults(ctx, t, g)
}

// B15: fifty groups in one request, transactional ids and share groups, some of them
// somebody else's: each once and in its place, with the error and the node that the broker
// names, at the gateway's address of that node; an error without a node stays without an
// address.
func TestCoordinatorsComeOnceEach(t *testing.T) {
	c := cluster(t)
	ctx := within(t, 2*time.Minute)
	app := name(t, "app")
	must(t, c.Admin.Grant(ctx, harness.AppGrants("vera", app)...))
	_, err := c.Admin.GroupOn(ctx, 1, app) // makes the internal topics, if need be
	must(t, err)
	_, err = c.Admin.TxnOn(ctx, 1, app)
	must(t, err)
	must(t, c.Admin.Balance(ctx)) // all nodes are to coordinate something
	g := gateway(t, c, harness.GatewayConfig{})
	sides := bothSides(c, g, "vera")
	through, directly := rawLeg(ctx, t, sides[0].node(3), sides[0].as, app), rawLeg(ctx, t, sides[1].node(3), sides[1].as, app)
	offered := served(t, through)[int16(kmsg.FindCoordinator)]
	nodes, errs := map[int32]int{}, 0
	for version := offered[0]; version <= offered[1]; version++ {
		for kind := range int8(3) { // group, transaction, share
			if kind > 0 && version == 0 || kind == 2 && version < 6 {
				continue
			}
			r := kmsg.NewPtrFindCoordinatorRequest()
			r.Version, r.CoordinatorType = version, kind
			for i := range 50 {
				key := fmt.Sprintf("%s-%d", app, i)
				if i%7 == 3 {
					key = fmt.Sprintf("somebodys-%d", i)
				}
				if kind == 2 {
					key += ":AAAAAAAAAAAAAAAAAAAAAQ:0"
				}
				if version < 4 && i == int(version) {
					r.CoordinatorKey = key
				}
				if version >= 4 {
					r.CoordinatorKeys = append(r.CoordinatorKeys, key)
				}
			}
			a, err := through.Request(r)
			must(t, err)
			b, err := directly.Request(r)
			must(t, err)
			got, want := coordinators(a), coordinators(b)
			if len(got) != len(want) || version >= 4 && len(got) != 50 {
				t.Fatalf("v%d of kind %d: %d entries, directly %d", version, kind, len(got), len(want))
			}
			for i, one := range got {
				other := want[i]
				if one.NodeID >= 0 {
					nodes[one.NodeID]++
					if address := g.NodeAddress(one.NodeID); fmt.Sprintf("%s:%d", one.Host, one.Port) != address {
						t.Errorf("v%d: node %d is at %s:%d, not %s", version, one.NodeID, one.Host, one.Port, address)
					}
					other.Host, other.Port = one.Host, one.Port
				} else {
					errs++
				}
				if !reflect.DeepEqual(one, other) {
					t.Errorf("v%d of kind %d: %+v, directly %+v", version, kind, one, other)
				}
			}
		}
	}
	t.Logf("coordinators %v, %d entries without one", nodes, errs)
	if len(nodes) != 3 || errs == 0 {
		t.Errorf("asked for were %v and %d without a coordinator: not all there is", nodes, errs)
	}
}

// coordinators are the entries of an answer, the one of the older form among them.
func coordinators(r kmsg.Response) []kmsg.FindCoordinatorResponseCoordinator {
	a := r.(*kmsg.FindCoordinatorResponse)
	if a.Version >= 4 {
		return a.Coordinators
	}
	return []kmsg.FindCoordinatorResponseCoordinator{{
		NodeID: a.NodeID, Host: a.Host, Port: a.Port, ErrorCode: a.ErrorCode, ErrorMessage: a.ErrorMessage,
	}}
}

// B57, where every broker has a port: what name a client asks for in the handshake says
// nothing about which broker it means, none at all, another one, in capitals or with a dot
// at its end, or that of the bootstrap on every connection. The port does, and nothing stays
// behind.
func TestTheNameAskedForDoesNotMatter(t *testing.T) {
	c := cluster(t)
	ctx := within(t, 2*time.Minute)
	app := name(t, "app")
	must(t, c.Admin.Grant(ctx, harness.AppGrants("vera", app)...))
	of := series{app, "n", 6}.make(ctx, t, c)
	g := gateway(t, c, harness.GatewayConfig{})
	for _, asked := range []string{"", g.Host, "unknown.example", "KAFKA.EXAMPLE.COM", "kafka.example.com.", "b2.kafka.example.com", strings.Repeat("a", 60) + ".example"} {
		for node := int32(1); node <= 3; node++ {
			config := g.TLS(site.Client("vera"))
			config.ServerName, config.InsecureSkipVerify = asked, true // the gateway's certificate is for its address
			leg, err := harness.DialRaw(ctx, g.NodeAddress(node), config)
			must(t, err)
			for p := range int32(3) { // led by nodes 1 to 3
				record := of.record(int(p))
				resp, err := leg.Request(produceRequest(9, 1, [16]byte{}, record))
				must(t, err)
				code := resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode
				if leads := p+1 == node; leads != (code == 0) || !leads && code != 6 {
					t.Errorf("asked for %q at the port of node %d: a produce to node %d's partition gives %d", asked, node, p+1, code)
				}
			}
			must(t, leg.Close())
		}
	}
	eventually(t, func() error { return noSessions(g) })
	noFaults(ctx, t, g)
}
