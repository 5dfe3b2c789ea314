import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.acl.*;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.quota.*;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;

/**
 * Does what the Java administration client has, to a topic and a group of its own, which it
 * makes and deletes. Each call's outcome is a value: what it was told, without ids and times,
 * or the class of its error. All nodes that it was told of are the result's nodes.
 */
final class Administer {
    private final Step step;
    private final Result result;
    private int calls;

    Administer(Step step, Result result) {
        this.step = step;
        this.result = result;
    }

    void run() throws Exception {
        String topic = step.get("topic", "");
        String group = step.get("group", "");
        TopicPartition first = new TopicPartition(topic, 0);
        ConfigResource config = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        AclBinding acl = new AclBinding(new ResourcePattern(ResourceType.TOPIC, topic, PatternType.LITERAL),
                new AccessControlEntry("User:zoe", "*", AclOperation.READ, AclPermissionType.ALLOW));
        ClientQuotaEntity quota = new ClientQuotaEntity(Map.of(ClientQuotaEntity.CLIENT_ID, topic));
        try (Admin admin = Admin.create(step.properties())) {
            told("describeCluster", () -> nodes(of(admin.describeCluster().nodes())));
            told("controller", () -> nodes(List.of(of(admin.describeCluster().controller()))) > 0);
            told("createTopics", () -> of(admin.createTopics(List.of(new NewTopic(topic, Map.of(0, List.of(1, 2), 1, List.of(2, 3))))).all()));
            told("createTopics again", () -> of(admin.createTopics(List.of(new NewTopic(topic, 1, (short) 1))).all()));
            again("describeTopics", () -> leaders(of(admin.describeTopics(List.of(topic)).allTopicNames()).get(topic)));
            told("describeTopics of nothing", () -> of(admin.describeTopics(List.of(topic + "-not")).allTopicNames()));
            told("createPartitions", () -> of(admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(3, List.of(List.of(3, 1))))).all()));
            told("incrementalAlterConfigs", () -> of(admin.incrementalAlterConfigs(Map.of(config,
                    List.of(new AlterConfigOp(new ConfigEntry("retention.ms", "123456789"), AlterConfigOp.OpType.SET)))).all()));
            again("describeConfigs", () -> some(of(admin.describeConfigs(List.of(config)).all()).get(config).entries()
                    .stream().filter(e -> e.name().equals("retention.ms") && e.value().equals("123456789")).count()));
            told("createAcls", () -> of(admin.createAcls(List.of(acl)).all()));
            again("describeAcls", () -> some(of(admin.describeAcls(acl.toFilter()).values())));
            told("deleteAcls", () -> of(admin.deleteAcls(List.of(acl.toFilter())).all()).size());
            told("alterClientQuotas", () -> of(admin.alterClientQuotas(List.of(new ClientQuotaAlteration(quota,
                    List.of(new ClientQuotaAlteration.Op("producer_byte_rate", 1e6))))).all()));
            again("describeClientQuotas", () -> some(of(admin.describeClientQuotas(ClientQuotaFilter.containsOnly(
                    List.of(ClientQuotaFilterComponent.ofEntity(ClientQuotaEntity.CLIENT_ID, topic)))).entities()).values()));
            told("alterClientQuotas back", () -> of(admin.alterClientQuotas(List.of(new ClientQuotaAlteration(quota,
                    List.of(new ClientQuotaAlteration.Op("producer_byte_rate", null))))).all()));
            told("alterPartitionReassignments", () -> of(admin.alterPartitionReassignments(Map.of(first,
                    Optional.of(new NewPartitionReassignment(List.of(2, 1))))).all()));
            again("listPartitionReassignments", () -> none(of(admin.listPartitionReassignments(Set.of(first)).reassignments())));
            told("electLeaders", () -> {
                Optional<Throwable> failed = of(admin.electLeaders(ElectionType.PREFERRED, Set.of(first)).partitions()).get(first);
                return failed.isPresent() ? failed.get().getClass().getSimpleName() : "elected";
            });
            again("the leader that was elected", () -> some(of(admin.describeTopics(List.of(topic)).allTopicNames()).get(topic).partitions()
                    .stream().filter(p -> p.partition() == 0 && p.leader() != null && p.leader().id() == 2).count()));
            told("alterConsumerGroupOffsets", () -> of(admin.alterConsumerGroupOffsets(group, Map.of(first, new OffsetAndMetadata(0, "m"))).all()));
            again("listConsumerGroupOffsets", () -> some(of(admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata()).values()
                    .stream().map(o -> o.offset() + " " + o.metadata()).collect(Collectors.toList())));
            told("describeConsumerGroups", () -> {
                ConsumerGroupDescription d = of(admin.describeConsumerGroups(List.of(group)).all()).get(group);
                nodes(List.of(d.coordinator()));
                return d.members().size() + " members";
            });
            told("listConsumerGroups", () -> of(admin.listConsumerGroups().all()).stream().filter(g -> g.groupId().equals(group)).count());
            told("deleteConsumerGroupOffsets", () -> of(admin.deleteConsumerGroupOffsets(group, Set.of(first)).all()));
            told("deleteConsumerGroups", () -> of(admin.deleteConsumerGroups(List.of(group)).all()));
            told("listOffsets", () -> of(admin.listOffsets(Map.of(first, OffsetSpec.latest())).all()).get(first).offset());
            told("deleteRecords", () -> of(admin.deleteRecords(Map.of(first, RecordsToDelete.beforeOffset(0))).all()));
            told("deleteRecords beyond the end", () -> of(admin.deleteRecords(Map.of(first, RecordsToDelete.beforeOffset(9))).all()));
            told("describeProducers", () -> of(admin.describeProducers(List.of(first)).all()).get(first).activeProducers().size());
            told("describeTransactions of nothing", () -> of(admin.describeTransactions(List.of(topic)).all()));
            told("listTransactions", () -> of(admin.listTransactions().all()).stream().filter(x -> x.transactionalId().startsWith(topic)).count());
            told("describeLogDirs", () -> of(admin.describeLogDirs(List.of(1, 2, 3)).allDescriptions()).values().stream()
                    .filter(dirs -> dirs.values().stream().anyMatch(d -> d.replicaInfos().containsKey(first))).count());
            told("describeFeatures", () -> new TreeMap<>(of(admin.describeFeatures().featureMetadata()).finalizedFeatures()));
            told("describeMetadataQuorum", () -> new TreeSet<>(of(admin.describeMetadataQuorum().quorumInfo()).voters()
                    .stream().map(QuorumInfo.ReplicaState::replicaId).collect(Collectors.toList())));
            told("describeUserScramCredentials", () -> of(admin.describeUserScramCredentials().all()).keySet());
            told("deleteTopics", () -> of(admin.deleteTopics(List.of(topic)).all()));
        }
        result.count = calls;
    }

    private static <T> T of(KafkaFuture<T> future) throws Exception {
        return future.get(60, TimeUnit.SECONDS);
    }

    private void told(String what, Callable<Object> call) throws Exception {
        calls++;
        try {
            result.values.put(what, String.valueOf(call.call()));
        } catch (ExecutionException e) {
            result.values.put(what, e.getCause().getClass().getSimpleName());
            result.messages.add(what + ": " + e.getCause());
        }
    }

    /** For what brokers learn a moment later: until it is something, for half a minute. */
    private void again(String what, Callable<Object> call) throws Exception {
        long deadline = System.nanoTime() + 30_000_000_000L;
        do {
            told(what, () -> {
                Object told = call.call();
                return told == null ? "nothing" : told;
            });
            calls--;
        } while ((result.values.get(what).equals("nothing") || result.values.get(what).startsWith("Unknown")) && System.nanoTime() < deadline);
        calls++;
    }

    private static Object some(Collection<?> things) {
        return things.isEmpty() ? null : things.size() == 1 ? things.iterator().next() : things;
    }

    private static Object some(long n) {
        return n == 0 ? null : n;
    }

    private static Object none(Map<?, ?> things) {
        return things.isEmpty() ? "none" : null;
    }

    private int nodes(Collection<Node> nodes) {
        nodes.forEach(n -> result.nodes.add(n.host() + ":" + n.port()));
        return nodes.size();
    }

    private Object leaders(TopicDescription d) {
        d.partitions().forEach(p -> nodes(p.replicas()));
        return d.partitions().stream().map(p -> p.partition() + " led by " + (p.leader() == null ? "none" : p.leader().idString())).collect(Collectors.toList());
    }
}
