'use strict'

// CRC-32 of IEEE, by a table: zlib.crc32 is in no Node before 20.15.
const TABLE = Uint32Array.from({ length: 256 }, (_, n) => {
	for (let k = 0; k < 8; k++) n = n & 1 ? (n >>> 1) ^ 0xedb88320 : n >>> 1
	return n
})

/** The CRC-32 of key and value, one behind the other. */
function checksum(key, value) {
	let crc = 0xffffffff
	for (const bytes of [key, value]) {
		for (const byte of bytes) crc = TABLE[(crc ^ byte) & 0xff] ^ (crc >>> 8)
	}
	return (crc ^ 0xffffffff) >>> 0
}

/**
 * The records that all clients agree on (../harness/records.go is the same): record i of
 * a series has the key PREFIX + eight digits of i, and a value that repeats the key to
 * the given size.
 */
class Records {
	constructor(step) {
		this.prefix = step.get('prefix', 'r')
		this.size = step.number('size', 100)
	}

	key(i) {
		return Buffer.from(this.prefix + String(i).padStart(8, '0'))
	}

	value(key) {
		return Buffer.alloc(this.size, key)
	}

	/** The number of a record of this series, or -1. */
	index(key, value) {
		const text = key?.toString() ?? ''
		const digits = text.slice(this.prefix.length)
		if (!text.startsWith(this.prefix) || !/^[0-9]{8}$/.test(digits) || !value?.equals(this.value(key))) return -1
		return Number(digits)
	}
}

module.exports = { Records, checksum }
