"""Copies a topic to another, exactly once: reads as a group, writes in transactions
that hold the group's offsets too.

Ends when so many records are committed; counts those. Every abort.every-th
transaction is aborted first, and then done again.
"""

import time

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from clients.aiokafka import connected, whole
from records import Records


async def transform(step, result):
    group, txn = step.get("group", "g"), step.get("txn")
    with connected(step, result) as conf:
        reader = AIOKafkaConsumer(
            step.get("topic"), group_id=group, auto_offset_reset="earliest", enable_auto_commit=False,
            isolation_level="read_committed", fetch_max_wait_ms=250, **conf
        )
        async with reader as consumer, AIOKafkaProducer(transactional_id=txn, **conf) as producer:
            await Copy(step, result, group, consumer, producer).all()


class Copy:
    def __init__(self, step, result, group, consumer, producer):
        self.to = step.get("to")
        self.wanted = step.number("records", 1)
        self.per_txn = step.number("per.txn", 1000)
        self.abort_every = step.number("abort.every", 0)
        self.deadline = time.monotonic() + step.number("deadline.s", 120)
        self.series = Records(step)
        self.result, self.group, self.consumer, self.producer = result, group, consumer, producer

    async def all(self):
        txns = 0
        while self.result.count < self.wanted and time.monotonic() < self.deadline:
            came = await self.consumer.getmany(timeout_ms=500, max_records=self.per_txn)
            if not came:
                continue
            txns += 1
            if self.abort_every and txns % self.abort_every == 0:
                await self.write(came)
                await self.producer.abort_transaction()
                self.result.noted("aborted")
            await self.write(came)
            await self.producer.commit_transaction()
            for messages in came.values():
                for m in messages:
                    self.result.read(self.series, m.key, m.value)

    async def write(self, came):
        """A transaction up to its end."""
        await self.producer.begin_transaction()
        for partition, messages in came.items():
            for m in messages:
                await self.producer.send(self.to, m.value, m.key, partition=partition.partition)
        await self.producer.flush()
        offsets = {p: messages[-1].offset + 1 for p, messages in came.items()}
        await self.producer.send_offsets_to_transaction(offsets, self.group)


run = whole(transform)
