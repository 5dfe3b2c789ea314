package checker

import (
	"bytes"
	"fmt"
	"strconv"
)

// Every client writes the same records, so that any reader can check any writer: record
// i of the writer PREFIX has the key PREFIX + eight digits of i, and a value that repeats
// the key to the given size. java/Records.java and python/records.py are the same.

// Key is the key of record i of the writer prefix.
func Key(prefix string, i int) []byte { return fmt.Appendf(nil, "%s%08d", prefix, i) }

// Value is the value that belongs to a key.
func Value(key []byte, size int) []byte {
	return bytes.Repeat(key, size/len(key)+1)[:size]
}

// Index is the number of a record of the writer prefix, and -1 if it is none of its.
func Index(prefix string, size int, key, value []byte) int {
	digits, ok := bytes.CutPrefix(key, []byte(prefix))
	i, err := strconv.Atoi(string(digits))
	if !ok || err != nil || i < 0 || len(digits) != 8 || !bytes.Equal(value, Value(key, size)) {
		return -1
	}
	return i
}
