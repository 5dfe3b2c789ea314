package gateway

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"doorkeeper/connections"
	"doorkeeper/internal/frugal"
	"doorkeeper/internal/wire"
)

// Every key and version of kmsg has been looked at: one that learns more makes this
// fail until somebody has decided, and has looked at whether its answers carry
// addresses.
func TestPolicyKnowsEveryKeyAndVersionOfKmsg(t *testing.T) {
	rows := make(map[int16]rule)
	for _, r := range table() {
		if _, twice := rows[int16(r.key)]; twice {
			t.Errorf("key %d (%s) has two rows", r.key, r.key.Name())
		}
		rows[int16(r.key)] = r
	}
	known := 0
	for key := range int16(2000) {
		request := kmsg.RequestForKey(key)
		r, ok := rows[key]
		switch {
		case request == nil && ok:
			t.Errorf("key %d has a row, but kmsg does not know it", key)
		case request == nil:
		case !ok:
			t.Errorf("key %d (%s) has no row in policy_table.go", key, kmsg.NameForKey(key))
		default:
			known++
			if r.action == actionRefuse {
				if r.why == "" {
					t.Errorf("key %d is refused without a reason", key)
				}
			} else if r.max > request.MaxVersion() || r.max < request.MaxVersion() && r.lowered == "" {
				t.Errorf("key %d (%s): the row goes to version %d, kmsg to %d", key, kmsg.NameForKey(key), r.max, request.MaxVersion())
			}
		}
	}
	if known != 95 {
		t.Errorf("%d keys looked at", known)
	}
}

// Every request with a timeout says so in its row, and no row invents one.
func TestPolicyKnowsEveryTimeoutOfKmsg(t *testing.T) {
	for _, r := range newPolicy() {
		_, timed := kmsg.RequestForKey(int16(r.key)).(kmsg.TimeoutRequest)
		waits := r.wait == waitField || r.wait == waitProduce
		if r.action != actionRefuse && timed != waits && r.key != kmsg.ShareFetch {
			t.Errorf("%s: kmsg says timeout %v, the row %v", r.key.Name(), timed, waits)
		}
		for version := r.waits; r.wait == waitField && version <= r.max; version++ {
			if r.fields[version] == nil {
				t.Errorf("%s v%d: no layout", r.key.Name(), version)
			}
		}
		for version := r.from; r.action == actionTrail && version <= r.max; version++ {
			if r.answers[version] == nil {
				t.Errorf("%s v%d: no layout", r.key.Name(), version)
			}
		}
	}
}

// Whatever answer of kmsg's has a host and a port in it is rewritten, answered here,
// refused, or named with the reason why it passes.
func TestPolicyRewritesEveryAnswerWithAnAddress(t *testing.T) {
	stored := map[int16]string{
		15: "the address from which a member of a group came: the client's own, as the broker saw it",
		69: "the same", 77: "the same",
		88: "the endpoint that a member of a streams group named", 89: "the same, and where it came from",
		29: "the host that an ACL is for", 31: "the same",
	}
	for _, r := range newPolicy() {
		hosts := hostFields(reflect.TypeOf(kmsg.ResponseForKey(int16(r.key))))
		if stays := stored[int16(r.key)] != ""; len(hosts) == 0 || r.action != actionForward && !stays {
			continue
		} else if !stays {
			t.Errorf("%s passes, and its answer has %v", r.key.Name(), hosts)
		}
		delete(stored, int16(r.key))
	}
	if len(stored) > 0 {
		t.Errorf("nothing like an address is in the answers of %v", stored)
	}
}

// hostFields names the fields of a message that could hold an address.
func hostFields(of reflect.Type) (all []string) {
	switch of.Kind() {
	case reflect.Pointer, reflect.Slice:
		return hostFields(of.Elem())
	case reflect.Struct:
		for i := range of.NumField() {
			f := of.Field(i)
			if name := strings.ToLower(f.Name); f.Type.Kind() != reflect.Slice && (strings.Contains(name, "host") || strings.Contains(name, "port") && f.Name != "SupportedFeatures") {
				all = append(all, of.Name()+"."+f.Name)
			}
			all = append(all, hostFields(f.Type)...)
		}
	}
	return all
}

// S5: a table over every key from 0 to 127 and beyond, and every version: what is not on
// the list of things to pass is refused, and is not offered.
func TestPolicyRefusesWhatIsNotForClients(t *testing.T) {
	refused := map[int16]bool{
		4: true, 5: true, 6: true, 7: true, 27: true, 52: true, 53: true, 54: true, 56: true, 58: true, 59: true,
		62: true, 63: true, 67: true, 70: true, 73: true, 82: true, 83: true, 84: true, 85: true, 86: true, 87: true,
	}
	p := newPolicy()
	for key := int16(0); key <= 127; key++ {
		request := kmsg.RequestForKey(key)
		for version := int16(-1); version <= 40; version++ {
			r, served := p.rule(key, version)
			want := !refused[key] && request != nil && version >= 0 && version <= request.MaxVersion()
			if key == 24 {
				want = want && version <= 3
			}
			if served != want {
				t.Errorf("key %d version %d: served %v, want %v", key, version, served, want)
			}
			if !served && r.refusal(version) == "" {
				t.Errorf("key %d version %d: refused without a word", key, version)
			}
		}
	}
	for _, key := range []int16{-1, -32768, 95, 128, 32767} {
		if _, served := p.rule(key, 0); served {
			t.Errorf("key %d is served", key)
		}
	}
}

func TestOffered(t *testing.T) {
	p := newPolicy()
	for key, want := range map[int16]int16{
		0: 13, 1: 18, 3: 13, 10: 6, 17: 1, 18: 5, 24: 3, 36: 2, 78: 2, 79: 2,
		38: -1, 39: -1, 40: -1, 41: -1, 27: -1, 87: -1, 95: -1, -1: -1,
	} {
		got, ok := p.offered(key)
		if ok != (want >= 0) || ok && got != want {
			t.Errorf("key %d: %d, %v; want %d", key, got, ok, want)
		}
	}
}

// B17, B60: what is tied to its connection: share sessions and telemetry, and nothing
// else.
func TestPolicyKnowsWhatIsTiedToAConnection(t *testing.T) {
	want := map[int16]tie{71: tieTelemetry, 72: tieTelemetry, 78: tieShare, 79: tieShare}
	for _, r := range newPolicy() {
		if r.tie != want[int16(r.key)] {
			t.Errorf("%s: %d", r.key.Name(), r.tie)
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
	share := kmsg.NewPtrShareFetchRequest()
	share.GroupID, share.MaxWaitMillis = kmsg.StringPtr("group"), 400
	elect := kmsg.NewPtrElectLeadersRequest()
	elect.TimeoutMillis = 8000
	voter := kmsg.NewPtrAddRaftVoterRequest()
	voter.TimeoutMillis = 9000
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
		"fetch v18":           {fetch, 18, 500 * time.Millisecond, true},
		"share fetch":         {share, 2, 400 * time.Millisecond, true},
		"share acknowledge":   {kmsg.NewPtrShareAcknowledgeRequest(), 2, 0, true},
		"elect leaders":       {elect, 2, 8 * time.Second, true},
		"add raft voter":      {voter, 1, 9 * time.Second, true},
	} {
		t.Run(name, func(t *testing.T) {
			b := body(c.request, c.version)
			r, served := p.rule(c.request.Key(), c.version)
			if !served {
				t.Fatal("not served")
			}
			got, err := r.inspect(c.version, b, len(b))
			if err != nil || got.wait != c.wait || got.answered != c.answered || got.refuse != "" {
				t.Fatalf("got %+v, %v; want %+v", got, err, c)
			}
			if r.wait == waitNone || r.wait == waitUnbounded || c.version < r.waits {
				return
			}
			if _, err := r.inspect(c.version, nil, len(b)); !errors.Is(err, wire.ErrShort) {
				t.Fatalf("with nothing of the body: %v", err)
			}
		})
	}
}

// S5, CVE-2018-1288: a client that poses as a replica; -2, the debug consumer, passes.
func TestInspectRefusesReplicaIDs(t *testing.T) {
	p := newPolicy()
	for version := int16(0); version <= 18; version++ {
		for replica, refuse := range map[int32]bool{-2: false, -1: false, 0: true, 1: true, 1<<31 - 1: true} {
			r := kmsg.NewPtrFetchRequest()
			r.ReplicaID, r.ReplicaState.ID = replica, replica
			r.Topics = []kmsg.FetchRequestTopic{{Topic: "t", Partitions: []kmsg.FetchRequestTopicPartition{{}, {}}}}
			rule, _ := p.rule(1, version)
			b := body(r, version)
			got, err := rule.inspect(version, b, len(b))
			if err != nil || (got.refuse != "") != refuse {
				t.Errorf("version %d replica %d: %+v, %v", version, replica, got, err)
			}
			if _, err := rule.inspect(version, b[:len(b)-1], len(b)); version >= 15 && !errors.Is(err, wire.ErrShort) {
				t.Errorf("version %d is judged before all of it is there: %v", version, err)
			}
		}
	}
}

// B59: whatever acks says, and whether there is a transactional id: null, empty, or the
// longest there can be.
func TestInspectReadsEveryProduce(t *testing.T) {
	p := newPolicy()
	longest := strings.Repeat("x", 32767)
	for version := int16(0); version <= 13; version++ {
		for _, id := range []*string{nil, kmsg.StringPtr(""), kmsg.StringPtr("an id"), &longest} {
			for _, acks := range []int16{0, 1, -1, 2, -2, 32767, -32768} {
				r := kmsg.NewPtrProduceRequest()
				r.TransactionID, r.Acks, r.TimeoutMillis, r.UnknownTags = id, acks, 5000, tagged()
				b := body(r, version)
				rule, _ := p.rule(0, version)
				got, err := rule.inspect(version, b, len(b)+1000)
				if err != nil || got.answered != (acks != 0) || (got.wait != 0) != (acks == -1) || got.refuse != "" {
					t.Errorf("version %d acks %d: %+v, %v", version, acks, got, err)
				}
			}
		}
	}
}

// S13: what no broker could read goes to none: it ends too early, or a count or length
// in it leads out of it.
func TestInspectOfGarbageIsAFault(t *testing.T) {
	p := newPolicy()
	for _, c := range []struct {
		key, version int16
		body         []byte
	}{
		{0, 9, []byte{0xff}}, {0, 3, []byte{0xff}}, {1, 4, []byte{0xff}}, {1, 15, []byte{0xff}},
		{0, 9, []byte{0x81, 0x80, 0x02, 'a', 'n', ' ', 'i', 'd'}}, // of 32,768 bytes
		{1, 18, append(make([]byte, 21), 0xff, 0xff, 0xff, 0xff, 0x0f)},
		{19, 7, []byte{0xff}}, {19, 7, []byte{0xff, 0xff, 0xff, 0xff, 0x0f}}, {19, 4, []byte{0x7f, 0xff, 0xff, 0xff}},
		{19, 7, nil}, {20, 6, []byte{2, 0xff, 0xff, 0xff, 0x7f}}, {78, 2, []byte{9, 'g'}},
	} {
		r, _ := p.rule(c.key, c.version)
		if got, err := r.inspect(c.version, c.body, len(c.body)); !errors.Is(err, wire.ErrFrame) {
			t.Errorf("key %d version %d: %+v, %v", c.key, c.version, got, err)
		}
	}
}

// Whatever the bytes say, each gets one of the answers that there are, and asking for
// more of them ends with the frame.
func FuzzPolicy(f *testing.F) {
	p := newPolicy()
	for _, r := range p {
		if r.action != actionRefuse {
			request := kmsg.RequestForKey(int16(r.key))
			f.Add(int16(r.key), r.max, uint8(0), body(request, r.max))
		}
	}
	f.Add(int16(0), int16(3), uint8(0), []byte{0xb8, 0xb8, 0, 1, 0, 0, 0, 9, 0, 0, 0, 0}) // a transactional id of negative length
	f.Add(int16(95), int16(0), uint8(3), []byte(nil))
	f.Add(int16(-1), int16(-1), uint8(3), []byte{1})
	f.Fuzz(func(t *testing.T, key, version int16, more uint8, b []byte) {
		r, served := p.rule(key, version)
		highest, offered := p.offered(key)
		if offered && (version >= 0 && version <= highest) != served {
			t.Fatalf("key %d version %d: served %v, offered up to %d", key, version, served, highest)
		}
		if !served {
			if r.refusal(version) == "" {
				t.Fatal("refused without a word")
			}
			return
		}
		in, err := r.inspect(version, b, len(b)+int(more))
		frugal.Check(t, len(b), func() { _, _ = r.inspect(version, b, len(b)+int(more)) })
		switch {
		case err == nil && in.wait < 0 && in.wait != connections.Unbounded:
			t.Fatalf("a wait of %v", in.wait)
		case err == nil, errors.Is(err, wire.ErrFrame):
		case !errors.Is(err, wire.ErrShort) || more == 0:
			t.Fatalf("with %d bytes to come: %v", more, err)
		}
		request := kmsg.RequestForKey(key)
		request.SetVersion(version)
		if more > 0 || request.ReadFrom(b) != nil {
			return
		}
		if err != nil {
			t.Fatalf("kmsg takes it, the policy does not: %v", err)
		}
		if fetch, ok := request.(*kmsg.FetchRequest); ok && (fetch.ReplicaID >= 0 || fetch.ReplicaState.ID >= 0) && in.refuse == "" {
			t.Fatal("a replica passes")
		}
		if produce, ok := request.(*kmsg.ProduceRequest); ok && (produce.Acks != 0) != in.answered {
			t.Fatalf("acks %d: answered %v", produce.Acks, in.answered)
		}
	})
}
