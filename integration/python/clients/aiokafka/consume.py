"""Reads a topic as a group of several members.

Until so many records were seen or none came for quiet.ms; deadline.s bounds it all.
Commits that a rebalance overtook are noted as "overtaken": then records may have come
twice. With records=0, until it is quiet.
"""

import asyncio
import time

from aiokafka import AIOKafkaConsumer

from clients.aiokafka import OVERTAKEN, connected, failed, whole
from records import Records


async def consume(step, result):
    settings = dict(
        group_id=step.get("group", "g"),
        isolation_level=step.get("isolation", "read_committed"),
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        fetch_max_wait_ms=250,
        heartbeat_interval_ms=500,
    )
    reading = Reading(step, result)
    with connected(step, result, **settings) as conf:
        members = (reading.member(conf) for _ in range(step.number("members", 1)))
        for ended in await asyncio.gather(*members, return_exceptions=True):
            if ended is not None:
                failed(result, ended)


class Reading:
    def __init__(self, step, result):
        self.topic = step.get("topic")
        self.wanted = step.number("records", 0)
        self.quiet = step.number("quiet.ms", 10_000) / 1000
        self.deadline = time.monotonic() + step.number("deadline.s", 120)
        self.last = time.monotonic()  # when a record came
        self.series = Records(step)
        self.result = result

    async def member(self, conf):
        async with AIOKafkaConsumer(self.topic, **conf) as consumer:
            while time.monotonic() < min(self.deadline, self.last + self.quiet):
                came = 0
                for messages in (await consumer.getmany(timeout_ms=200, max_records=1000)).values():
                    for message in messages:
                        self.result.read(self.series, message.key, message.value)
                        came += 1
                if came:
                    self.last = time.monotonic()
                    await self.commit(consumer)
                if self.wanted and self.result.count >= self.wanted:
                    return

    async def commit(self, consumer):
        try:
            await consumer.commit()
        except Exception as e:
            if type(e).__name__ in OVERTAKEN:
                self.result.noted("overtaken")  # as is any member's lot: its records come again
            else:
                failed(self.result, e)


run = whole(consume)
