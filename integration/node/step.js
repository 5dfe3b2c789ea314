'use strict'

/** The tests have asked for what there is not. */
class BadStep extends Error {}

/** One step's mode and settings. Settings that nobody asked for are a mistake. */
class Step {
	constructor(told) {
		this.mode = told.mode
		this.settings = told.settings
		this.used = new Set(['certificate', 'key', 'ca'])
	}

	get(key, otherwise = '') {
		this.used.add(key)
		return this.settings[key] ?? otherwise
	}

	number(key, otherwise) {
		const text = this.get(key, String(otherwise))
		const n = Number(text)
		if (!Number.isInteger(n)) throw new BadStep(`${key}: ${text} is no whole number`)
		return n
	}

	checkAllUsed() {
		const unknown = Object.keys(this.settings).filter(key => !this.used.has(key))
		if (unknown.length > 0) throw new BadStep(`${this.mode}: unknown settings ${unknown}`)
	}
}

module.exports = { BadStep, Step }
