"""Makes or deletes a topic, as action says. How that was refused stands in errors."""

from kafka.admin import KafkaAdminClient

from clients.kafka_python import connected
from step import BadStep


def run(step, result):
    topic, action = step.get("topic"), step.get("action")
    with connected(step, result) as conf:
        admin = KafkaAdminClient(**conf)
        try:
            if action == "create":
                admin.create_topics(
                    {topic: {"num_partitions": step.number("partitions", 6), "replication_factor": step.number("replicas", 3)}}
                )
            elif action == "delete":
                admin.delete_topics([topic])
            else:
                raise BadStep("unknown action " + action)
            result.count += 1
        finally:
            admin.close()
