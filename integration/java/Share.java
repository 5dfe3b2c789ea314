import java.time.Duration;
import java.util.BitSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Reads a topic as a share group (KIP-932) of several members, until so many records were
 * seen, or deadline.s. Each poll acknowledges what the one before brought; what a commit
 * did not get acknowledged is an error.
 */
final class Share {
    private final Step step;
    private final Result result;
    private final BitSet seen = new BitSet();

    Share(Step step, Result result) {
        this.step = step;
        this.result = result;
    }

    void run() throws Exception {
        Properties p = step.properties();
        p.putIfAbsent("key.deserializer", ByteArrayDeserializer.class.getName());
        p.putIfAbsent("value.deserializer", ByteArrayDeserializer.class.getName());
        p.put("group.id", step.get("group", "g"));
        String topic = step.get("topic", "");
        int wanted = step.get("records", 1);
        long deadline = System.nanoTime() + step.get("deadline.s", 120) * 1_000_000_000L;
        Records series = new Records(step);

        Thread[] members = new Thread[step.get("members", 1)];
        for (int i = 0; i < members.length; i++) {
            members[i] = new Thread(() -> {
                try {
                    member(p, topic, series, wanted, deadline);
                } catch (Exception e) {
                    result.failed(e);
                }
            });
            members[i].start();
        }
        for (Thread m : members) {
            m.join();
        }
    }

    private void member(Properties p, String topic, Records series, int wanted, long deadline) {
        try (KafkaShareConsumer<byte[], byte[]> consumer = new KafkaShareConsumer<>(p)) {
            consumer.setAcknowledgementCommitCallback((offsets, e) -> {
                if (e != null) {
                    result.failed(e);
                }
            });
            consumer.subscribe(List.of(topic));
            while (System.nanoTime() < deadline && !all(wanted)) {
                for (ConsumerRecord<byte[], byte[]> r : consumer.poll(Duration.ofMillis(200))) {
                    count(series, r);
                }
            }
            for (Map.Entry<?, java.util.Optional<org.apache.kafka.common.KafkaException>> e : consumer.commitSync(Duration.ofSeconds(20)).entrySet()) {
                e.getValue().ifPresent(result::failed);
            }
        }
    }

    private boolean all(int wanted) {
        synchronized (result) {
            return result.count >= wanted;
        }
    }

    private void count(Records series, ConsumerRecord<byte[], byte[]> r) {
        synchronized (result) {
            int i = series.index(r.key(), r.value());
            if (i < 0) {
                result.foreign++;
            } else if (seen.get(i)) {
                result.duplicates++;
            } else {
                seen.set(i);
                result.counted(Records.checksum(r.key(), r.value()));
            }
        }
    }
}
