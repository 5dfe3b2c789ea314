#!/bin/bash
# Starts the node that this container's host name says, with a new storage if it has none.
set -euo pipefail
node=$HOSTNAME
export KAFKA_HEAP_OPTS=${KAFKA_HEAP_OPTS:--Xmx512m}
config=/tmp/server.properties
{
	cat compose/server.properties
	echo "node.id=${node#broker-}"
	echo "advertised.listeners=TOKEN://$node:9094,CONTROL://$node:9093"
	echo "ssl.keystore.location=compose/made/$node.pem"
	echo "delegation.token.secret.key=$(cat compose/made/token-secret)"
} >"$config"
/opt/kafka/bin/kafka-storage.sh format --ignore-formatted --cluster-id ZG9vcmtlZXBlci1kb29yaw --config "$config"
exec /opt/kafka/bin/kafka-server-start.sh "$config"
