'use strict'

const { connect } = require('../connect')

/**
 * Asks for everything that has a broker's address in its answer, and for the topics that
 * may be seen. The library tells nobody a coordinator's address, but dials it.
 */
module.exports = async function describe(step, result) {
	const { kafka, see } = connect(step, result)
	const admin = kafka.admin()
	await admin.connect()
	try {
		const topic = step.get('topic')
		const group = step.get('group')
		const { brokers } = await admin.describeCluster()
		for (const { host, port } of brokers) result.node(host, port)
		result.values.brokers = brokers.map(b => b.nodeId).sort().join(' ')
		result.values.topics = (await admin.listTopics()).sort().join(' ')
		const { topics } = await admin.fetchTopicMetadata({ topics: [topic] })
		for (const p of topics[0].partitions) result.values[`leader-${p.partitionId}`] = String(p.leader)
		const { groups } = await admin.describeGroups([group])
		result.values.group = groups[0].state
	} finally {
		await admin.disconnect()
		see()
	}
}
