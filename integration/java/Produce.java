import java.io.PrintWriter;
import java.io.Writer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Properties;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Writes records first to first+records-1 in turn to all partitions; with
 * seconds, for so long instead. Counts what was acknowledged; with acks=0, what
 * the client believes to be sent.
 *
 * With txn, in transactions of per.txn records each; every abort.every-th one is
 * followed by one that holds foreign records and is aborted.
 *
 * With ledger, notes in that file what became of each record (../checker/import.go).
 */
final class Produce {
    private final Step step;
    private final Result result;

    Produce(Step step, Result result) {
        this.step = step;
        this.result = result;
    }

    void run() throws Exception {
        Properties p = step.properties();
        p.putIfAbsent("linger.ms", "5");
        p.putIfAbsent("key.serializer", ByteArraySerializer.class.getName());
        p.putIfAbsent("value.serializer", ByteArraySerializer.class.getName());
        p.put("acks", step.get("acks", "all"));
        p.put("enable.idempotence", step.get("idempotent", "true"));
        String txn = step.get("txn", "");
        if (!txn.isEmpty()) {
            p.put("transactional.id", txn);
        }
        String topic = step.get("topic", "");
        int partitions = step.get("partitions", 6);
        int first = step.get("first", 0);
        int seconds = step.get("seconds", 0);
        int records = step.get("records", seconds > 0 ? Integer.MAX_VALUE - first : 1);
        int rate = step.get("rate", 0);
        int perTxn = step.get("per.txn", 1000);
        int abortEvery = step.get("abort.every", 0);
        Records series = new Records(step);
        String ledger = step.get("ledger", "");
        long start = System.nanoTime();
        long end = start + seconds * 1_000_000_000L;

        // Closed last: what the producer's close still answers belongs in it.
        try (PrintWriter notes = new PrintWriter(ledger.isEmpty() ? Writer.nullWriter() : Files.newBufferedWriter(Path.of(ledger)));
                KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(p)) {
            if (!txn.isEmpty()) {
                producer.initTransactions();
            }
            int inTxn = 0;
            int txns = 0;
            for (int n = 0; n < records && (seconds == 0 || System.nanoTime() < end); n++) {
                if (!txn.isEmpty() && inTxn == 0) {
                    producer.beginTransaction();
                }
                int i = first + n;
                byte[] key = series.key(i);
                byte[] value = series.value(key);
                long checksum = Records.checksum(key, value);
                result.sent++;
                try {
                    producer.send(new ProducerRecord<>(topic, n % partitions, key, value), (metadata, e) -> {
                        if (e != null) {
                            result.failed(e);
                            notes.println("r " + i);
                        } else {
                            result.counted(checksum);
                            notes.println("a " + i + " " + metadata.partition() + " " + (metadata.hasOffset() ? metadata.offset() : -1));
                        }
                    });
                } catch (KafkaException e) { // e.g. after a fatal error of the transaction
                    result.failed(e);
                    notes.println("r " + i);
                    if (!txn.isEmpty()) {
                        return;
                    }
                }
                if (!txn.isEmpty() && ++inTxn == perTxn) {
                    commit(producer, notes, i - inTxn + 1, i);
                    inTxn = 0;
                    txns++;
                    if (abortEvery > 0 && txns % abortEvery == 0) {
                        abort(producer, topic, partitions);
                    }
                }
                if (rate > 0) {
                    long due = start + (long) (n * 1e9 / rate);
                    while (System.nanoTime() < due) {
                        LockSupport.parkNanos(due - System.nanoTime());
                    }
                }
            }
            if (inTxn > 0) {
                commit(producer, notes, first + result.sent - inTxn, first + result.sent - 1);
            }
            producer.flush();
        }
    }

    private static void commit(KafkaProducer<byte[], byte[]> producer, PrintWriter notes, int first, int last) {
        String outcome = "unknown";
        try {
            producer.commitTransaction();
            outcome = "committed";
        } finally {
            notes.println("t " + first + " " + last + " " + outcome);
        }
    }

    private static void abort(KafkaProducer<byte[], byte[]> producer, String topic, int partitions) {
        producer.beginTransaction();
        for (int i = 0; i < partitions; i++) {
            byte[] bytes = "aborted".getBytes();
            producer.send(new ProducerRecord<>(topic, i, bytes, bytes));
        }
        producer.flush();
        producer.abortTransaction();
    }
}
