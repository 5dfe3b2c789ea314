package wire

import "sync"

// BufferSize is the payload of one pooled buffer, in bytes. Four full TLS records
// fit, so that a socket read or write moves 64 KiB where crypto/tls alone would
// move 16; bigger ones cost more memory per paused session than they save.
const BufferSize = 64 << 10

// bufferSlack leaves room for the headers and tags of the TLS records whose
// payload fills a buffer.
const bufferSlack = BufferSize / 32

// RecordSize is the payload of one buffer for a single TLS record, in bytes: all that
// one read of a Stream gives (RFC 8446, 5.1). What streams from one to another needs no
// more, and a slow reader holds no more while it is waited for.
const RecordSize = 16 << 10

// Buffers lends buffers. A connection holds one only while it has bytes in it, so
// an idle connection costs none. Safe for concurrent use.
type Buffers struct {
	pool, records sync.Pool
}

// NewBuffers returns empty pools.
func NewBuffers() *Buffers {
	b := &Buffers{}
	b.pool.New = lend(BufferSize + bufferSlack)
	b.records.New = lend(RecordSize)
	return b
}

func lend(size int) func() any {
	return func() any {
		b := make([]byte, size)
		return &b
	}
}

// Get lends a buffer of at least BufferSize bytes. Its contents are undefined.
func (b *Buffers) Get() *[]byte { return b.pool.Get().(*[]byte) }

// Put takes a buffer back. The caller must not touch it afterwards.
func (b *Buffers) Put(p *[]byte) { b.pool.Put(p) }

// GetRecord lends a buffer of RecordSize bytes. Its contents are undefined.
func (b *Buffers) GetRecord() *[]byte { return b.records.Get().(*[]byte) }

// PutRecord takes a buffer of GetRecord back. The caller must not touch it afterwards.
func (b *Buffers) PutRecord(p *[]byte) { b.records.Put(p) }
