"""Makes or deletes a topic, as action says. How that was refused stands in errors."""

from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import for_code

from clients.aiokafka import connected, whole
from step import BadStep


async def topics(step, result):
    topic, action = step.get("topic"), step.get("action")
    with connected(step, result) as conf:
        admin = AIOKafkaAdminClient(**conf)
        await admin.start()
        try:
            if action == "create":
                new = NewTopic(topic, step.number("partitions", 6), step.number("replicas", 3))
                answer = (await admin.create_topics([new])).to_object()
                code = answer["topic_errors"][0]["error_code"]
            elif action == "delete":
                answer = (await admin.delete_topics([topic])).to_object()
                code = answer["topic_error_codes"][0]["error_code"]
            else:
                raise BadStep("unknown action " + action)
            if code:
                raise for_code(code)(answer)
            result.count += 1
        finally:
            await admin.close()


run = whole(topics)
