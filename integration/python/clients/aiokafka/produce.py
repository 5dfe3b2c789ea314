"""Writes records 0 to records-1 in turn to all partitions and counts what was
acknowledged.

With txn, in transactions of per.txn records each; every abort.every-th one is
followed by one that holds foreign records and is aborted.
"""

from aiokafka import AIOKafkaProducer

from clients.aiokafka import connected, failed, whole
from records import Records


async def produce(step, result):
    txn = step.get("txn")
    topic = step.get("topic")
    partitions = step.number("partitions", 6)
    per_txn = step.number("per.txn", 1000)
    abort_every = step.number("abort.every", 0)
    series = Records(step)
    more = {"transactional_id": txn} if txn else {"enable_idempotence": step.get("idempotent", "true") == "true"}

    def told(sent, checksum):
        if sent.exception() is not None:
            failed(result, sent.exception())
        else:
            result.counted(checksum)

    with connected(step, result, acks="all", linger_ms=5, **more) as conf:
        async with AIOKafkaProducer(**conf) as producer:
            in_txn = txns = 0
            for i in range(step.number("records", 1)):
                if txn and in_txn == 0:
                    await producer.begin_transaction()
                key = series.key(i)
                value = series.value(key)
                sent = await producer.send(topic, value, key, partition=i % partitions)
                sent.add_done_callback(lambda sent, checksum=series.checksum(key, value): told(sent, checksum))
                result.sent += 1
                in_txn += 1
                if txn and in_txn == per_txn:
                    await producer.commit_transaction()
                    in_txn = 0
                    txns += 1
                    if abort_every and txns % abort_every == 0:
                        await abort(producer, topic, partitions)
            if txn and in_txn:
                await producer.commit_transaction()
            await producer.flush()


async def abort(producer, topic, partitions):
    await producer.begin_transaction()
    for partition in range(partitions):
        await producer.send(topic, b"aborted", b"aborted", partition=partition)
    await producer.flush()
    await producer.abort_transaction()


run = whole(produce)
