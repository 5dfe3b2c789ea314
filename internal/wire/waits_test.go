package wire

import (
	"errors"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"doorkeeper/internal/frugal"
)

// timed are the requests with a timeout behind other fields.
var timed = map[kmsg.Key]struct {
	from   int16
	layout func(int16) *Layout
}{
	kmsg.ListOffsets:                {10, ListOffsetsTimeout},
	kmsg.CreateTopics:               {0, CreateTopicsTimeout},
	kmsg.DeleteTopics:               {0, DeleteTopicsTimeout},
	kmsg.DeleteRecords:              {0, DeleteRecordsTimeout},
	kmsg.CreatePartitions:           {0, CreatePartitionsTimeout},
	kmsg.ElectLeaders:               {0, ElectLeadersTimeout},
	kmsg.AlterPartitionAssignments:  {0, LeadingTimeout},
	kmsg.ListPartitionReassignments: {0, LeadingTimeout},
	kmsg.UpdateFeatures:             {0, LeadingTimeout},
	kmsg.AddRaftVoter:               {0, AddRaftVoterTimeout},
	kmsg.ShareFetch:                 {0, ShareFetchWait},
}

func timeoutOf(r kmsg.Request) int32 {
	if share, ok := r.(*kmsg.ShareFetchRequest); ok {
		return share.MaxWaitMillis
	}
	return r.(kmsg.TimeoutRequest).Timeout()
}

// The layouts find what kmsg has put there, at every version; and before it is there
// they ask for more.
func TestPeekValueFindsEveryTimeout(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for key, c := range timed {
		for version := c.from; version <= kmsg.RequestForKey(int16(key)).MaxVersion(); version++ {
			for range 30 {
				r := kmsg.RequestForKey(int16(key))
				r.SetVersion(version)
				fill(rng, reflect.ValueOf(r).Elem())
				b := r.AppendTo(nil)
				got, err := PeekValue(c.layout(version), b, len(b))
				if err != nil || got != timeoutOf(r) {
					t.Fatalf("%s v%d: %d, %v; want %d", key.Name(), version, got, err, timeoutOf(r))
				}
				found := false
				for n := range b {
					got, err := PeekValue(c.layout(version), b[:n], len(b))
					if err == nil && got != timeoutOf(r) || err != nil && (found || !errors.Is(err, ErrShort)) {
						t.Fatalf("%s v%d with %d of %d bytes: %d, %v", key.Name(), version, n, len(b), got, err)
					}
					found = err == nil
				}
			}
		}
	}
}

// Wherever kmsg can decode the request, its timeout is the same.
func FuzzPeekValue(f *testing.F) {
	rng := rand.New(rand.NewPCG(7, 8))
	for key, c := range timed {
		for version := c.from; version <= kmsg.RequestForKey(int16(key)).MaxVersion(); version++ {
			r := kmsg.RequestForKey(int16(key))
			r.SetVersion(version)
			fill(rng, reflect.ValueOf(r).Elem())
			f.Add(int16(key), version, r.AppendTo(nil))
		}
	}
	f.Add(int16(kmsg.DeleteTopics), int16(0), []byte{0, 0, 0, 1, 0xf6, 0, 0, 0, 0, 0, 1}) // a name of negative length
	f.Add(int16(kmsg.DeleteTopics), int16(0), []byte{0xf6, 0, 0, 0, 0, 0, 0, 1})          // a negative count
	f.Fuzz(func(t *testing.T, key, version int16, b []byte) {
		c, ok := timed[kmsg.Key(key)]
		if !ok || version < c.from || version > kmsg.RequestForKey(key).MaxVersion() {
			return
		}
		layout := c.layout(version)
		got, err := PeekValue(layout, b, len(b))
		frugal.Check(t, len(b), func() { _, _ = PeekValue(layout, b, len(b)) })
		r := kmsg.RequestForKey(key)
		r.SetVersion(version)
		if r.ReadFrom(b) != nil {
			return
		}
		if err != nil || got != timeoutOf(r) {
			t.Fatalf("%s v%d: %d, %v; for kmsg %d", kmsg.NameForKey(key), version, got, err, timeoutOf(r))
		}
	})
}
