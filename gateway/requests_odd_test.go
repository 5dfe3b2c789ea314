package gateway

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"doorkeeper/internal/wire"
)

// tape records every frame behind the login as it came, and answers it with the bytes
// that answers gives for it, nil for none.
type tape struct {
	mu     sync.Mutex
	frames [][]byte
}

func (r *tape) serve(answers func(frame []byte) []byte) func(net.Conn) {
	return func(conn net.Conn) {
		for {
			var head [wire.LengthSize]byte
			if _, err := io.ReadFull(conn, head[:]); err != nil {
				return
			}
			frame := make([]byte, binary.BigEndian.Uint32(head[:]))
			if _, err := io.ReadFull(conn, frame); err != nil {
				return
			}
			r.mu.Lock()
			r.frames = append(r.frames, append(head[:], frame...))
			r.mu.Unlock()
			body := answers(frame)
			if body == nil {
				continue
			}
			if writeAnswer(conn, int32(binary.BigEndian.Uint32(frame[4:])), body) != nil {
				return
			}
		}
	}
}

func (r *tape) seen() [][]byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([][]byte(nil), r.frames...)
}

// raw builds a request's frame by hand: kmsg has no tags for headers.
func raw(r kmsg.Request, version int16, correlation int32, clientID *string, tags []byte) []byte {
	r.SetVersion(version)
	b := make([]byte, wire.LengthSize, 1<<10)
	b = binary.BigEndian.AppendUint16(b, uint16(r.Key()))
	b = binary.BigEndian.AppendUint16(b, uint16(version))
	b = binary.BigEndian.AppendUint32(b, uint32(correlation))
	if clientID == nil {
		b = append(b, 0xff, 0xff)
	} else {
		b = append(binary.BigEndian.AppendUint16(b, uint16(len(*clientID))), *clientID...)
	}
	if r.IsFlexible() {
		b = append(b, tags...)
	}
	b = r.AppendTo(b)
	binary.BigEndian.PutUint32(b, uint32(len(b)-wire.LengthSize))
	return b
}

// B59, B04: every mix of null, empty and long client id, transactional id, unknown tags
// in header and body, and acks arrives byte for byte, and each answer finds its request.
func TestOddProducesArriveAsTheyWere(t *testing.T) {
	f := newFixture(t, nil)
	long, empty, longest := strings.Repeat("c", 3000), "", strings.Repeat("l", 32767)
	var sent [][]byte
	var answered []int32
	silent := make(map[int32]bool)
	id := int32(0)
	for version := int16(3); version <= 13; version++ {
		for _, client := range []*string{nil, &empty, &long, &longest} {
			for _, transaction := range []*string{nil, &empty, &long} {
				for _, tags := range [][]byte{{0}, {2, 5, 2, 'h', 'i', 0xff, 0x01, 0}} {
					for _, acks := range []int16{0, 1, -1, 7} {
						r := produceRequest(acks)
						r.TransactionID = transaction
						if tags[0] > 0 {
							r.UnknownTags = tagged()
						}
						id++
						sent = append(sent, raw(r, version, id, client, tags))
						if silent[id] = acks == 0; acks != 0 {
							answered = append(answered, id)
						}
					}
				}
			}
		}
	}
	var broker tape
	f.broker.raw = broker.serve(func(frame []byte) []byte {
		if silent[int32(binary.BigEndian.Uint32(frame[4:]))] {
			return nil
		}
		a := asked{version: int16(binary.BigEndian.Uint16(frame[2:]))}
		return response(a, kmsg.NewPtrProduceResponse())
	})
	c := f.dial("alice")
	go func() {
		for _, frame := range sent {
			_, _ = c.Write(frame)
		}
	}()
	for _, want := range answered {
		if got, _ := c.receive(); got != want {
			t.Fatalf("answer %d, want %d", got, want)
		}
	}
	got := broker.seen()
	for i, frame := range got {
		if !bytes.Equal(frame, sent[i]) {
			t.Fatalf("request %d of %d bytes arrived as %d other bytes", i, len(sent[i]), len(frame))
		}
	}
	if len(got) != len(sent) {
		t.Fatalf("%d of %d requests arrived", len(got), len(sent))
	}
}

// B59, S5: unknown tags both ways, on what is inspected and on what is rewritten; and the
// debug consumer's Fetch passes.
func TestUnknownTagsPassBothWays(t *testing.T) {
	f := newFixture(t, nil)
	fetch := kmsg.NewPtrFetchRequest()
	fetch.ReplicaID, fetch.ReplicaState.ID = -2, -2
	topic := kmsg.NewFetchRequestTopic()
	topic.Partitions, topic.UnknownTags = []kmsg.FetchRequestTopicPartition{kmsg.NewFetchRequestTopicPartition()}, tagged()
	topic.Partitions[0].UnknownTags = tagged()
	fetch.Topics, fetch.UnknownTags = []kmsg.FetchRequestTopic{topic}, tagged()
	metadata := kmsg.NewPtrMetadataRequest()
	metadata.UnknownTags = tagged()
	configs := kmsg.NewPtrDescribeConfigsRequest()
	configs.UnknownTags = tagged()
	var broker tape
	f.broker.raw = broker.serve(func(frame []byte) []byte {
		key, version := int16(binary.BigEndian.Uint16(frame)), int16(binary.BigEndian.Uint16(frame[2:]))
		r := kmsg.ResponseForKey(key)
		r.SetVersion(version)
		switch r := r.(type) {
		case *kmsg.FetchResponse:
			r.UnknownTags = tagged()
		case *kmsg.MetadataResponse:
			r.UnknownTags = tagged()
		case *kmsg.DescribeConfigsResponse:
			r.UnknownTags = tagged()
		}
		return r.AppendTo(bytes.Clone(headTags))
	})
	c := f.dial("alice")
	id := int32(0)
	for _, request := range []struct {
		kmsg.Request
		from, to int16
	}{{fetch, 12, 18}, {metadata, 9, 13}, {configs, 4, 4}} {
		for version := request.from; version <= request.to; version++ {
			id++
			frame := raw(request.Request, version, id, kmsg.StringPtr("app"), []byte{1, 3, 1, 'x'})
			c.send(frame)
			got, body := c.receive()
			r := request.ResponseKind()
			r.SetVersion(version)
			if err := r.ReadFrom(bytes.TrimPrefix(body, headTags)); got != id || !bytes.HasPrefix(body, headTags) || err != nil {
				t.Fatalf("%s v%d: answer %d, %q, %v", kmsg.NameForKey(r.Key()), version, got, body, err)
			}
			if !bytes.Contains(body, []byte("unknown")) {
				t.Errorf("%s v%d: the answer's tag is gone", kmsg.NameForKey(r.Key()), version)
			}
			if seen := broker.seen(); !bytes.Equal(seen[len(seen)-1], frame) {
				t.Errorf("%s v%d: arrived as %x, was %x", kmsg.NameForKey(r.Key()), version, seen[len(seen)-1], frame)
			}
		}
	}
}

// S13: the header's bound, on either side of it; the client id alone cannot reach it.
func TestTheHeaderHasABound(t *testing.T) {
	f := newFixture(t, nil)
	longest := strings.Repeat("l", 32767)
	tags := func(size int) []byte { // one tag that makes the header so many bytes long
		n := size - (2 + 2 + 4 + 2 + len(longest)) - 1 - 1 - 3
		return append([]byte{1, 9, byte(n) | 0x80, byte(n>>7) | 0x80, byte(n >> 14)}, make([]byte, n)...)
	}
	c := f.dial("alice")
	c.send(raw(kmsg.NewPtrHeartbeatRequest(), 4, 1, &longest, tags(wire.MaxHeader)))
	if id, _ := c.receive(); id != 1 {
		t.Fatalf("answer %d", id)
	}
	c.send(raw(kmsg.NewPtrHeartbeatRequest(), 4, 2, &longest, tags(wire.MaxHeader+1)))
	c.closed()
	f.ended(ReasonBadRequest)
	if line := lastLine(f.log.String(), "session ended"); !strings.Contains(line, "header is longer") {
		t.Error(line)
	}
	if n := len(f.broker.seen()); n != 1 {
		t.Errorf("%d requests at the broker", n)
	}
}

// S13, CVE-2026-111108's kind: counts and lengths that lead out of the frame reach no
// broker; each ends its session, with a reason.
func TestCountsThatLieEndTheirSession(t *testing.T) {
	f := newFixture(t, nil)
	cut := func(r kmsg.Request, version int16, body ...byte) []byte {
		b := encode(r, version, 1)
		b = append(b[:len(b)-len(r.AppendTo(nil))], body...)
		binary.BigEndian.PutUint32(b, uint32(len(b)-wire.LengthSize))
		return b
	}
	endless := []byte{0xff, 0xff, 0xff, 0xff, 0x0f}
	for name, frame := range map[string][]byte{
		"topics to create":     cut(kmsg.NewPtrCreateTopicsRequest(), 7, endless...),
		"topics to create, v0": cut(kmsg.NewPtrCreateTopicsRequest(), 0, 0x7f, 0xff, 0xff, 0xff),
		"no timeout":           cut(kmsg.NewPtrCreateTopicsRequest(), 0, 0x80, 0, 0, 0),
		"topics to delete":     cut(kmsg.NewPtrDeleteTopicsRequest(), 6, endless...),
		"topics to fetch":      cut(kmsg.NewPtrFetchRequest(), 18, append(make([]byte, 21), endless...)...),
		"tags of a fetch":      cut(kmsg.NewPtrFetchRequest(), 18, append(make([]byte, 24), endless...)...),
		"a transactional id":   cut(kmsg.NewPtrProduceRequest(), 9, endless...),
		"a share group's name": cut(kmsg.NewPtrShareFetchRequest(), 2, endless...),
		"a produce cut short":  cut(kmsg.NewPtrProduceRequest(), 9, 0, 0),
		"a fetch cut short":    cut(kmsg.NewPtrFetchRequest(), 4, 0, 0, 0),
		"no body at all":       cut(kmsg.NewPtrElectLeadersRequest(), 2),
	} {
		t.Run(name, func(t *testing.T) {
			before := f.observer.count(ReasonBadRequest)
			c := f.dial("alice")
			c.send(frame)
			c.closed()
			f.eventually("its end", func() bool { return f.observer.count(ReasonBadRequest) == before+1 })
			if line := lastLine(f.log.String(), "session ended"); !strings.Contains(line, `"cause":"`) {
				t.Errorf("no cause: %s", line)
			}
		})
	}
	if n := len(f.broker.seen()); n != 0 {
		t.Errorf("%d requests reached the broker", n)
	}
}

// B42, S3: a client that brings its own SASL is told that there is nothing to log in to,
// and may go on as who it is; none of it reaches a broker.
func TestAClientWithItsOwnSASL(t *testing.T) {
	f := newFixture(t, nil)
	handshake := kmsg.NewPtrSASLHandshakeRequest()
	handshake.Mechanism = "PLAIN"
	authenticate := kmsg.NewPtrSASLAuthenticateRequest()
	authenticate.SASLAuthBytes = []byte("\x00bob\x00bobs-secret")
	c := f.dial("alice")
	for version := int16(0); version <= 1; version++ {
		c.send(encode(handshake, version, 1))
		_, body := c.receive()
		r := kmsg.NewPtrSASLHandshakeResponse()
		r.SetVersion(version)
		if err := r.ReadFrom(body); err != nil || r.ErrorCode != 34 {
			t.Fatalf("handshake v%d: %+v, %v", version, r, err)
		}
	}
	for version := int16(0); version <= 2; version++ {
		c.send(encode(authenticate, version, 2))
		_, body := c.receive()
		r := kmsg.NewPtrSASLAuthenticateResponse()
		r.SetVersion(version)
		if version >= 2 {
			body = body[1:]
		}
		if err := r.ReadFrom(body); err != nil || r.ErrorCode != 34 {
			t.Fatalf("authenticate v%d: %+v, %v", version, r, err)
		}
	}
	c.send(encode(kmsg.NewPtrMetadataRequest(), 12, 3), encode(authenticate, 2, 4), encode(kmsg.NewPtrMetadataRequest(), 12, 5))
	for want := int32(3); want <= 5; want++ {
		if id, _ := c.receive(); id != want {
			t.Fatalf("answer %d, want %d", id, want)
		}
	}
	for _, a := range f.broker.seen() {
		if a.key != 3 {
			t.Errorf("key %d reached the broker", a.key)
		}
	}
	if made := f.broker.issuer.creates; made["alice"] != 1 || made["bob"] != 0 {
		t.Errorf("tokens: %v", made)
	}
	if strings.Contains(f.log.String(), "bobs-secret") {
		t.Error("the log shows a client's password")
	}
}

// B42: tokens without a request around them, as clients of SaslHandshake v0 send them.
func TestRawSASLTokensEndTheSession(t *testing.T) {
	f := newFixture(t, nil)
	for name, token := range map[string]string{
		"PLAIN":          "\x00alice\x00alices-secret",
		"PLAIN, capital": "\x00Alice\x00alices-secret",
		"PLAIN as bob":   "bob\x00alice\x00alices-secret",
		"SCRAM":          "n,,n=alice,r=fyko+d2lbbFgONRv9qkxdawL",
		"OAUTHBEARER":    "n,,\x01auth=Bearer alices-secret\x01\x01",
		"GSSAPI":         "\x60\x82\x02\x01\x06\x09\x2a\x86\x48\x86\xf7\x12\x01\x02\x02",
		"short":          "\x00a\x00b",
		"empty":          "",
	} {
		t.Run(name, func(*testing.T) {
			c := f.dial("alice")
			c.send(encode(kmsg.NewPtrSASLHandshakeRequest(), 0, 1))
			c.receive()
			bad := func() int { return f.observer.count(ReasonBadRequest) + f.observer.count(ReasonRefusedAPI) }
			before := bad()
			c.send(append(binary.BigEndian.AppendUint32(nil, uint32(len(token))), token...))
			c.closed()
			f.eventually("its end", func() bool { return bad() == before+1 })
		})
	}
	if n := len(f.broker.seen()); n != 0 {
		t.Errorf("%d requests reached the broker", n)
	}
	if strings.Contains(f.log.String(), "secret") {
		t.Error("the log shows a client's password")
	}
}

// B12, B13, B14: ApiVersions of every version, of a broker that serves more and newer than
// is known: the answer is the broker's byte for byte but
// for keys and maxima, and its header never has tags; one that is too new, with a header
// and a body that nobody knows, is told the range, and the connection goes on.
func TestApiVersionsThroughTheGateway(t *testing.T) {
	f := newFixture(t, nil)
	answers := func(version int16) *kmsg.ApiVersionsResponse {
		r := kmsg.NewPtrApiVersionsResponse()
		r.SetVersion(version)
		for key := range int16(100) {
			r.ApiKeys = append(r.ApiKeys, kmsg.ApiVersionsResponseApiKey{ApiKey: key, MaxVersion: 50, UnknownTags: tagged()})
		}
		r.ThrottleMillis, r.FinalizedFeaturesEpoch, r.ZkMigrationReady = 7, 99, true
		r.SupportedFeatures = []kmsg.ApiVersionsResponseSupportedFeature{{Name: "kraft.version", MaxVersion: 1}, {Name: "share.version", MaxVersion: 1}}
		r.FinalizedFeatures = []kmsg.ApiVersionsResponseFinalizedFeature{{Name: "transaction.version", MaxVersionLevel: 2, MinVersionLevel: 2}}
		r.UnknownTags = tagged()
		return r
	}
	f.broker.script(func(a asked) []byte {
		if a.key == 18 {
			return answers(a.version).AppendTo(nil)
		}
		return f.broker.sensible(a)
	})
	c := f.dial("alice")
	newer := raw(apiVersions(), 4, 41, kmsg.StringPtr("newer"), []byte{1, 9, 4, 'e', 'v', 'e', 'n'})
	newer = append(newer, "more than anybody knows"...)
	binary.BigEndian.PutUint32(newer, uint32(len(newer)-wire.LengthSize))
	for _, version := range []int16{6, 99, 32767} {
		binary.BigEndian.PutUint16(newer[6:], uint16(version))
		c.send(newer)
		id, body := c.receive()
		r := kmsg.NewPtrApiVersionsResponse()
		if err := r.ReadFrom(body); err != nil || id != 41 || r.ErrorCode != 35 || len(r.ApiKeys) != 1 ||
			r.ApiKeys[0].ApiKey != 18 || r.ApiKeys[0].MinVersion != 0 || r.ApiKeys[0].MaxVersion != 5 {
			t.Fatalf("v%d: %d, %+v, %v", version, id, r, err)
		}
	}
	for version := int16(0); version <= 5; version++ {
		c.send(encode(apiVersions(), version, 42))
		id, body := c.receive()
		want := answers(version)
		trimOracle(f.policy, want)
		if id != 42 || !bytes.Equal(body, want.AppendTo(nil)) {
			t.Fatalf("v%d: %d\n%x\nwant\n%x", version, id, body, want.AppendTo(nil))
		}
	}
}

// B31: requests of every kind that is served, many more than the queue holds, behind
// each other and before there is a broker leg, come back in their order.
func TestAPipelineOfAllKinds(t *testing.T) {
	f := newFixture(t, func(c *Config) { c.Limits.InFlight = 10 })
	c := f.dial("alice")
	var all []byte
	var keys []kmsg.Key
	for i := 0; len(keys) < 500; i++ {
		r := f.policy[i%len(f.policy)]
		if r.action == actionRefuse {
			continue
		}
		request := kmsg.RequestForKey(int16(r.key))
		if p, ok := request.(*kmsg.ProduceRequest); ok {
			p.Acks = 1
		}
		all = append(all, encode(request, r.max, int32(len(keys)))...)
		keys = append(keys, r.key)
	}
	go func() { _, _ = c.Write(all) }()
	for want := range int32(len(keys)) {
		if id, _, err := c.tryReceive(); err != nil || id != want {
			t.Fatalf("%s: answer %d, want %d, %v", keys[want].Name(), id, want, err)
		}
	}
}
