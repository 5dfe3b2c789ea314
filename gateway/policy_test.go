package gateway

import (
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"doorkeeper/connections"
	"doorkeeper/internal/wire"
)

// S5: a table over every key from 0 to 127: what is not on the list of things to
// pass is refused, and is not offered.
func TestPolicyRefusesWhatIsNotForClients(t *testing.T) {
	refused := map[int16]bool{
		4: true, 5: true, 6: true, 7: true, 27: true, 52: true, 53: true, 54: true, 56: true, 58: true, 59: true,
		62: true, 63: true, 67: true, 70: true, 73: true, 82: true, 83: true, 84: true, 85: true, 86: true, 87: true,
		78: true, 79: true, // until their answers can be rewritten while they stream
	}
	p := newPolicy()
	for key := int16(0); key <= 127; key++ {
		request := kmsg.RequestForKey(key)
		for version := int16(-1); version <= 40; version++ {
			_, served := p.rule(key, version)
			want := !refused[key] && request != nil && version >= 0 && version <= request.MaxVersion()
			switch key {
			case 1:
				want = want && version <= 15
			case 24:
				want = want && version <= 3
			}
			if served != want {
				t.Errorf("key %d version %d: served %v, want %v", key, version, served, want)
			}
		}
	}
	for _, key := range []int16{-1, -32768, 95, 128, 32767} {
		if _, served := p.rule(key, 0); served {
			t.Errorf("key %d is served", key)
		}
	}
}

// Every key is named in the table or refused on purpose: a kmsg that learns a new
// one makes this fail until somebody has decided.
func TestPolicyKnowsEveryKeyOfKmsg(t *testing.T) {
	const known = 94
	for key := int16(0); key <= 512; key++ {
		if kmsg.RequestForKey(key) != nil && key > known {
			t.Errorf("kmsg knows key %d (%s); policy.go does not", key, kmsg.NameForKey(key))
		}
	}
}

func TestOffered(t *testing.T) {
	p := newPolicy()
	for key, want := range map[int16]int16{
		0: 13, 1: 15, 3: 13, 10: 6, 17: 1, 18: 5, 24: 3, 36: 2,
		38: -1, 39: -1, 40: -1, 41: -1, 27: -1, 78: -1, 79: -1, 87: -1, 95: -1, -1: -1,
	} {
		got, ok := p.offered(key)
		if ok != (want >= 0) || ok && got != want {
			t.Errorf("key %d: %d, %v; want %d", key, got, ok, want)
		}
	}
}

func body(r kmsg.Request, version int16) []byte {
	r.SetVersion(version)
	return r.AppendTo(nil)
}

// Rule 13's table: how long each kind of request may keep the broker from reading
// the next one.
func TestInspectFindsTheWait(t *testing.T) {
	p := newPolicy()
	produce := func(acks int16) *kmsg.ProduceRequest {
		r := kmsg.NewPtrProduceRequest()
		r.Acks, r.TimeoutMillis = acks, 30000
		return r
	}
	fetch := kmsg.NewPtrFetchRequest()
	fetch.MaxWaitMillis = 500
	create := kmsg.NewPtrCreateTopicsRequest()
	create.TimeoutMillis = 60000
	listOffsets := kmsg.NewPtrListOffsetsRequest()
	listOffsets.TimeoutMillis = 7000
	negative := kmsg.NewPtrCreateTopicsRequest()
	negative.TimeoutMillis = -5
	for name, c := range map[string]struct {
		request  kmsg.Request
		version  int16
		wait     time.Duration
		answered bool
	}{
		"produce acks=all":    {produce(-1), 9, 30 * time.Second, true},
		"produce acks=1":      {produce(1), 9, 0, true},
		"produce acks=0":      {produce(0), 3, 0, false},
		"fetch v4":            {fetch, 4, 500 * time.Millisecond, true},
		"fetch v15":           {fetch, 15, 500 * time.Millisecond, true},
		"create topics":       {create, 7, time.Minute, true},
		"create topics, bad":  {negative, 5, 0, true},
		"join group":          {kmsg.NewPtrJoinGroupRequest(), 9, connections.Unbounded, true},
		"sync group":          {kmsg.NewPtrSyncGroupRequest(), 5, connections.Unbounded, true},
		"metadata":            {kmsg.NewPtrMetadataRequest(), 9, 0, true},
		"consumer group beat": {kmsg.NewPtrConsumerGroupHeartbeatRequest(), 1, 0, true},
		"list offsets v7":     {kmsg.NewPtrListOffsetsRequest(), 7, 0, true},
		"list offsets v11":    {listOffsets, 11, 7 * time.Second, true},
	} {
		t.Run(name, func(t *testing.T) {
			b := body(c.request, c.version)
			r, served := p.rule(c.request.Key(), c.version)
			if !served {
				t.Fatal("not served")
			}
			got, err := r.inspect(c.version, b, true)
			if err != nil || got.wait != c.wait || got.answered != c.answered || got.refuse != "" {
				t.Fatalf("got %+v, %v; want %+v", got, err, c)
			}
			if r.wait == waitNone || r.wait == waitUnbounded || c.version < r.waits {
				return
			}
			if _, err := r.inspect(c.version, nil, false); !errors.Is(err, wire.ErrShort) {
				t.Fatalf("with nothing of the body: %v", err)
			}
		})
	}
}

// S5, CVE-2018-1288: a client that poses as a replica.
func TestInspectRefusesReplicaIDs(t *testing.T) {
	p := newPolicy()
	for version := int16(0); version <= 15; version++ {
		for replica, refuse := range map[int32]bool{-2: false, -1: false, 0: true, 1: true} {
			r := kmsg.NewPtrFetchRequest()
			r.ReplicaID, r.ReplicaState.ID = replica, replica
			rule, _ := p.rule(1, version)
			got, err := rule.inspect(version, body(r, version), true)
			if err != nil || (got.refuse != "") != refuse {
				t.Errorf("version %d replica %d: %+v, %v", version, replica, got, err)
			}
		}
	}
}

func TestInspectOfGarbageIsAFault(t *testing.T) {
	p := newPolicy()
	for _, c := range []struct{ key, version int16 }{{0, 9}, {0, 3}, {1, 4}, {1, 15}} {
		r, _ := p.rule(c.key, c.version)
		if _, err := r.inspect(c.version, []byte{0xff}, true); !errors.Is(err, wire.ErrFrame) {
			t.Errorf("key %d version %d: %v", c.key, c.version, err)
		}
	}
	// What an admin request cannot say is taken as "for as long as it likes".
	r, _ := p.rule(19, 7)
	if got, err := r.inspect(7, []byte{0xff}, true); err != nil || got.wait != connections.Unbounded {
		t.Errorf("CreateTopics: %+v, %v", got, err)
	}
}
