"""Reads a topic as a group of several members.

Until so many records were seen or none came for quiet.ms; deadline.s bounds it
all. Commits that a rebalance overtook are noted as "overtaken": then records may
have come twice. With records=0, until it is quiet. protocol is classic or
consumer (KIP-848).

With settled.s, partitions that are taken from a member later than so long after it first
got some, and before all is read, are noted as "moved": a rebalance came.
"""

import threading
import time

from confluent_kafka import Consumer, KafkaError, KafkaException

from clients.librdkafka import failed, settings
from records import Records

# What a member whose commit came too late for its generation is told.
OVERTAKEN = (
    KafkaError.ILLEGAL_GENERATION,
    KafkaError.REBALANCE_IN_PROGRESS,
    KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError.STALE_MEMBER_EPOCH,
    KafkaError._ASSIGNMENT_LOST,
)


def run(step, result):
    conf = settings(
        step,
        result,
        group_id=step.get("group", "g"),
        group_protocol=step.get("protocol", "classic"),
        isolation_level=step.get("isolation", "read_committed"),
        auto_offset_reset="earliest",
        enable_auto_commit="false",
    )
    reading = Reading(step, result)

    def member():
        try:
            reading.member(conf)
        except Exception as e:  # it would end with its thread, and nobody would know
            failed(result, e)

    members = [threading.Thread(target=member) for _ in range(step.number("members", 1))]
    for thread in members:
        thread.start()
    for thread in members:
        thread.join()


class Reading:
    def __init__(self, step, result):
        self.topic = step.get("topic")
        self.wanted = step.number("records", 0)
        self.quiet = step.number("quiet.ms", 10_000) / 1000
        self.settled = step.number("settled.s", 0)
        self.first = None  # when partitions came first
        self.deadline = time.monotonic() + step.number("deadline.s", 120)
        self.last = time.monotonic()  # when a record came
        self.series = Records(step)
        self.result = result

    def member(self, conf):
        consumer = Consumer(conf)
        try:
            consumer.subscribe([self.topic], on_assign=self.assigned, on_revoke=self.revoked)
            while time.monotonic() < min(self.deadline, self.last + self.quiet):
                came = 0
                for message in consumer.consume(1000, 0.2):
                    if message.error() is not None:
                        failed(self.result, message.error())
                        continue
                    self.result.read(self.series, message.key(), message.value())
                    came += 1
                if came:
                    self.last = time.monotonic()
                    self.commit(consumer)
                if self.wanted and self.result.count >= self.wanted:
                    return
        finally:
            consumer.close()

    def assigned(self, consumer, partitions):
        if self.first is None:
            self.first = time.monotonic()

    def revoked(self, consumer, partitions):
        late = self.first is not None and time.monotonic() - self.first > self.settled
        if self.settled and late and self.result.count < self.wanted:
            self.result.noted("moved")

    def commit(self, consumer):
        try:
            consumer.commit(asynchronous=False)
        except KafkaException as e:
            if e.args[0].code() in OVERTAKEN:
                self.result.noted("overtaken")  # as is any member's lot: its records come again
            elif e.args[0].code() != KafkaError._NO_OFFSET:  # those are already committed
                failed(self.result, e)
