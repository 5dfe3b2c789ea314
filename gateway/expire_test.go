package gateway

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"doorkeeper/tokens"
)

// askToken makes the broker name the token that a leg logged in with, as the cluster's
// id in its Metadata answers.
func (f *fixture) askToken() {
	f.broker.script(func(a asked) []byte {
		if a.key != int16(kmsg.Metadata) {
			return f.broker.sensible(a)
		}
		r := kmsg.NewPtrMetadataResponse()
		r.ClusterID = kmsg.StringPtr(a.token)
		return response(a, r)
	})
}

// token is which one the leg behind this client logged in with.
func (c *client) token() (string, error) {
	if _, err := c.Write(encode(kmsg.NewPtrMetadataRequest(), 12, 7)); err != nil {
		return "", err
	}
	_, body, err := c.tryReceive()
	if err != nil {
		return "", err
	}
	m := kmsg.NewPtrMetadataResponse()
	m.SetVersion(12)
	if err := m.ReadFrom(body[1:]); err != nil {
		return "", err
	}
	return *m.ClusterID, nil
}

func (c *client) wantToken(want string) {
	c.t.Helper()
	if got, err := c.token(); err != nil || got != want {
		c.t.Fatalf("served with %q (%v), want %q", got, err, want)
	}
}

// S9: one owner's sessions end, in whatever phase they are, and nobody else's.
func TestExpireOwnerEndsTheOwnersSessionsAlone(t *testing.T) {
	f := newFixture(t, nil)
	f.askToken()
	first, second, bob := f.dial("alice"), f.dial("alice"), f.dial("bob")
	first.wantToken("token-1-of-alice")
	second.wantToken("token-1-of-alice")
	bob.wantToken("token-1-of-bob")
	silent := f.dial("alice") // admitted, and has asked for nothing
	f.eventually("four sessions", func() bool { return maps.Equal(f.Sessions(), map[string]int{"alice": 3, "bob": 1}) })

	result, err := f.ExpireOwner(t.Context(), "alice")
	if want := (Expired{Token: true, Sessions: 3}); err != nil || result != want {
		t.Fatalf("%+v, %v", result, err)
	}
	if got := f.Sessions(); !maps.Equal(got, map[string]int{"bob": 1}) {
		t.Errorf("sessions %v", got)
	}
	if n := f.observer.count(ReasonOperator); n != 3 { // before it returned, not some time after
		t.Errorf("%d ends were counted", n)
	}
	if n := strings.Count(f.log.String(), `"reason":"expired_by_operator"`); n != 3 {
		t.Errorf("%d ends were logged", n)
	}
	for _, c := range []*client{first, second, silent} {
		c.closed()
	}
	if gone := f.broker.issuer.gone(); !slices.Equal(gone, []string{"token-1-of-alice"}) {
		t.Errorf("expired: %v", gone)
	}
	bob.wantToken("token-1-of-bob")
	f.dial("alice").wantToken("token-2-of-alice")
}

// A login under way with the old token, on a broker that still takes it, comes to
// nothing: not one request goes over that leg.
func TestExpireOwnerEndsALoginUnderWay(t *testing.T) {
	f := newFixture(t, nil)
	f.askToken()
	under, free := make(chan string, 10), make(chan struct{})
	f.broker.mu.Lock()
	f.broker.early = func(id string) {
		under <- id
		<-free
	}
	f.broker.mu.Unlock()
	c := f.dial("alice")
	c.send(encode(kmsg.NewPtrMetadataRequest(), 12, 1))
	if id := <-under; id != "token-1-of-alice" {
		t.Fatalf("a login with %s", id)
	}
	result, err := f.ExpireOwner(t.Context(), "alice")
	if want := (Expired{Token: true, Sessions: 1}); err != nil || result != want {
		t.Errorf("%+v, %v", result, err)
	}
	close(free)
	c.closed()
	f.dial("alice").wantToken("token-2-of-alice")
	for _, a := range f.broker.seen() {
		if a.token != "token-2-of-alice" {
			t.Errorf("a request over a leg of %s", a.token)
		}
	}
}

// A session that logs in while Kafka is being asked has the old token, and ends with
// the others.
func TestExpireOwnerEndsWhoCameMeanwhile(t *testing.T) {
	f := newFixture(t, nil)
	f.askToken()
	early := f.dial("alice")
	early.wantToken("token-1-of-alice")
	asked, answer := make(chan struct{}), make(chan struct{})
	f.broker.issuer.mu.Lock()
	f.broker.issuer.asked = func() {
		asked <- struct{}{}
		<-answer
	}
	f.broker.issuer.mu.Unlock()
	go func() {
		<-asked
		defer close(answer)
		if token, err := f.dial("alice").token(); err != nil || token != "token-1-of-alice" {
			t.Errorf("served with %q, %v", token, err)
		}
	}()
	if result, err := f.ExpireOwner(t.Context(), "alice"); err != nil || result != (Expired{Token: true, Sessions: 2}) {
		t.Errorf("%+v, %v", result, err)
	}
	early.closed()
	f.dial("alice").wantToken("token-2-of-alice")
}

// Clients come and go while their owner is expired again and again, by brokers that do
// not hear of it: what is asked once ExpireOwner has returned is never answered over a
// leg that logged in with a token that is expired.
func TestNoSessionOutlivesTheExpiry(t *testing.T) {
	f := newFixture(t, nil)
	f.askToken()
	f.broker.issuer.mu.Lock()
	f.broker.issuer.asked = func() { time.Sleep(rand.N(100 * time.Millisecond)) }
	f.broker.issuer.mu.Unlock()
	var gone atomic.Pointer[[]string] // of the calls that have returned
	gone.Store(new([]string))
	var served, cut atomic.Int64
	over := make(chan struct{})
	var clients sync.WaitGroup
	for range 6 {
		clients.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
				}
				c := f.dial("alice")
				for range 1 + rand.N(20) {
					known := *gone.Load()
					token, err := c.token()
					if err != nil {
						cut.Add(1)
						break
					}
					served.Add(1)
					if slices.Contains(known, token) {
						t.Errorf("served over a leg of %s, which was expired before", token)
					}
				}
				_ = c.Close()
			}
		})
	}
	ended := 0
	for range 8 {
		before := served.Load()
		f.eventually("clients are served again", func() bool { return served.Load() > before+5 })
		time.Sleep(rand.N(20 * time.Millisecond))
		result, err := f.ExpireOwner(t.Context(), "alice")
		var cause *tokens.Error
		if err != nil && (!errors.As(err, &cause) || cause.Reason != tokens.ReasonNotHeld) {
			t.Error(err)
		}
		if result.Ending != 0 {
			t.Errorf("%+v", result)
		}
		ended += result.Sessions
		now := f.broker.issuer.gone()
		gone.Store(&now)
	}
	close(over)
	clients.Wait()
	t.Logf("%d answers, %d sessions ended, %d clients cut, %d tokens expired", served.Load(), ended, cut.Load(), len(*gone.Load()))
	if served.Load() == 0 || ended == 0 || len(*gone.Load()) < 5 {
		t.Error("nothing was proved")
	}
}

// Where Kafka refuses, everything stays as it is and the call can be made again.
func TestExpireOwnerThatKafkaRefuses(t *testing.T) {
	f := newFixture(t, nil)
	f.askToken()
	c := f.dial("alice")
	c.wantToken("token-1-of-alice")
	refuse := func(err error) {
		f.broker.issuer.mu.Lock()
		f.broker.issuer.refuse = err
		f.broker.issuer.mu.Unlock()
	}
	refuse(errors.New("not today"))
	if result, err := f.ExpireOwner(t.Context(), "alice"); err == nil || result != (Expired{}) {
		t.Errorf("%+v, %v", result, err)
	}
	c.wantToken("token-1-of-alice")
	refuse(nil)
	if result, err := f.ExpireOwner(t.Context(), "alice"); err != nil || result != (Expired{Token: true, Sessions: 1}) {
		t.Errorf("again: %+v, %v", result, err)
	}
	c.closed()
}

// Sessions that have no token end too; an owner with neither is unknown.
func TestExpireOwnerWithoutAToken(t *testing.T) {
	f := newFixture(t, nil)
	c := f.dial("alice")
	f.eventually("a session", func() bool { return f.Sessions()["alice"] == 1 })
	if result, err := f.ExpireOwner(t.Context(), "alice"); err != nil || result != (Expired{Sessions: 1}) {
		t.Errorf("%+v, %v", result, err)
	}
	c.closed()
	for _, owner := range []string{"nobody", "", "alice"} {
		var cause *tokens.Error
		if result, err := f.ExpireOwner(t.Context(), owner); !errors.As(err, &cause) || cause.Reason != tokens.ReasonNotHeld || result != (Expired{}) {
			t.Errorf("%q: %+v, %v", owner, result, err)
		}
	}
}

// A session that is ending anyway, and still delivers and answers, is cut as well.
func TestExpireOwnerCutsWhatIsDraining(t *testing.T) {
	f := newFixture(t, nil)
	hung := make(chan struct{})
	defer close(hung)
	f.broker.script(func(a asked) []byte {
		if a.key == int16(kmsg.Fetch) {
			<-hung
		}
		return f.broker.sensible(a)
	})
	c := f.dial("alice")
	c.send(encode(kmsg.NewPtrMetadataRequest(), 12, 1))
	c.receive()
	c.send(encode(kmsg.NewPtrFetchRequest(), 12, 2))
	f.eventually("the broker has the fetch", func() bool { return len(f.broker.seen()) == 2 })
	c.send([]byte{0, 0, 0, 1}) // no request: the session ends, and waits for the answer that is due
	f.eventually("it is ending", func() bool { return f.Sessions()["alice"] == 0 })
	ctx, cancel := context.WithTimeout(t.Context(), patience/2)
	defer cancel()
	if result, err := f.ExpireOwner(ctx, "alice"); err != nil || result != (Expired{Token: true}) {
		t.Errorf("%+v, %v", result, err)
	}
	f.ended(ReasonBadRequest)
	c.closed()
}
