package conformance

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// written is when all records were: the same bytes on both sides, in every run.
const written = 1_700_000_000_000

// noProducer is the producer id of a batch that is not idempotent.
const noProducer = -1

// batch is a record batch (magic 2) of one record. With a producer's id, it is the one of
// this number that the producer writes.
func batch(producer int64, epoch int16, sequence int32, value string) []byte {
	record := kmsg.Record{Key: []byte("key"), Value: []byte(value)}
	record.Length = int32(len(record.AppendTo(nil)) - 1) // its own varint of 0 takes one byte
	b := kmsg.RecordBatch{
		PartitionLeaderEpoch: -1, Magic: 2, FirstTimestamp: written, MaxTimestamp: written,
		ProducerID: producer, ProducerEpoch: epoch, FirstSequence: sequence, NumRecords: 1, Records: record.AppendTo(nil),
	}
	const beforeLength, beforeChecked = 12, 21
	out := b.AppendTo(nil)
	binary.BigEndian.PutUint32(out[8:], uint32(len(out)-beforeLength))
	binary.BigEndian.PutUint32(out[17:], crc32.Checksum(out[beforeChecked:], crc32.MakeTable(crc32.Castagnoli)))
	return out
}

// plain is a batch of no producer in particular.
func plain(value string) []byte { return batch(noProducer, -1, -1, value) }

// nobody is the id of no topic.
func nobody() [16]byte { return [16]byte{0: 0xc0, 15: 0x0f} }
