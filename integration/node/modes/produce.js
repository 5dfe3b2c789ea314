'use strict'

const { setTimeout: pause } = require('node:timers/promises')

const { connect } = require('../connect')
const { Records } = require('../records')

/**
 * Writes records first to first+records-1 in turn to all partitions; with seconds, for so
 * long instead. Counts what was acknowledged. rate is in records a second.
 *
 * With txn, in transactions of at most per.txn records; every abort.every-th one is followed
 * by one that holds foreign records and is aborted.
 *
 * With ledger, notes in that file what became of each record (../../checker/import.go).
 */
module.exports = async function produce(step, result) {
	const { kafka, see } = connect(step, result)
	const txn = step.get('txn')
	const topic = step.get('topic')
	const acks = { all: -1, 1: 1, 0: 0 }[step.get('acks', 'all')]
	const partitions = step.number('partitions', 6)
	const perTxn = step.number('per.txn', 1000)
	const abortEvery = step.number('abort.every', 0)
	const series = new Records(step)
	const producer = kafka.producer({
		idempotent: step.get('idempotent', 'true') === 'true',
		...(txn ? { transactionalId: txn } : {}),
		maxInFlightRequests: 1, // what the library asks for of both
	})
	await producer.connect()
	try {
		let txns = 0
		for await (const batch of batches(step, txn ? perTxn : 500)) {
			const records = batch.map(i => {
				const key = series.key(i)
				return { i, key, value: series.value(key), partition: i % partitions }
			})
			const messages = records.map(({ key, value, partition }) => ({ key, value, partition }))
			result.sent += records.length
			const send = by => by.send({ topic, ...(txn ? {} : { acks }), messages }).catch(e => {
				result.refused(records)
				throw e
			})
			if (!txn) {
				result.acked(records, await send(producer))
				continue
			}
			const open = await producer.transaction()
			result.acked(records, await send(open))
			let known = false
			try {
				await open.commit()
				known = true
			} finally {
				result.committed(records, known)
			}
			if (abortEvery && ++txns % abortEvery === 0) {
				const aborted = await producer.transaction()
				await aborted.send({ topic, messages: messages.slice(0, partitions).map(m => ({ ...m, key: 'aborted', value: 'aborted' })) })
				await aborted.abort()
			}
		}
	} finally {
		await producer.disconnect()
		see()
	}
}

/** The numbers of the records, in batches of at most so many, each when it is due. */
async function* batches(step, atMost) {
	const first = step.number('first', 0)
	const seconds = step.number('seconds', 0)
	const records = step.number('records', seconds > 0 ? Number.MAX_SAFE_INTEGER : 1)
	const rate = step.number('rate', 0)
	const began = Date.now()
	const passed = () => Date.now() - began
	for (let n = 0; n < records && (seconds === 0 || passed() < seconds * 1000); ) {
		let due = records
		if (rate > 0) {
			due = Math.floor((passed() * rate) / 1000) + 1
			if (due <= n) {
				await pause(1000 / rate)
				continue
			}
		}
		const size = Math.min(atMost, due - n, records - n)
		yield Array.from({ length: size }, (_, k) => first + n + k)
		n += size
	}
}
