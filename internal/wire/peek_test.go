package wire

import (
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"doorkeeper/internal/frugal"
)

func TestPeekProduce(t *testing.T) {
	for v := int16(0); v <= kmsg.NewPtrProduceRequest().MaxVersion(); v++ {
		for _, id := range []*string{nil, kmsg.StringPtr(""), kmsg.StringPtr("a transactional id")} {
			for _, acks := range []int16{-1, 0, 1} {
				r := kmsg.NewPtrProduceRequest()
				r.SetVersion(v)
				r.TransactionID, r.Acks, r.TimeoutMillis = id, acks, 12345
				r.Topics = []kmsg.ProduceRequestTopic{{Topic: "t", Partitions: []kmsg.ProduceRequestTopicPartition{{Records: []byte("records")}}}}
				p, err := PeekProduce(r.AppendTo(nil), v)
				if err != nil || p.Acks != acks || p.Timeout != 12345*time.Millisecond {
					t.Fatalf("version %d: %+v, %v", v, p, err)
				}
			}
		}
	}
}

func fetchRequest(version int16, replica int32) *kmsg.FetchRequest {
	r := kmsg.NewPtrFetchRequest()
	r.SetVersion(version)
	r.MaxWaitMillis, r.Rack = 500, "rack"
	if version < 15 {
		r.ReplicaID = replica
	} else {
		r.ReplicaState.ID = replica
	}
	topic := kmsg.NewFetchRequestTopic()
	topic.Topic, topic.TopicID = "t", [16]byte{1}
	for i := range int32(3) {
		p := kmsg.NewFetchRequestTopicPartition()
		p.Partition = i
		topic.Partitions = append(topic.Partitions, p)
	}
	r.Topics = append(r.Topics, topic, topic)
	r.ForgottenTopics = []kmsg.FetchRequestForgottenTopic{{Topic: "u", TopicID: [16]byte{2}, Partitions: []int32{1, 2, 3}}}
	return r
}

// S5: the replica id is found at every version, in the tag at the end too.
func TestPeekFetch(t *testing.T) {
	for v := int16(0); v <= kmsg.NewPtrFetchRequest().MaxVersion(); v++ {
		for _, replica := range []int32{-1, -2, 0, 1, 2147483647} {
			body := fetchRequest(v, replica).AppendTo(nil)
			p, err := PeekFetch(body, v)
			if err != nil || p.ReplicaID != replica || p.MaxWait != 500*time.Millisecond {
				t.Fatalf("version %d, replica %d: %+v, %v", v, replica, p, err)
			}
			if v < 15 {
				continue
			}
			for n := range body {
				if _, err := PeekFetch(body[:n], v); !errors.Is(err, ErrFrame) {
					t.Fatalf("version %d cut at %d of %d: %v", v, n, len(body), err)
				}
			}
			if _, err := PeekFetch(append(body, 0), v); !errors.Is(err, ErrFrame) {
				t.Fatalf("version %d with a byte more: %v", v, err)
			}
		}
	}
}

// Whatever PeekFetch takes, kmsg reads with the same replica id: nothing hides a
// replica id from the one that shows it to the other.
func FuzzPeekFetch(f *testing.F) {
	for v := int16(12); v <= 18; v++ {
		f.Add(fetchRequest(v, 1).AppendTo(nil), v)
	}
	f.Fuzz(func(t *testing.T, body []byte, version int16) {
		if version < 15 || version > 18 {
			return
		}
		p, err := PeekFetch(body, version)
		frugal.Check(t, len(body), func() { _, _ = PeekFetch(body, version) })
		if err != nil {
			return
		}
		r := kmsg.NewPtrFetchRequest()
		r.SetVersion(version)
		if r.ReadFrom(body) == nil && r.ReplicaState.ID != p.ReplicaID {
			t.Fatalf("replica id %d here, %d for kmsg", p.ReplicaID, r.ReplicaState.ID)
		}
	})
}
