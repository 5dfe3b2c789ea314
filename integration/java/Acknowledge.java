import java.time.Duration;
import java.util.BitSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Reads a topic as a share group of several members (KIP-932) that acknowledge each record
 * by itself, until so many are done with or deadline.s has passed. Every release.every-th
 * record is released when it comes for the first time, every reject.every-th is rejected, the
 * rest is accepted. Counted is what a broker confirmed to be accepted or rejected.
 *
 * Values: "accepted", "rejected", "released"; "asked again", those that came again after they
 * were released; "unasked", those that came again for another reason; "after its end", those
 * that came again once they were done with; "member 0" and so on, what each has done with.
 */
final class Acknowledge {
    private final Step step;
    private final Result result;
    private final Records series;
    private final BitSet done = new BitSet();
    private final BitSet released = new BitSet();
    private final AtomicLong deadline = new AtomicLong();
    private final int wanted;
    private final int releaseEvery;
    private final int rejectEvery;

    Acknowledge(Step step, Result result) {
        this.step = step;
        this.result = result;
        series = new Records(step);
        wanted = step.get("records", 0);
        releaseEvery = step.get("release.every", 0);
        rejectEvery = step.get("reject.every", 0);
    }

    void run() throws Exception {
        Properties p = step.properties();
        p.putIfAbsent("key.deserializer", ByteArrayDeserializer.class.getName());
        p.putIfAbsent("value.deserializer", ByteArrayDeserializer.class.getName());
        p.put("group.id", step.get("group", "g"));
        p.put("share.acknowledgement.mode", "explicit");
        String topic = step.get("topic", "");
        deadline.set(System.nanoTime() + step.get("deadline.s", 120) * 1_000_000_000L);

        Thread[] members = new Thread[step.get("members", 1)];
        CyclicBarrier together = new CyclicBarrier(members.length);
        for (int i = 0; i < members.length; i++) {
            String name = "member " + i;
            members[i] = new Thread(() -> {
                try {
                    member(p, topic, name, together);
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

    private void member(Properties p, String topic, String name, CyclicBarrier together) throws Exception {
        try (KafkaShareConsumer<byte[], byte[]> consumer = new KafkaShareConsumer<>(p)) {
            consumer.subscribe(List.of(topic));
            boolean began = false;
            while (!finished()) {
                ConsumerRecords<byte[], byte[]> records;
                try {
                    records = consumer.poll(Duration.ofMillis(200));
                } catch (KafkaException e) {
                    result.failed(e);
                    continue;
                }
                if (!began && !records.isEmpty()) { // all have their share before anyone is done
                    began = true;
                    together.await(30, java.util.concurrent.TimeUnit.SECONDS);
                }
                Map<ConsumerRecord<byte[], byte[]>, AcknowledgeType> kinds = new java.util.LinkedHashMap<>();
                for (ConsumerRecord<byte[], byte[]> r : records) {
                    kinds.put(r, kind(r));
                    consumer.acknowledge(r, kinds.get(r));
                }
                confirm(consumer.commitSync(Duration.ofSeconds(30)), kinds, name);
            }
        }
    }

    private boolean finished() {
        synchronized (result) {
            return result.count >= wanted || System.nanoTime() > deadline.get();
        }
    }

    private AcknowledgeType kind(ConsumerRecord<byte[], byte[]> r) {
        synchronized (result) {
            int i = series.index(r.key(), r.value());
            if (i < 0) {
                result.foreign++;
                return AcknowledgeType.ACCEPT;
            }
            if (done.get(i)) {
                result.noted("after its end");
            } else if (r.deliveryCount().orElse((short) 1) > 1) {
                result.noted(released.get(i) ? "asked again" : "unasked");
            }
            if (releaseEvery > 0 && i % releaseEvery == 0 && !released.get(i)) {
                return AcknowledgeType.RELEASE;
            }
            return rejectEvery > 0 && i % rejectEvery == 1 ? AcknowledgeType.REJECT : AcknowledgeType.ACCEPT;
        }
    }

    /** Counts what the brokers have confirmed. */
    private void confirm(Map<TopicIdPartition, Optional<KafkaException>> confirmed,
            Map<ConsumerRecord<byte[], byte[]>, AcknowledgeType> kinds, String name) {
        synchronized (result) {
            confirmed.values().forEach(e -> e.ifPresent(result::failed));
            kinds.forEach((r, kind) -> {
                int i = series.index(r.key(), r.value());
                Optional<KafkaException> error = confirmed.entrySet().stream()
                        .filter(c -> c.getKey().partition() == r.partition()).findFirst()
                        .map(Map.Entry::getValue).orElse(Optional.of(new KafkaException("no answer for partition " + r.partition())));
                if (error.isPresent()) {
                    result.noted("unconfirmed");
                    return;
                }
                if (i < 0) {
                    return;
                }
                if (kind == AcknowledgeType.RELEASE) {
                    released.set(i);
                    result.noted("released");
                } else if (done.get(i)) {
                    result.duplicates++;
                } else {
                    done.set(i);
                    result.counted(Records.checksum(r.key(), r.value()));
                    result.noted(kind == AcknowledgeType.REJECT ? "rejected" : "accepted");
                    result.noted(name);
                }
            });
        }
    }
}
