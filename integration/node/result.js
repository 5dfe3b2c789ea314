'use strict'

const fs = require('node:fs')

const { checksum } = require('./records')

/**
 * What is printed of a step. With the setting ledger, a writer notes in that file what
 * became of each record (../checker/import.go).
 */
class Result {
	#seen = new Set()
	#ledger

	constructor(step) {
		this.mode = step.mode
		this.count = this.sum = this.duplicates = this.foreign = this.sent = this.millis = 0
		this.errors = {} // name -> how often
		this.fatal = [] // errors that retrying does not cure
		this.messages = [] // of the errors
		this.nodes = [] // host:port of every node seen
		this.values = {}
		const path = step.get('ledger')
		if (path) this.#ledger = fs.openSync(path, 'w')
	}

	/** Notes an error, by its innermost cause; the library has retried what it could. */
	failed(error) {
		while (error.cause) error = error.cause
		const name = error.type ?? error.name
		this.errors[name] = (this.errors[name] ?? 0) + 1
		if (this.messages.length < 20) {
			this.messages.push(`${name}: ${error.message}`)
			if (!error.retriable) this.fatal.push(`${name}: ${error.message}`)
		}
	}

	/** Counts something that is worth knowing and no error. */
	noted(what) {
		this.values[what] = String(Number(this.values[what] ?? 0) + 1)
	}

	/**
	 * Counts records, each {i, key, value, partition}, that were acknowledged together: each
	 * partition's one behind the other from an offset on, as the answer says.
	 */
	acked(records, answer) {
		const next = new Map()
		for (const { partition, baseOffset } of answer ?? []) next.set(partition, BigInt(baseOffset ?? -1))
		const lines = records.map(({ i, key, value, partition }) => {
			this.count++
			this.sum += checksum(key, value)
			const offset = next.get(partition) ?? -1n
			if (offset >= 0n) next.set(partition, offset + 1n)
			return `a ${i} ${partition} ${offset}`
		})
		this.#note(lines)
	}

	/** Notes that the client has given records up. */
	refused(records) {
		this.#note(records.map(({ i }) => `r ${i}`))
	}

	/** Notes that records were a transaction, and whether the client knows that it was committed. */
	committed(records, known) {
		this.#note([`t ${records[0].i} ${records[records.length - 1].i} ${known ? 'committed' : 'unknown'}`])
	}

	#note(lines) {
		if (this.#ledger !== undefined) fs.writeSync(this.#ledger, lines.map(line => line + '\n').join(''))
	}

	/** Counts a record that was read, if it is of the series and new. */
	read(series, key, value) {
		const i = series.index(key, value)
		if (i < 0) this.foreign++
		else if (this.#seen.has(i)) this.duplicates++
		else {
			this.#seen.add(i)
			this.count++
			this.sum += checksum(key, value)
		}
	}

	node(host, port) {
		this.nodes.push(`${host}:${port}`)
		this.count++
	}

	asJSON() {
		return JSON.stringify(this)
	}
}

module.exports = { Result }
