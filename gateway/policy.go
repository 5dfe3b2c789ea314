package gateway

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"doorkeeper/connections"
	"doorkeeper/internal/wire"
)

// action is what the gateway does with a request.
type action uint8

const (
	// actionRefuse closes the client leg, as a broker does with a key that is not
	// for clients; such keys are missing from the ApiVersions answer.
	actionRefuse action = iota
	// actionForward passes request and answer as they are.
	actionForward
	// actionRewrite passes the request as it is; the answer is decoded and the
	// addresses in it are replaced by the gateway's.
	actionRewrite
	// actionTrim passes ApiVersions; what the gateway cannot serve is taken out of
	// the answer.
	actionTrim
	// actionAnswer answers here. The request never reaches a broker.
	actionAnswer
)

// wait is how a request says for how long a broker may sit on it. The broker reads
// the next request of a connection only after it has answered this one.
type wait uint8

const (
	waitNone      wait = iota // answered as soon as it is processed
	waitFetch                 // max_wait_ms
	waitProduce               // timeout_ms, with acks=all; acks=0 has no answer
	waitTimeout               // the timeout_ms of an admin request, wherever it lies
	waitUnbounded             // until other members of the group act
)

// rule is the policy for one API key.
type rule struct {
	action  action
	wait    wait
	waits   int16 // the first version that says so
	max     int16 // the highest version offered to clients
	rewrite rewriter
	// flexible is the first version with tagged fields (KIP-482), -1 if there is none.
	flexible int16
	// request makes an empty request, for what has to be decoded.
	request func() kmsg.Request
}

// flexibleAt tells whether requests and answers of a version carry tagged fields.
func (r *rule) flexibleAt(version int16) bool { return r.flexible >= 0 && version >= r.flexible }

// policy is the table over all keys, indexed by key. What it does not name is
// refused: a key or version that came with a newer Kafka passes only after somebody
// has looked at whether its answers carry addresses.
type policy []rule

// rule returns the rule for a key and version, and whether the gateway serves it.
func (p policy) rule(key, version int16) (*rule, bool) {
	if key < 0 || int(key) >= len(p) {
		return nil, false
	}
	r := &p[key]
	return r, r.action != actionRefuse && version >= 0 && version <= r.max
}

// newPolicy builds the table. It is the list of DESIGN.md, section "What the
// gateway does with each API".
func newPolicy() policy {
	const highest = 94
	p := make(policy, highest+1)

	// Passed as they are; Kafka's ACLs decide. The wait is named where it is not none.
	for _, key := range []kmsg.Key{
		kmsg.OffsetCommit, kmsg.OffsetFetch, kmsg.Heartbeat, kmsg.LeaveGroup,
		kmsg.DescribeGroups, kmsg.ListGroups, kmsg.InitProducerID, kmsg.OffsetForLeaderEpoch,
		kmsg.AddPartitionsToTxn, kmsg.AddOffsetsToTxn, kmsg.EndTxn, kmsg.TxnOffsetCommit,
		kmsg.DescribeACLs, kmsg.CreateACLs, kmsg.DeleteACLs,
		kmsg.DescribeConfigs, kmsg.AlterConfigs, kmsg.IncrementalAlterConfigs,
		kmsg.AlterReplicaLogDirs, kmsg.DescribeLogDirs, kmsg.DeleteGroups, kmsg.OffsetDelete,
		kmsg.DescribeClientQuotas, kmsg.AlterClientQuotas,
		kmsg.DescribeUserSCRAMCredentials, kmsg.AlterUserSCRAMCredentials,
		kmsg.DescribeProducers, kmsg.UnregisterBroker,
		kmsg.DescribeTransactions, kmsg.ListTransactions,
		kmsg.ConsumerGroupHeartbeat, kmsg.ConsumerGroupDescribe,
		kmsg.GetTelemetrySubscriptions, kmsg.PushTelemetry,
		kmsg.ListConfigResources, kmsg.DescribeTopicPartitions,
		kmsg.ShareGroupHeartbeat, kmsg.ShareGroupDescribe,
		kmsg.RemoveRaftVoter,
		kmsg.StreamsGroupHeartbeat, kmsg.StreamsGroupDescribe,
		kmsg.DescribeShareGroupOffsets, kmsg.AlterShareGroupOffsets, kmsg.DeleteShareGroupOffsets,
		kmsg.StreamsGroupTopologyDescriptionUpdate, kmsg.UnregisterController,
	} {
		p[key] = rule{action: actionForward}
	}
	for _, key := range []kmsg.Key{
		kmsg.CreateTopics, kmsg.DeleteTopics, kmsg.DeleteRecords, kmsg.CreatePartitions,
		kmsg.ElectLeaders, kmsg.AlterPartitionAssignments, kmsg.ListPartitionReassignments,
		kmsg.UpdateFeatures, kmsg.AddRaftVoter,
	} {
		p[key] = rule{action: actionForward, wait: waitTimeout}
	}
	// From 10 on it may wait for remote storage (KIP-1075).
	p[kmsg.ListOffsets] = rule{action: actionForward, wait: waitTimeout, waits: 10}
	p[kmsg.Fetch] = rule{action: actionForward, wait: waitFetch}
	p[kmsg.JoinGroup] = rule{action: actionForward, wait: waitUnbounded}
	p[kmsg.SyncGroup] = rule{action: actionForward, wait: waitUnbounded}

	// Answers that carry addresses.
	p[kmsg.Produce] = rule{action: actionRewrite, wait: waitProduce, rewrite: rewriteProduce}
	p[kmsg.Metadata] = rule{action: actionRewrite, rewrite: rewriteMetadata}
	p[kmsg.FindCoordinator] = rule{action: actionRewrite, rewrite: rewriteFindCoordinator}
	p[kmsg.DescribeCluster] = rule{action: actionRewrite, rewrite: rewriteDescribeCluster}
	p[kmsg.DescribeQuorum] = rule{action: actionRewrite, rewrite: rewriteDescribeQuorum}
	p[kmsg.ApiVersions] = rule{action: actionTrim}

	// Never a broker's business: the session's identity is the certificate's.
	for _, key := range []kmsg.Key{
		kmsg.SASLHandshake, kmsg.SASLAuthenticate,
		kmsg.CreateDelegationToken, kmsg.RenewDelegationToken, kmsg.ExpireDelegationToken, kmsg.DescribeDelegationToken,
	} {
		p[key] = rule{action: actionAnswer}
	}

	for key := int16(0); key <= highest; key++ {
		request := kmsg.RequestForKey(key)
		if p[key].action == actionRefuse || request == nil {
			continue
		}
		p[key].max = request.MaxVersion()
		p[key].flexible = firstFlexible(request)
		p[key].request = func() kmsg.Request { return kmsg.RequestForKey(key) }
	}
	// From 16 on a Fetch answer ends with leaders' addresses (KIP-951), behind
	// records that must not be held in memory to get there.
	p[kmsg.Fetch].max = 15
	// From 4 on the request is for brokers only (KIP-890).
	p[kmsg.AddPartitionsToTxn].max = 3
	return p
}

func firstFlexible(request kmsg.Request) int16 {
	for v := int16(0); v <= request.MaxVersion(); v++ {
		request.SetVersion(v)
		if request.IsFlexible() {
			return v
		}
	}
	return -1
}

// offered tells whether a key belongs into the ApiVersions answer, and up to which
// version.
func (p policy) offered(key int16) (highest int16, ok bool) {
	r, served := p.rule(key, 0)
	if !served || r.action == actionAnswer && key != int16(kmsg.SASLHandshake) && key != int16(kmsg.SASLAuthenticate) {
		return 0, false
	}
	return r.max, true
}

// inspection is what a request's body says about its way through the gateway.
type inspection struct {
	wait     time.Duration // connections.Unbounded, or at most so long
	answered bool          // false for Produce with acks=0
	refuse   string        // why it must not pass, "" otherwise
}

// inspect reads of a request's body what the rule needs. body begins behind the
// header; whole tells that the frame ends with it. It returns wire.ErrShort when
// more of the frame is needed, and never when whole.
func (r *rule) inspect(version int16, body []byte, whole bool) (inspection, error) {
	switch r.wait {
	case waitProduce:
		p, err := wire.PeekProduce(body, version)
		if err != nil {
			return inspection{}, shortIfPart(err, whole)
		}
		in := inspection{answered: p.Acks != 0}
		if p.Acks == -1 {
			in.wait = max(p.Timeout, 0)
		}
		return in, nil
	case waitFetch:
		if version >= fetchReplicaTag && !whole {
			return inspection{}, wire.ErrShort
		}
		p, err := wire.PeekFetch(body, version)
		if err != nil {
			return inspection{}, shortIfPart(err, whole)
		}
		in := inspection{answered: true, wait: max(p.MaxWait, 0)}
		if p.ReplicaID >= 0 {
			in.refuse = "Fetch with a replica id is for brokers"
		}
		return in, nil
	case waitTimeout:
		if version < r.waits {
			break
		}
		if !whole {
			return inspection{}, wire.ErrShort
		}
		return inspection{answered: true, wait: r.timeout(version, body)}, nil
	case waitUnbounded:
		return inspection{answered: true, wait: connections.Unbounded}, nil
	case waitNone:
	}
	return inspection{answered: true}, nil
}

// fetchReplicaTag is the first Fetch version that carries the replica id in a tag
// at its end (KIP-903).
const fetchReplicaTag = 15

// timeout decodes an admin request for its timeout_ms. A body that kmsg cannot
// read goes to the broker, whose answer the client gets; nothing is written behind
// it for as long as it takes.
func (r *rule) timeout(version int16, body []byte) time.Duration {
	request := r.request()
	request.SetVersion(version)
	t, ok := request.(kmsg.TimeoutRequest)
	if !ok || request.ReadFrom(body) != nil {
		return connections.Unbounded
	}
	return time.Duration(max(t.Timeout(), 0)) * time.Millisecond
}

// shortIfPart turns "the bytes end here" into a fault where there are no more.
func shortIfPart(err error, whole bool) error {
	if err == wire.ErrShort && whole { //nolint:errorlint // ErrShort is returned bare by internal/wire
		return wire.ErrFrame
	}
	return err
}
