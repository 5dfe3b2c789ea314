package connections

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"
)

// The model test plays random schedules of one connection, its client, its broker and
// its owner's tokens, and holds what must hold for each (issue "Renewal"):
//
//  1. A request is written once, and 2. answered once, in order, with its own id.
//  3. None is read after the session end, 4. none on two legs at a time, 7. none between
//     SaslHandshake and the end of a login, and re-authentications are a second apart:
//     kafka_test.go holds these.
//  5. Every login is for the one owner.
//  6. No answer to an own request comes out, and no other is kept.
//  8. It ends as Closed, and no credential is in use. 9. Nothing is buffered: a request
//     that may not go out is not taken. 10. Nobody waits without a bound.
//
// DOORKEEPER_MODEL_SCHEDULES says how many are played, DOORKEEPER_MODEL_SEED where to
// begin. A failure names its seed; add it to modelSeeds.

// modelSeeds are schedules that once found something.
var modelSeeds = []uint64{
	114,    // a wait was counted from the oldest unanswered acks=0 produce, not from its own request
	101714, // share sessions came while a swap failed too late
}

func TestRandomSchedulesKeepTheInvariants(t *testing.T) {
	schedules, first := 1500, uint64(1)
	if testing.Short() || raceSlack > 0 {
		schedules = 300
	}
	if s := os.Getenv("DOORKEEPER_MODEL_SCHEDULES"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatal(err)
		}
		schedules = n
	}
	if s := os.Getenv("DOORKEEPER_MODEL_SEED"); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		first = n
	}
	var l *lab
	bubble(t, func(*testing.T) { l = newLab() }) // with the years of the bubbles
	var sum modelSum
	play := func(seed uint64) {
		bubble(t, func(t *testing.T) { newSchedule(t, l, seed).play(&sum) })
	}
	for _, seed := range modelSeeds {
		play(seed)
	}
	for i := range uint64(schedules) {
		if play(first + i); t.Failed() {
			t.Fatalf("seed %d", first+i)
		}
	}
	t.Logf("%d schedules, %d requests, %d renewals, %d of them swaps, %d ends by a fault; unanswered when they began: %v", schedules, sum.requests, sum.renewals, sum.swaps, sum.faults, sum.unanswered)
	if schedules >= 300 && (sum.renewals < schedules || sum.swaps < schedules/4 || sum.faults == 0) {
		t.Error("that is too little to prove anything")
	}
}

// modelSum adds schedules up.
type modelSum struct {
	requests, renewals, swaps, faults int
	unanswered                        map[int]int
}

// schedule is one random life.
type schedule struct {
	t    *testing.T
	rng  *rand.Rand
	seed uint64
	l    *lab
	rig  *rig

	// The broker's, decided beforehand by correlation id.
	plan   []planned
	fault  string        // the step of a re-authentication that goes wrong, "" for none
	at     int           // in which one
	how    int           // how
	reauth time.Duration // connections.max.reauth.ms
	abort  time.Duration // when somebody ends the connection, 0 for never
	policy RenewalPolicy
	moves  bool // the broker's address is another one now and then
	once   sync.Mutex
	broken string // what goes wrong with new legs, "" for nothing
	often  int    // one in so many of them
}

// planned is one request of the client.
type planned struct {
	Request
	key    int16
	think  time.Duration // before it
	takes  time.Duration // at the broker
	answer int           // bytes
	slow   time.Duration // that the client takes to read it
}

const (
	modelJoin  = 11
	modelFetch = 1
	modelPark  = 19
	modelPlain = 3
	modelQuiet = 0
)

func newSchedule(t *testing.T, l *lab, seed uint64) *schedule {
	s := &schedule{t: t, l: l, seed: seed, rng: rand.New(rand.NewPCG(seed, 7))}
	least := 3 * time.Second
	if seed%2 == 1 {
		least = 1200 * time.Millisecond // hardly more than the margin
	}
	s.reauth = least + s.upTo(20*time.Second)
	n := 5 + s.rng.IntN(40)
	for range n {
		s.plan = append(s.plan, s.request())
	}
	if s.rng.IntN(12) == 0 {
		s.abort = 1 + s.upTo(2*time.Minute)
	}
	if s.rng.IntN(5) == 0 {
		s.fault = []string{"handshake", "first", "final"}[s.rng.IntN(3)]
		s.at, s.how = s.rng.IntN(3), s.rng.IntN(4)
	}
	switch s.rng.IntN(5) {
	case 0, 1:
		s.policy = RenewSwap
	case 2:
		s.moves = true
	case 3:
		s.policy = RenewReauthenticate
	}
	if s.policy != RenewReauthenticate && s.rng.IntN(2) == 0 {
		s.broken = []string{"unreachable", "hangs", "refuses", "dies", "slow", "other"}[s.rng.IntN(6)]
		s.often = 1 + s.rng.IntN(4)
	}
	if s.policy != RenewReauthenticate && s.rng.IntN(6) == 0 {
		s.plan[s.rng.IntN(n)].Ties = true
	}
	return s
}

func (s *schedule) upTo(d time.Duration) time.Duration {
	return time.Duration(s.rng.Int64N(int64(d) + 1))
}

// request draws one. What a broker takes for a request beyond what that asks for stays
// well below the margin, as the margin is meant.
func (s *schedule) request() planned {
	p := planned{key: modelPlain, Request: Request{Answered: true}, answer: s.rng.IntN(200), takes: s.upTo(5 * time.Millisecond)}
	switch s.rng.IntN(10) {
	case 0:
		p.key, p.Wait, p.takes = modelJoin, Unbounded, s.upTo(100*time.Second)
	case 1, 2, 3:
		p.key, p.Wait = modelFetch, s.upTo(5*time.Second)
		if s.rng.IntN(10) == 0 {
			p.Wait = s.upTo(60 * time.Second)
		}
		p.takes = s.upTo(p.Wait)
		if s.rng.IntN(4) == 0 {
			p.takes = p.Wait
		}
		if s.rng.IntN(20) == 0 {
			p.answer, p.slow = 200<<10, s.upTo(300*time.Millisecond)
		}
	case 4:
		p.key, p.Wait = modelPark, s.upTo(30*time.Second)
		p.takes = s.upTo(p.Wait)
	case 5, 6:
		p.key, p.Answered, p.answer, p.takes = modelQuiet, false, 0, s.upTo(50*time.Millisecond)
	}
	switch s.rng.IntN(6) {
	case 0, 1, 2: // at once
	case 3, 4:
		p.think = s.upTo(2 * time.Second)
	case 5:
		p.think = s.upTo(s.reauth * 3 / 2)
	}
	return p
}

func (s *schedule) play(sum *modelSum) {
	k := &kafka{
		t:     s.t,
		grant: func() time.Duration { return s.reauth },
		wait:  func(r request) time.Duration { return s.plan[r.correlation].takes },
		size:  func(r request) int { return s.plan[r.correlation].answer },
	}
	attempt := -1
	k.broken = func(step string, v *visit, r request) (bool, bool) {
		s.once.Lock()
		defer s.once.Unlock()
		if step == "handshake" {
			attempt++
		}
		if step != s.fault || attempt != s.at {
			return false, false
		}
		switch {
		case s.how == 0:
			return true, hangUp(v, r)
		case s.how == 1:
			return true, hang(v, r) && false
		case s.how == 2 && step == "handshake":
			return true, tooSoon(v, r)
		case s.how == 2:
			return true, v.refuse(r, 58, "no")
		}
		return true, v.frame(r.correlation, []byte{1, 2, 3}) && hang(v, r) && false
	}
	k.policy, k.dial = s.policy, s.dial
	r := openRig(s.t, s.l, k)
	s.rig = r
	r.s.known = func(t *token) bool { return time.Since(t.born) > 50*time.Millisecond } // brokers know it a moment later
	r.s.newest.Load().born = time.Time{}
	stop := make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() { s.publish(stop) })
	group.Go(func() { s.interrupt(stop) })

	ended := later(s.read)
	sent, err := s.write()
	if err == nil {
		_ = r.Finish()
	}
	last := <-ended
	close(stop)
	group.Wait()
	if r.State() != Closed && err != nil {
		if !errors.Is(err, ErrSessionEnding) {
			s.t.Errorf("it ended with %v, and is %v", err, r.State())
		}
	}
	r.finish()
	if s.seed != 0 && r.State() != Closed {
		s.t.Errorf("it ends as %v", r.State())
	}
	s.judge(sent, err, last.value)
	if s.t.Failed() {
		s.tell()
	}

	sum.requests += sent
	if sum.unanswered == nil {
		sum.unanswered = make(map[int]int)
	}
	for _, renewal := range r.s.renewals() {
		if renewal.Err == nil {
			sum.renewals++
			if renewal.Kind == Swap {
				sum.swaps++
			}
			sum.unanswered[renewal.Unanswered]++
		}
	}
	if err != nil {
		sum.faults++
	}
}

// interrupt ends the connection from outside, as a session's end does, in some lives.
func (s *schedule) interrupt(stop chan struct{}) {
	if s.abort == 0 {
		return
	}
	select {
	case <-time.After(s.abort):
		s.rig.Abort()
	case <-stop:
	}
}

// dial is what new legs meet.
func (s *schedule) dial(n int, sc *script) error {
	if !s.isBroken(n) {
		return nil
	}
	switch s.broken {
	case "unreachable":
		return errors.New("connection refused")
	case "hangs":
		sc.first = hang
	case "refuses":
		sc.final = func(v *visit, r request) bool { return v.refuse(r, 58, "no") }
	case "slow":
		time.Sleep(time.Duration(n%7) * time.Second)
	case "dies":
		sc.after = func(v *visit) { _ = v.plain.Close() }
	case "other":
		sc.versions = func(v *visit, r request) bool { return v.reply(r, versionsResponse(0, 1, 3, 36, 18)) }
	}
	return nil
}

func (s *schedule) isBroken(leg int) bool {
	return leg > 0 && s.broken != "" && leg%s.often == 0
}

// tell writes down what happened, for whoever looks for the mistake.
func (s *schedule) tell() {
	s.t.Logf("seed %d: sessions of %v; fault %q %d in renewal %d; policy %d, it moves: %v, one new leg in %d %q", s.seed, s.reauth, s.fault, s.how, s.at, s.policy, s.moves, s.often, s.broken)
	for _, r := range s.rig.k.reads {
		at := r.at.Sub(s.rig.start).Round(time.Millisecond)
		if own(r.key) {
			s.t.Logf("%10v: leg %d read key %d", at, r.leg, r.key)
			continue
		}
		s.t.Logf("%10v: leg %d read %d: %+v", at, r.leg, r.correlation, s.plan[r.correlation])
	}
	for _, r := range s.rig.s.renewals() {
		s.t.Logf("renewal: %+v", r)
	}
}

// publish replaces the token now and then.
func (s *schedule) publish(stop chan struct{}) {
	rng := rand.New(rand.NewPCG(s.seed, 8))
	for i := 2; ; i++ {
		select {
		case <-time.After(time.Duration(rng.Int64N(int64(time.Minute)))):
		case <-stop:
			return
		}
		s.rig.s.publish(fmt.Sprint("token-", i), time.Hour)
		if s.moves {
			s.rig.s.where.Store(&Target{Node: 7, Host: "broker.test", Port: int32(9000 + i)})
		}
	}
}

// write is the client's request side: it returns how many were written, and what ended
// it.
func (s *schedule) write() (sent int, err error) {
	for i, p := range s.plan {
		time.Sleep(p.think)
		began := time.Now()
		err := s.rig.Begin(p.Request)
		if waited := time.Since(began); waited > s.bound() {
			s.t.Errorf("request %d waited %v", i, waited)
		}
		if err == nil {
			_, err = s.rig.Write(rawRequest(p.key, int32(i), 20))
		}
		if err == nil {
			err = s.rig.End()
		}
		if err == nil && (i == len(s.plan)-1 || s.plan[i+1].think > 0) {
			err = s.rig.Flush()
		}
		if err != nil {
			return sent, err
		}
		sent++
	}
	return sent, nil
}

// bound is what a request may wait: for all that a broker may have to do before, for a
// token, and for three answers of one that hangs.
func (s *schedule) bound() time.Duration {
	sum := 10*time.Second + 3*defaultStall
	if s.broken != "" { // dials that hang, a minute each here, and the patience with them
		sum += 2*time.Minute + 2*swapPatience
	}
	for _, p := range s.plan {
		sum += p.takes + p.slow
	}
	return sum
}

// read is the client's response side: it holds what comes against the plan.
func (s *schedule) read() error {
	next := 0
	for {
		a, err := s.rig.NextAnswer()
		if err != nil {
			return err
		}
		for next < len(s.plan) && !s.plan[next].Answered {
			next++
		}
		if next == len(s.plan) || a.CorrelationID != int32(next) || a.Size != s.plan[next].answer {
			s.t.Errorf("answer %d of %d bytes came where %d is due", a.CorrelationID, a.Size, next)
			s.rig.Abort()
			return nil
		}
		pause := s.plan[next].slow / 8
		for left := a.Size; left > 0; {
			if pause > 0 {
				time.Sleep(pause)
			}
			n, err := s.rig.Read(make([]byte, 32<<10))
			if err != nil {
				return err
			}
			left -= n
		}
		s.rig.Answered()
		next++
		s.rig.mu.Lock()
		held := s.rig.unread
		s.rig.mu.Unlock()
		if held != 0 {
			s.t.Errorf("%d bytes of an answer are left", held)
		}
	}
}

// aborted tells whether the life ended by interrupt.
func (s *schedule) aborted(ends ...error) bool {
	for _, err := range ends {
		var e *Error
		if s.abort > 0 && errors.As(err, &e) && e.Fault == LocallyClosed {
			return true
		}
	}
	return false
}

// judgeEnding holds a life against the plan whose leg could not be renewed: that must have
// a cause, and nothing that was written may be lost.
func (s *schedule) judgeEnding(sent int, ids []int32, read error) {
	if s.fault == "" && (s.broken == "" || s.broken == "slow") {
		s.t.Errorf("the session ended, and nothing was wrong")
	}
	if len(ids) != sent || !errors.Is(read, ErrSessionEnding) && !errors.Is(read, io.EOF) {
		s.t.Errorf("%d requests were written, %d read, and the answers ended with %v", sent, len(ids), read)
	}
	if s.rig.observer.closes("session_end") != 1 {
		s.t.Errorf("closes: %v", s.rig.observer.forced)
	}
}

// lost tells of a leg that died in use, whether a request found it so or a renewal. A
// net.Pipe says ErrClosedPipe where a socket says that its peer has gone.
func lost(err error) bool {
	var e *Error
	return errors.As(err, &e) && (e.Phase == PhaseRelay || e.Fault == PeerClosed || errors.Is(err, io.ErrClosedPipe))
}

// own tells the connection's own requests from its client's.
func own(key int16) bool { return key == 17 || key == 36 || key == keyVersions }

// judge holds the end against the plan.
func (s *schedule) judge(sent int, wrote, read error) {
	s.rig.k.mu.Lock()
	defer s.rig.k.mu.Unlock()
	var ids []int32
	tied := -1 // the leg that share sessions are on
	for _, r := range s.rig.k.reads {
		if own(r.key) {
			continue
		}
		ids = append(ids, r.correlation)
		if tied >= 0 && r.leg != tied {
			s.t.Errorf("request %d was read on leg %d, and share sessions are on leg %d", r.correlation, r.leg, tied)
		}
		if s.plan[r.correlation].Ties {
			tied = r.leg
		}
		if s.broken == "other" && s.isBroken(r.leg) {
			s.t.Errorf("request %d was read on leg %d, which has other versions", r.correlation, r.leg)
		}
	}
	for i, id := range ids {
		if id != int32(i) {
			s.t.Errorf("the broker read %v", ids)
			break
		}
	}
	if slices.ContainsFunc(s.rig.k.users, func(u string) bool { return len(u) < 6 || u[:6] != "token-" }) {
		s.t.Errorf("logins of %v", s.rig.k.users)
	}
	switch {
	case s.aborted(wrote, read):
	case s.broken == "dies" && (lost(wrote) || lost(read)): // a leg in use died, and its client is told so
		if len(ids) > sent+1 {
			s.t.Errorf("%d requests were written, %d read", sent, len(ids))
		}
	case errors.Is(wrote, ErrSessionEnding):
		s.judgeEnding(sent, ids, read)
	case s.fault == "" || wrote == nil:
		if wrote != nil || !errors.Is(read, io.EOF) || len(ids) != len(s.plan) || sent != len(s.plan) {
			s.t.Errorf("%d of %d requests were written (%v), %d read, the answers ended with %v; fault %s", sent, len(s.plan), wrote, len(ids), read, s.fault)
		}
	case len(ids) > sent:
		s.t.Errorf("%d requests were written, %d read", sent, len(ids))
	default:
		var e *Error
		if !errors.As(wrote, &e) || e.Phase != PhaseMechanism && e.Phase != PhaseAuthenticate {
			s.t.Errorf("it ended with %v", wrote)
		}
	}
}
