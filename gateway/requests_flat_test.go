package gateway

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"doorkeeper/internal/wire"
)

// B59: whatever produces look like, nothing of them is left behind: 20,000 with every mix
// of client ids, transactional ids, unknown tags and acks leave the heap as it was, where
// one word kept of each would be 160 KB, and one entry of a queue megabytes.
func TestOddProducesLeaveTheHeapFlat(t *testing.T) {
	f := newFixture(t, nil)
	long, empty := strings.Repeat("c", 300), ""
	var kinds [][]byte
	answered := 0
	for _, version := range []int16{3, 8, 9, 13} {
		for _, client := range []*string{nil, &empty, &long} {
			for _, transaction := range []*string{nil, &empty, &long} {
				for _, acks := range []int16{0, 1, -1} {
					r := produceRequest(acks)
					r.TransactionID, r.UnknownTags = transaction, tagged()
					kinds = append(kinds, raw(r, version, int32(acks), client, []byte{1, 5, 2, 'h', 'i'}))
					if acks != 0 {
						answered++
					}
				}
			}
		}
	}
	f.broker.raw = func(conn net.Conn) {
		var head [wire.LengthSize + 8]byte
		in := bufio.NewReaderSize(conn, 64<<10)
		for {
			if _, err := io.ReadFull(in, head[:]); err != nil {
				return
			}
			if _, err := in.Discard(int(binary.BigEndian.Uint32(head[:])) - 8); err != nil {
				return
			}
			id := int32(binary.BigEndian.Uint32(head[8:])) // its acks
			if id == 0 {
				continue
			}
			version := int16(binary.BigEndian.Uint16(head[6:]))
			if writeAnswer(conn, id, response(asked{version: version}, kmsg.NewPtrProduceResponse())) != nil {
				return
			}
		}
	}
	c := f.dial("alice")
	send := func(rounds int) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			for range rounds {
				for _, frame := range kinds {
					if _, err := c.Write(frame); err != nil {
						t.Error(err)
						return
					}
				}
			}
		}()
		for range rounds {
			for _, frame := range kinds {
				if want := int32(binary.BigEndian.Uint32(frame[8:])); want != 0 {
					if got, _ := c.receive(); got != want {
						t.Errorf("answer %d, want %d", got, want)
					}
				}
			}
		}
		<-done
	}
	heap := func() uint64 {
		var m runtime.MemStats
		for range 3 { // what pools hold goes with the second collection
			runtime.GC()
		}
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	send(20)
	before := heap()
	rounds := 20_000 / len(kinds)
	send(rounds)
	after := heap()
	t.Logf("%d requests, %d of them answered: %d bytes before, %d after", rounds*len(kinds), rounds*answered, before, after)
	if after > before+128<<10 {
		t.Errorf("the heap grew by %d bytes", after-before)
	}
}
