"""Asks for everything that has a broker's address in its answer, and for the
topics that may be seen."""

from confluent_kafka import TopicCollection
from confluent_kafka.admin import AdminClient

from clients.librdkafka import settings

SECONDS = 60


def run(step, result):
    admin = AdminClient(settings(step, result))
    topic, group = step.get("topic"), step.get("group")

    def add(*nodes):
        for node in nodes:
            result.nodes.add("%s:%d" % (node.host, node.port))
            result.count += 1

    cluster = admin.describe_cluster(request_timeout=SECONDS).result()
    add(cluster.controller, *cluster.nodes)
    result.values["cluster"] = cluster.cluster_id
    result.values["nodes"] = ids(n.id for n in cluster.nodes)

    listed = admin.list_topics(timeout=SECONDS)
    add(*listed.brokers.values())
    result.values["brokers"] = ids(listed.brokers)
    result.values["topics"] = " ".join(sorted(listed.topics))

    if topic:
        described = admin.describe_topics(TopicCollection([topic]), request_timeout=SECONDS)[topic].result()
        for p in described.partitions:
            add(p.leader, *p.replicas)
            result.values["leader-%d" % p.id] = str(p.leader.id)
            result.values["replicas-%d" % p.id] = " ".join(str(n.id) for n in p.replicas)
    if group:
        found = admin.describe_consumer_groups([group], request_timeout=SECONDS)[group].result()
        add(found.coordinator)
        result.values["coordinator"] = str(found.coordinator.id)


def ids(of):
    return " ".join(str(i) for i in sorted(of))
