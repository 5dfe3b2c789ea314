import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.DescribeClusterResult;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartitionInfo;

/** Asks for everything that has a broker's address in its answer. */
final class Describe {
    private final Step step;
    private final Result result;

    Describe(Step step, Result result) {
        this.step = step;
        this.result = result;
    }

    void run() throws Exception {
        String topic = step.get("topic", "");
        String group = step.get("group", "");
        try (Admin admin = Admin.create(step.properties())) {
            DescribeClusterResult cluster = admin.describeCluster();
            add(cluster.nodes().get(60, TimeUnit.SECONDS).toArray(new Node[0]));
            add(cluster.controller().get(60, TimeUnit.SECONDS));
            result.values.put("cluster", cluster.clusterId().get());
            if (!topic.isEmpty()) {
                TopicDescription d = admin.describeTopics(List.of(topic)).allTopicNames().get(60, TimeUnit.SECONDS).get(topic);
                for (TopicPartitionInfo p : d.partitions()) {
                    add(p.leader());
                    add(p.replicas().toArray(new Node[0]));
                    result.values.put("leader-" + p.partition(), p.leader().idString());
                }
            }
            if (!group.isEmpty()) {
                add(admin.describeConsumerGroups(List.of(group)).all().get(60, TimeUnit.SECONDS).get(group).coordinator());
            }
        } catch (ExecutionException e) {
            result.failed(e.getCause());
        }
    }

    private void add(Node... nodes) {
        for (Node n : nodes) {
            result.nodes.add(n.host() + ":" + n.port());
            result.count++;
        }
    }
}
