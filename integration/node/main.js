// A Kafka client in JavaScript, kafkajs, for the integration tests:
//
//	node main.js CLIENT STEP...
//
// CLIENT is kafkajs. A STEP is JSON, {"mode": MODE, "settings": {KEY: TEXT, ...}}; they
// are done one after the other, in one process, and for each a line of JSON is printed
// (result.js). The modes and their settings are those of ../python. What the library logs
// goes to standard error. Exits with 0 once all steps are done, whatever they saw: the
// tests judge.
'use strict'

const { Result } = require('./result')
const { BadStep, Step } = require('./step')

const MODES = {
	produce: require('./modes/produce'),
	consume: require('./modes/consume'),
	transform: require('./modes/transform'),
	describe: require('./modes/describe'),
	topics: require('./modes/topics'),
}

async function main([client, ...texts]) {
	if (client !== 'kafkajs') throw new BadStep(`unknown client ${client}`)
	for (const step of texts.map(text => new Step(JSON.parse(text)))) {
		const run = MODES[step.mode]
		if (!run) throw new BadStep(`unknown mode ${step.mode}`)
		const result = new Result(step)
		const began = Date.now()
		try {
			await run(step, result)
			step.checkAllUsed()
		} catch (e) {
			if (e instanceof BadStep) throw e
			console.error(e)
			result.failed(e)
		}
		result.millis = Date.now() - began
		process.stdout.write(result.asJSON() + '\n')
	}
}

main(process.argv.slice(2)).then(
	() => process.exit(0), // whatever the library has left open
	e => {
		console.error(e)
		process.exit(1)
	},
)
