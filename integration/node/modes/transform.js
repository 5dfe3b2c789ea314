'use strict'

const { setTimeout: pause } = require('node:timers/promises')

const { connect } = require('../connect')
const { Records } = require('../records')

/**
 * Copies a topic to another, exactly once: reads as a group, writes in transactions that
 * hold the group's offsets too, and ends when so many records are committed; counts
 * those. Every abort.every-th transaction is aborted first, and then done again.
 */
module.exports = async function transform(step, result) {
	const { kafka, see } = connect(step, result)
	const topic = step.get('topic')
	const to = step.get('to')
	const groupId = step.get('group', 'g')
	const wanted = step.number('records', 1)
	const perTxn = step.number('per.txn', 1000)
	const abortEvery = step.number('abort.every', 0)
	const deadline = Date.now() + 1000 * step.number('deadline.s', 120)
	const series = new Records(step)
	const consumer = kafka.consumer({ groupId, maxWaitTimeInMs: 250, rebalanceTimeout: 10_000 })
	const producer = kafka.producer({ transactionalId: step.get('txn'), idempotent: true, maxInFlightRequests: 1 })
	let txns = 0
	let failed = false

	async function write(partition, messages) {
		const txn = await producer.transaction()
		await txn.send({ topic: to, messages: messages.map(({ key, value }) => ({ key, value, partition })) })
		const offset = String(BigInt(messages[messages.length - 1].offset) + 1n)
		await txn.sendOffsets({ consumerGroupId: groupId, topics: [{ topic, partitions: [{ partition, offset }] }] })
		return txn
	}

	async function eachBatch({ batch, resolveOffset, heartbeat, isRunning, isStale }) {
		for (let at = 0; at < batch.messages.length && isRunning() && !isStale(); at += perTxn) {
			const messages = batch.messages.slice(at, at + perTxn)
			txns++
			if (abortEvery && txns % abortEvery === 0) {
				await (await write(batch.partition, messages)).abort()
				result.noted('aborted')
			}
			await (await write(batch.partition, messages)).commit()
			for (const m of messages) result.read(series, m.key, m.value)
			resolveOffset(messages[messages.length - 1].offset)
			await heartbeat()
		}
	}

	consumer.on(consumer.events.CRASH, ({ payload }) => {
		result.failed(payload.error)
		failed = true
	})
	try {
		await producer.connect()
		await consumer.connect()
		await consumer.subscribe({ topic, fromBeginning: true })
		await consumer.run({ autoCommit: false, eachBatch })
		while (!failed && Date.now() < deadline && result.count < wanted) await pause(20)
	} finally {
		await consumer.disconnect()
		await producer.disconnect()
		see()
	}
}
