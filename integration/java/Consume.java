import java.time.Duration;
import java.util.BitSet;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Reads a topic as a group of several members, until so many records were seen
 * or none came for quiet.ms; deadline.s bounds it all. Commits that a rebalance
 * overtook are noted as "overtaken": then records may have come twice.
 * With records=0, until it is quiet. protocol is classic or consumer (KIP-848).
 *
 * With settled.s, a generation (or epoch) that a member gets later than so long after its
 * first one, and before all is read, is noted as "moved": a rebalance came.
 */
final class Consume {
    private final Step step;
    private final Result result;
    private final BitSet seen = new BitSet();
    private final AtomicLong last = new AtomicLong(System.nanoTime());

    Consume(Step step, Result result) {
        this.step = step;
        this.result = result;
    }

    void run() throws Exception {
        Properties p = step.properties();
        p.putIfAbsent("key.deserializer", ByteArrayDeserializer.class.getName());
        p.putIfAbsent("value.deserializer", ByteArrayDeserializer.class.getName());
        p.putIfAbsent("auto.offset.reset", "earliest");
        p.put("enable.auto.commit", "false");
        p.put("group.id", step.get("group", "g"));
        p.put("group.protocol", step.get("protocol", "classic"));
        p.put("isolation.level", step.get("isolation", "read_committed"));
        String topic = step.get("topic", "");
        int wanted = step.get("records", 0);
        long quiet = step.get("quiet.ms", 10_000) * 1_000_000L;
        int settled = step.get("settled.s", 0);
        long deadline = System.nanoTime() + step.get("deadline.s", 120) * 1_000_000_000L;
        Records series = new Records(step);

        Thread[] members = new Thread[step.get("members", 1)];
        for (int i = 0; i < members.length; i++) {
            members[i] = new Thread(() -> {
                try {
                    member(p, topic, series, wanted, quiet, deadline, settled);
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

    private void member(Properties p, String topic, Records series, int wanted, long quiet, long deadline,
            int settled) {
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(p)) {
            consumer.subscribe(List.of(topic));
            int generation = -1;
            long joined = 0;
            while (System.nanoTime() < deadline && System.nanoTime() - last.get() < quiet) {
                try {
                    for (ConsumerRecord<byte[], byte[]> r : consumer.poll(Duration.ofMillis(200))) {
                        last.set(System.nanoTime());
                        count(series, r.key(), r.value());
                    }
                    consumer.commitSync(Duration.ofSeconds(20));
                    int now = consumer.groupMetadata().generationId();
                    if (now != generation) {
                        if (joined == 0) {
                            joined = System.nanoTime();
                        } else if (settled > 0 && System.nanoTime() - joined > settled * 1_000_000_000L && !all(wanted)) {
                            result.noted("moved");
                        }
                        generation = now;
                    }
                } catch (RebalanceInProgressException | CommitFailedException e) {
                    // A rebalance was quicker, as is any member's lot: its records come again.
                    result.noted("overtaken");
                } catch (RetriableException e) {
                    result.failed(e);
                }
                if (all(wanted)) {
                    return;
                }
            }
        }
    }

    private boolean all(int wanted) {
        synchronized (result) {
            return wanted > 0 && result.count >= wanted;
        }
    }

    private void count(Records series, byte[] key, byte[] value) {
        synchronized (result) {
            int i = series.index(key, value);
            if (i < 0) {
                result.foreign++;
            } else if (seen.get(i)) {
                result.duplicates++;
            } else {
                seen.set(i);
                result.counted(Records.checksum(key, value));
            }
        }
    }
}
