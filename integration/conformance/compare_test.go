package conformance

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// frame is an answer as it comes.
func frame(correlation byte, response kmsg.Response) []byte {
	out := []byte{0, 0, 0, correlation}
	if response.IsFlexible() && response.Key() != int16(kmsg.ApiVersions) {
		out = append(out, 0)
	}
	return response.AppendTo(out)
}

func rewritten() *Rewritten {
	return &Rewritten{
		Brokers: map[int32]Address{1: {"br0ker-1.secret.internal", 29094}, 2: {"br0ker-2.secret.internal", 29094}},
		Gateway: map[int32]Address{1: {"kafka.example.com", 9101}, 2: {"kafka.example.com", 9102}},
		Offered: map[int16][2]int16{3: {0, 13}, 18: {0, 4}},
	}
}

func brokers(of map[int32]Address, version int16) *kmsg.MetadataResponse {
	r := kmsg.NewPtrMetadataResponse()
	r.Version, r.ClusterID = version, kmsg.StringPtr("cluster")
	for _, id := range []int32{1, 2} {
		b := kmsg.NewMetadataResponseBroker()
		b.NodeID, b.Host, b.Port, b.Rack = id, of[id].Host, of[id].Port, kmsg.StringPtr("rack")
		r.Brokers = append(r.Brokers, b)
	}
	t := kmsg.NewMetadataResponseTopic()
	t.Topic, t.TopicID = kmsg.StringPtr("topic"), [16]byte{1, 2, 3}
	r.Topics = append(r.Topics, t)
	return r
}

func TestAddressesAreTheOnlyDifference(t *testing.T) {
	for v := int16(0); v <= 13; v++ {
		r := rewritten()
		request := kmsg.NewPtrMetadataRequest()
		request.Version = v
		c := Comparison{Request: request, Rewritten: r}
		direct, gateway := Answer{Frame: frame(7, brokers(r.Brokers, v))}, Answer{Frame: frame(7, brokers(r.Gateway, v))}
		if differences, _ := c.Compare(direct, gateway); differences != nil {
			t.Errorf("v%d: %v", v, differences)
		}
		flips, err := c.Flip(direct, gateway)
		if err != nil || flips.Unnoticed != 0 || flips.Planted != len(gateway.Frame) {
			t.Errorf("v%d: %+v, %v", v, flips, err)
		}
		if differences, _ := c.Compare(direct, direct); len(differences) == 0 || !strings.Contains(differences[0], "node 1 is said to be at br0ker-1") {
			t.Errorf("v%d: an answer that was not rewritten: %v", v, differences)
		}
	}
}

func TestFieldsThatMayDifferAreTheOnlyOnesNotLookedAt(t *testing.T) {
	answer := func(id byte, timestamp int64) []byte {
		r := kmsg.NewPtrCreateTopicsResponse()
		r.Version = 7
		topic := kmsg.NewCreateTopicsResponseTopic()
		topic.Topic, topic.TopicID = "conf-d1r3ct-new", [16]byte{id, 1, 2, 3}
		if timestamp != 0 {
			topic.Topic = "conf-g4t3wy-new"
		}
		r.Topics = append(r.Topics, topic)
		return frame(7, r)
	}
	request := kmsg.NewPtrCreateTopicsRequest()
	request.Version = 7
	c := Comparison{
		Request: request, Masks: []Mask{{Field: "Topics[].TopicID", Alike: bothSet}},
		Pairs: []Pair{{[]byte("d1r3ct"), []byte("g4t3wy")}}, Rewritten: rewritten(),
	}
	direct, gateway := Answer{Frame: answer(8, 0)}, Answer{Frame: answer(9, 1)}
	differences, needed := c.Compare(direct, gateway)
	if differences != nil || len(needed) != 1 {
		t.Fatalf("%v, %v", differences, needed)
	}
	flips, err := c.Flip(direct, gateway)
	if err != nil || flips.Unnoticed != 16 || flips.Planted != len(gateway.Frame) {
		t.Errorf("%+v of %d bytes, %v", flips, len(gateway.Frame), err)
	}
	// The same without the mask: its bytes count as all others.
	c.Masks = nil
	if differences, _ := c.Compare(direct, gateway); len(differences) != 1 || !strings.Contains(differences[0], "Topics[0].TopicID") {
		t.Errorf("without the mask: %v", differences)
	}
	// What belongs to the other side is no pair.
	if differences, _ := c.Compare(direct, direct); len(differences) == 0 {
		t.Error("an answer about the other side's topic is taken for the own one")
	}
}

// A proof of Flip itself: a mask that looks at nothing of what it takes away.
func TestFlipFindsWhatIsNotLookedAt(t *testing.T) {
	request := kmsg.NewPtrHeartbeatRequest()
	request.Version = 4
	response := kmsg.NewPtrHeartbeatResponse()
	response.Version = 4
	answer := Answer{Frame: frame(7, response)}
	c := Comparison{Request: request, Masks: []Mask{{Field: "ThrottleMillis"}}}
	if flips, err := c.Flip(answer, answer); err != nil || flips.Unnoticed != 4 {
		t.Errorf("%+v, %v", flips, err)
	}
	blind := Comparison{Request: request, Masks: []Mask{{Field: "ThrottleMillis", Alike: func(_, g reflect.Value) bool { return g.Int()%2 == 0 }}}}
	if flips, err := blind.Flip(answer, answer); err != nil || flips.Unnoticed != 3 {
		t.Errorf("values that are not alike are not noticed: %+v, %v", flips, err)
	}
}

func TestWhatCannotBeReadBackIsADifference(t *testing.T) {
	request := kmsg.NewPtrHeartbeatRequest()
	request.Version = 4
	response := kmsg.NewPtrHeartbeatResponse()
	response.Version = 4
	good := frame(7, response)
	c := Comparison{Request: request}
	for what, bad := range map[string][]byte{
		"one byte more":          append(slices.Clone(good), 0),
		"one byte less":          good[:len(good)-1],
		"an overlong varint":     append(slices.Clone(good[:len(good)-1]), 0x80, 0),
		"a tag in the header":    slices.Concat(good[:4], []byte{1, 9, 0}, good[5:]),
		"nothing":                {},
		"half a correlation id":  good[:2],
		"another correlation id": slices.Concat([]byte{0, 0, 0, 8}, good[4:]),
	} {
		if differences, _ := c.Compare(Answer{Frame: good}, Answer{Frame: bad}); len(differences) == 0 {
			t.Errorf("%s is not noticed", what)
		}
	}
	for what, pair := range map[string][2]Answer{
		"closed instead":    {{Frame: good}, {Closed: true}},
		"answered instead":  {{Closed: true}, {Frame: good}},
		"silent instead":    {{Frame: good}, {}},
		"no longer silent":  {{}, {Frame: good}},
		"closed, as silent": {{}, {Closed: true}},
	} {
		if differences, _ := c.Compare(pair[0], pair[1]); len(differences) == 0 {
			t.Errorf("%s is not noticed", what)
		}
	}
}

func TestApiVersionsMayLackWhatIsWithheldAlone(t *testing.T) {
	versions := func(keys ...kmsg.ApiVersionsResponseApiKey) []byte {
		r := kmsg.NewPtrApiVersionsResponse()
		r.Version, r.ApiKeys = 4, keys
		return frame(7, r)
	}
	key := func(key, from, to int16) kmsg.ApiVersionsResponseApiKey {
		return kmsg.ApiVersionsResponseApiKey{ApiKey: key, MinVersion: from, MaxVersion: to}
	}
	request := kmsg.NewPtrApiVersionsRequest()
	request.Version = 4
	c := Comparison{Request: request, Rewritten: rewritten()}
	direct := Answer{Frame: versions(key(3, 0, 13), key(18, 0, 5), key(58, 0, 0))}
	gateway := Answer{Frame: versions(key(3, 0, 13), key(18, 0, 4))}
	if differences, _ := c.Compare(direct, gateway); differences != nil {
		t.Errorf("%v", differences)
	}
	if flips, err := c.Flip(direct, gateway); err != nil || flips.Unnoticed != 0 {
		t.Errorf("%+v, %v", flips, err)
	}
	if differences, _ := c.Compare(direct, direct); len(differences) == 0 {
		t.Error("what should be withheld is there, and that is not noticed")
	}
}

// Every path that is written down somewhere has to be one: a slip would look at nothing.
func TestAllPathsExist(t *testing.T) {
	check := func(key kmsg.Key, p Path) {
		if err := p.check(reflect.TypeOf(kmsg.ResponseForKey(int16(key)))); err != nil {
			t.Errorf("%s: %v", kmsg.NameForKey(int16(key)), err)
		}
	}
	names := map[string]bool{}
	for _, c := range Cases() {
		for _, m := range c.Masks {
			check(c.Key, m.Field)
		}
		name := kmsg.NameForKey(int16(c.Key)) + ", " + c.Name
		if names[name] {
			t.Errorf("%s: there are two of that name", name)
		}
		names[name] = true
		if c.Want == Failure && len(c.Codes) == 0 || c.Want == Success && len(c.Codes) > 0 {
			t.Errorf("%s: an error is wanted without a code, or the other way round", name)
		}
	}
	for key := int16(0); key <= kmsg.MaxKey; key++ {
		for _, p := range RewrittenFields(kmsg.Key(key)) {
			check(kmsg.Key(key), p)
		}
		for _, e := range exemptions(kmsg.Key(key)) {
			check(kmsg.Key(key), e.field)
		}
	}
}

// S11: error messages with a request in them come without it, and nothing else of them is
// another: not with it, and not without anything more.
func TestPrintedRequestsAreLeftOut(t *testing.T) {
	answer := func(message string) Answer {
		r := kmsg.NewPtrDescribeACLsResponse()
		r.Version, r.ErrorCode, r.ErrorMessage = 3, 31, &message
		return Answer{Frame: frame(7, r)}
	}
	printed := answer("Request Request(connectionId=127.0.0.1:9094-127.0.0.1:7-0, envelope=Some(Request(connectionId=x))) is not authorized.")
	again := answer("Request Request(connectionId=127.0.0.1:9094-127.0.0.1:8-0, envelope=Some(Request(connectionId=y))) is not authorized.")
	want := answer("Request Request() is not authorized.")
	request := kmsg.NewPtrDescribeACLsRequest()
	request.Version = 3
	c := Comparison{Request: request, Rewritten: rewritten()}
	if differences, _ := c.Compare(printed, want); differences != nil {
		t.Errorf("%v", differences)
	}
	if flips, err := c.Flip(printed, want); err != nil || flips.Unnoticed != 0 {
		t.Errorf("%+v, %v", flips, err)
	}
	for _, wrong := range []Answer{printed, answer("Request () is not authorized."), answer("")} {
		if differences, _ := c.Compare(printed, wrong); len(differences) == 0 {
			t.Errorf("%q is taken", wrong.Frame)
		}
	}
	c.Rewritten = nil
	if differences, _ := c.Compare(printed, again); differences != nil {
		t.Errorf("between two direct answers: %v", differences)
	}
}
