"""Writes records 0 to records-1 in turn to all partitions and counts what was
acknowledged.

With txn, in transactions of per.txn records each; every abort.every-th one is
followed by one that holds foreign records and is aborted.
"""

from kafka import KafkaProducer

from clients.kafka_python import connected, failed
from records import Records


def run(step, result):
    txn = step.get("txn")
    topic = step.get("topic")
    partitions = step.number("partitions", 6)
    per_txn = step.number("per.txn", 1000)
    abort_every = step.number("abort.every", 0)
    series = Records(step)
    more = {"transactional_id": txn} if txn else {"enable_idempotence": step.get("idempotent", "true") == "true"}
    with connected(step, result, acks="all", linger_ms=5, **more) as conf:
        producer = KafkaProducer(**conf)
        try:
            if txn:
                producer.init_transactions()
            in_txn = txns = 0
            for i in range(step.number("records", 1)):
                if txn and in_txn == 0:
                    producer.begin_transaction()
                key = series.key(i)
                value = series.value(key)
                sent = producer.send(topic, value, key, partition=i % partitions)
                sent.add_callback(lambda _, checksum=series.checksum(key, value): result.counted(checksum))
                sent.add_errback(lambda e: failed(result, e))
                result.sent += 1
                in_txn += 1
                if txn and in_txn == per_txn:
                    producer.commit_transaction()
                    in_txn = 0
                    txns += 1
                    if abort_every and txns % abort_every == 0:
                        abort(producer, topic, partitions)
            if txn and in_txn:
                producer.commit_transaction()
            producer.flush(120)
        finally:
            producer.close()


def abort(producer, topic, partitions):
    producer.begin_transaction()
    for partition in range(partitions):
        producer.send(topic, b"aborted", b"aborted", partition=partition)
    producer.flush(120)
    producer.abort_transaction()
