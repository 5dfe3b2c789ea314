//go:build !race

package gateway

import (
	"bytes"
	"encoding/binary"
	"net"
	"runtime"
	"testing"
)

// A request that is not rewritten, and its answer, make no garbage in the gateway,
// whatever their size. In the whole process they make what crypto/tls makes for each TLS
// record that one of the four legs reads, and what the runtime does beside.
func TestForwardingAllocatesNothing(t *testing.T) {
	for _, size := range []struct{ request, answer int }{{100, 100}, {256 << 10, 100}, {100, 256 << 10}} {
		c, frame, answer := relayed(t, size.request, size.answer)
		if own, where := ownAllocations(c, frame, answer, 500); own > 0.05 {
			t.Errorf("%+v: %.2f allocations of the gateway's own a frame, in %v", size, own, where)
		}
	}
	c, frame, answer := relayed(t, 100, 100)
	per := allocations(c, frame, answer)
	t.Logf("%.2f allocations a round trip", per)
	if limit := 5.0; per > limit {
		t.Errorf("%.2f allocations a round trip, want at most %.0f", per, limit)
	}
}

// A walk over a Fetch answer makes none either, whether it is read whole or streams: as
// many as with a version whose answers pass as they are.
func TestWalkingAnswersAllocatesNothing(t *testing.T) {
	for _, records := range []int{100, 32 << 10, 1 << 20} {
		var per [2]float64
		for i, version := range []int16{15, 18} {
			c, frame, answer := fetched(t, version, records)
			per[i] = allocations(c, frame, answer)
		}
		t.Logf("records of %d bytes: %.2f allocations a round trip without the walk, %.2f with it", records, per[0], per[1])
		// Each piece of an answer is a write of crypto/tls, which makes one; the pieces of
		// large ones are not always as many.
		if per[1] > per[0]*1.1+0.5 {
			t.Errorf("records of %d bytes: %.2f allocations a round trip, %.2f without the walk", records, per[1], per[0])
		}
	}
}

// allocations counts those of the whole process for one round trip.
func allocations(c *client, frame, answer []byte) float64 {
	n := 2000
	if len(answer) > 100<<10 {
		n = 200
	}
	for range n / 4 {
		c.roundTrip(frame, answer)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range n {
		c.roundTrip(frame, answer)
	}
	runtime.ReadMemStats(&after)
	return float64(after.Mallocs-before.Mallocs) / float64(n)
}

// The memory for an answer of 100 MB with leaders' addresses at its end is the buffer
// that it streams through: all that the whole process takes meanwhile is what crypto/tls
// takes for the writes of three legs.
func TestAnAnswerOf100MBAllocatesNoMoreThanTheCopyBuffer(t *testing.T) {
	const records = 100 << 20
	f := newFixture(t, nil)
	table := newPolicy()
	p := pending{key: 1, version: 18, rule: &table[1]}
	whole := encoded(p, leaders(p, 1000, brokerHost, 1))
	at := bytes.Index(whole, bytes.Repeat([]byte{0xd5}, 1000))
	front := append(bytes.Clone(whole[:at-2]), binary.AppendUvarint(nil, records+1)...) // the size took two bytes
	behind := whole[at+1000:]
	piece := bytes.Repeat([]byte{0xd5}, 16<<10)
	f.broker.raw = func(conn net.Conn) {
		for {
			a, err := readAsked(conn)
			if err != nil {
				return
			}
			frame := binary.BigEndian.AppendUint32(nil, uint32(4+len(front)+records+len(behind)))
			frame = binary.BigEndian.AppendUint32(frame, uint32(a.correlation))
			_, err = conn.Write(append(frame, front...))
			for range records / len(piece) {
				if err == nil {
					_, err = conn.Write(piece)
				}
			}
			if _, err = conn.Write(behind); err != nil {
				return
			}
		}
	}
	c := f.dial("alice")
	buffer := make([]byte, 64<<10)
	fetch := func() (last []byte) {
		c.send(request(p))
		for left := 8 + len(front) + records + len(behind); left > 0; {
			n, err := c.Read(buffer)
			if err != nil {
				t.Fatal(err)
			}
			if left -= n; left == 0 {
				last = buffer[:n]
			}
		}
		return last
	}
	fetch()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	last := bytes.Clone(fetch())
	runtime.ReadMemStats(&after)
	if !bytes.Contains(last, []byte("127.0.0.1")) || bytes.Contains(last, []byte(brokerHost)) {
		t.Errorf("the answer ends with %q", last[max(0, len(last)-200):])
	}
	grown, taken := int64(after.HeapAlloc)-int64(before.HeapAlloc), after.TotalAlloc-before.TotalAlloc
	t.Logf("100 MB: %d bytes allocated in %d pieces, heap grown by %d", taken, after.Mallocs-before.Mallocs, grown)
	if limit := uint64(4 << 20); taken > limit {
		t.Errorf("%d bytes allocated for an answer of 100 MB, want at most %d", taken, limit)
	}
}
