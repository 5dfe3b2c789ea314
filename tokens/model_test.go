package tokens

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"doorkeeper/internal/secret"
)

// Random schedules of everything that can happen to a few owners. Sessions come and
// go, logins take time; answers are late, lost, refused, for somebody else; what is
// lost happens minutes later; brokers lag and hang; the controller's clock steps; an
// administrator expires tokens; the gateway is stopped and started again. The
// invariants:
//
//  1. at most one creation in flight per owner (and instance);
//  2. a published token is never older than one published before;
//  3. it is published only for the owner that Kafka's answer named;
//  4. no token is handed out past its life minus the margin while a newer one can be
//     had: never by Acquire, and by no lease once Kafka has been well for two minutes;
//  5. every created token ends expired, adopted or dead by its lifetime, and what
//     others made is left alone;
//  6. no creation follows a failed one sooner than the back-off's floor.
//
// DOORKEEPER_TOKEN_SCHEDULES sets their number: 100,000 for the long form.
func TestRandomSchedules(t *testing.T) {
	seeds := 2000
	if testing.Short() {
		seeds = 100
	}
	if text := os.Getenv("DOORKEEPER_TOKEN_SCHEDULES"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		seeds = n
	}
	workers := runtime.GOMAXPROCS(0)
	for w := range workers {
		t.Run(fmt.Sprint("worker-", w), func(t *testing.T) {
			t.Parallel()
			for seed := w; seed < seeds && !t.Failed(); seed += workers {
				t.Run(fmt.Sprint(seed), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { newModel(t, uint64(seed)).run() })
				})
			}
		})
	}
}

const modelOwners = 2

// model is one schedule.
type model struct {
	*bed
	running atomic.Pointer[Source] // also while it is stopped
	rndMu   sync.Mutex
	rnd     *rand.Rand

	mu        sync.Mutex
	wellSince time.Time // zero: something is the matter
	newest    map[string]time.Time
	answered  map[string]string // owner by token id, as answered
	failures  map[string]*failures

	storyMu sync.Mutex
	story   []string // the last of what happened, told if the schedule fails
}

// failures are the last failed creations of one owner in a row.
type failures struct {
	at      []time.Time // when they ended
	refused bool
}

func newModel(t *testing.T, seed uint64) *model {
	m := &model{
		bed: newBed(t, nil), rnd: rand.New(rand.NewPCG(seed, 7)),
		newest: map[string]time.Time{}, answered: map[string]string{}, failures: map[string]*failures{},
	}
	k := m.kafka
	k.life = time.Duration(2500+m.roll(120_000)) * time.Millisecond
	if m.roll(4) == 0 {
		k.life = time.Hour
	}
	k.onCreate, k.onAnswer = m.onCreate, m.onAnswer
	m.config.Idle = time.Duration(1+m.roll(100)) * time.Second
	m.config.Logger = zap.New(&publications{model: m})
	if m.roll(4) == 0 {
		m.config.CreationRate = 1
	}
	return m
}

func (m *model) roll(n int) int {
	m.rndMu.Lock()
	defer m.rndMu.Unlock()
	return m.rnd.IntN(n)
}

func (m *model) nap(most time.Duration) { time.Sleep(time.Duration(m.roll(int(most)))) }

func (m *model) well() (time.Duration, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return time.Since(m.wellSince), !m.wellSince.IsZero()
}

// onCreate decides about one creation; the fake's mu is not held.
func (m *model) onCreate(n int, c Creation) error {
	_, well := m.well()
	what := m.roll(12)
	if well {
		what = -1
	}
	var began time.Time
	m.kafka.set(func() { m.kafka.loseAll, began = what == 0 || what == 1, m.kafka.at[n-1] })
	m.mu.Lock()
	defer m.mu.Unlock()
	f := m.failures[c.Owner]
	if f == nil {
		f = &failures{}
		m.failures[c.Owner] = f
	}
	m.checkBackoff(c.Owner, f, began)
	var err error
	switch what {
	case 2:
		err = brokerError(PhaseCreate, codeNotAuthorized, errors.New("refused"), c.Owner, "")
	case 3:
		err = brokerError(PhaseCreate, 41, errors.New("not controller"), c.Owner, "")
	case 4:
		err = brokerError(PhaseCreate, codeTokensDisabled, errors.New("disabled"), c.Owner, "")
	}
	m.tell("creation", zap.String("owner", c.Owner), zap.Time("began", began), zap.Int("what", what))
	if what >= 0 && what <= 4 {
		f.at = append(f.at, time.Now())
		f.refused = what == 2 || what == 4
	} else {
		*f = failures{}
	}
	return err
}

// checkBackoff is invariant 6.
func (m *model) checkBackoff(owner string, f *failures, began time.Time) {
	if len(f.at) == 0 {
		return
	}
	since := began.Sub(f.at[len(f.at)-1])
	switch {
	case f.refused && since < backoffFloor+refusalLeast-time.Millisecond:
		m.Errorf("%q: a creation %v after a refusal", owner, since)
	case since < 150*time.Millisecond-time.Millisecond:
		m.Errorf("%q: a creation %v after one that failed", owner, since)
	case len(f.at) >= flightAttempts && began.Sub(f.at[len(f.at)-flightAttempts]) < backoffFloor:
		m.Errorf("%q: %d creations within the back-off's floor", owner, flightAttempts+1)
	}
}

// onAnswer changes an answer now and then; the fake's mu is held.
func (m *model) onAnswer(is *Issued) {
	_, well := m.well()
	if !well && m.roll(15) == 0 && is.Owner != m.kafka.self {
		is.Owner = "user-x"
		m.kafka.tokens[is.ID].is.Owner = is.Owner // nobody asked for it; it may be adopted for whom it is
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.answered[is.ID] = is.Owner
}

// publications is a zap core that sees what is published.
type publications struct {
	zapcore.LevelEnabler
	model *model
}

func (p *publications) Enabled(zapcore.Level) bool        { return true }
func (p *publications) With([]zapcore.Field) zapcore.Core { return p }
func (p *publications) Sync() error                       { return nil }
func (p *publications) Check(e zapcore.Entry, c *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	return c.AddCore(e, p)
}

func (p *publications) Write(e zapcore.Entry, fields []zapcore.Field) error {
	m := p.model
	m.tell(e.Message, fields...)
	switch e.Message {
	case "token task":
		m.Errorf("an illegal event: %v", fields)
		return nil
	case "a token is created", "a token made earlier is adopted":
	default:
		return nil
	}
	tok, _ := fields[0].Interface.(*Token)
	m.mu.Lock()
	defer m.mu.Unlock()
	owner := tok.Owner
	if answered, known := m.answered[tok.ID]; !known || answered != owner {
		m.Errorf("%v is published, Kafka said %q", tok, answered)
	}
	if tok.Asked.Before(m.newest[owner]) {
		m.Errorf("%v of %v is published after one of %v", tok, tok.Asked, m.newest[owner])
	}
	m.newest[owner] = tok.Asked
	key := owner
	if owner == gatewayName {
		key = ""
	}
	delete(m.failures, key) // what follows a publication does not follow a failure
	return nil
}

// tell keeps a line of the story. Which goroutine goes first differs from run to
// run, so that a seed alone does not bring a failure back.
func (m *model) tell(what string, fields ...zapcore.Field) {
	enc := zapcore.NewMapObjectEncoder()
	for _, f := range fields {
		f.AddTo(enc)
	}
	m.storyMu.Lock()
	defer m.storyMu.Unlock()
	if len(m.story) >= 60 && !m.Failed() {
		m.story = slices.Delete(m.story, 0, 20)
	}
	m.story = append(m.story, fmt.Sprint(time.Now().Format("04:05.000"), " ", what, " ", enc.Fields))
}

// Errorf tells of the fault where it comes in the story.
func (m *model) Errorf(format string, args ...any) {
	m.tell("FAULT " + fmt.Sprintf(format, args...))
	m.T.Errorf(format, args...)
}

func (m *model) run() {
	defer func() {
		if m.Failed() {
			for _, line := range m.story {
				m.Log(line)
			}
		}
	}()
	k := m.kafka
	foreign := m.plantForeign()
	end := time.Now().Add(time.Duration(60+m.roll(240)) * time.Second)
	m.begin(m.roll(3) == 0)
	var group sync.WaitGroup
	group.Go(func() { m.weather(end) })
	for i := range modelOwners {
		for range 2 {
			group.Go(func() {
				for time.Now().Before(end) {
					m.nap(20 * time.Second)
					m.session(m.running.Load(), fmt.Sprint("user-", i))
				}
			})
		}
	}
	for range m.roll(3) {
		m.nap(100 * time.Second)
		m.restart(m.roll(3) == 0)
	}
	group.Wait()

	// Kafka is well from here on, and the lost answers' tokens are all there or over.
	m.calm()
	time.Sleep(k.stuck + sweepLast + 2*time.Minute)
	for i := range modelOwners {
		l, err := m.source.Acquire(m.ctx, fmt.Sprint("user-", i))
		if err != nil {
			m.Errorf("with Kafka well: %v", err)
			continue
		}
		if life, err := k.login(l.Token()); err != nil || life <= 0 {
			m.source.ReportDead(l.Token()) // after a step of the clock it may be over
			if l2, err := m.source.Acquire(m.ctx, fmt.Sprint("user-", i)); err != nil {
				m.Errorf("with Kafka well, after a dead one: %v", err)
			} else {
				l2.Release()
			}
		}
		l.Release()
		if n := len(m.ours(fmt.Sprint("user-", i))); n > 2 {
			m.Errorf("%d tokens of one owner with Kafka well", n)
		}
	}
	m.restart(true) // adopts, and expires at its stop
	time.Sleep(time.Duration(1+m.roll(20)) * time.Second)
	m.stop()
	m.verdict()
	if left := m.ours(""); len(left) > 0 {
		m.Errorf("left behind: %v", left)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, id := range foreign {
		if k.tokens[id] == nil {
			m.Errorf("%s of somebody else is expired", id)
		}
	}
}

// restart stops the source and starts another, which knows nothing.
func (m *model) restart(expireOnStop bool) {
	if d := m.stop(); d > DefaultStopWithin {
		m.Errorf("the stop took %v", d)
	}
	m.mu.Lock()
	clear(m.newest)
	clear(m.failures)
	m.mu.Unlock()
	m.nap(10 * time.Second)
	m.begin(expireOnStop)
}

func (m *model) begin(expireOnStop bool) {
	m.start(func(c *Config) { c.ExpireOnStop = expireOnStop })
	m.running.Store(m.source)
}

// ours are the tokens of this instance that are not over, of one owner or all.
func (m *model) ours(owner string) (ids []string) {
	k := m.kafka
	k.mu.Lock()
	defer k.mu.Unlock()
	for id, t := range k.tokens {
		if (owner == "" || t.is.Owner == owner) && ours(t.is, gatewayName, testMarker) && k.now().Before(t.is.Expiry) {
			ids = append(ids, id+" of "+t.is.Owner)
		}
	}
	return ids
}

// plantForeign puts tokens there that look like ours.
func (m *model) plantForeign() (ids []string) {
	for i, is := range []Issued{
		{Owner: "user-0", Requester: "mallory", Renewers: []string{gatewayName, testMarker}},
		{Owner: "mallory", Requester: "mallory", Renewers: []string{testMarker}},
		{Owner: "user-1", Requester: gatewayName, Renewers: []string{gatewayName, "doorkeeper-gw-2"}},
	} {
		is.ID, is.OwnerType = fmt.Sprint("foreign-", i), "User"
		is.HMAC = secret.New(is.ID)
		is.Issue, is.Expiry = m.kafka.now(), m.kafka.now().Add(100*365*24*time.Hour)
		m.kafka.plant(is)
		ids = append(ids, is.ID)
	}
	return ids
}

// weather changes what goes wrong, until end.
func (m *model) weather(end time.Time) {
	k := m.kafka
	for time.Now().Before(end) {
		if m.roll(3) == 0 {
			m.calm()
			m.nap(2 * time.Minute)
			continue
		}
		m.mu.Lock()
		m.wellSince = time.Time{}
		m.mu.Unlock()
		k.set(func() {
			k.latency = time.Duration(m.roll(3000)) * time.Millisecond
			k.lag[int32(1+m.roll(3))] = time.Duration(m.roll(4000)) * time.Millisecond
			k.hung[int32(1+m.roll(3))] = m.roll(2) == 0
			k.lagList = time.Duration(m.roll(1000)) * time.Millisecond
			k.hangFind = m.roll(5) == 0
			k.failFind, k.failExp = m.roll(3), m.roll(3)
			k.stuck = time.Duration(m.roll(3)*m.roll(100)) * time.Second
			k.unswept = m.roll(2) == 0
			k.failList = m.roll(4) == 0
			switch m.roll(6) {
			case 0: // the controller's clock steps, or another controller has another
				k.clock += time.Duration(m.roll(1200)-600) * time.Second
			case 1: // an administrator deletes everything
				for id, t := range k.tokens {
					if ours(t.is, gatewayName, testMarker) {
						delete(k.tokens, id)
					}
				}
			}
		})
		m.nap(30 * time.Second)
	}
}

func (m *model) calm() {
	k := m.kafka
	k.set(func() {
		clear(k.lag)
		clear(k.hung)
		k.latency, k.lagList, k.hangFind, k.failFind, k.failExp = 10*time.Millisecond, 0, false, 0, 0
		k.unswept, k.failList, k.loseAll = false, false, false
	})
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.wellSince.IsZero() {
		m.wellSince = time.Now()
	}
}

// session is one client's: a few logins under one lease.
func (m *model) session(source *Source, owner string) {
	called := time.Now()
	ctx, cancel := context.WithTimeout(m.ctx, time.Duration(100+m.roll(30_000))*time.Millisecond)
	defer cancel()
	l, err := source.Acquire(ctx, owner)
	if err != nil {
		if d := time.Since(called); d > 20*time.Second {
			m.Errorf("Acquire failed after %v: %v", d, err)
		}
		return
	}
	defer l.Release()
	if t := l.Token(); !t.usableAt(time.Now()) {
		m.Errorf("Acquire gave %v with %v left", t, t.Left())
	}
	for range 1 + m.roll(4) {
		tok, release := l.Use()
		if tok.Owner != owner {
			m.Errorf("token of %q for %q", tok.Owner, owner)
		}
		wellFor, well := m.well()
		if well && wellFor > 2*time.Minute && !source.isStopped() && !tok.usableAt(time.Now()) {
			m.Errorf("%v is handed out with %v left, and Kafka has been well for %v", tok, tok.Left(), wellFor)
		}
		switch life, err := m.kafka.login(tok); {
		case err != nil:
			source.Invalidate(tok)
		case life == 0:
			source.ReportDead(tok)
		case !well && m.roll(12) == 0:
			_ = m.kafka.Expire(m.ctx, tok.hmac)
		case m.roll(12) == 0:
			source.Invalidate(tok)
		case !well && m.roll(20) == 0:
			_ = source.ExpireOwner(ctx, owner)
		}
		if m.roll(4) == 0 {
			_ = source.Await(ctx, tok, int32(1+m.roll(3)))
		}
		if m.roll(8) == 0 {
			_ = slices.ContainsFunc(source.List(), func(v View) bool { return v.Held < 0 })
		}
		m.nap(4 * time.Second)
		release()
		m.nap(time.Duration(1+m.roll(20)) * time.Second)
	}
}

func (s *Source) isStopped() bool {
	select {
	case <-s.stopped:
		return true
	default:
		return false
	}
}
