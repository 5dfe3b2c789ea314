"""Asks for everything that has a broker's address in its answer, and for the
topics that may be seen. The library tells nobody a coordinator's address, but dials it."""

from kafka.admin import KafkaAdminClient

from clients.kafka_python import connected


def run(step, result):
    topic, group = step.get("topic"), step.get("group")
    with connected(step, result) as conf:
        admin = KafkaAdminClient(**conf)
        try:
            brokers = admin.describe_cluster()["brokers"]
            for b in brokers:
                result.nodes.add("%s:%d" % (b["host"], b["port"]))
                result.count += 1
            result.values["brokers"] = " ".join(sorted(str(b["broker_id"]) for b in brokers))
            result.values["topics"] = " ".join(sorted(admin.list_topics()))
            for p in admin.describe_topics([topic])[0]["partitions"]:
                result.values["leader-%d" % p["partition_index"]] = str(p["leader_id"])
            described = admin.describe_groups([group])[group]
            if described["error"]:
                raise RuntimeError(described["error"])
            result.values["group"] = described["group_state"]
        finally:
            admin.close()
