package faultrelay

import "time"

// Direction is one of the two ways through a connection.
type Direction uint8

const (
	ToTarget Direction = iota // what the dialling side sends
	ToClient                  // what the target sends
)

// String returns the direction's name.
func (d Direction) String() string {
	if d == ToTarget {
		return "to the target"
	}
	return "to the client"
}

// Faults is what happens to the bytes of one direction. The zero value is nothing: they
// pass. A change applies at once to what is under way, but for Latency and Jitter, which
// are those of the moment in which a byte came.
type Faults struct {
	// From is the byte of a connection in this direction at which all the rest begins.
	// (ResetAt counts from the connection's beginning all the same.)
	From int64

	Latency time.Duration // how late every byte is
	Jitter  time.Duration // up to so much later still, at random; bytes stay in order
	Rate    int           // bytes a second; 0: as many as go
	Slice   int           // at most so many bytes in one write; 0: all there are

	// Swallow has bytes and ends read and lost: a link that is half open.
	Swallow bool
	// Stall has bytes and ends wait, and the sender with them once all buffers are full.
	Stall bool
	// ResetAt resets a connection, both ways, as soon as so many of its bytes have passed
	// in this direction; 0: never.
	ResetAt int64
}
