package wire

import "sync"

// BufferSize is the payload of one pooled buffer, in bytes. Four full TLS records
// fit, so that a socket read or write moves 64 KiB where crypto/tls alone would
// move 16; bigger ones cost more memory per paused session than they save.
const BufferSize = 64 << 10

// bufferSlack leaves room for the headers and tags of the TLS records whose
// payload fills a buffer.
const bufferSlack = BufferSize / 32

// Buffers lends buffers. A connection holds one only while it has bytes in it, so
// an idle connection costs none. Safe for concurrent use.
type Buffers struct {
	pool sync.Pool
}

// NewBuffers returns an empty pool.
func NewBuffers() *Buffers {
	return &Buffers{pool: sync.Pool{New: func() any {
		b := make([]byte, BufferSize+bufferSlack)
		return &b
	}}}
}

// Get lends a buffer of at least BufferSize bytes. Its contents are undefined.
func (b *Buffers) Get() *[]byte { return b.pool.Get().(*[]byte) }

// Put takes a buffer back. The caller must not touch it afterwards.
func (b *Buffers) Put(p *[]byte) { b.pool.Put(p) }
