package gateway

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// sink answers every frame with answerSize bytes behind the correlation id, and makes
// no garbage.
func sink(answerSize int) func(net.Conn) {
	return func(conn net.Conn) {
		in, out := make([]byte, 64<<20), make([]byte, 8+answerSize)
		binary.BigEndian.PutUint32(out, uint32(4+answerSize))
		for {
			if _, err := io.ReadFull(conn, in[:4]); err != nil {
				return
			}
			if _, err := io.ReadFull(conn, in[:binary.BigEndian.Uint32(in)]); err != nil {
				return
			}
			copy(out[4:8], in[4:8])
			if _, err := conn.Write(out); err != nil {
				return
			}
		}
	}
}

// fetched is a client leg that fetches records of so many bytes with a version whose
// answers end with leaders' addresses, or with one that has none.
func fetched(t testing.TB, version int16, records int) (c *client, frame, answer []byte) {
	f := newFixture(t, nil)
	r := kmsg.NewPtrFetchResponse()
	r.SetVersion(version)
	r.Topics = []kmsg.FetchResponseTopic{{Partitions: []kmsg.FetchResponseTopicPartition{kmsg.NewFetchResponseTopicPartition()}}}
	r.Topics[0].Partitions[0].RecordBatches = make([]byte, records)
	f.broker.raw = constant(r.AppendTo([]byte{0}))
	request := kmsg.NewPtrFetchRequest()
	request.Topics = []kmsg.FetchRequestTopic{{Partitions: []kmsg.FetchRequestTopicPartition{kmsg.NewFetchRequestTopicPartition()}}}
	c = f.dial("alice")
	frame = encode(request, version, 7)
	answer = make([]byte, 8+len(r.AppendTo([]byte{0})))
	c.roundTrip(frame, answer)
	return c, frame, answer
}

// constant answers every frame with the same bytes behind the correlation id, and makes
// no garbage.
func constant(answer []byte) func(net.Conn) {
	return func(conn net.Conn) {
		in, out := make([]byte, 1<<20), append(make([]byte, 8), answer...)
		binary.BigEndian.PutUint32(out, uint32(4+len(answer)))
		for {
			if _, err := io.ReadFull(conn, in[:4]); err != nil {
				return
			}
			if _, err := io.ReadFull(conn, in[:binary.BigEndian.Uint32(in)]); err != nil {
				return
			}
			copy(out[4:8], in[4:8])
			if _, err := conn.Write(out); err != nil {
				return
			}
		}
	}
}

// relayed is a client leg with its broker leg up, and a frame to send over and over.
func relayed(t testing.TB, requestSize, answerSize int) (c *client, frame, answer []byte) {
	f := newFixture(t, nil)
	f.broker.raw = sink(answerSize)
	c = f.dial("alice")
	// DescribeConfigs passes undecoded in both directions, as Fetch does.
	head := encode(kmsg.NewPtrHeartbeatRequest(), 0, 7)
	binary.BigEndian.PutUint16(head[4:], uint16(kmsg.DescribeConfigs))
	frame = append(head, make([]byte, requestSize)...)
	binary.BigEndian.PutUint32(frame, uint32(len(frame)-4))
	answer = make([]byte, 8+answerSize)
	c.roundTrip(frame, answer)
	return c, frame, answer
}

func (c *client) roundTrip(frame, answer []byte) {
	if _, err := c.Write(frame); err != nil {
		c.t.Fatal(err)
	}
	if _, err := io.ReadFull(c, answer); err != nil {
		c.t.Fatal(err)
	}
}

func BenchmarkRelay(b *testing.B) {
	for _, c := range []struct{ request, answer int }{{100, 100}, {16 << 10, 100}, {256 << 10, 100}, {100, 256 << 10}} {
		b.Run(fmt.Sprintf("request %d answer %d", c.request, c.answer), func(b *testing.B) {
			leg, frame, answer := relayed(b, c.request, c.answer)
			b.SetBytes(int64(len(frame) + len(answer)))
			b.ReportAllocs()
			for b.Loop() {
				leg.roundTrip(frame, answer)
			}
			reportOwn(b, leg, frame, answer)
		})
	}
}

// Fetch 15 passes as it is; from 16 on the walk goes over every answer.
func BenchmarkRelayFetch(b *testing.B) {
	for _, version := range []int16{15, 18} {
		for _, records := range []int{100, 16 << 10, 256 << 10} {
			b.Run(fmt.Sprintf("v%d records %d", version, records), func(b *testing.B) {
				leg, frame, answer := fetched(b, version, records)
				b.SetBytes(int64(len(frame) + len(answer)))
				b.ReportAllocs()
				for b.Loop() {
					leg.roundTrip(frame, answer)
				}
				reportOwn(b, leg, frame, answer)
			})
		}
	}
}
