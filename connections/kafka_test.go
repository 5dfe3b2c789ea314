package connections

import (
	"context"
	"errors"
	"fmt"
	"hash"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/xdg-go/scram"

	"doorkeeper/internal/secret"
)

// kafka is a broker of these tests that keeps Kafka's own rules of sessions, as they
// were seen on real ones: it handles one request at a time, judges the session end
// when it reads a request, takes nothing but SaslAuthenticate between a SaslHandshake
// and the end of the login, and no second re-authentication within a second of the
// begin of the one before. Whoever breaks a rule is cut off, and it is noted. So is a
// client whose requests come on two legs at a time, or on an older one again.
//
// What it answers is up to the keys: 0 is a produce without an answer, all others get
// their own body back, after what wait says.
type kafka struct {
	t     *testing.T
	wait  func(r request) time.Duration // nil: none
	size  func(r request) int           // of the answer's body; nil: the request's
	grant func() time.Duration          // the next session's lifetime
	// broken, if set, plays one step of a re-authentication: "handshake", "first" or
	// "final". It tells whether it did, and whether to go on.
	broken func(step string, v *visit, r request) (did, goOn bool)
	// dial, if set, is asked for leg n, from 0 on, and may change what it meets.
	dial   func(n int, s *script) error
	policy RenewalPolicy

	mu       sync.Mutex
	legs     int
	inUse    int // the newest leg that a request was read on
	handling int // requests that were read and not answered
	reads    []readAt
	broke    []string // rules
	users    []string // of the logins
	logins   int
}

// kafkaLeg is one connection as this broker has it.
type kafkaLeg struct {
	*kafka
	n         int
	end, last time.Time // of the session; the begin of the last re-authentication
}

// readAt is one request as the broker read it.
type readAt struct {
	key         int16
	correlation int32
	at          time.Time
	leg         int
}

// script is what the next leg meets.
func (k *kafka) script(l *lab) (script, error) {
	k.mu.Lock()
	leg := &kafkaLeg{kafka: k, n: k.legs}
	k.legs++
	k.mu.Unlock()
	s := script{tls: l.broker.ServerConfig(), lifetime: k.grant().Milliseconds(), after: leg.after}
	if k.dial == nil {
		return s, nil
	}
	return s, k.dial(leg.n, &s)
}

// legRule holds that one leg alone is in use.
func (k *kafkaLeg) legRule(r request) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.n < k.inUse:
		k.broke = append(k.broke, fmt.Sprintf("key %d was read on leg %d after leg %d was in use", r.key, k.n, k.inUse))
	case k.n > k.inUse && k.handling > 0:
		k.broke = append(k.broke, fmt.Sprintf("key %d was read on leg %d while leg %d had requests", r.key, k.n, k.inUse))
	}
	k.inUse = max(k.inUse, k.n)
}

func (k *kafkaLeg) after(v *visit) {
	k.mu.Lock()
	k.end = time.Now().Add(time.Duration(v.lifetime) * time.Millisecond)
	k.users = append(k.users, v.username)
	k.mu.Unlock()
	step := ""
	for {
		r, err := v.read()
		now := time.Now()
		if err != nil {
			return
		}
		k.legRule(r)
		k.mu.Lock()
		k.reads = append(k.reads, readAt{r.key, r.correlation, now, k.n})
		k.mu.Unlock()
		switch {
		case step == "" && r.key == 17:
			step = k.handshake(v, r, now)
			if step == "cut" {
				return
			}
		case step != "" && r.key == 36:
			if step = k.authenticate(v, r, step); step == "cut" {
				return
			}
		case step != "":
			k.rule("key %d came between SaslHandshake and the end of the login", r.key)
			_ = v.plain.Close()
			return
		case now.After(k.sessionEnd()):
			k.rule("key %d was read %v after the session end", r.key, now.Sub(k.sessionEnd()))
			_ = v.plain.Close()
			return
		default:
			if !k.handle(v, r) {
				return
			}
		}
	}
}

func (k *kafkaLeg) handle(v *visit, r request) bool {
	k.count(1)
	if k.wait != nil && r.key != keyVersions {
		time.Sleep(k.wait(r))
	}
	k.count(-1) // whoever has the answer may be on another leg a moment later
	return r.key == 0 || k.answer(v, r)
}

func (k *kafka) count(n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.handling += n
}

// keyVersions is ApiVersions, which is the connection's own here.
const keyVersions = 18

func (k *kafka) answer(v *visit, r request) bool {
	body := r.body
	if r.key == keyVersions {
		return v.frame(r.correlation, body)
	}
	if k.size != nil {
		body = make([]byte, k.size(r))
	}
	return v.frame(r.correlation, body)
}

func (k *kafka) rule(format string, args ...any) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.broke = append(k.broke, fmt.Sprintf(format, args...))
}

func (k *kafkaLeg) sessionEnd() time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.end
}

// handshake returns the step that follows.
func (k *kafkaLeg) handshake(v *visit, r request, now time.Time) string {
	if k.broken != nil {
		if did, goOn := k.broken("handshake", v, r); did {
			return map[bool]string{true: "", false: "cut"}[goOn]
		}
	}
	k.mu.Lock()
	soon := !k.last.IsZero() && now.Sub(k.last) < time.Second
	if !soon {
		k.last = now
	}
	k.mu.Unlock()
	if soon {
		k.rule("re-authentications within a second")
		tooSoon(v, r)
		return ""
	}
	goodHandshake(v, r)
	v.scram = tokenOracle(v)
	return "first"
}

func (k *kafkaLeg) authenticate(v *visit, r request, step string) string {
	if k.broken != nil {
		if did, goOn := k.broken(step, v, r); did {
			return map[bool]string{true: "", false: "cut"}[goOn]
		}
	}
	if step == "first" {
		if !goodFirst(v, r) {
			_ = v.plain.Close()
			return "cut"
		}
		return "final"
	}
	life := k.grant()
	v.lifetime = life.Milliseconds()
	k.mu.Lock()
	k.end = time.Now().Add(life)
	k.users = append(k.users, v.username)
	k.logins++
	k.mu.Unlock()
	if !goodFinal(v, r) {
		_ = v.plain.Close()
		return "cut"
	}
	return ""
}

// keys returns what the broker read behind the login, and the rules that were broken.
func (k *kafka) keys() (keys []int16, broke []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, r := range k.reads {
		keys = append(keys, r.key)
	}
	return keys, append([]string(nil), k.broke...)
}

func (k *kafka) lastUser() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.users[len(k.users)-1]
}

// tokenOracle is xdg-go's server, which knows every user whose name begins with
// "token", all with the sample's password.
func tokenOracle(v *visit) *scram.ServerConversation {
	generator := func() hash.Hash { return v.mech.hash()() }
	server, err := scram.HashGeneratorFcn(generator).NewServer(func(user string) (scram.StoredCredentials, error) {
		v.username = user
		if !strings.HasPrefix(user, "token") {
			return scram.StoredCredentials{}, errors.New("unknown")
		}
		return storedOnce(), nil
	})
	if err != nil {
		panic(err)
	}
	return server.NewConversation()
}

// storedOnce is what the server keeps of the one password, computed once.
var storedOnce = sync.OnceValue(func() scram.StoredCredentials {
	return stored(func() hash.Hash { return ScramSHA512.hash()() }, "token", tokenPassword, 0)
})

// derived is the memo of the one password.
var derived secret.Memo

// token is a credential of the tests: its life is what a login with it gets.
type token struct {
	name       string
	dies, born time.Time
}

// supply is the Credentials of the tests, which does what the gateway does.
type supply struct {
	newest atomic.Pointer[token]
	latest atomic.Pointer[token]
	where  atomic.Pointer[Target] // nil: where it is
	stop   chan struct{}
	known  func(*token) bool // nil: yes

	mu       sync.Mutex
	uses     int
	prepared int
	heard    []Renewal
}

func (s *supply) publish(name string, life time.Duration) {
	s.newest.Store(&token{name, time.Now().Add(life), time.Now()})
}

func (s *supply) Newer() bool { return s.newest.Load() != s.latest.Load() }

func (s *supply) Prepare() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.prepared++
}

func (s *supply) Take(patient bool, longer time.Duration) (*Credential, func(error), error) {
	for end := time.Now().Add(7500 * time.Millisecond); ; {
		t := s.newest.Load()
		if time.Until(t.dies) > longer && (s.known == nil || s.known(t)) {
			before := s.latest.Swap(t)
			s.mu.Lock()
			s.uses++
			s.mu.Unlock()
			return &Credential{Username: t.name, Password: secret.New(tokenPassword), Derived: &derived}, func(err error) {
				s.mu.Lock()
				s.uses--
				s.mu.Unlock()
				if err != nil {
					s.latest.CompareAndSwap(t, before)
				}
			}, nil
		}
		if !patient || time.Now().After(end) {
			return nil, nil, errors.New("no token that would do")
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-s.stop:
			return nil, nil, context.Canceled
		}
	}
}

func (s *supply) Where() (Target, bool) {
	if t := s.where.Load(); t != nil {
		return *t, true
	}
	return Target{}, false
}

func (s *supply) Renewed(r Renewal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heard = append(s.heard, r)
}

func (s *supply) renewals() []Renewal {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Renewal(nil), s.heard...)
}

// rig is a renewing connection in a bubble, its broker and its credentials.
type rig struct {
	*flow
	k      *kafka
	s      *supply
	visits []*visit // flow.mu guards it
}

// newRig opens a connection whose sessions live for 100 s (at risk between 70 and
// 90 s, stop at 90 s), with the broker as change made it.
func newRig(t *testing.T, change func(*kafka)) *rig {
	k := &kafka{t: t, grant: func() time.Duration { return flowLifetime }}
	if change != nil {
		change(k)
	}
	return openRig(t, newLab(), k)
}

func openRig(t *testing.T, l *lab, k *kafka) *rig {
	s := &supply{stop: make(chan struct{})}
	s.publish("token-1", 1000*time.Hour)
	s.latest.Store(s.newest.Load())
	f := &flow{t: t, observer: new(counter)}
	r := &rig{flow: f, k: k, s: s}
	cfg := l.config(f.observer)
	cfg.Renewal = k.policy
	d := NewDialer(cfg)
	d.dial = func(context.Context, string, string) (net.Conn, error) {
		sc, err := k.script(l)
		if err != nil {
			return nil, err
		}
		here, there := newPipe()
		v := newVisit(there, sc)
		v.scram = tokenOracle(v)
		r.visiting(v)
		go v.play(there, sc)
		return here, nil
	}
	c, err := d.OpenRenewing(t.Context(), Target{Node: 7, Host: "broker.test", Port: 9094},
		&Credential{Username: "token-1", Password: secret.New(tokenPassword), Derived: &derived}, ClientInfo{ID: kmsg.StringPtr("client")}, s)
	if err != nil {
		t.Fatal(err)
	}
	f.KafkaConnection, f.start = c, time.Now()
	return r
}

// visiting notes a leg; v is the first one's.
func (r *rig) visiting(v *visit) {
	r.flow.mu.Lock()
	defer r.flow.mu.Unlock()
	if r.v == nil {
		r.v = v
	}
	r.visits = append(r.visits, v)
}

// allVisits returns the legs that there were.
func (r *rig) allVisits() []*visit {
	r.flow.mu.Lock()
	defer r.flow.mu.Unlock()
	return slices.Clone(r.visits)
}

// finish ends everything and holds what must always hold.
func (r *rig) finish() {
	r.t.Helper()
	close(r.s.stop)
	_ = r.Close()
	for _, v := range r.allVisits() {
		_ = v.Conn.Close()
		<-v.done
	}
	if _, broke := r.k.keys(); len(broke) > 0 {
		r.t.Errorf("Kafka's rules were broken: %v", broke)
	}
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	if r.s.uses != 0 {
		r.t.Errorf("%d credentials are still in use", r.s.uses)
	}
}

// answers takes answers in the background, each of which it tells by its correlation id,
// until the connection ends.
func (r *rig) answers() (<-chan int32, <-chan outcome[error]) {
	came := make(chan int32, 10_000)
	return came, later(func() error {
		for {
			id, _, err := takeAnswer(r.KafkaConnection)
			if err != nil {
				return err
			}
			came <- id
		}
	})
}

// bubble runs a test with the clock of testing/synctest.
func bubble(t *testing.T, f func(t *testing.T)) { synctest.Test(t, f) }
