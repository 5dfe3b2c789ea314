"""Reads a topic as the one member of a group.

Until so many records were seen or none came for quiet.ms; deadline.s bounds it all.
Commits that a rebalance overtook are noted as "overtaken": then records may have come
twice. With records=0, until it is quiet.

One member, and polls without an end of their own: a poll of kafka-python 3.0.12 that
ends while it joins may lose the assignment for good, with the gateway or without.
"""

import time

from kafka import KafkaConsumer

from clients.kafka_python import OVERTAKEN, connected, failed
from records import Records


def run(step, result):
    topic = step.get("topic")
    wanted = step.number("records", 0)
    quiet = step.number("quiet.ms", 10_000) / 1000
    deadline = time.monotonic() + step.number("deadline.s", 120)
    series = Records(step)
    settings = dict(
        group_id=step.get("group", "g"),
        isolation_level=step.get("isolation", "read_committed"),
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        fetch_max_wait_ms=250,
        heartbeat_interval_ms=500,
    )
    with connected(step, result, **settings) as conf:
        consumer = KafkaConsumer(topic, **conf)
        try:
            last = time.monotonic()  # when a record came
            while not wanted or result.count < wanted:
                left = min(deadline, last + quiet) - time.monotonic()
                if left <= 0:
                    return
                for messages in consumer.poll(timeout_ms=int(1000 * left), max_records=1000).values():
                    last = time.monotonic()
                    for message in messages:
                        result.read(series, message.key, message.value)
                commit(consumer, result)
        finally:
            consumer.close(autocommit=False)


def commit(consumer, result):
    try:
        consumer.commit()
    except Exception as e:
        if type(e).__name__ in OVERTAKEN:
            result.noted("overtaken")  # as is any member's lot: its records come again
        else:
            failed(result, e)
