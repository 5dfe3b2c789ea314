'use strict'

const { setTimeout: pause } = require('node:timers/promises')

const { connect } = require('../connect')
const { Records } = require('../records')

/** What a member whose commit came too late for its generation is told. */
const OVERTAKEN = ['ILLEGAL_GENERATION', 'REBALANCE_IN_PROGRESS', 'UNKNOWN_MEMBER_ID']

/**
 * Reads a topic as a group of several members, until so many records were seen or none
 * came for quiet.ms; deadline.s bounds it all. Commits that a rebalance overtook are
 * noted as "overtaken": then records may have come twice. With records=0, until it is
 * quiet. With settled.s, a rebalance that a member meets later than so long after it first
 * joined, and before all records were seen, is noted as "moved".
 */
module.exports = async function consume(step, result) {
	const { kafka, see } = connect(step, result)
	const topic = step.get('topic')
	const wanted = step.number('records', 0)
	const quiet = step.number('quiet.ms', 10_000)
	const deadline = Date.now() + 1000 * step.number('deadline.s', 120)
	const series = new Records(step)
	const groupId = step.get('group', 'g')
	const settled = 1000 * step.number('settled.s', 0)
	const readUncommitted = step.get('isolation', 'read_committed') !== 'read_committed'
	let last = Date.now() // when a record came
	let crashed = false

	const members = []
	for (let n = step.number('members', 1); n > 0; n--) {
		const consumer = kafka.consumer({ groupId, readUncommitted, maxWaitTimeInMs: 250, rebalanceTimeout: 10_000, heartbeatInterval: 1000 })
		consumer.on(consumer.events.CRASH, ({ payload }) => {
			result.failed(payload.error)
			crashed ||= !payload.restart
		})
		let joined = Infinity
		consumer.on(consumer.events.GROUP_JOIN, () => (joined = Math.min(joined, Date.now())))
		consumer.on(consumer.events.REBALANCING, () => {
			if (settled && Date.now() - joined > settled && result.count < wanted) result.noted('moved')
		})
		members.push(consumer)
	}

	async function eachBatch({ batch, resolveOffset, heartbeat, isRunning, isStale, commitOffsetsIfNecessary }) {
		if (!isRunning() || isStale()) return
		for (const m of batch.messages) {
			result.read(series, m.key, m.value)
			resolveOffset(m.offset)
		}
		last = Date.now()
		try {
			await commitOffsetsIfNecessary({
				topics: [{ topic, partitions: [{ partition: batch.partition, offset: String(BigInt(batch.lastOffset()) + 1n) }] }],
			})
		} catch (e) {
			if (!OVERTAKEN.includes(e.type)) throw e
			result.noted('overtaken')
		}
		await heartbeat()
	}

	try {
		await Promise.all(
			members.map(async consumer => {
				await consumer.connect()
				await consumer.subscribe({ topic, fromBeginning: true })
				await consumer.run({ autoCommit: false, eachBatch })
			}),
		)
		while (!crashed && Date.now() < Math.min(deadline, last + quiet) && !(wanted && result.count >= wanted)) await pause(20)
	} finally {
		await Promise.all(members.map(consumer => consumer.disconnect()))
		see()
	}
}
