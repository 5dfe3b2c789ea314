package connections

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"doorkeeper/internal/secret"
)

// serve answers every request by answer until the connection ends.
func serve(answer func(v *visit, r request) bool) func(*visit) {
	return func(v *visit) {
		for {
			r, err := v.read()
			if err != nil || !answer(v, r) {
				return
			}
		}
	}
}

func echoBody(v *visit, r request) bool { return v.frame(r.correlation, r.body) }

// Two goroutines, many pipelined requests of all sizes: the answers are those, in
// that order.
func TestAnswersComeInOrderAndWhole(t *testing.T) {
	l := newLab()
	h := l.listen(t, script{after: serve(echoBody)})
	c := open(t, NewDialer(l.config(nil)), h.target)
	sizes := []int{0, 1, 3, 100, 16 << 10, 64 << 10, 70_000, 1 << 20}
	const rounds = 20
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range rounds * len(sizes) {
			if err := sendFrame(c, Request{Answered: true}, 3, int32(i), sizes[i%len(sizes)]); err != nil {
				t.Error(err)
				return
			}
			if i%5 == 4 {
				if err := c.Flush(); err != nil {
					t.Error(err)
				}
			}
		}
		if err := c.Finish(); err != nil {
			t.Error(err)
		}
	})
	for i := range rounds * len(sizes) {
		correlation, body, err := takeAnswer(c)
		if err != nil {
			t.Fatal(err)
		}
		if want := sizes[i%len(sizes)]; correlation != int32(i) || sha256.Sum256(body) != sha256.Sum256(make([]byte, want)) {
			t.Fatalf("answer %d: correlation id %d, %d bytes, want %d", i, correlation, len(body), want)
		}
	}
	if _, err := c.NextAnswer(); !errors.Is(err, io.EOF) {
		t.Errorf("NextAnswer: %v", err)
	}
	wg.Wait()
	if n := c.Unanswered(); n != 0 {
		t.Errorf("%d unanswered", n)
	}
}

// What breaks the protocol while relaying ends the connection as hostile or closed.
func TestBrokenAnswersEndTheConnection(t *testing.T) {
	raw := func(head ...uint32) func(*visit, request) bool {
		return func(v *visit, _ request) bool {
			var b []byte
			for _, w := range head {
				b = binary.BigEndian.AppendUint32(b, w)
			}
			return v.bytes(b)
		}
	}
	cases := map[string]struct {
		answer func(*visit, request) bool
		fault  Fault
	}{
		"negative length":    {raw(math.MaxUint32, 1), Hostile},
		"length 0":           {raw(0, 1), Hostile},
		"length 3":           {raw(3, 1), Hostile},
		"unasked answer":     {func(v *visit, r request) bool { echoBody(v, r); return echoBody(v, r) }, Hostile},
		"closes":             {func(v *visit, _ request) bool { _ = v.Close(); return false }, PeerClosed},
		"closes in the head": {func(v *visit, r request) bool { raw(100)(v, r); _ = v.Close(); return false }, PeerClosed},
		"closes in the body": {func(v *visit, r request) bool { raw(100, 1, 2)(v, r); _ = v.Close(); return false }, PeerClosed},
		"no TLS any more":    {func(v *visit, _ request) bool { _, _ = v.plain.Write([]byte("HTTP/1.1 500 no\r\n\r\n")); return true }, Hostile},
		"a forged TLS record": {func(v *visit, _ request) bool {
			_, _ = v.plain.Write(append([]byte{23, 3, 3, 0, 40}, make([]byte, 40)...))
			return true
		}, Hostile},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab()
			h := l.listen(t, script{after: serve(tc.answer)})
			c := open(t, NewDialer(l.config(nil)), h.target)
			if err := sendFrame(c, Request{Answered: true}, 3, 1, 10); err != nil {
				t.Fatal(err)
			}
			if err := c.Flush(); err != nil {
				t.Fatal(err)
			}
			var err error
			for range 2 {
				if _, _, err = takeAnswer(c); err != nil {
					break
				}
			}
			e := asError(t, err)
			if e.Fault != tc.fault || e.Phase != PhaseRelay {
				t.Errorf("%s/%s, want relay/%s: %v", e.Phase, e.Fault, tc.fault, err)
			}
			if s := c.State(); s != Closed {
				t.Errorf("state %s", s)
			}
			if again := asError(t, c.Begin(Request{})); again != e {
				t.Errorf("Begin says %v, NextAnswer %v", again, e)
			}
		})
	}
}

// A length of 2 GiB - 1 is allowed, since answers stream, and costs nothing.
func TestDeclaredLengthCostsNoMemory(t *testing.T) {
	l := newLab()
	h := l.listen(t, script{after: serve(func(v *visit, r request) bool { return rawAnswer(math.MaxInt32, "x")(v, r) })})
	c := open(t, NewDialer(l.config(nil)), h.target)
	if err := sendFrame(c, Request{Answered: true}, 1, 1, 10); err != nil {
		t.Fatal(err)
	}
	if err := c.Flush(); err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	a, err := c.NextAnswer()
	if err != nil || a.Size != math.MaxInt32-4 {
		t.Fatalf("%+v, %v", a, err)
	}
	if n, err := c.Read(make([]byte, 10)); n != 1 || err != nil {
		t.Errorf("Read: %d, %v", n, err)
	}
	runtime.ReadMemStats(&after)
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 1<<20 {
		t.Errorf("%d bytes were allocated", grown)
	}
}

// The gateway's own requests: at the best common version, bounded by the context.
func TestOwnRequests(t *testing.T) {
	l := newLab()
	h := l.listen(t, script{
		versions: func(v *visit, r request) bool {
			response := versionsResponse(3, 17, 18, 36, 60)
			response.ApiKeys[0].MaxVersion = 12
			response.ApiKeys[4].MaxVersion = 1
			return v.reply(r, response)
		},
		after: serve(func(v *visit, r request) bool {
			switch r.key {
			case 3:
				response := kmsg.NewPtrMetadataResponse()
				response.ClusterID = kmsg.StringPtr("lab")
				response.Brokers = []kmsg.MetadataResponseBroker{{NodeID: 1, Host: "b1", Port: 9094}}
				return v.reply(r, response)
			case 60:
				response := kmsg.NewPtrDescribeClusterResponse()
				response.ClusterID = "lab"
				return v.reply(r, response)
			case 18:
				return v.reply(r, versionsResponse(18))
			}
			return false
		}),
	})
	c := open(t, NewDialer(l.config(nil)), h.target)

	response, err := c.Request(t.Context(), kmsg.NewPtrMetadataRequest())
	if err != nil {
		t.Fatal(err)
	}
	metadata := response.(*kmsg.MetadataResponse)
	if metadata.Version != 12 || *metadata.ClusterID != "lab" || len(metadata.Brokers) != 1 {
		t.Errorf("%+v", metadata)
	}
	response, err = c.Request(t.Context(), kmsg.NewPtrDescribeClusterRequest())
	if err != nil {
		t.Fatal(err)
	}
	if cluster := response.(*kmsg.DescribeClusterResponse); cluster.Version != 1 || cluster.ClusterID != "lab" {
		t.Errorf("%+v", cluster)
	}
	if _, err = c.Request(t.Context(), kmsg.NewPtrApiVersionsRequest()); err != nil {
		t.Error(err)
	}
	if e := asError(t, second(c.Request(t.Context(), kmsg.NewPtrFetchRequest()))); e.Fault != Unsupported {
		t.Errorf("Fetch: %v", e)
	}
	if s := c.State(); s != Open {
		t.Errorf("state %s", s)
	}
}

func second[A, B any](_ A, b B) B { return b }

func TestOwnRequestEndsWithItsContext(t *testing.T) {
	l := newLab()
	h := l.listen(t, script{after: serve(func(*visit, request) bool { return true })})
	c := open(t, NewDialer(l.config(nil)), h.target)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	e := asError(t, second(c.Request(ctx, kmsg.NewPtrMetadataRequest())))
	if e.Fault != Timeout || !errors.Is(e, context.DeadlineExceeded) {
		t.Errorf("%v", e)
	}
	if s := c.State(); s != Closed {
		t.Errorf("state %s", s)
	}
}

// With a context that has ended nothing is sent, whatever the broker would answer.
func TestNothingIsSentWithAnEndedContext(t *testing.T) {
	l := newLab()
	h := l.listen(t, script{after: serve(func(v *visit, r request) bool { return v.reply(r, kmsg.NewPtrMetadataResponse()) })})
	c := open(t, NewDialer(l.config(nil)), h.target)
	ended, end := context.WithCancel(t.Context())
	end()
	for range 100 { // an answer must not win either
		if e := asError(t, second(c.Request(ended, kmsg.NewPtrMetadataRequest()))); e.Fault != Canceled || !errors.Is(e, context.Canceled) {
			t.Fatalf("%v", e)
		}
		if e := asError(t, c.Reauthenticate(ended, sampleCredential())); e.Fault != Canceled || !errors.Is(e, context.Canceled) {
			t.Fatalf("%v", e)
		}
	}
	if _, err := c.Request(t.Context(), kmsg.NewPtrMetadataRequest()); err != nil || c.State() != Open {
		t.Errorf("%v, then %v", err, c.State())
	}
}

func TestOwnRequestRefusesBrokenAnswers(t *testing.T) {
	cases := map[string]func(*visit, request) bool{
		"wrong correlation id": func(v *visit, r request) bool { return v.frame(r.correlation+1, make([]byte, 20)) },
		"garbage":              func(v *visit, r request) bool { return v.frame(r.correlation, bytes.Repeat([]byte{0xff}, 40)) },
		"no body":              func(v *visit, r request) bool { return v.frame(r.correlation, nil) },
		"far too long":         func(v *visit, r request) bool { return rawAnswer(maxOwnAnswer+5, "")(v, r) },
	}
	for name, answer := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab()
			h := l.listen(t, script{after: serve(answer)})
			c := open(t, NewDialer(l.config(nil)), h.target)
			if e := asError(t, second(c.Request(t.Context(), kmsg.NewPtrMetadataRequest()))); e.Fault != Hostile {
				t.Errorf("%v", e)
			}
		})
	}
}

// A General connection without a credential only asks for versions; with one it logs
// in as a user, not with a token. Neither has a session end unless the broker says so.
func TestGeneralConnections(t *testing.T) {
	l := newLab()
	bare := l.listen(t, script{handshake: func(v *visit, r request) bool { return echoBody(v, r) }})
	d := NewDialer(l.config(nil))
	c, err := d.Open(t.Context(), bare.target, General, nil, ClientInfo{})
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := c.SessionEnd(); ok {
		t.Error("a session end without a login")
	}
	if err := sendFrame(c, Request{Wait: Unbounded, Answered: true}, 3, 1, 1); err != nil {
		t.Error(err)
	}
	if err := c.Begin(Request{Answered: true}); err != nil { // nothing to hold it back for
		t.Error(err)
	}
	_ = c.Close()

	user := l.listen(t, script{first: func(v *visit, r request) bool {
		if bytes.Contains(message(r), []byte("tokenauth")) {
			t.Error("a user's login claims to be a token's")
		}
		return goodFirst(v, r)
	}, final: lifetime(0)(l).final})
	credential := &Credential{Username: tokenID, Password: secret.New(tokenPassword)}
	c, err = d.Open(t.Context(), user.target, General, credential, ClientInfo{})
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := c.SessionEnd(); ok {
		t.Error("a session end that nobody gave")
	}
	if c.Kind() != General || c.Target() != user.target {
		t.Errorf("%v", c)
	}
	_ = c.Close()
}

// Many short sessions under load, with real sockets and timers: each is at risk once,
// what was sent is answered, and both sides learn the end. That the broker reads
// nothing after it is shown in flow_test.go, on a clock that no load can slow down.
func TestShortSessionsUnderLoad(t *testing.T) {
	const life = 2 * time.Second
	l, observer := newLab(), new(counter)
	h := l.listen(t, script{lifetime: life.Milliseconds(), after: func(v *visit) {
		serve(func(v *visit, r request) bool {
			if r.key == 0 {
				return true // acks=0
			}
			return echoBody(v, r)
		})(v)
	}})
	d := NewDialer(l.config(observer))
	const connections = 20
	var wg sync.WaitGroup
	for i := range connections {
		c := open(t, d, h.target)
		wg.Go(func() {
			for n := 0; ; n++ {
				r := Request{Answered: i%4 != 0 && n%3 != 0}
				key := int16(0)
				if r.Answered {
					key = 3
				}
				err := sendFrame(c, r, key, int32(n), 100)
				if err == nil {
					err = c.Flush()
				}
				if err != nil {
					if !errors.Is(err, ErrSessionEnding) {
						t.Error(err)
					}
					return
				}
				if i%5 != 0 {
					time.Sleep(time.Millisecond)
				}
			}
		})
		wg.Go(func() {
			for {
				if _, _, err := takeAnswer(c); err != nil {
					if !errors.Is(err, ErrSessionEnding) {
						t.Error(err)
					}
					return
				}
			}
		})
	}
	wg.Wait()
	if n := observer.atRisk.Load(); n != connections {
		t.Errorf("%d of %d connections were at risk", n, connections)
	}
	if n := observer.derived.Load(); n == 0 {
		t.Error("no key was derived")
	}
}

// Close is harmless twice, and after every other end; so is Abort.
func TestCloseAndAbortInEveryOrder(t *testing.T) {
	l := newLab()
	h := l.listen(t, script{after: serve(echoBody)})
	d := NewDialer(l.config(nil))
	abort := func(c *KafkaConnection) error { c.Abort(); return nil }
	for _, calls := range [][]func(*KafkaConnection) error{
		{(*KafkaConnection).Close, (*KafkaConnection).Close},
		{abort, abort, (*KafkaConnection).Close},
		{(*KafkaConnection).Close, abort},
		{(*KafkaConnection).Finish, (*KafkaConnection).Close, (*KafkaConnection).Finish},
		{abort, (*KafkaConnection).Finish},
	} {
		c := open(t, d, h.target)
		for i, call := range calls {
			if err := call(c); err != nil {
				t.Errorf("call %d: %v", i, err)
			}
		}
		if e := asError(t, c.Begin(Request{})); e.Fault != LocallyClosed {
			t.Errorf("Begin: %v", e)
		}
		if e := asError(t, second(c.NextAnswer())); e.Fault != LocallyClosed {
			t.Errorf("NextAnswer: %v", e)
		}
	}
}

// Calls that make no sense panic by name.
func TestMisusePanics(t *testing.T) {
	l := newLab()
	h := l.listen(t, script{after: serve(echoBody)})
	c := open(t, NewDialer(l.config(nil)), h.target)
	panics := func(name string, f func()) {
		t.Helper()
		defer func() {
			if recover() == nil {
				t.Errorf("%s did not panic", name)
			}
		}()
		f()
	}
	panics("NewDialer", func() { NewDialer(Config{}) })
	panics("Open", func() { _, _ = NewDialer(l.config(nil)).Open(t.Context(), h.target, ScramOverMtls, nil, ClientInfo{}) })
	panics("Write", func() { _, _ = c.Write(nil) })
	panics("End", func() { _ = c.End() })
	if err := c.Begin(Request{Answered: true}); err != nil {
		t.Fatal(err)
	}
	panics("Begin", func() { _ = c.Begin(Request{}) })
	if _, err := c.Write(rawRequest(3, 1, 100)); err != nil {
		t.Fatal(err)
	}
	if err := c.End(); err != nil {
		t.Fatal(err)
	}
	if err := c.Flush(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.NextAnswer(); err != nil {
		t.Fatal(err)
	}
	panics("NextAnswer", func() { _, _ = c.NextAnswer() })
	panics("Answered", c.Answered)
}
