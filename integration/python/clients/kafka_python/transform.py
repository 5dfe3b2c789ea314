"""Copies a topic to another, exactly once: reads as a group, writes in transactions
that hold the group's offsets too.

Ends when so many records are committed; counts those. Every abort.every-th
transaction is aborted first, and then done again.
"""

import time

from kafka import KafkaConsumer, KafkaProducer, OffsetAndMetadata

from clients.kafka_python import connected, failed
from records import Records


def run(step, result):
    group, txn = step.get("group", "g"), step.get("txn")
    with connected(step, result) as conf:
        consumer = KafkaConsumer(
            step.get("topic"), group_id=group, auto_offset_reset="earliest", enable_auto_commit=False,
            isolation_level="read_committed", fetch_max_wait_ms=250, **conf
        )
        producer = KafkaProducer(transactional_id=txn, **conf)
        try:
            producer.init_transactions()
            Copy(step, result, consumer, producer).all()
        finally:
            producer.close()
            consumer.close(autocommit=False)


class Copy:
    def __init__(self, step, result, consumer, producer):
        self.to = step.get("to")
        self.wanted = step.number("records", 1)
        self.per_txn = step.number("per.txn", 1000)
        self.abort_every = step.number("abort.every", 0)
        self.deadline = time.monotonic() + step.number("deadline.s", 120)
        self.series = Records(step)
        self.result, self.consumer, self.producer = result, consumer, producer

    def all(self):
        txns = 0
        while self.result.count < self.wanted and time.monotonic() < self.deadline:
            left = self.deadline - time.monotonic()  # see consume.py
            came = self.consumer.poll(timeout_ms=int(1000 * left), max_records=self.per_txn)
            if not came:
                continue
            txns += 1
            if self.abort_every and txns % self.abort_every == 0:
                self.write(came)
                self.producer.flush(120)
                self.producer.abort_transaction()
                self.result.noted("aborted")
            self.write(came)
            self.producer.commit_transaction()
            for messages in came.values():
                for m in messages:
                    self.result.read(self.series, m.key, m.value)

    def write(self, came):
        """A transaction up to its end."""
        self.producer.begin_transaction()
        for partition, messages in came.items():
            for m in messages:
                sent = self.producer.send(self.to, m.value, m.key, partition=partition.partition)
                sent.add_errback(lambda e: failed(self.result, e))
        offsets = {p: OffsetAndMetadata(messages[-1].offset + 1, "", -1) for p, messages in came.items()}
        self.producer.send_offsets_to_transaction(offsets, self.consumer.group_metadata())
