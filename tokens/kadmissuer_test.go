package tokens

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"doorkeeper/internal/secret"
)

// B10, rule 18: what is asked of Kafka, and what is made of its answers.
func TestRequestsAndAnswers(t *testing.T) {
	s := newScripted(t, good)
	k, ctx := s.issuer(), t.Context()
	is, err := k.Create(ctx, Creation{Owner: "CN=alice,O=x y", Renewers: []string{gatewayName, testMarker}, Lifetime: time.Minute})
	if err != nil || is.ID != "t" || is.Owner != "CN=alice,O=x y" || is.Requester != gatewayName || is.Expiry.Sub(is.Issue) != time.Minute || is.HMAC.Reveal() != "secret" {
		t.Errorf("Create: %v, %v", is, err)
	}
	if _, err := k.Create(ctx, Creation{Renewers: []string{testMarker}}); err != nil {
		t.Error(err)
	}
	if known, err := k.KnownAs(ctx, 2, "alice", "t", secret.New("secret")); !known || err != nil {
		t.Errorf("KnownAs: %v, %v", known, err)
	}
	if known, err := k.Known(ctx, 3, "alice", "other"); known || err != nil {
		t.Errorf("Known: %v, %v", known, err)
	}
	found, err := k.Find(ctx, "", testMarker)
	if err != nil || len(found) != 1 || !ours(found[0], gatewayName, testMarker) {
		t.Errorf("Find: %v, %v", found, err)
	}
	for _, no := range [][2]string{{"bob", testMarker}, {"", "doorkeeper-gw-2"}} {
		if found, err := k.Find(ctx, no[0], no[1]); err != nil || len(found) != 0 {
			t.Errorf("Find(%v): %v, %v", no, found, err)
		}
	}
	if err := k.Expire(ctx, is.HMAC); err != nil {
		t.Error(err)
	}
	var nodes []int32
	for _, q := range s.all() {
		switch r := q.req.(type) {
		case *kmsg.CreateDelegationTokenRequest:
			if (r.OwnerPrincipalName == nil) != (r.OwnerPrincipalType == nil) || r.OwnerPrincipalType != nil && *r.OwnerPrincipalType != "User" ||
				r.Version != ownerVersion || r.MaxLifetimeMillis != 60_000 && r.MaxLifetimeMillis != -1 || r.Renewers[len(r.Renewers)-1].PrincipalName != testMarker {
				t.Errorf("%+v", r)
			}
		case *kmsg.DescribeDelegationTokenRequest:
			nodes = append(nodes, q.node)
			// Without an owner it would pull every secret that the gateway may see.
			if len(r.Owners) != 1 || r.Owners[0].PrincipalType != "User" || r.Owners[0].PrincipalName == "" {
				t.Errorf("%+v", r)
			}
		case *kmsg.ExpireDelegationTokenRequest:
			if r.ExpiryPeriodMillis != -1 || string(r.HMAC) != "secret" {
				t.Errorf("%+v", r.ExpiryPeriodMillis)
			}
		}
	}
	if !slices.Equal(nodes[:2], []int32{2, 3}) {
		t.Errorf("the questions about a broker went to %v", nodes)
	}
}

// F11: a broker that computes another secret for the token is told by its answer.
func TestBrokerWithAnotherSecret(t *testing.T) {
	k := newScripted(t, good).issuer()
	known, err := k.KnownAs(t.Context(), 2, "alice", "t", secret.New("ours"))
	var e *Error
	if known || !errors.As(err, &e) || e.Reason != ReasonKeyDiffers || e.Node != 2 || e.Retry || !strings.Contains(e.Cure, "delegation.token.secret.key") {
		t.Errorf("%v, %v", known, err)
	}
}

// B10: what is gone needs no expiry.
func TestCodesOfExpiries(t *testing.T) {
	for code, bad := range map[int16]bool{0: false, 62: false, 66: false, 63: true, 65: true, -1: true} {
		k := newScripted(t, func(ctx context.Context, node int32, req kmsg.Request) kmsg.Response {
			resp := good(ctx, node, req)
			resp.(*kmsg.ExpireDelegationTokenResponse).ErrorCode = code
			return resp
		}).issuer()
		err := k.Expire(t.Context(), secret.New("x"))
		var e *Error
		if bad != (err != nil) || bad && (!errors.As(err, &e) || e.Code != code) {
			t.Errorf("%d: %v", code, err)
		}
	}
}

// Expiries at a stop run side by side over several connections to each broker: 16
// have to be under way before the first is answered.
func TestExpiriesRunSideBySide(t *testing.T) {
	const together = 16
	var mu sync.Mutex
	under, all := 0, make(chan struct{})
	s := newScripted(t, func(ctx context.Context, node int32, req kmsg.Request) kmsg.Response {
		mu.Lock()
		if under++; under == together {
			close(all)
		}
		mu.Unlock()
		select {
		case <-all:
		case <-ctx.Done():
		}
		return good(ctx, node, req)
	})
	k := s.issuer()
	var group sync.WaitGroup
	for i := range 103 {
		group.Go(func() {
			if err := k.Expire(t.Context(), secret.New(fmt.Sprint(i))); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	conns := map[int32]map[net.Conn]bool{1: {}, 2: {}, 3: {}}
	for _, q := range s.all() {
		conns[q.node][q.conn] = true
	}
	for node, c := range conns {
		if len(c) < 2 || len(c) > lanesMost {
			t.Errorf("%d connections to broker %d", len(c), node)
		}
	}
	if n := s.count(kmsg.ExpireDelegationToken); n != 103 {
		t.Errorf("%d expiries", n)
	}
}

// A question does not wait behind creations, and a broker that hangs with one costs
// the next ones nothing.
func TestHungCreationHoldsUpNothingElse(t *testing.T) {
	hung := make(chan int32, 10)
	var once sync.Once
	s := newScripted(t, func(ctx context.Context, node int32, req kmsg.Request) kmsg.Response {
		if _, create := req.(*kmsg.CreateDelegationTokenRequest); create {
			first := false
			once.Do(func() { first = true })
			if first {
				hung <- node
				<-ctx.Done()
				return nil
			}
		}
		return good(ctx, node, req)
	})
	k := s.issuer()
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := k.Create(ctx, Creation{Owner: "alice"})
		failed <- err
	}()
	node := <-hung
	if known, err := k.Known(t.Context(), node, "alice", "t"); !known || err != nil {
		t.Errorf("Known: %v, %v", known, err)
	}
	for range 20 {
		if _, err := k.Create(t.Context(), Creation{Owner: "bob"}); err != nil {
			t.Error(err)
		}
	}
	cancel()
	var e *Error
	if err := <-failed; !errors.As(err, &e) || !e.Lost || !e.Retry {
		t.Errorf("the hung creation: %v", err)
	}
	// From now on that broker comes last.
	before := len(s.all())
	for range 20 {
		if _, err := k.Create(t.Context(), Creation{Owner: "bob"}); err != nil {
			t.Error(err)
		}
	}
	for _, q := range s.all()[before:] {
		if q.node == node {
			t.Errorf("broker %d is asked right after it hung", node)
		}
	}
}

// F2: no creation is sent to a broker that has hung since its last answer, unless that
// was a moment ago: it is found out first, and another broker makes the token.
func TestBrokerThatHasHungGetsNoCreation(t *testing.T) {
	s := newScripted(t, good)
	k := s.issuer()
	for range 3 { // each broker once
		if _, err := k.Create(t.Context(), Creation{Owner: "alice"}); err != nil {
			t.Fatal(err)
		}
	}
	k.lanes.mu.Lock()
	for _, w := range k.lanes.writers {
		for node := range w.used {
			w.used[node] = time.Now().Add(-2 * time.Second)
		}
	}
	k.lanes.mu.Unlock()
	s.hung.Store(2)
	silent := way{lane: k.lanes.writers[0], lanes: &k.lanes, node: 2}
	if err := silent.probe(t.Context()); err == nil || opensAnew(err) {
		t.Errorf("the proof of a broker that is silent ended with %v: it would be asked twice", err)
	}
	for range 3 {
		if _, err := k.Create(t.Context(), Creation{Owner: "bob"}); err != nil {
			t.Error(err)
		}
	}
	if n := s.count(kmsg.CreateDelegationToken); n != 6 {
		t.Errorf("%d creations", n)
	}
}

// Creating is not idempotent: a creation whose answer is lost is not made again.
func TestCreationIsMadeOnce(t *testing.T) {
	s := newScripted(t, func(context.Context, int32, kmsg.Request) kmsg.Response { return nil })
	_, err := s.issuer().Create(t.Context(), Creation{Owner: "alice"})
	var e *Error
	if !errors.As(err, &e) || !e.Lost || !e.Retry || e.Code != 0 {
		t.Errorf("%v", err)
	}
	if n := s.count(kmsg.CreateDelegationToken); n != 1 {
		t.Errorf("%d creations", n)
	}
}

// An expiry does no harm when it is made twice: the next broker is asked.
func TestExpiryGoesToAnotherBroker(t *testing.T) {
	var bad atomic.Int32
	s := newScripted(t, func(ctx context.Context, node int32, req kmsg.Request) kmsg.Response {
		bad.CompareAndSwap(0, node)
		if node == bad.Load() {
			return nil
		}
		return good(ctx, node, req)
	})
	if err := s.issuer().Expire(t.Context(), secret.New("x")); err != nil {
		t.Error(err)
	}
}

// Connections that died while they were idle are opened anew; no creation is lost on
// them, and the broker is not blamed.
func TestDeadIdleConnectionIsOpenedAnew(t *testing.T) {
	s := newScripted(t, good)
	k := s.issuer()
	blamed := 0
	for range 30 {
		if _, err := k.Create(t.Context(), Creation{Owner: "alice"}); err != nil {
			t.Fatal(err)
		}
		s.cut(0)
		k.lanes.mu.Lock()
		for _, w := range k.lanes.writers {
			clear(w.used) // as if it had been long ago
		}
		blamed += min(len(k.lanes.avoid), 1)
		clear(k.lanes.avoid)
		k.lanes.mu.Unlock()
		if known, err := k.Known(t.Context(), 1, "alice", "t"); !known || err != nil {
			t.Errorf("Known: %v, %v", known, err)
		}
	}
	if n := s.count(kmsg.CreateDelegationToken); n != 30 || blamed > 10 { // a slow machine may be blamed now and then
		t.Errorf("%d creations, a broker was blamed %d times", n, blamed)
	}
}

// A broker that is down costs nothing but the attempt: the creation was not sent.
func TestBrokerThatIsDown(t *testing.T) {
	s := newScripted(t, good)
	k := s.issuer()
	if _, err := k.Nodes(t.Context()); err != nil {
		t.Fatal(err)
	}
	_ = s.listeners[1].Close()
	s.cut(2)
	for range 20 {
		if _, err := k.Create(t.Context(), Creation{Owner: "alice"}); err != nil {
			t.Error(err)
		}
		if _, err := k.Find(t.Context(), "", testMarker); err != nil {
			t.Error(err)
		}
	}
	var e *Error
	if _, err := k.Known(t.Context(), 2, "alice", "t"); !errors.As(err, &e) || e.Reason != ReasonUnreachable || !e.Retry || e.Lost {
		t.Errorf("%v", err)
	}
}

// A broker that hangs on a look is left after a second, for the next.
func TestLookGoesToAnotherBroker(t *testing.T) {
	var first atomic.Int32
	s := newScripted(t, func(ctx context.Context, node int32, req kmsg.Request) kmsg.Response {
		first.CompareAndSwap(0, node)
		if node == first.Load() {
			<-ctx.Done()
			return nil
		}
		return good(ctx, node, req)
	})
	if found, err := s.issuer().Find(t.Context(), "", testMarker); err != nil || len(found) != 1 {
		t.Errorf("%v, %v", found, err)
	}
}

// The whole task against the wire: one owner, adopted by the next run.
func TestTaskOverTheWire(t *testing.T) {
	s := newScripted(t, good)
	client := s.issuer().lanes.first.client
	ctx, cancel := context.WithCancel(t.Context())
	source := New(Config{Issuer: NewKadmIssuer(client), Instance: "gw-1"})
	ended := make(chan error, 1)
	go func() { ended <- source.Run(ctx) }()
	l, err := source.Acquire(t.Context(), "alice")
	if err != nil {
		t.Fatal(err)
	}
	if err := source.Await(t.Context(), l.Token(), 2); err != nil {
		t.Error(err)
	}
	l.Release()
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
