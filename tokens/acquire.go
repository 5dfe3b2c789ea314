package tokens

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Own is the name of the gateway's own principal, as Kafka gave it when the own
// token was created; empty before.
func (s *Source) Own() string {
	if p := s.own.Load(); p != nil {
		return *p
	}
	return ""
}

// Acquire gives a lease on owner's token. The caller has verified owner and calls
// Release on the lease. All callers of one owner share one creation; it waits
// until a token is published, and ends with an *Error when ctx ends, when that
// creation fails (in less than 8 s where creations need not wait for their turn),
// or when the source stops. While the back-off of a failed
// creation runs, it fails at once with the same *Error. A caller that gives up does
// not disturb the others.
//
// No token is created before the gateway's own principal is known and what was
// made before this start has been looked for: its own token comes first. The
// gateway's own principal and the markers are refused as owners.
func (s *Source) Acquire(ctx context.Context, owner string) (*Lease, error) {
	if owner == "" || owner == s.Own() || isMarker(owner) {
		return nil, s.protectedError(owner)
	}
	return s.acquire(ctx, owner)
}

func isMarker(owner string) bool { return strings.HasPrefix(owner, MarkerPrefix) }

// AcquireOwn gives a lease on the token of the gateway's own principal, whose
// name it learns by it. Else it is as Acquire.
func (s *Source) AcquireOwn(ctx context.Context) (*Lease, error) {
	return s.acquire(ctx, "")
}

func (s *Source) acquire(ctx context.Context, owner string) (*Lease, error) {
	e, err := s.join(owner)
	if err != nil {
		return nil, err
	}
	l := &Lease{entry: e}
	if err := e.await(ctx); err != nil {
		l.Release()
		return nil, err
	}
	if owner != "" && owner == s.Own() {
		// Asked for before the own name was known, and the task created nothing.
		l.Release()
		return nil, s.protectedError(owner)
	}
	return l, nil
}

// join finds or makes the entry and counts one lease on it.
func (s *Source) join(owner string) (*entry, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.phase == phaseStopped {
		return nil, s.stoppedError(owner)
	}
	e, known := s.entries[owner]
	if !known {
		if owner != "" && s.fullLocked() {
			return nil, &Error{
				Phase: PhaseAcquire, Reason: ReasonLimit, Owner: owner, Node: NoNode, Retry: true,
				Err:  fmt.Errorf("%d owners are held", s.cfg.Limit),
				Cure: "raise limits.tokens, or lower tokens.idle (each token costs every broker about 5 ms at its start)",
			}
		}
		e = s.addLocked(owner)
	}
	e.mu.Lock()
	e.leases++
	e.mu.Unlock()
	return e, nil
}

// addLocked makes the entry of an owner and begins its task.
func (s *Source) addLocked(owner string) *entry {
	e := newEntry(s, owner)
	s.entries[owner] = e
	s.spawnLocked(e.run)
	return e
}

func (s *Source) fullLocked() bool {
	n := len(s.entries)
	if _, own := s.entries[""]; own {
		n--
	}
	return n >= s.cfg.Limit
}

// forget takes e out and keeps further logins off its token, unless somebody came
// meanwhile or a login outlives its session's lease.
func (s *Source) forget(e *entry) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.leases > 0 || len(e.found) > 0 || len(e.orders) > 0 {
		return false
	}
	if t := e.current.Load(); t != nil && !t.seal() {
		e.idleSince = time.Now() // looked at again after as long once more
		return false
	}
	delete(s.entries, e.owner)
	return true
}

// find is the entry of an owner by name, the gateway's own included; nil: none.
func (s *Source) find(owner string) *entry {
	if owner == s.Own() {
		owner = ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.entries[owner]
}

// Invalidate says that a broker refused a login with t. If t is the published
// token of its owner, the brokers are asked once whether they know it, and it is
// replaced if none does; Acquire waits for the outcome. Invalidate never blocks.
// Calls within a second of the last check of that owner do nothing.
func (s *Source) Invalidate(t *Token) {
	if e := s.find(t.Owner); e != nil {
		e.invalidate(t)
	}
}

// ReportDead says that a broker accepted a login with t but gave its session no
// life (session_lifetime_ms 0, KIP-368): for that broker t is over, though brokers
// list it until they sweep it, so that nothing would come of asking. If t is the
// published token of its owner, it is given up at once and another one created;
// Acquire waits for it. If that happens again within ten minutes, the fault is
// rather that broker's clock: t then serves on elsewhere while its successor is
// created, and each successor comes later than the one before (up to 5 min).
// ReportDead never blocks.
func (s *Source) ReportDead(t *Token) {
	if e := s.find(t.Owner); e != nil {
		e.reportDead(t)
	}
}

func (s *Source) stoppedError(owner string) *Error {
	return &Error{Phase: PhaseAcquire, Reason: ReasonStopped, Owner: owner, Node: NoNode}
}

func (s *Source) protectedError(owner string) *Error {
	return &Error{
		Phase: PhaseAcquire, Reason: ReasonProtected, Owner: owner, Node: NoNode,
		Err: errors.New("a client must not become this principal"),
	}
}
