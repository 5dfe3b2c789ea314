//go:build integration

package integration

// The command-line tools and what is expected of each. The rows are a story: they run in
// this order on each side, on topics and groups of the side's own.

import "doorkeeper/integration/harness"

// tool is one call of a tool.
type tool struct {
	what  string
	class string // without org.apache.kafka.tools; several where it has moved
	// args are its words. {admin} is where and as whom an administration tool goes; the
	// names of toolbox.words stand for themselves.
	args  string
	stdin string
	from  harness.Version // the first with this call

	code  int
	says  []string          // expressions, each of which its tidied output has to match
	keep  string            // the lines that are compared; empty: all
	blank map[string]string // expressions for ids and times, and what is compared in their place
	until string            // it is called again until it prints this: brokers learn of things later

	shows   bool   // directly it prints brokers' addresses: what the search finds, then
	exempt  string // why it prints them through the gateway too
	differs string // why its outputs are not compared
	only    string // the side on which alone it is called
}

const (
	gatewaySide = "through the gateway"
	brokerSide  = "directly"
	aclTool     = "AclCommand kafka.admin.AclCommand"
	configTool  = "ConfigCommand kafka.admin.ConfigCommand"
	clusterTool = "ClusterTool"
	groupTool   = "consumer.group.ConsumerGroupCommand"
	shareTool   = "consumer.group.ShareGroupCommand"
	leaderTool  = "LeaderElectionCommand"
	metricsTool = "ClientMetricsCommand"
	moveTool    = "reassign.ReassignPartitionsCommand"
	quorumTool  = "MetadataQuorumCommand"
	topicTool   = "TopicCommand"
	txnTool     = "TransactionsCommand"
)

var (
	ids   = map[string]string{`TopicId: \S+`: "TopicId: …"}
	sizes = map[string]string{`(size|totalBytes|usableBytes|offsetLag)":-?\d+`: `$1":…`}
)

var toolTable = []tool{
	// Topics.
	{what: "make a topic", class: topicTool, args: "{admin} --create --topic {topic} --replica-assignment 1:2,2:3,3:1", says: []string{`Created topic TOPIC\.`}},
	{what: "make one of one partition", class: topicTool, args: "{admin} --create --topic {one} --replica-assignment 1:2", says: []string{`Created topic TOPIC-one\.`}},
	{what: "make it again", class: topicTool, args: "{admin} --create --topic {topic}", code: 1, says: []string{`Topic 'TOPIC' already exists`}},
	{what: "add a partition", class: topicTool, args: "{admin} --alter --topic {topic} --partitions 4 --replica-assignment 1:2,2:3,3:1,1:3"},
	{what: "describe a topic", class: topicTool, args: "{admin} --describe --topic {topic}", until: "Partition: 3", says: []string{`PartitionCount: 4`, `Partition: 3 Leader: 1 Replicas: 1,3`}, blank: ids},
	{what: "describe what is not there", class: topicTool, args: "{admin} --describe --topic {topic}-not", code: 1, says: []string{`Topic '.*TOPIC-not.*' does not exist`}},
	{what: "list topics", class: topicTool, args: "{admin} --list --topic {topic}.*", says: []string{`(?m)^TOPIC$`, `(?m)^TOPIC-one$`}},

	// Configurations, of topics, brokers, clients and users.
	{what: "configure a topic", class: configTool, args: "{admin} --alter --entity-type topics --entity-name {topic} --add-config retention.ms=1234567", says: []string{`Completed updating config for topic TOPIC`}},
	{what: "describe its configuration", class: configTool, args: "{admin} --describe --entity-type topics --entity-name {topic}", until: "retention.ms=1234567"},
	{what: "describe a broker's configuration", class: configTool, args: "{admin} --describe --entity-type brokers --entity-name 1 --all", says: []string{`advertised\.listeners=`}, shows: true, exempt: "an administrator asked for it"},
	{what: "set a quota", class: configTool, args: "{admin} --alter --entity-type clients --entity-name {topic} --add-config producer_byte_rate=9000000", says: []string{`Completed updating config for client TOPIC`}},
	{what: "describe a quota", class: configTool, args: "{admin} --describe --entity-type clients --entity-name {topic}", until: "producer_byte_rate=9000000"},
	{what: "take the quota away", class: configTool, args: "{admin} --alter --entity-type clients --entity-name {topic} --delete-config producer_byte_rate", says: []string{`Completed updating config for client TOPIC`}},
	{what: "give a user a password", class: configTool, args: "{admin} --alter --entity-type users --entity-name {topic} --add-config SCRAM-SHA-256=[iterations=4096,password=pw]", says: []string{`Completed updating config for user TOPIC`}},
	{what: "describe the user", class: configTool, args: "{admin} --describe --entity-type users --entity-name {topic}", until: "SCRAM-SHA-256=iterations=4096"},
	{what: "take the password away", class: configTool, args: "{admin} --alter --entity-type users --entity-name {topic} --delete-config SCRAM-SHA-256", says: []string{`Completed updating config for user TOPIC`}},

	// Rights.
	{what: "add a right", class: aclTool, args: "{admin} --add --allow-principal User:zoe --operation Read --topic {topic}", says: []string{`Adding ACLs for resource .*name=TOPIC,`}, keep: `^Adding`},
	{what: "list rights", class: aclTool, args: "{admin} --list --topic {topic}", until: "principal=User:zoe", says: []string{`principal=User:zoe, host=\*, operation=READ, permissionType=ALLOW`}},
	{what: "take the right away", class: aclTool, args: "{admin} --remove --force --allow-principal User:zoe --operation Read --topic {topic}", keep: `Error`},

	// Writing and reading.
	{what: "measure a producer", class: "ProducerPerformance", args: "--topic {one} --num-records 3000 --record-size 100 --throughput -1 --producer-props bootstrap.servers={bootstrap} --producer.config {config}",
		says: []string{`3000 records sent,.* 50th`}, keep: ` 50th`, blank: map[string]string{`, .*`: ", …"}},
	{what: "measure a consumer", class: "ConsumerPerformance", args: "--bootstrap-server {bootstrap} --topic {one} --messages 3000 --consumer.config {config} --group {group}-perf --timeout 60000",
		says: []string{`, 3000, `}, keep: `^start\.time|, 3000, `, blank: map[string]string{`^2.*, 3000, .*`: "3000 records"}},
	{what: "write from the console", class: "ConsoleProducer kafka.tools.ConsoleProducer", args: "--bootstrap-server {bootstrap} --topic {topic} --producer.config {config} --property parse.key=true --property key.separator=:", stdin: twenty},
	{what: "read to the console", class: "consumer.ConsoleConsumer", args: "--bootstrap-server {bootstrap} --topic {topic} --consumer.config {config} --group {group} --from-beginning --max-messages 20 --timeout-ms 60000 --property print.key=true",
		says: []string{`(?m)^key-1 value-1$`, `(?m)^key-20 value-20$`, `Processed a total of 20 messages`}},
	{what: "ask for the last offsets", class: "GetOffsetShell", args: "{admin} --topic-partitions {one}:0", says: []string{`(?m)^TOPIC-one:0:3000$`}},
	{what: "ask for the first offsets", class: "GetOffsetShell", args: "{admin} --topic {topic} --time earliest", says: []string{`(?m)^TOPIC:3:0$`}},

	// Groups.
	{what: "list groups", class: groupTool, args: "{admin} --list", says: []string{`(?m)^GROUP$`}, keep: `GROUP`},
	{what: "list groups of all types", class: "GroupsCommand", from: "4.0", args: "{admin} --list", says: []string{`(?m)^GROUP Classic consumer`}, keep: `GROUP`},
	{what: "describe a group", class: groupTool, args: "{admin} --describe --group {group}", says: []string{`GROUP TOPIC 3 \d+ \d+ 0 `}},
	{what: "describe a group's state", class: groupTool, args: "{admin} --describe --group {group} --state", says: []string{`GROUP NODE-2 \(2\).* Empty 0`}, shows: true},
	{what: "reset a group's offsets", class: groupTool, args: "{admin} --reset-offsets --group {group} --topic {topic} --to-earliest --execute", says: []string{`GROUP TOPIC 3 0`}},
	{what: "delete a group's offsets", class: groupTool, args: "{admin} --delete-offsets --group {group} --topic {topic}", says: []string{`TOPIC 3 Successful`}},
	{what: "delete a group", class: groupTool, args: "{admin} --delete --group {group}-perf", says: []string{`Deletion of requested consumer groups \('GROUP-perf'\) was successful`}},

	// Share groups.
	{what: "configure a share group", class: configTool, from: "4.2", args: "{admin} --alter --entity-type groups --entity-name {share} --add-config share.auto.offset.reset=earliest", says: []string{`Completed updating config for group SHARE`}},
	{what: "share to the console", class: "consumer.ConsoleShareConsumer", from: "4.2", args: "--bootstrap-server {bootstrap} --topic {topic} --consumer-config {config} --group {share} --max-messages 20 --timeout-ms 60000",
		says: []string{`(?m)^value-1$`, `(?m)^value-20$`, `Processed a total of 20 messages`}},
	{what: "measure a share consumer", class: "ShareConsumerPerformance", from: "4.2", args: "--bootstrap-server {bootstrap} --topic {one} --consumer.config {config} --group {share} --messages 3000 --timeout 60000",
		says: []string{`, 3000, `}, keep: `^start\.time|, 3000, `, blank: map[string]string{`^2.*, 3000, .*`: "3000 records"}},
	{what: "list share groups", class: shareTool, from: "4.2", args: "{admin} --list", says: []string{`(?m)^SHARE$`}, keep: `SHARE`},
	{what: "describe a share group", class: shareTool, from: "4.2", args: "{admin} --describe --group {share}", says: []string{`SHARE TOPIC 3 \d+ `, `SHARE TOPIC-one 0 \d+ `}, blank: map[string]string{` \d+ \S+$`: " …"}}, // the offset follows as Kafka sees fit
	{what: "describe a share group's state", class: shareTool, from: "4.2", args: "{admin} --describe --group {share} --state", says: []string{`SHARE NODE-3 \(3\) Empty`}, shows: true},
	{what: "reset a share group's offsets", class: shareTool, from: "4.2", args: "{admin} --reset-offsets --group {share} --topic {one} --to-earliest --execute", says: []string{`SHARE TOPIC-one 0 0`}},
	{what: "delete a share group's offsets", class: shareTool, from: "4.2", args: "{admin} --delete-offsets --group {share} --topic {topic}", says: []string{`TOPIC Successful`}},
	{what: "delete a share group", class: shareTool, from: "4.2", args: "{admin} --delete --group {share}", says: []string{`Deletion of requested share groups \('SHARE'\) was successful`}},

	// Replicas, leaders, disks.
	{what: "move replicas", class: moveTool, args: "{admin} --reassignment-json-file {moves} --execute", says: []string{`Successfully started partition reassignment for TOPIC-0`}},
	{what: "verify the move", class: moveTool, args: "{admin} --reassignment-json-file {moves} --verify", until: "is completed", says: []string{`Reassignment of partition TOPIC-0 is completed`}},
	{what: "list moves", class: moveTool, args: "{admin} --list", says: []string{`partition reassignments`}, differs: "others move replicas too"},
	{what: "elect a leader", class: leaderTool, args: "--bootstrap-server {bootstrap} --admin.config {config} --election-type preferred --topic {topic} --partition 0",
		says: []string{`(?i)elect(ed|ion).* TOPIC-0`}, blank: map[string]string{`(?i)^(Successfully completed leader election|Valid replica already elected).*`: "elected, by us or by Kafka"}},
	{what: "describe the new leader", class: topicTool, args: "{admin} --describe --topic {topic}", until: "Partition: 0\tLeader: 2", blank: ids},
	{what: "describe log directories", class: "LogDirsCommand", args: "{admin} --describe --broker-list 1,2 --topic-list {one}", says: []string{`"partition":"TOPIC-one-0"`}, blank: sizes},
	{what: "delete records", class: "DeleteRecordsCommand", args: "{admin} --offset-json-file {offsets}", says: []string{`TOPIC-one-0 low_watermark: 100`}},

	// The cluster.
	{what: "ask for the cluster's id", class: clusterTool, args: "cluster-id --bootstrap-server {bootstrap} --config {config}", says: []string{`Cluster ID: \S{22}`}},
	{what: "list the brokers' addresses", class: clusterTool, from: "4.0", args: "list-endpoints --bootstrap-server {bootstrap} --config {config}", says: []string{`(?m)^1 NODE-1 rack-1`, `(?m)^2 NODE-2 rack-2`, `(?m)^3 NODE-3 rack-3`}, shows: true},
	{what: "unregister a broker that is not there", class: clusterTool, args: "unregister --bootstrap-server {bootstrap} --config {config} --id 99", code: 1, says: []string{`BrokerIdNotRegisteredException`}},
	{what: "ask for the quorum's state", class: quorumTool, args: "{admin} describe --status", says: []string{`LeaderId: [123]`}, blank: map[string]string{`^((?:Leader|High|Max).*:) .*`: "$1 …", `, "endpoints": \[.*?\]`: ""}},
	{what: "ask for the quorum's replicas", class: quorumTool, args: "{admin} describe --replication", says: []string{`(?m)^[123] .*Leader`}, blank: map[string]string{`^(\d) .*`: "$1 …"}},
	{what: "describe features", class: "FeatureCommand", args: "{admin} describe", says: []string{`Feature: metadata\.version`}, blank: map[string]string{`Epoch: \d+`: "Epoch: …"}},
	{what: "ask for the brokers' versions", class: "BrokerApiVersionsCommand kafka.admin.BrokerApiVersionsCommand", args: "{admin}", says: []string{`NODE-1 \(id: 1`, `NODE-2 \(id: 2`, `NODE-3 \(id: 3`, `Produce\(0\): `}, keep: `\(id: `, shows: true},

	// Transactions.
	{what: "list transactions", class: txnTool, args: "{admin} list", until: "CompleteCommit", says: []string{`(?m)^TXN 2 \d+ (Prepare|Complete)Commit`}, keep: `TXN`, blank: map[string]string{`^(\S+ \d) \d+ (Prepare|Complete)`: "$1 … …"}}, // the other side's may be complete already
	{what: "describe a transaction", class: txnTool, args: "{admin} describe --transactional-id {txn}", says: []string{`2 TXN .*(Prepare|Complete)Commit`}, blank: map[string]string{`^(\d+ TXN) \d+ \d+ (?:Prepare|Complete)(\w+ \d+) .*`: "$1 … …$2 …"}},
	{what: "describe producers", class: txnTool, args: "{admin} describe-producers --topic {one} --partition 0", says: []string{`ProducerId`, `(?m)^\d+ \d+ `}, blank: map[string]string{`^\d.*`: "…"}},
	{what: "find hanging transactions", class: txnTool, args: "{admin} find-hanging --topic {one} --partition 0", says: []string{`Topic`}},
	{what: "abort what is not there", class: txnTool, args: "{admin} abort --topic {one} --partition 0 --start-offset 0", code: 1, says: []string{`Could not find any open transactions`}},

	// Clients' metrics.
	{what: "ask for clients' metrics", class: metricsTool, args: "{admin} --alter --name {topic} --metrics org.apache.kafka.producer. --interval 600000", says: []string{`Altered client metrics config for TOPIC`}},
	{what: "describe the subscription", class: metricsTool, args: "{admin} --describe --name {topic}", until: "interval.ms=600000"},
	{what: "list subscriptions", class: metricsTool, args: "{admin} --list", until: "TOPIC", says: []string{`(?m)^TOPIC$`}, keep: `^TOPIC$`},
	{what: "end the subscription", class: metricsTool, args: "{admin} --delete --name {topic}", says: []string{`Deleted client metrics config for TOPIC`}},

	// Tokens are the gateway's own business.
	{what: "describe tokens of one's own", class: "DelegationTokenCommand", args: "{admin} --describe", only: brokerSide, says: []string{`Total number of tokens : 0`}},
	{what: "describe tokens of one's own", class: "DelegationTokenCommand", args: "{admin} --describe", only: gatewaySide, code: 1, says: []string{`DelegationTokenDisabledException|UnsupportedVersionException|does not support DESCRIBE_DELEGATION_TOKEN`}},

	{what: "delete a topic", class: topicTool, args: "{admin} --delete --topic {topic}"},
	{what: "delete the other", class: topicTool, args: "{admin} --delete --topic {one}"},
}
