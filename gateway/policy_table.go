package gateway

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"doorkeeper/internal/wire"
)

// table says, for every key that kmsg knows, what the gateway does with it. A line is
//
//	what to do (key, highest version), how long it may wait, what it ties
//
// What to do:
//
//	pass       request and answer pass, byte for byte. Kafka's ACLs decide.
//	rewritten  the answer names brokers' addresses: each becomes the gateway's, and all
//	           else stays, byte for byte. Before the version at the end none are in it.
//	scrubbing  the answer's error messages may have printed a connection between brokers:
//	           it is left out of them, and all else stays, byte for byte.
//	trailing   rewritten, for answers with the addresses at their end, behind what may be
//	           100 MB of records. They stream.
//	here       the gateway answers; no broker sees the request.
//	refused    the client leg is closed, as Kafka closes it, and the key is not offered.
//
// The number behind the key is the highest version that somebody has looked at. A
// version above it is not offered, and refused if it is sent; so is a key that is not
// here. A test fails when kmsg knows a key or a version that this table does not.
//
// How long it may wait matters since the broker reads a connection's next request only
// then, and must read it before the session end:
//
//	(nothing)      it is answered as soon as it is processed
//	waitsFor       so many milliseconds, says a field of the request, from this version on
//	waitsUnbounded until other members of the group act
//
// What it ties: a broker remembers something of this very connection, and forgets it
// when the connection ends.
//
// Addresses were looked for in all message definitions up to Kafka 4.4. What users
// stored is never touched: records, configuration dumps, hosts in ACLs and of groups'
// members, the user endpoints of streams groups.
func table() []rule {
	return []rule{
		// Records. An answer that says "not the leader" brings the leaders' addresses along:
		// as tag 0 behind the body (KIP-951), or in the body's last field (KIP-932).
		trailing(kmsg.Produce, 13, trailTag, wire.ProduceAnswer, 10).waiting(waitProduce),
		trailing(kmsg.Fetch, 18, trailTag, wire.FetchAnswer, 16).waiting(waitFetch),
		trailing(kmsg.ShareFetch, 2, trailField, wire.ShareFetchAnswer, 0).waitsFor(wire.ShareFetchWait, 0).ties(tieShare),
		trailing(kmsg.ShareAcknowledge, 2, trailField, wire.ShareAcknowledgeAnswer, 0).ties(tieShare),
		pass(kmsg.ListOffsets, 11).waitsFor(wire.ListOffsetsTimeout, 10), // remote storage (KIP-1075)
		pass(kmsg.OffsetForLeaderEpoch, 4),
		pass(kmsg.DeleteRecords, 2).waitsFor(wire.DeleteRecordsTimeout, 0),

		// Where brokers are.
		rewritten(kmsg.Metadata, 13, rewriteMetadata, 0),
		rewritten(kmsg.FindCoordinator, 6, rewriteFindCoordinator, 0), // groups, transactions, share groups; batched from 4 on (KIP-699)
		rewritten(kmsg.DescribeCluster, 2, rewriteDescribeCluster, 0), // fenced brokers too (KIP-1073)
		rewritten(kmsg.DescribeQuorum, 2, rewriteDescribeQuorum, 2),   // controllers' listeners (KIP-853)
		pass(kmsg.DescribeTopicPartitions, 0),                         // ids of brokers, no addresses

		// Consumer groups, classic and new (KIP-848).
		pass(kmsg.OffsetCommit, 10),
		pass(kmsg.OffsetFetch, 10),
		pass(kmsg.JoinGroup, 9).waiting(waitUnbounded),
		pass(kmsg.SyncGroup, 5).waiting(waitUnbounded),
		pass(kmsg.Heartbeat, 4),
		pass(kmsg.LeaveGroup, 5),
		pass(kmsg.ConsumerGroupHeartbeat, 1),
		pass(kmsg.ConsumerGroupDescribe, 1),
		pass(kmsg.DescribeGroups, 6),
		pass(kmsg.ListGroups, 5),
		pass(kmsg.DeleteGroups, 3),
		pass(kmsg.OffsetDelete, 0),

		// Share groups (KIP-932) and streams groups (KIP-1071).
		pass(kmsg.ShareGroupHeartbeat, 1),
		pass(kmsg.ShareGroupDescribe, 1),
		pass(kmsg.DescribeShareGroupOffsets, 1),
		pass(kmsg.AlterShareGroupOffsets, 0),
		pass(kmsg.DeleteShareGroupOffsets, 0),
		pass(kmsg.StreamsGroupHeartbeat, 1),
		pass(kmsg.StreamsGroupDescribe, 1),
		pass(kmsg.StreamsGroupTopologyDescriptionUpdate, 0),

		// Transactions.
		pass(kmsg.InitProducerID, 5),
		pass(kmsg.AddPartitionsToTxn, 3).lower("version 4 and later are for brokers (KIP-890)"),
		pass(kmsg.AddOffsetsToTxn, 4),
		pass(kmsg.EndTxn, 5),
		pass(kmsg.TxnOffsetCommit, 6),
		pass(kmsg.DescribeProducers, 0),
		pass(kmsg.DescribeTransactions, 0),
		pass(kmsg.ListTransactions, 2),

		// Topics, partitions, replicas.
		pass(kmsg.CreateTopics, 7).waitsFor(wire.CreateTopicsTimeout, 0),
		pass(kmsg.DeleteTopics, 6).waitsFor(wire.DeleteTopicsTimeout, 0),
		pass(kmsg.CreatePartitions, 3).waitsFor(wire.CreatePartitionsTimeout, 0),
		scrubbing(kmsg.ElectLeaders, 2, scrubElectLeaders).waitsFor(wire.ElectLeadersTimeout, 0),
		scrubbing(kmsg.AlterPartitionAssignments, 1, scrubReassignments).waitsFor(wire.LeadingTimeout, 0),
		scrubbingFront(kmsg.ListPartitionReassignments, 0, 0).waitsFor(wire.LeadingTimeout, 0),
		pass(kmsg.AlterReplicaLogDirs, 2),
		pass(kmsg.DescribeLogDirs, 5),

		// Configuration, rights, quotas, passwords.
		pass(kmsg.DescribeConfigs, 4),
		pass(kmsg.AlterConfigs, 2),
		pass(kmsg.IncrementalAlterConfigs, 1),
		pass(kmsg.ListConfigResources, 1),
		scrubbingFront(kmsg.DescribeACLs, 3, 2),
		scrubbing(kmsg.CreateACLs, 3, scrubCreateACLs),
		scrubbing(kmsg.DeleteACLs, 3, scrubDeleteACLs),
		pass(kmsg.DescribeClientQuotas, 1),
		pass(kmsg.AlterClientQuotas, 1),
		pass(kmsg.DescribeUserSCRAMCredentials, 0),
		scrubbing(kmsg.AlterUserSCRAMCredentials, 0, scrubSCRAM),

		// The cluster itself, as administrators change it.
		scrubbing(kmsg.UpdateFeatures, 2, scrubFeatures).waitsFor(wire.LeadingTimeout, 0),
		scrubbingFront(kmsg.UnregisterBroker, 0, 0),
		scrubbingFront(kmsg.UnregisterController, 0, 0),
		pass(kmsg.AddRaftVoter, 1).waitsFor(wire.AddRaftVoterTimeout, 0),
		pass(kmsg.RemoveRaftVoter, 0),

		// Clients' own metrics (KIP-714).
		pass(kmsg.GetTelemetrySubscriptions, 0).ties(tieTelemetry),
		pass(kmsg.PushTelemetry, 0).ties(tieTelemetry),

		// The connection. What a broker serves is cut down to what this table serves. Who
		// the client is, its certificate says: it has nothing to log in to.
		{key: kmsg.ApiVersions, action: actionTrim, max: 5},
		here(kmsg.SASLHandshake, 1),
		here(kmsg.SASLAuthenticate, 2),
		here(kmsg.CreateDelegationToken, 3).hide(),
		here(kmsg.RenewDelegationToken, 2).hide(),
		here(kmsg.ExpireDelegationToken, 2).hide(),
		here(kmsg.DescribeDelegationToken, 3).hide(),

		// Between brokers and controllers. Brokers offer some of them to everybody.
		refused(kmsg.LeaderAndISR, forBrokers),
		refused(kmsg.StopReplica, forBrokers),
		refused(kmsg.UpdateMetadata, forBrokers),
		refused(kmsg.ControlledShutdown, forBrokers),
		refused(kmsg.WriteTxnMarkers, forBrokers),
		refused(kmsg.Vote, forControllers),
		refused(kmsg.BeginQuorumEpoch, forControllers),
		refused(kmsg.EndQuorumEpoch, forControllers),
		refused(kmsg.AlterPartition, forControllers),
		refused(kmsg.Envelope, forControllers), // carries another principal's request
		refused(kmsg.FetchSnapshot, forControllers),
		refused(kmsg.BrokerRegistration, forControllers),
		refused(kmsg.BrokerHeartbeat, forControllers),
		refused(kmsg.AllocateProducerIDs, forControllers),
		refused(kmsg.ControllerRegistration, forControllers),
		refused(kmsg.AssignReplicasToDirs, forControllers),
		refused(kmsg.UpdateRaftVoter, forControllers),
		refused(kmsg.InitializeShareGroupState, forBrokers),
		refused(kmsg.ReadShareGroupState, forBrokers),
		refused(kmsg.WriteShareGroupState, forBrokers),
		refused(kmsg.DeleteShareGroupState, forBrokers),
		refused(kmsg.ReadShareGroupStateSummary, forBrokers),
	}
}

// Why keys are refused.
const (
	forBrokers     = "it is for brokers"
	forControllers = "it is for controllers"
)

func pass(key kmsg.Key, highest int16) rule {
	return rule{key: key, action: actionForward, max: highest}
}

func rewritten(key kmsg.Key, highest int16, by rewriter, from int16) rule {
	return rule{key: key, action: actionRewrite, max: highest, rewrite: by, from: from}
}

// scrubbing is rewritten, for what is no address in a field of its own.
func scrubbing(key kmsg.Key, highest int16, by rewriter) rule {
	return rewritten(key, highest, by, 0)
}

// scrubbingFront is for answers with one message, behind the throttle time and the error:
// whatever their size, they stream. From flexible on, a version has tagged fields.
func scrubbingFront(key kmsg.Key, highest, flexible int16) rule {
	return rule{key: key, action: actionFront, max: highest, rewrite: scrubFront(flexible)}
}

func trailing(key kmsg.Key, highest int16, how trail, answer layoutOf, from int16) rule {
	return rule{key: key, action: actionTrail, max: highest, trail: how, answer: answer, from: from}
}

func here(key kmsg.Key, highest int16) rule {
	return rule{key: key, action: actionAnswer, max: highest}
}

func refused(key kmsg.Key, why string) rule {
	return rule{key: key, action: actionRefuse, max: -1, why: why}
}

func (r rule) waiting(w wait) rule {
	r.wait = w
	return r
}

func (r rule) waitsFor(field layoutOf, from int16) rule {
	r.wait, r.field, r.waits = waitField, field, from
	return r
}

func (r rule) ties(t tie) rule {
	r.tie = t
	return r
}

func (r rule) lower(why string) rule {
	r.lowered = why
	return r
}

func (r rule) hide() rule {
	r.hidden = true
	return r
}
