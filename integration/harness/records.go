//go:build integration

package harness

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"strconv"
)

// Every client writes the same records, so that any reader can check any
// writer: record i of a series has the key PREFIX + eight digits of i, and a
// value that repeats the key to the given size. java/Records.java is the same.

// Key is the key of record i of the series prefix.
func Key(prefix string, i int) []byte { return fmt.Appendf(nil, "%s%08d", prefix, i) }

// Value is the value that belongs to a key.
func Value(key []byte, size int) []byte {
	return bytes.Repeat(key, size/len(key)+1)[:size]
}

// Tally counts records of one series. The sum does not depend on their order.
type Tally struct {
	Count      int    `json:"count"`
	Sum        uint64 `json:"sum"` // of the CRC-32 of key and value
	Duplicates int    `json:"duplicates"`
	Foreign    int    `json:"foreign"` // not of the series, or with another value

	seen map[int]struct{}
}

// Expected is the tally of records 0 to n-1.
func Expected(prefix string, n, size int) Tally {
	t := Tally{Count: n}
	for i := range n {
		k := Key(prefix, i)
		t.Sum += checksum(k, Value(k, size))
	}
	return t
}

// Add counts one record.
func (t *Tally) Add(prefix string, size int, key, value []byte) {
	digits, ok := bytes.CutPrefix(key, []byte(prefix))
	i, err := strconv.Atoi(string(digits))
	if !ok || err != nil || len(digits) != 8 || !bytes.Equal(value, Value(key, size)) {
		t.Foreign++
		return
	}
	if t.seen == nil {
		t.seen = map[int]struct{}{}
	}
	if _, ok := t.seen[i]; ok {
		t.Duplicates++
		return
	}
	t.seen[i] = struct{}{}
	t.Count++
	t.Sum += checksum(key, value)
}

// Same says whether two tallies count the same records.
func (t Tally) Same(o Tally) bool {
	return t.Count == o.Count && t.Sum == o.Sum && t.Duplicates == o.Duplicates && t.Foreign == o.Foreign
}

func checksum(key, value []byte) uint64 {
	return uint64(crc32.Update(crc32.ChecksumIEEE(key), crc32.IEEETable, value))
}
