package gateway

import (
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// reliance is what clients take for granted once a feature is finalized at a level: that
// the versions from which the feature's own begin are offered (KIP-584).
type reliance struct {
	feature string
	level   int16
	key     kmsg.Key
	version int16
}

// reliances are those of Kafka up to 4.4. Features that no client acts on, such as
// metadata.version, are not among them.
func reliances() []reliance {
	return []reliance{
		// Transactions, second protocol (KIP-890): a producer adds partitions by producing to
		// them, and takes its new epoch from the answer to EndTxn. Java producers decide by the
		// feature alone.
		{"transaction.version", 2, kmsg.Produce, 12},
		{"transaction.version", 2, kmsg.InitProducerID, 5},
		{"transaction.version", 2, kmsg.AddOffsetsToTxn, 4},
		{"transaction.version", 2, kmsg.TxnOffsetCommit, 5},
		{"transaction.version", 2, kmsg.EndTxn, 5},
		{"group.version", 1, kmsg.ConsumerGroupHeartbeat, 0}, // KIP-848
		{"group.version", 1, kmsg.ConsumerGroupDescribe, 0},
		{"share.version", 1, kmsg.ShareGroupHeartbeat, 1}, // KIP-932
		{"share.version", 1, kmsg.ShareGroupDescribe, 1},
		{"share.version", 1, kmsg.ShareFetch, 1},
		{"share.version", 1, kmsg.ShareAcknowledge, 1},
		{"streams.version", 1, kmsg.StreamsGroupHeartbeat, 0}, // KIP-1071
		{"streams.version", 1, kmsg.StreamsGroupDescribe, 0},
	}
}

// CheckFeatures tells whether what this gateway takes out of a broker's ApiVersions
// answer, or lowers in it, hides something that a feature relies on which is finalized
// in that very answer: clients would act on the feature and fail in ways that only a
// direct connection would explain. versions is the answer to version 3 or later, as the
// broker gave it. The error names every such API; a newer gateway is the cure. A feature
// at a level that this gateway does not know may rely on any version of its APIs.
func CheckFeatures(versions *kmsg.ApiVersionsResponse) error {
	return newPolicy().checkFeatures(versions)
}

func (p policy) checkFeatures(versions *kmsg.ApiVersionsResponse) error {
	brokers := make(map[int16]int16, len(versions.ApiKeys))
	for _, k := range versions.ApiKeys {
		brokers[k.ApiKey] = k.MaxVersion
	}
	known := make(map[string]int16)
	for _, r := range reliances() {
		known[r.feature] = max(known[r.feature], r.level)
	}
	var hidden []string
	for _, f := range versions.FinalizedFeatures {
		for _, r := range reliances() {
			if r.feature != f.Name || f.MaxVersionLevel < r.level {
				continue
			}
			highest, served := p.offered(int16(r.key))
			if !served {
				highest = -1
			}
			broker, has := brokers[int16(r.key)]
			needed := r.version
			if f.MaxVersionLevel > known[f.Name] {
				needed = max(needed, broker)
			}
			if has && broker >= needed && highest < needed {
				hidden = append(hidden, fmt.Sprintf("%s %d needs %s v%d (the broker has %d, the gateway offers %d)",
					f.Name, f.MaxVersionLevel, r.key.Name(), needed, broker, highest))
			}
		}
	}
	if len(hidden) == 0 {
		return nil
	}
	return fmt.Errorf("the cluster has finalized features that rely on more than this gateway offers to clients; a newer Doorkeeper is needed: %s", strings.Join(hidden, "; "))
}
