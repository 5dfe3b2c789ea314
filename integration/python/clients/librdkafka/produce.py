"""Writes records 0 to records-1 in turn to all partitions.

Counts what was acknowledged; with acks=0, what the client believes to be sent.

With txn, in transactions of per.txn records each; every abort.every-th one is
followed by one that holds foreign records and is aborted. rate is in records a
second.

first is the number of the first record. With ledger, notes in that file what became of
each record (../../../checker/import.go); not in transactions.
"""

import os
import time

from confluent_kafka import Producer

from clients.librdkafka import failed, persist, settings
from records import Records


def run(step, result):
    txn = step.get("txn")
    conf = settings(
        step, result, acks=step.get("acks", "all"), enable_idempotence=step.get("idempotent", "true"), linger_ms="5"
    )
    if txn:
        conf["transactional.id"] = txn
    topic = step.get("topic")
    partitions = step.number("partitions", 6)
    rate = step.number("rate", 0)
    per_txn = step.number("per.txn", 1000)
    abort_every = step.number("abort.every", 0)
    series = Records(step)
    first = step.number("first", 0)
    ledger = step.get("ledger")
    notes = open(ledger or os.devnull, "w")

    def told(error, message):
        i = series.index(message.key(), message.value())
        if error is not None:
            failed(result, error)
            print("r", i, file=notes)
        else:
            result.counted(series.checksum(message.key(), message.value()))
            print("a", i, message.partition(), message.offset(), file=notes)

    producer = Producer(conf)
    if txn:
        persist(producer.init_transactions, 60)
    start = time.monotonic()
    in_txn = txns = 0
    for i in range(step.number("records", 1)):
        if txn and in_txn == 0:
            producer.begin_transaction()
        key = series.key(first + i)
        send(producer, topic, i % partitions, key, series.value(key), told)
        result.sent += 1
        in_txn += 1
        if txn and in_txn == per_txn:
            persist(producer.commit_transaction, 60)
            in_txn = 0
            txns += 1
            if abort_every and txns % abort_every == 0:
                abort(producer, topic, partitions)
        producer.poll(0)
        if rate:
            while time.monotonic() < start + i / rate:
                producer.poll(max(0, start + i / rate - time.monotonic()))
    if txn and in_txn:
        persist(producer.commit_transaction, 60)
    left = producer.flush(120)
    notes.close()
    if left:
        result.failed("unanswered", "%d records are still unanswered" % left, True)


def send(producer, topic, partition, key, value, told):
    while True:
        try:
            return producer.produce(topic, value, key, partition, on_delivery=told)
        except BufferError:  # the queue is full
            producer.poll(0.1)


def abort(producer, topic, partitions):
    producer.begin_transaction()
    for partition in range(partitions):
        producer.produce(topic, b"aborted", b"aborted", partition)
    producer.flush()
    persist(producer.abort_transaction, 60)
