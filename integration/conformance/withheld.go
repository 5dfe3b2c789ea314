package conformance

import "github.com/twmb/franz-go/pkg/kmsg"

// Withheld are versions that brokers serve and the gateway does not offer.
type Withheld struct {
	Key  kmsg.Key
	From int16 // the first version; 0: all
	// Answered says that the gateway answers them by itself; otherwise it closes the
	// connection.
	Answered bool
	Why      string
}

// WithheldVersions are all of them. What the gateway withholds beyond these is a
// difference; what it offers of them is one too.
func WithheldVersions() []Withheld {
	const brokers, tokens = "it is for brokers alone", "Kafka refuses it to those who log in with a token, as everybody does through the gateway"
	out := []Withheld{
		{Key: kmsg.AddPartitionsToTxn, From: 4, Why: "version 4 is for brokers alone (KIP-890); clients use version 3 or none"},
		{Key: kmsg.CreateDelegationToken, Answered: true, Why: tokens},
		{Key: kmsg.RenewDelegationToken, Answered: true, Why: tokens},
		{Key: kmsg.ExpireDelegationToken, Answered: true, Why: tokens},
		{Key: kmsg.DescribeDelegationToken, Answered: true, Why: tokens},
	}
	for _, key := range []kmsg.Key{
		kmsg.LeaderAndISR, kmsg.StopReplica, kmsg.UpdateMetadata, kmsg.ControlledShutdown, kmsg.WriteTxnMarkers,
		kmsg.Vote, kmsg.BeginQuorumEpoch, kmsg.EndQuorumEpoch, kmsg.AlterPartition, kmsg.Envelope, kmsg.FetchSnapshot,
		kmsg.BrokerRegistration, kmsg.BrokerHeartbeat, kmsg.AllocateProducerIDs, kmsg.ControllerRegistration,
		kmsg.AssignReplicasToDirs, kmsg.UpdateRaftVoter,
		kmsg.InitializeShareGroupState, kmsg.ReadShareGroupState, kmsg.WriteShareGroupState, kmsg.DeleteShareGroupState,
		kmsg.ReadShareGroupStateSummary,
	} {
		out = append(out, Withheld{Key: key, Why: brokers})
	}
	return out
}

// withheld finds what is said about a version.
func withheld(key, version int16) (Withheld, bool) {
	for _, w := range WithheldVersions() {
		if int16(w.Key) == key && version >= w.From {
			return w, true
		}
	}
	if request := kmsg.RequestForKey(key); request == nil || version > request.MaxVersion() {
		return Withheld{Key: kmsg.Key(key), From: version, Why: "the gateway does not know it: its library, kmsg, is older"}, true
	}
	return Withheld{}, false
}
