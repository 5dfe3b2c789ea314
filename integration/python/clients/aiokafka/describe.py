"""Asks for everything that has a broker's address in its answer, and for the
topics that may be seen. The library tells nobody a coordinator's address, but dials it."""

from aiokafka.admin import AIOKafkaAdminClient

from clients.aiokafka import connected, whole


async def describe(step, result):
    topic, group = step.get("topic"), step.get("group")
    with connected(step, result) as conf:
        admin = AIOKafkaAdminClient(**conf)
        await admin.start()
        try:
            brokers = (await admin.describe_cluster())["brokers"]
            for b in brokers:
                result.nodes.add("%s:%d" % (b["host"], b["port"]))
                result.count += 1
            result.values["brokers"] = " ".join(sorted(str(b["node_id"]) for b in brokers))
            result.values["topics"] = " ".join(sorted(await admin.list_topics()))
            for p in (await admin.describe_topics([topic]))[0]["partitions"]:
                result.values["leader-%d" % p["partition"]] = str(p["leader"])
            result.values["coordinator"] = str(await admin.find_coordinator(group))
            described = (await admin.describe_consumer_groups([group]))[0].to_object()["groups"][0]
            result.values["group"] = described["state"]
        finally:
            await admin.close()


run = whole(describe)
