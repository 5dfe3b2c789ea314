//go:build integration

package harness

import (
	"hash/crc32"

	"doorkeeper/integration/checker"
)

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
		k := checker.Key(prefix, i)
		t.Sum += checksum(k, checker.Value(k, size))
	}
	return t
}

// Add counts one record.
func (t *Tally) Add(prefix string, size int, key, value []byte) {
	i := checker.Index(prefix, size, key, value)
	if i < 0 {
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
