'use strict'

const fs = require('node:fs')
const net = require('node:net')
const tls = require('node:tls')

const { Kafka, logLevel } = require('kafkajs')

/**
 * The library with a certificate, and nothing else that says who it is. Every byte that
 * comes over its connections is looked at: see() says in the result which addresses were
 * dialled, and how often one of the texts of the setting unwanted (separated by commas)
 * was in what was received.
 */
function connect(step, result) {
	const unwanted = step.get('unwanted').split(',').filter(Boolean)
	const keep = Math.max(0, ...unwanted.map(text => text.length - 1))
	const dialled = new Set()
	let received = 0
	let found = 0

	function tap(socket) {
		let last = '' // the end of what came, in which a text may have begun
		socket.on('data', bytes => {
			received += bytes.length
			const window = last + bytes.toString('latin1')
			for (const text of unwanted) found += window.split(text).length - last.split(text).length
			last = keep > 0 ? window.slice(-keep) : ''
		})
		return socket
	}

	const kafka = new Kafka({
		brokers: [step.get('bootstrap')],
		ssl: {
			ca: fs.readFileSync(step.get('ca')),
			cert: fs.readFileSync(step.get('certificate')),
			key: fs.readFileSync(step.get('key')),
		},
		connectionTimeout: 10_000,
		logLevel: logLevel.DEBUG,
		logCreator: () => ({ namespace, label, log }) => process.stderr.write(`${label} ${namespace} ${JSON.stringify(log)}\n`),
		socketFactory: ({ host, port, ssl, onConnect }) => {
			dialled.add(`${host}:${port}`)
			process.stderr.write(`dial ${host}:${port}\n`)
			return tap(tls.connect({ host, port, ...(net.isIP(host) ? {} : { servername: host }), ...ssl }, onConnect).setKeepAlive(true, 60_000))
		},
	})
	return {
		kafka,
		see() {
			result.values.dialled = [...dialled].sort().join(' ')
			result.values.received = String(received)
			result.values.unwanted = String(found)
		},
	}
}

module.exports = { connect }
