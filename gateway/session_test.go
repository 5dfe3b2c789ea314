package gateway

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"doorkeeper/internal/wire"
)

func apiVersions() *kmsg.ApiVersionsRequest {
	r := kmsg.NewPtrApiVersionsRequest()
	r.ClientSoftwareName, r.ClientSoftwareVersion = "test-client", "1.2.3"
	return r
}

func produceRequest(acks int16) *kmsg.ProduceRequest {
	r := kmsg.NewPtrProduceRequest()
	r.Acks, r.TimeoutMillis = acks, 1000
	return r
}

func TestAClientReachesTheBrokerAsItself(t *testing.T) {
	f := newFixture(t, nil)
	c := f.dial("alice")
	c.send(encode(apiVersions(), 3, 1), encode(kmsg.NewPtrMetadataRequest(), 12, 2))
	id, body := c.receive()
	versions := kmsg.NewPtrApiVersionsResponse()
	versions.SetVersion(3)
	if err := versions.ReadFrom(body); err != nil || id != 1 {
		t.Fatalf("%d: %v", id, err)
	}
	if offers(versions, 38) || offers(versions, 27) || !offers(versions, 0) {
		t.Error("ApiVersions was not trimmed")
	}
	id, body = c.receive()
	m := kmsg.NewPtrMetadataResponse()
	m.SetVersion(12)
	if err := m.ReadFrom(body[1:]); err != nil || id != 2 {
		t.Fatalf("%d: %v", id, err)
	}
	if len(m.Brokers) != 1 || m.Brokers[0].Port != f.cfg.Advertise.BasePort+1 {
		t.Errorf("brokers %+v", m.Brokers)
	}
	if n := f.broker.issuer.creates["alice"]; n != 1 {
		t.Errorf("%d tokens for alice", n)
	}
	for _, a := range f.broker.seen() {
		if a.clientID != "app" {
			t.Errorf("the broker saw client id %q", a.clientID)
		}
	}
	_ = c.Close()
	f.ended(ReasonClientClosed)
}

// B31: requests that come before there is a broker leg wait for it, and are answered in
// their order, with answers made here among them.
func TestAPipelineBeforeTheBrokerLegExists(t *testing.T) {
	f := newFixture(t, func(c *Config) { c.Limits.InFlight = 50 })
	c := f.dial("alice")
	const n = 500
	var all []byte
	for i := range int32(n) {
		var request kmsg.Request = kmsg.NewPtrHeartbeatRequest()
		version := int16(4)
		switch {
		case i == 0:
			request, version = apiVersions(), 3
		case i%10 == 3:
			request, version = kmsg.NewPtrSASLHandshakeRequest(), 1
		case i%10 == 7:
			request, version = kmsg.NewPtrMetadataRequest(), 9
		}
		all = append(all, encode(request, version, i)...)
	}
	go func() { _, _ = c.Write(all) }()
	for i := range int32(n) {
		if id, _ := c.receive(); id != i {
			t.Fatalf("answer %d came as number %d", id, i)
		}
	}
	for _, a := range f.broker.seen() {
		if a.key == 17 || a.key == 36 {
			t.Fatal("a client's SASL request reached the broker")
		}
	}
}

// B04: a produce with acks=0 has no answer, and nothing is mis-paired or stalls.
func TestProduceWithoutAcksHasNoAnswer(t *testing.T) {
	f := newFixture(t, nil)
	c := f.dial("alice")
	for i := int32(0); i < 900; i += 3 {
		c.send(encode(produceRequest(0), 9, i), encode(produceRequest(1), 9, i+1), encode(kmsg.NewPtrMetadataRequest(), 9, i+2))
		for want := i + 1; want < i+3; want++ {
			if id, _ := c.receive(); id != want {
				t.Fatalf("answer %d, want %d", id, want)
			}
		}
	}
}

// Rule 9: a producer that sends without acks and closes at once loses
// nothing.
func TestWhatWasSentBeforeACloseIsDelivered(t *testing.T) {
	f := newFixture(t, nil)
	c := f.dial("alice")
	const n = 3000
	var all []byte
	for i := range int32(n) {
		all = append(all, encode(produceRequest(0), 9, i)...)
	}
	c.send(all)
	_ = c.Close()
	f.ended(ReasonClientClosed)
	if got := len(f.broker.seen()); got != n {
		t.Fatalf("%d of %d requests arrived", got, n)
	}
}

// B13: the connection goes on after an ApiVersions that is too new.
func TestAnApiVersionsThatIsTooNew(t *testing.T) {
	f := newFixture(t, nil)
	c := f.dial("alice")
	frame := encode(apiVersions(), 3, 7)
	binary.BigEndian.PutUint16(frame[6:], 99)
	c.send(frame)
	id, body := c.receive()
	r := kmsg.NewPtrApiVersionsResponse()
	if err := r.ReadFrom(body); err != nil || id != 7 || r.ErrorCode != 35 || len(r.ApiKeys) != 1 || r.ApiKeys[0].MaxVersion < 4 {
		t.Fatalf("%d %+v %v", id, r, err)
	}
	c.send(encode(apiVersions(), 4, 8))
	if id, _ := c.receive(); id != 8 {
		t.Fatalf("answer %d", id)
	}
}

// S5, S13 and the issue's bad input: each ends its own session, with its reason, and
// nothing of it reaches a broker.
func TestBadRequestsEndTheirSession(t *testing.T) {
	f := newFixture(t, nil)
	length := func(n uint32) []byte { return binary.BigEndian.AppendUint32(nil, n) }
	header := func(key, version int16) []byte {
		b := encode(kmsg.NewPtrHeartbeatRequest(), 0, 1)
		binary.BigEndian.PutUint16(b[4:], uint16(key))
		binary.BigEndian.PutUint16(b[6:], uint16(version))
		return b
	}
	replica := kmsg.NewPtrFetchRequest()
	replica.ReplicaID, replica.ReplicaState.ID = 1, 1
	bomb := append(length(1<<20), header(0, 9)[4:12]...)
	bomb = append(bomb, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x0f) // null client id, 2^32 tags
	bomb = append(bomb, make([]byte, 70<<10)...)
	for name, c := range map[string]struct {
		bytes  []byte
		reason Reason
		says   string
	}{
		"length -1":              {length(0xffffffff), ReasonBadRequest, "negative"},
		"length 0":               {length(0), ReasonBadRequest, "shorter"},
		"length 3":               {length(3), ReasonBadRequest, "shorter"},
		"length 2 GiB":           {length(0x7fffffff), ReasonBadRequest, "limits.frame"},
		"HTTP":                   {[]byte("GET / HTTP/1.1\r\n\r\n"), ReasonBadRequest, "HTTP"},
		"TLS in TLS":             {[]byte{0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc}, ReasonBadRequest, "TLS"},
		"ends within its header": {append(length(9), header(12, 0)[4:13]...), ReasonBadRequest, "header"},
		"tag bomb":               {bomb, ReasonBadRequest, "header"},
		"unknown key":            {header(500, 0), ReasonRefusedAPI, "key 500"},
		"negative key":           {header(-1, 0), ReasonRefusedAPI, "key -1"},
		"LeaderAndIsr":           {header(4, 0), ReasonRefusedAPI, "key 4"},
		"WriteTxnMarkers":        {header(27, 1), ReasonRefusedAPI, "key 27"},
		"too new version":        {header(3, 99), ReasonRefusedAPI, "version 99"},
		"fetch v19":              {header(1, 19), ReasonRefusedAPI, "version 19"},
		"replica fetch v4":       {encode(replica, 4, 1), ReasonRefusedAPI, "replica"},
		"replica fetch v15":      {encode(replica, 15, 1), ReasonRefusedAPI, "replica"},
		"replica fetch v18":      {encode(replica, 18, 1), ReasonRefusedAPI, "replica"},
	} {
		t.Run(name, func(t *testing.T) {
			before := f.observer.count(c.reason)
			leg := f.dial("alice")
			leg.send(c.bytes)
			leg.closed()
			f.eventually("its end", func() bool { return f.observer.count(c.reason) == before+1 })
			if line := lastLine(f.log.String(), "session ended"); !strings.Contains(line, c.says) {
				t.Errorf("the line does not say %q: %s", c.says, line)
			}
		})
	}
	if n := len(f.broker.seen()); n != 0 {
		t.Errorf("%d requests reached the broker", n)
	}
	if n := f.broker.issuer.creates["alice"]; n != 0 {
		t.Errorf("%d tokens were made for requests that no broker has to answer", n)
	}
}

func lastLine(log, message string) string {
	var last string
	for line := range strings.Lines(log) {
		if strings.Contains(line, message) {
			last = line
		}
	}
	return last
}

func TestATruncatedRequest(t *testing.T) {
	f := newFixture(t, nil)
	c := f.dial("alice")
	c.send(encode(apiVersions(), 3, 1))
	c.receive()
	frame := encode(kmsg.NewPtrHeartbeatRequest(), 4, 2)
	c.send(frame[:len(frame)-1])
	_ = c.Conn.(*tls.Conn).CloseWrite()
	c.closed()
	f.ended(ReasonBadRequest)
}

// F44: a panic ends the session that it is in, is counted, and shows no secret.
func TestAPanicEndsOneSession(t *testing.T) {
	f := newFixture(t, nil)
	good := f.dial("alice")
	good.send(encode(apiVersions(), 3, 1))
	good.receive()

	// The hook: an answer that a rewriter does not expect. (A broker cannot be made to
	// trigger a panic; if it could, that would be the fault to mend.)
	f.policy[kmsg.DescribeCluster].rewrite = func(*splice, int16) { panic("planted in the answer goroutine") }
	bad := f.dial("bob")
	bad.send(encode(kmsg.NewPtrDescribeClusterRequest(), 1, 1))
	bad.closed()
	f.ended(ReasonPanic)

	f.policy[kmsg.AddRaftVoter].fields = nil // the request goroutine runs out of a slice
	bad = f.dial("bob")
	bad.send(encode(kmsg.NewPtrAddRaftVoterRequest(), 1, 1))
	bad.closed()
	f.eventually("the second end", func() bool { return f.observer.count(ReasonPanic) == 2 })

	if n := f.observer.panicked.Load(); n != 2 {
		t.Errorf("%d panics counted", n)
	}
	good.send(encode(kmsg.NewPtrMetadataRequest(), 9, 2))
	if id, _ := good.receive(); id != 2 {
		t.Error("the other session does not go on")
	}
	for _, password := range f.broker.issuer.secrets {
		if strings.Contains(f.log.String(), password) {
			t.Error("the log shows a secret")
		}
	}
}

// F45: garbage from a broker never reaches a client as its answer.
func TestABrokerThatAnswersWrong(t *testing.T) {
	f := newFixture(t, nil)
	for name, answer := range map[string]func(asked) []byte{
		"metadata garbage": func(a asked) []byte {
			if a.key == 3 {
				return []byte{0xff, 0xff, 0xff, 0xff, 0x7f}
			}
			return f.broker.sensible(a)
		},
	} {
		t.Run(name, func(*testing.T) {
			before := f.observer.count(ReasonBrokerFault)
			f.broker.script(answer)
			c := f.dial("alice")
			c.send(encode(kmsg.NewPtrMetadataRequest(), 9, 1))
			c.closed()
			f.eventually("its end", func() bool { return f.observer.count(ReasonBrokerFault) == before+1 })
		})
	}
}

func TestABrokerThatBreaksWithRequestsUnanswered(t *testing.T) {
	f := newFixture(t, nil)
	f.broker.script(func(a asked) []byte {
		if a.key == 12 {
			return nil // never answered
		}
		return f.broker.sensible(a)
	})
	c := f.dial("alice")
	c.send(encode(apiVersions(), 3, 1))
	c.receive()
	c.send(encode(kmsg.NewPtrHeartbeatRequest(), 4, 2))
	f.eventually("the request is at the broker", func() bool { return len(f.broker.seen()) == 2 })
	f.broker.cut()
	c.closed()
	f.ended(ReasonBrokerLost)
}

// S18: no token, no service, but never an alert or an error that a client would take
// for final.
func TestWithoutATokenTheClientIsClosedPlainly(t *testing.T) {
	f := newFixture(t, nil)
	f.broker.issuer.fail = errors.New("the controller is away")
	c := f.dial("alice")
	c.send(encode(apiVersions(), 3, 1))
	c.closed()
	f.ended(ReasonTokens)
	if len(f.broker.seen()) != 0 {
		t.Error("something was forwarded")
	}
}

// Rule 2: protected names are refused before any Kafka byte, and no token is made.
func TestAProtectedNameIsRefusedWithAnAlert(t *testing.T) {
	f := newFixture(t, nil)
	for _, name := range []string{"admin", "gateway", "ANONYMOUS", "doorkeeper-x"} {
		c := f.dial(name) // under TLS 1.3 the refusal comes after the client's handshake
		_, err := io.ReadAll(c)
		if err == nil || err.Error() != "remote error: tls: bad certificate" {
			t.Errorf("%s: %v, want the alert bad_certificate", name, err)
		}
	}
	f.eventually("all ends", func() bool { return f.observer.count(ReasonRefused) == 4 })
	if len(f.broker.issuer.creates) != 1 {
		t.Errorf("tokens: %v", f.broker.issuer.creates)
	}
}

// R22: what is under way when the gateway stops is answered, then the client is closed.
func TestStopAnswersWhatIsUnderWay(t *testing.T) {
	f := newFixture(t, nil)
	release := make(chan struct{})
	f.broker.script(func(a asked) []byte {
		if a.key == 12 {
			<-release
		}
		return f.broker.sensible(a)
	})
	idle := f.dial("bob")
	idle.send(encode(apiVersions(), 3, 1))
	idle.receive()
	c := f.dial("alice")
	c.send(encode(apiVersions(), 3, 1))
	c.receive()
	c.send(encode(kmsg.NewPtrHeartbeatRequest(), 4, 2), encode(produceRequest(-1), 9, 3))
	f.eventually("a request is at the broker", func() bool { return len(f.broker.seen()) >= 3 })
	f.stop()
	idle.closed()
	if _, err := net.DialTimeout("tcp", f.bootstrap(), patience); err == nil {
		t.Error("new clients are still accepted")
	}
	if err := f.Ready(); err == nil {
		t.Error("ready while stopping")
	}
	close(release)
	for want := int32(2); want <= 3; want++ {
		if id, _ := c.receive(); id != want {
			t.Fatalf("answer %d, want %d", id, want)
		}
	}
	c.closed()
	if err := <-f.done; err != nil {
		t.Errorf("Run: %v", err)
	}
	f.done <- nil // for the clean-up
	if n := f.observer.count(ReasonShutdown); n != 2 {
		t.Errorf("%d sessions ended for the shutdown", n)
	}
}

// CVE-2026-25949's kind: one deadline from accept to the first complete request.
func TestSilentClientsAreClosedAtTheDeadline(t *testing.T) {
	f := newFixture(t, func(c *Config) { c.Timeouts.Admission = time.Second })
	raw, err := net.Dial("tcp", f.bootstrap())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = raw.Close() }()
	afterTLS, drip := f.dial("alice"), f.dial("bob")
	var wg sync.WaitGroup
	wg.Go(func() { // a byte at a time, for ever
		for _, b := range encode(produceRequest(-1), 9, 1) {
			if _, err := drip.Write([]byte{b}); err != nil {
				return
			}
			time.Sleep(200 * time.Millisecond)
		}
	})
	_ = raw.SetDeadline(time.Now().Add(patience))
	if _, err := io.Copy(io.Discard, raw); err != nil && !strings.Contains(err.Error(), "reset") {
		t.Errorf("before TLS: %v", err)
	}
	afterTLS.closed()
	drip.closed()
	f.eventually("three ends", func() bool { return f.observer.count(ReasonAdmission) == 3 })
	wg.Wait()
	if n := len(f.broker.issuer.creates); n != 1 {
		t.Errorf("tokens were made for silent clients: %v", f.broker.issuer.creates)
	}
}

// A request that stops in the middle ends its session, not before it had time.
func TestARequestThatStalls(t *testing.T) {
	f := newFixture(t, func(c *Config) { c.Timeouts.Stall = time.Second })
	c := f.dial("alice")
	c.send(encode(apiVersions(), 3, 1))
	c.receive()
	frame := encode(produceRequest(-1), 9, 2)
	c.send(frame[:len(frame)-1])
	c.closed()
	f.ended(ReasonClientStalled)
}

// A broker that takes its time is not held against the client.
func TestABrokerThatTakesNothingForAWhile(t *testing.T) {
	f := newFixture(t, func(c *Config) { c.Timeouts.Stall = time.Second })
	f.broker.raw = func(conn net.Conn) {
		time.Sleep(4 * time.Second) // its receive buffer fills
		sink(0)(conn)
	}
	c := f.dial("alice")
	frame := append(encode(produceRequest(-1), 8, 1), make([]byte, 32<<20)...)
	binary.BigEndian.PutUint32(frame, uint32(len(frame)-4))
	c.send(frame[:len(frame)/2])
	c.send(frame[len(frame)/2:])
	if id, _ := c.receive(); id != 1 {
		t.Fatalf("answer %d", id)
	}
}

func TestTheTimeThatABrokerTookIsGivenBack(t *testing.T) {
	f := newFixture(t, func(c *Config) { c.Timeouts.Stall = time.Minute })
	c := f.dial("alice")
	c.send(encode(apiVersions(), 3, 1))
	c.receive()
	f.mu.Lock()
	var s session
	for under := range f.sessions {
		s = session{g: f.Gateway, client: under.client, started: true, blocked: 20 * time.Second} // its goroutine sleeps in a read
	}
	f.mu.Unlock()
	if err := s.timeout(); err != nil || time.Until(s.armed) < 10*time.Second {
		t.Fatalf("%v, armed for %v", err, time.Until(s.armed))
	}
	var e *Error
	if err := s.timeout(); !errors.As(err, &e) || e.Reason != ReasonClientStalled {
		t.Fatalf("the second time: %v", err)
	}
}

// F32, S13: a byte now and then does not keep a request under way.
func TestARequestThatDrips(t *testing.T) {
	f := newFixture(t, func(c *Config) { c.Timeouts.Stall = time.Second })
	c := f.dial("alice")
	c.send(encode(apiVersions(), 3, 1))
	c.receive()
	frame := append(encode(produceRequest(-1), 9, 2), make([]byte, 1<<20)...)
	binary.BigEndian.PutUint32(frame, uint32(len(frame)-4))
	for i := 0; f.observer.count(ReasonClientStalled) == 0; i++ {
		if i == len(frame) {
			t.Fatal("the gateway takes it byte by byte for ever")
		}
		_, _ = c.Write(frame[i : i+1])
		time.Sleep(20 * time.Millisecond)
	}
}

func TestTheLimitOfAnOwner(t *testing.T) {
	f := newFixture(t, func(c *Config) { c.Limits.SessionsPerOwner = 2 })
	first, second := f.dial("alice"), f.dial("alice")
	first.send(encode(apiVersions(), 3, 1))
	first.receive()
	second.send(encode(apiVersions(), 3, 1))
	second.receive()
	f.dial("alice").closed()
	f.ended(ReasonLimitOwner)
	other := f.dial("bob")
	other.send(encode(apiVersions(), 3, 1))
	other.receive()
	_ = first.Close()
	f.ended(ReasonClientClosed)
	again := f.dial("alice")
	again.send(encode(apiVersions(), 3, 1))
	again.receive()
}

// Frames of all sizes pass byte for byte, in both directions.
func TestFramesPassUnchanged(t *testing.T) {
	f := newFixture(t, nil)
	f.broker.script(func(a asked) []byte {
		if a.key == 32 {
			return a.body // an echo: DescribeConfigs passes undecoded
		}
		return f.broker.sensible(a)
	})
	c := f.dial("alice")
	for i, size := range []int{0, 1, 100, 16 << 10, wire.BufferSize - 20, wire.BufferSize, wire.BufferSize + 1, 3<<20 + 7} {
		payload := bytes.Repeat([]byte{byte(i + 1)}, size)
		for j := range payload {
			payload[j] ^= byte(j * 7)
		}
		head := encode(kmsg.NewPtrDescribeConfigsRequest(), 1, int32(i))
		head = head[:len(head)-len(kmsg.NewPtrDescribeConfigsRequest().AppendTo(nil))]
		h, err := wire.ParseHeader(head[4:], false)
		if err != nil {
			t.Fatal(err)
		}
		frame := append(head[:4+h.Size:4+h.Size], payload...)
		binary.BigEndian.PutUint32(frame, uint32(len(frame)-4))
		go func() { _, _ = c.Write(frame) }()
		id, body := c.receive()
		if int(id) != i || !bytes.Equal(body, payload) {
			t.Fatalf("size %d: %d bytes back, correlation id %d", size, len(body), id)
		}
	}
}

// B30: clients that keep their handshake to themselves hold up nobody else.
func TestStalledHandshakesHoldUpNobody(t *testing.T) {
	f := newFixture(t, nil)
	for range 200 {
		raw, err := net.Dial("tcp", f.bootstrap())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = raw.Close() }()
	}
	c := f.dial("alice")
	c.send(encode(apiVersions(), 3, 1))
	c.receive()
}

func TestProbesAreNoWarnings(t *testing.T) {
	f := newFixture(t, nil)
	for range 20 {
		raw, err := net.Dial("tcp", f.bootstrap())
		if err != nil {
			t.Fatal(err)
		}
		_ = raw.Close()
	}
	f.eventually("all probes", func() bool { return f.observer.count(ReasonProbe) == 20 })
	for line := range strings.Lines(f.log.String()) {
		if strings.Contains(line, "probe") && !strings.Contains(line, `"level":"debug"`) {
			t.Error(line)
		}
	}
}

func Example_reasons() {
	fmt.Println(ending(ReasonClientClosed, SideClient, nil))
	fmt.Println(endingf(ReasonBadRequest, SideClient, "negative frame length %d", -1))
	// Output:
	// client_closed
	// bad_request: negative frame length -1
}
