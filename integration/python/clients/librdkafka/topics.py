"""Makes or deletes a topic, as action says. How that was refused stands in errors."""

from confluent_kafka.admin import AdminClient, NewTopic

from clients.librdkafka import settings
from step import BadStep

SECONDS = 60


def run(step, result):
    admin = AdminClient(settings(step, result))
    topic, action = step.get("topic"), step.get("action")
    if action == "create":
        new = NewTopic(topic, step.number("partitions", 6), step.number("replicas", 3))
        answers = admin.create_topics([new], request_timeout=SECONDS)
    elif action == "delete":
        answers = admin.delete_topics([topic], request_timeout=SECONDS)
    else:
        raise BadStep("unknown action " + action)
    answers[topic].result()
    result.count += 1
