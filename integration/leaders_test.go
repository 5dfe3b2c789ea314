//go:build integration

package integration

// This file proves that what clients are told of leaders and of followers to read from is
// of one piece: a broker that is no longer the leader names the new one, by the id, the
// epoch, the rack and the address that Metadata has for it; and a consumer in a rack is
// sent to the follower there, at the gateway's address, and reads all from it (B06).

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"doorkeeper/integration/harness"
)

// told is a leader as an answer names it.
type told struct {
	id, epoch, port int32
	host, rack      string
}

func TestMovedLeadersAreNamedAsInMetadata(t *testing.T) {
	c := cluster(t)
	ctx := within(t, time.Minute)
	app := name(t, "app")
	must(t, c.Admin.Grant(ctx, harness.AppGrants("lena", app)...))
	of := series{app, "m", 6}.make(ctx, t, c)
	g := gateway(t, c, harness.GatewayConfig{})
	sides := bothSides(c, g, "lena")
	through, directly := rawLeg(ctx, t, sides[0].node(1), sides[0].as, app), rawLeg(ctx, t, sides[1].node(1), sides[1].as, app)
	offered := served(t, through)
	id := topicID(t, through, of.topic)

	for move, to := range []int32{2, 3, 2} { // partition 0 was node 1's
		must(t, c.Admin.MoveLeader(ctx, of.topic, 0, to))
		var want told
		eventually(t, func() error { // until node 1 has heard of it
			resp, err := through.Request(metadataRequest(12, of.topic))
			if err != nil {
				return err
			}
			want = inMetadata(resp.(*kmsg.MetadataResponse), 0)
			if want.id != to {
				return fmt.Errorf("node 1 takes node %d for the leader, not %d", want.id, to)
			}
			return nil
		})
		if address := fmt.Sprintf("%s:%d", want.host, want.port); address != g.NodeAddress(to) || want.rack != fmt.Sprintf("rack-%d", to) {
			t.Errorf("Metadata has node %d at %s in rack %s", to, address, want.rack)
		}
		named := 0
		for version := int16(10); version <= offered[0][1]; version++ {
			req := produceRequest(version, 1, id, of.record(0))
			if got, ok := inProduce(t, through, req); ok {
				named++
				if got != want {
					t.Errorf("move %d, Produce v%d names %+v, Metadata %+v", move, version, got, want)
				}
			} else if _, ok := inProduce(t, directly, req); ok {
				t.Errorf("move %d, Produce v%d: the broker names the leader, the gateway leaves it out", move, version)
			}
		}
		for version := int16(16); version <= offered[1][1]; version++ {
			req := fetchRequest(of.topic, id, 0).(*kmsg.FetchRequest)
			req.Version = version // with the first leader's epoch: a follower serves who knows the newest
			if got, ok := inFetch(t, through, req); ok {
				named++
				if got != want {
					t.Errorf("move %d, Fetch v%d names %+v, Metadata %+v", move, version, got, want)
				}
			} else if _, ok := inFetch(t, directly, req); ok {
				t.Errorf("move %d, Fetch v%d: the broker names the leader, the gateway leaves it out", move, version)
			}
		}
		if named == 0 && offered[1][1] >= 16 {
			t.Errorf("move %d: no answer names the new leader", move)
		}
	}
	noFaults(ctx, t, g)
}

// inMetadata is the leader of a partition.
func inMetadata(r *kmsg.MetadataResponse, partition int32) told {
	var out told
	for _, p := range r.Topics[0].Partitions {
		if p.Partition == partition {
			out.id, out.epoch = p.Leader, p.LeaderEpoch
		}
	}
	for _, b := range r.Brokers {
		if b.NodeID == out.id {
			out.host, out.port, out.rack = b.Host, b.Port, rackOf(b.Rack)
		}
	}
	return out
}

// inProduce is the leader that the answer to a produce names, if it names one.
func inProduce(t *testing.T, leg *harness.Raw, req *kmsg.ProduceRequest) (out told, named bool) {
	t.Helper()
	resp, err := leg.Request(req)
	must(t, err)
	r := resp.(*kmsg.ProduceResponse)
	p := r.Topics[0].Partitions[0]
	if p.ErrorCode != 6 {
		t.Errorf("Produce v%d to another than the leader: error %d", req.Version, p.ErrorCode)
	}
	out.id, out.epoch = p.CurrentLeader.LeaderID, p.CurrentLeader.LeaderEpoch
	for _, b := range r.Brokers {
		if b.NodeID == out.id {
			out.host, out.port, out.rack, named = b.Host, b.Port, rackOf(b.Rack), true
		}
	}
	return out, named
}

// inFetch is inProduce for a fetch.
func inFetch(t *testing.T, leg *harness.Raw, req *kmsg.FetchRequest) (out told, named bool) {
	t.Helper()
	resp, err := leg.Request(req)
	must(t, err)
	r := resp.(*kmsg.FetchResponse)
	p := r.Topics[0].Partitions[0]
	if p.ErrorCode != 6 && p.ErrorCode != 74 { // not the leader; the epoch of an earlier one
		t.Errorf("Fetch v%d of another than the leader: error %d", req.Version, p.ErrorCode)
	}
	out.id, out.epoch = p.CurrentLeader.LeaderID, p.CurrentLeader.LeaderEpoch
	for _, b := range r.Brokers {
		if b.NodeID == out.id {
			out.host, out.port, out.rack, named = b.Host, b.Port, rackOf(b.Rack), true
		}
	}
	return out, named
}

func rackOf(rack *string) string {
	if rack == nil {
		return ""
	}
	return *rack
}

func TestConsumersInARackReadThere(t *testing.T) {
	c := cluster(t)
	ctx := within(t, 2*time.Minute)
	app := name(t, "app")
	must(t, c.Admin.Grant(ctx, harness.AppGrants("lena", app)...))
	of := series{app, "r", 600}.make(ctx, t, c)
	g := gateway(t, c, harness.GatewayConfig{})
	lena := site.Client("lena")
	var dials harness.Dials
	wrote, err := of.produce(ctx, franz(t, &dials, lena, g.Bootstrap), 0)
	must(t, err)
	of.judge(t, "written", wrote, false)

	// The leader of partition 0, node 1, sends those of rack 3 to node 3, and that has all.
	leader, follower := rawLeg(ctx, t, g.NodeAddress(1), lena, app), rawLeg(ctx, t, g.NodeAddress(3), lena, app)
	ask := func(leg *harness.Raw, version int16, rack string) kmsg.FetchResponseTopicPartition {
		req := fetch(of.topic, 0, 0, 1<<20, 1, 500*time.Millisecond)
		req.Version, req.Rack = version, rack
		resp, err := leg.Request(req)
		must(t, err)
		return resp.(*kmsg.FetchResponse).Topics[0].Partitions[0]
	}
	for _, version := range []int16{11, 12} {
		eventually(t, func() error { // once the leader knows that the follower has caught up
			if p := ask(leader, version, "rack-3"); p.ErrorCode != 0 || p.PreferredReadReplica != 3 || len(p.RecordBatches) > 0 {
				return fmt.Errorf("v%d: the leader answers with error %d, sends to %d, and brings %d bytes", version, p.ErrorCode, p.PreferredReadReplica, len(p.RecordBatches))
			}
			return nil
		})
		want := ask(leader, version, "").RecordBatches
		if p := ask(follower, version, "rack-3"); p.ErrorCode != 0 || len(want) == 0 || !bytes.Equal(p.RecordBatches, want) {
			t.Errorf("v%d: the follower answers with error %d and %d bytes, the leader has %d", version, p.ErrorCode, len(p.RecordBatches), len(want))
		}
	}

	for rack := 1; rack <= 3; rack++ {
		reader := franz(t, &dials, lena, g.Bootstrap, kgo.Rack(fmt.Sprintf("rack-%d", rack)), kgo.ConsumeTopics(of.topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
		read, err := of.consume(ctx, reader)
		must(t, err)
		of.judge(t, fmt.Sprintf("read in rack %d", rack), read, false)
	}
	must(t, dials.Only(g.Addresses(c)...))
	noFaults(ctx, t, g)
}
