package conformance

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// makeShared makes what both sides look at and none changes.
func (w *World) makeShared(s *Side) {
	topic := w.Shared("topic")
	producer := s.okAt(w.TxnNode, initProducer("")).(*kmsg.InitProducerIDResponse)
	for n, value := range []string{"first", "second", "third"} {
		s.ok(produce(s, w.Highest(kmsg.Produce), topic, 0, batch(producer.ProducerID, producer.ProducerEpoch, int32(n), value)))
	}
	s.okAt(w.GroupNode, commit(s, w.Highest(kmsg.OffsetCommit), w.Shared("offsets")))

	// Groups with a member each, whose time does not run out.
	s.via.node = w.GroupNode
	s.member(w.Shared("classic"))
	s.learned = nil
	if w.Serves(kmsg.ConsumerGroupHeartbeat) {
		s.settled(w.Shared("modern"))
	}
	if w.Serves(kmsg.ShareGroupHeartbeat) {
		s.sharing(w.Shared("share"), topic)
	}
	if w.Serves(kmsg.StreamsGroupHeartbeat) {
		s.streaming(w.Shared("streams"))
	}
	s.via.node = 1

	t := &txn{side: s, id: w.Shared("txn")}
	got := s.okAt(w.TxnNode, initProducer(t.id)).(*kmsg.InitProducerIDResponse)
	t.producer, t.epoch = got.ProducerID, got.ProducerEpoch
	s.okAt(w.TxnNode, t.partitions())

	s.ok(createACL(w.Shared("acl")))
	s.ok(alterQuotas(w.Shared("user"), "producer_byte_rate", 1_000_000))
	s.ok(alterSCRAM(w.Shared("user")))
	if w.Serves(kmsg.ListConfigResources) {
		s.ok(setConfig(kmsg.ConfigResourceTypeClientMetrics, w.Shared("metrics"), "interval.ms", "60000"))
	}

	// One replica moves to a broker that will never come, so its move goes on for ever;
	// preferred leaders change while the old ones lead on.
	s.ok(reassign(w.Shared("moving"), w.Fenced[0]))
	for _, node := range w.Nodes {
		until(s, node, func() kmsg.Request { return describeACLs(w.Shared("acl")) }, func(r *kmsg.DescribeACLsResponse) bool {
			return len(r.Resources) == 1
		})
		until(s, node, func() kmsg.Request { return describeQuotas(w.Shared("user")) }, func(r *kmsg.DescribeClientQuotasResponse) bool {
			return len(r.Entries) == 1
		})
	}
}

// makeConfigs makes what a side's questions need to be configured.
func (w *World) makeConfigs(s *Side, tag string) {
	own := func(name string) string { return "conf-" + tag + "-" + name }
	for v := range int16(3) {
		s.ok(reassign(own(fmt.Sprintf("elect-v%d", v)), 2, 1))
		if w.Serves(kmsg.ShareFetch) {
			for _, name := range []string{"fetch", "ack", "ack-astray"} {
				s.ok(setConfig(kmsg.ConfigResourceTypeGroupConfig, own(fmt.Sprintf("share-%s-v%d", name, v)), "share.auto.offset.reset", "earliest"))
			}
		}
	}
	s.ok(produce(s, w.Highest(kmsg.Produce), own("share"), 0, plain("earlier")))
}
