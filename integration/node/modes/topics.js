'use strict'

const { connect } = require('../connect')
const { BadStep } = require('../step')

/** Makes or deletes a topic, as action says. How that was refused stands in errors. */
module.exports = async function topics(step, result) {
	const { kafka, see } = connect(step, result)
	const topic = step.get('topic')
	const action = step.get('action')
	const admin = kafka.admin()
	await admin.connect()
	try {
		if (action === 'create') {
			const made = await admin.createTopics({
				waitForLeaders: false, // it does not wait for brokers that do not know the topic yet, but fails
				topics: [{ topic, numPartitions: step.number('partitions', 6), replicationFactor: step.number('replicas', 3) }],
			})
			if (!made) throw Object.assign(new Error('it is there'), { name: 'TOPIC_ALREADY_EXISTS' })
		} else if (action === 'delete') {
			await admin.deleteTopics({ topics: [topic] })
		} else {
			throw new BadStep(`unknown action ${action}`)
		}
		result.count++
	} finally {
		await admin.disconnect()
		see()
	}
}
