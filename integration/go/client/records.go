package client

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"strconv"
)

// Records are those that all clients agree on (../../harness/records.go is the same):
// record i of a series has the key PREFIX + eight digits of i, and a value that repeats
// the key to the given size.
type Records struct {
	prefix string
	size   int
}

// NewRecords is the series of a step.
func NewRecords(s *Step) Records { return Records{s.Get("prefix", "r"), s.Number("size", 100)} }

// Record is record i.
func (r Records) Record(i int) (key, value []byte) {
	key = fmt.Appendf(nil, "%s%08d", r.prefix, i)
	return key, r.value(key)
}

func (r Records) value(key []byte) []byte { return bytes.Repeat(key, r.size/len(key)+1)[:r.size] }

// Index is the number of a record of this series, or -1.
func (r Records) Index(key, value []byte) int {
	digits, ok := bytes.CutPrefix(key, []byte(r.prefix))
	i, err := strconv.Atoi(string(digits))
	if !ok || err != nil || len(digits) != 8 || !bytes.Equal(value, r.value(key)) {
		return -1
	}
	return i
}

// Checksum is a record's share of the sum.
func Checksum(key, value []byte) uint64 {
	return uint64(crc32.Update(crc32.ChecksumIEEE(key), crc32.IEEETable, value))
}
