#!/bin/bash
# Grants the gateway its one right, and alice a topic, as the administrator.
set -euo pipefail
export KAFKA_HEAP_OPTS=-Xmx128m
at=(--bootstrap-server broker-1:9093,broker-2:9093,broker-3:9093 --command-config compose/made/admin.properties)
topics() { /opt/kafka/bin/kafka-topics.sh "${at[@]}" "$@"; }
acls() { /opt/kafka/bin/kafka-acls.sh "${at[@]}" --add "$@"; }

for i in {1..30}; do # brokers need a while
	if topics --create --if-not-exists --topic greetings --partitions 6; then break; fi
	if [ "$i" = 30 ]; then exit 1; fi
	sleep 1
done
acls --allow-principal User:gateway --operation CreateTokens --user-principal '*'
acls --allow-principal User:alice --producer --idempotent --topic greetings
acls --allow-principal User:alice --consumer --topic greetings --group '*'
