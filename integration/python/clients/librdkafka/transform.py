"""Copies a topic to another, exactly once: reads as a group, writes in transactions
that hold the group's offsets too.

Ends when so many records are committed; counts those. Every abort.every-th
transaction is aborted instead, and what was read for it is read again: had the
offsets been committed all the same, records would be missing.
"""

import time

from confluent_kafka import Consumer, Producer

from clients.librdkafka import failed, persist, settings
from clients.librdkafka.produce import send
from records import Records


def run(step, result):
    common = settings(step, result)
    consumer = Consumer(
        dict(
            common,
            **{
                "group.id": step.get("group", "g"),
                "group.protocol": step.get("protocol", "classic"),
                "auto.offset.reset": "earliest",
                "enable.auto.commit": "false",
            }
        )
    )
    producer = Producer(dict(common, **{"transactional.id": step.get("txn")}))
    copy = Copy(step, result, consumer, producer)
    try:
        consumer.subscribe([step.get("topic")])
        persist(producer.init_transactions, 60)
        copy.all()
    finally:
        consumer.close()


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
            batch = []
            for message in self.consumer.consume(self.per_txn, 0.5):
                if message.error() is not None:
                    failed(self.result, message.error())
                else:
                    batch.append(message)
            if not batch:
                continue
            txns += 1
            self.one(batch, keep=not self.abort_every or txns % self.abort_every != 0)

    def one(self, batch, keep):
        self.producer.begin_transaction()
        for m in batch:
            send(self.producer, self.to, m.partition(), m.key(), m.value(), self.told)
        at = self.consumer.position(self.consumer.assignment())
        persist(self.producer.send_offsets_to_transaction, at, self.consumer.consumer_group_metadata(), 60)
        if keep:
            persist(self.producer.commit_transaction, 60)
            for m in batch:
                self.result.read(self.series, m.key(), m.value())
            return
        self.producer.flush()
        persist(self.producer.abort_transaction, 60)
        self.result.noted("aborted")
        for p in self.consumer.committed(self.consumer.assignment(), 60):
            if p.offset < 0:  # none of it yet
                p.offset = 0
            self.consumer.seek(p)

    def told(self, error, message):
        if error is not None:
            failed(self.result, error)
