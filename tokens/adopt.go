package tokens

import (
	"context"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"doorkeeper/internal/pause"
)

const (
	// adoptBound is how long a start waits, once the own token is there, for a
	// broker that can tell what was made before; after it, owners get new tokens.
	adoptBound = 3 * time.Second
	// findBound is how long one look waits for its answer.
	findBound = 2500 * time.Millisecond
	// expireWorkers expire at once what no owner's task takes.
	expireWorkers = 8
)

// keep is the goroutine that looks at Kafka's list of tokens: at the start, and
// after answers that were lost.
func (s *Source) keep(ctx context.Context) {
	finder, can := s.cfg.Issuer.(Finder)
	if !can {
		close(s.adopted)
		return
	}
	s.adoptAtStart(ctx, finder)
	close(s.adopted)
	s.sweeps.lost(time.Now()) // what was under way when an earlier run ended may come about yet
	for s.sweeps.wait(ctx) {
		found, err := s.look(ctx, finder)
		s.sweeps.looked(time.Now(), err == nil)
		if err == nil {
			s.distribute(ctx, found, false)
		}
	}
}

// adoptAtStart waits for the own token and hands the tokens that an earlier run of
// this instance made to the tasks of their owners. The answer must show the own new
// token: then that broker knows all that was made before it.
func (s *Source) adoptAtStart(ctx context.Context, finder Finder) {
	var own *Lease
	for {
		l, err := s.AcquireOwn(ctx)
		if err == nil {
			own = l
			break
		}
		if !pause.For(ctx, backoffFirst) {
			return
		}
	}
	defer own.Release()
	id := own.Token().ID
	bounded, cancel := context.WithTimeout(ctx, adoptBound)
	defer cancel()
	var last []Issued
	for n := 1; ; n++ {
		found, err := s.look(bounded, finder)
		if err == nil {
			last = found
			if slices.ContainsFunc(found, func(is Issued) bool { return is.ID == id }) {
				s.distribute(ctx, found, true)
				return
			}
		}
		if !pause.For(bounded, askDelay(n, 0.5)) {
			break
		}
	}
	if ctx.Err() == nil {
		s.cfg.Logger.Warn("it could not be told in time which tokens an earlier run left; owners get new ones, and what was left is expired later", zap.Int("found", len(last)))
		s.distribute(ctx, last, true)
	}
}

// look asks for the tokens with this instance's marker.
func (s *Source) look(ctx context.Context, finder Finder) ([]Issued, error) {
	ctx, cancel := context.WithTimeout(ctx, findBound)
	defer cancel()
	found, err := finder.Find(ctx, "", s.marker)
	if err != nil {
		known := asError(PhaseFind, err, "")
		s.failed(known)
		s.cfg.Logger.Warn("the tokens of this instance could not be listed", zap.Error(known))
		return nil, known
	}
	return found, nil
}

// distribute gives each owner's task what was found of its owner's. With inherit it
// is of an earlier run and may be adopted; tasks are made for owners that have none.
// Else it is what nobody knows of, and never adopted: the owner may have had a newer
// one since. What fits nowhere is expired. What is not this instance's is left alone.
func (s *Source) distribute(ctx context.Context, found []Issued, inherit bool) {
	own := s.Own()
	byOwner := make(map[string][]Issued)
	foreign := 0
	for _, is := range found {
		if !ours(is, own, s.marker) {
			foreign++
			continue
		}
		byOwner[is.Owner] = append(byOwner[is.Owner], is)
	}
	if foreign > 0 {
		s.cfg.Logger.Warn("tokens that name this instance as a renewer were made by somebody else; they are left alone", zap.Int("tokens", foreign))
	}
	var rest []Issued
	for owner, list := range byOwner {
		if !s.deliver(owner, own, list, inherit) {
			rest = append(rest, list...)
		}
	}
	s.expireList(ctx, rest)
}

// deliver hands the found tokens to the task of their owner; false: there is none,
// and there should not be one for them.
func (s *Source) deliver(owner, own string, list []Issued, inherit bool) bool {
	key := owner
	if owner == own {
		key = ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[key]
	if e == nil {
		wanted := inherit && s.phase == phaseRunning && !s.fullLocked() && !isMarker(owner) && key != "" &&
			slices.ContainsFunc(list, func(is Issued) bool { return s.adoptable(is, time.Time{}, nil) != nil })
		if !wanted {
			return false
		}
		e = s.addLocked(key)
	}
	e.mu.Lock()
	e.found, e.inherit = append(e.found, list...), inherit
	e.mu.Unlock()
	e.nudge()
	return true
}

// settleFound adopts the best of what was found, if the owner has no token.
func (e *entry) settleFound() {
	if t := e.inherited(); t != nil {
		e.publish(t, evAdopted)
	}
}

// inherited settles what was found, and returns what is to be published of it: of an
// earlier run, or what a lost answer told of.
func (e *entry) inherited() *Token {
	e.mu.Lock()
	found, since := e.found, e.lostAt
	adopt := (e.inherit || !since.IsZero()) && e.state != Live && e.state != Replacing
	if e.inherit {
		since = time.Time{}
	}
	e.found, e.inherit = nil, false
	e.mu.Unlock()
	return e.settle(found, adopt, since)
}

// settle chooses from what was found what can be adopted, newer than what was
// published before; everything else that is not in use here is to be expired. since
// is as for adoptable.
func (e *entry) settle(found []Issued, adopt bool, since time.Time) *Token {
	var best *Token
	var rest []*retired
	current := e.current.Load()
	for _, is := range found {
		if e.holds(is.ID) {
			continue
		}
		var t *Token
		if adopt {
			t = e.source.adoptable(is, since, e.nudge)
		}
		switch {
		case t == nil, current != nil && !t.Asked.After(current.Asked):
			rest = append(rest, e.source.leftover(is, e.nudge))
		case best == nil:
			best = t
		case t.Asked.After(best.Asked):
			rest = append(rest, &retired{token: best})
			best = t
		default:
			rest = append(rest, &retired{token: t})
		}
	}
	e.mu.Lock()
	e.retired = slices.Concat(e.retired, rest)
	e.mu.Unlock()
	return best
}

// holds tells whether a token is in use here, or about to be expired.
func (e *entry) holds(id string) bool {
	if t := e.current.Load(); t != nil && t.ID == id {
		return true
	}
	return slices.ContainsFunc(e.retired, func(r *retired) bool { return r.token.ID == id })
}

// recall looks, after an answer that was lost, for what it may have told of; that
// is adopted in place of a creation. While it cannot be told, nothing is created.
func (e *entry) recall(ctx context.Context) (*Token, *Error) {
	s := e.source
	finder, can := s.cfg.Issuer.(Finder)
	since := e.lostAt
	if since.IsZero() || !can {
		e.lostAt = time.Time{}
		return nil, nil
	}
	own := s.Own()
	owner := e.owner
	if owner == "" {
		owner = own // unknown at first: then all with the marker
	}
	var found []Issued
	var err error
	slotErr := s.inSlot(ctx, func() {
		bounded, cancel := context.WithTimeout(ctx, findBound)
		defer cancel()
		found, err = finder.Find(bounded, owner, s.marker)
	})
	if slotErr != nil {
		err = slotErr
	}
	if err != nil {
		known := *asError(PhaseFind, err, e.owner)
		known.Lost = false
		s.failed(&known)
		return nil, &known
	}
	e.lostAt = time.Time{}
	if own == "" {
		// Which of them are ours cannot be told yet. What was found stays until the
		// own token is there, and is then looked for again.
		return nil, nil
	}
	found = slices.DeleteFunc(found, func(is Issued) bool { return is.Owner != owner || !ours(is, own, s.marker) })
	return e.settle(found, true, since), nil
}

// expireRest expires, at the stop, what Kafka still lists of this instance.
func (s *Source) expireRest(ctx context.Context) {
	finder, can := s.cfg.Issuer.(Finder)
	own := s.Own()
	if !can || own == "" {
		return
	}
	found, err := s.look(ctx, finder)
	if err != nil {
		return
	}
	s.expireList(ctx, slices.DeleteFunc(found, func(is Issued) bool { return !ours(is, own, s.marker) }))
}

// expireList expires tokens that nobody uses, several at a time, once each; what
// fails is looked for again.
func (s *Source) expireList(ctx context.Context, list []Issued) {
	todo := make(chan Issued, len(list))
	for _, is := range list {
		todo <- is
	}
	close(todo)
	var group sync.WaitGroup
	for range min(len(list), expireWorkers) {
		group.Go(func() {
			for is := range todo {
				if err := s.expireOne(ctx, is.HMAC); err != nil {
					s.sweeps.lost(time.Now())
					s.cfg.Logger.Warn("a token that nobody uses could not be expired",
						zap.String("owner", is.Owner), zap.String("token_id", is.ID), zap.Error(err))
					continue
				}
				s.cfg.Logger.Info("a token that nobody uses is expired", zap.String("owner", is.Owner), zap.String("token_id", is.ID))
			}
		})
	}
	group.Wait()
}

// sweeps is when to look again for tokens that nobody here knows of.
type sweeps struct {
	wake chan struct{} // capacity 1

	mu       sync.Mutex
	lastLost time.Time // of the last lost answer
	at       time.Time // of the next look; zero: none is due
}

// lost says that something may have been left behind at now.
func (w *sweeps) lost(now time.Time) {
	w.mu.Lock()
	w.lastLost = now
	// Losses that go on do not put it off.
	if first := now.Add(sweepFirst); w.at.IsZero() || w.at.After(first) {
		w.at = first
	}
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// looked says that it was looked for at now; a look that failed begins anew.
func (w *sweeps) looked(now time.Time, well bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !well {
		w.lastLost = now
	}
	w.at, _ = nextSweep(w.lastLost, now)
}

// wait waits for the next look; false: ctx has ended.
func (w *sweeps) wait(ctx context.Context) bool {
	for {
		w.mu.Lock()
		at := w.at
		w.mu.Unlock()
		var due <-chan time.Time
		if !at.IsZero() {
			left := time.Until(at)
			if left <= 0 {
				return ctx.Err() == nil
			}
			timer := time.NewTimer(left)
			defer timer.Stop() // few: losses wake it, and they do not put off what is due
			due = timer.C
		}
		select {
		case <-due:
		case <-w.wake:
		case <-ctx.Done():
			return false
		}
	}
}
