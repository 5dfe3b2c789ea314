package devkafka

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha512"
	"encoding/base64"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// maxTokens bounds how many tokens there are; Kafka has no bound.
const maxTokens = 100_000

// principal is who somebody is, e.g. User:alice.
type principal struct{ kind, name string }

func user(name string) principal { return principal{"User", name} }

func (p principal) String() string { return p.kind + ":" + p.name }

// token is one token with all that still matters of its history.
type token struct {
	id               string
	hmac             []byte
	owner, requester principal
	renewers         []principal
	issued, max      time.Time
	// changes of which the last is the controller's truth. A broker may still be at an
	// earlier one.
	changes []*change
}

// ownedOrRenewable tells whether p is the owner, the requester or a renewer.
func (t *token) ownedOrRenewable(p principal) bool {
	return p == t.owner || p == t.requester || slices.Contains(t.renewers, p)
}

// movableBy tells who may renew and expire it: its owner or a renewer; neither its
// requester nor a super user.
func (t *token) movableBy(p principal) bool { return p == t.owner || slices.Contains(t.renewers, p) }

func (t *token) last() *change { return t.changes[len(t.changes)-1] }

// tokens are those of a cluster: what its controller does at once and its brokers learn
// of in time. Nothing runs in the background: whoever asks first after a sweep was due
// makes it. All methods take the time, which must not go back.
type tokens struct {
	nodes       []int32
	key         []byte // nil: there are no tokens
	expiry      time.Duration
	maxLifetime time.Duration
	propagation func(node int32) time.Duration
	sweep       time.Duration
	started     time.Time

	mu    sync.Mutex
	swept time.Time // the last sweep that was made
	byID  map[string]*token
}

func newTokens(cfg Config, nodes []int32, now time.Time) *tokens {
	t := &tokens{
		nodes: nodes, expiry: cfg.Expiry, maxLifetime: cfg.MaxLifetime, sweep: cfg.Sweep,
		propagation: cfg.Propagation, started: now, swept: now, byID: map[string]*token{},
	}
	if !cfg.NoSecretKey {
		t.key = random(32)
	}
	return t
}

// random is n bytes that nobody can guess.
func random(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	return b
}

// create makes a token. A lifetime of 0 or less asks for the longest there is; one that
// is longer is cut without an error.
func (t *tokens) create(now time.Time, owner, requester principal, renewers []principal, lifetime time.Duration) (listed, *kerr.Error) {
	if t.key == nil {
		return listed{}, kerr.DelegationTokenAuthDisabled
	}
	now = milliseconds(now)
	most := t.maxLifetime
	if lifetime > 0 {
		most = min(most, lifetime)
	}
	id := base64.RawURLEncoding.EncodeToString(random(16))
	mac := hmac.New(sha512.New, t.key)
	mac.Write([]byte(id))
	made := &token{
		id: id, hmac: mac.Sum(nil), owner: owner, requester: requester, renewers: renewers,
		issued: now, max: now.Add(most),
	}

	t.mu.Lock()
	defer t.mu.Unlock()
	t.sweepLocked(now)
	if len(t.byID) >= maxTokens {
		return listed{}, kerr.UnknownServerError
	}
	expiry := now.Add(min(most, t.expiry))
	t.changeLocked(made, now, expiry, false)
	t.byID[id] = made
	return listed{made, expiry}, nil
}

// setExpiry is what tokens that are made or renewed from now on live.
func (t *tokens) setExpiry(d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.expiry = d
}

// renew moves a token's expiry: to the given period from now, or the cluster's own for 0
// or less, but never past what its creation set as the most.
func (t *tokens) renew(now time.Time, by principal, mac []byte, period time.Duration) (time.Time, *kerr.Error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now = milliseconds(now)
	found, refusal := t.findLocked(now, mac)
	switch {
	case refusal != nil:
		return time.Time{}, refusal
	case found.last().expiry.Before(now):
		return time.Time{}, kerr.DelegationTokenExpired
	case !found.movableBy(by):
		return time.Time{}, kerr.DelegationTokenOwnerMismatch
	}
	if period <= 0 || period > t.expiry {
		period = t.expiry
	}
	expiry := earlier(now.Add(period), found.max)
	t.changeLocked(found, now, expiry, false)
	return expiry, nil
}

// expire ends a token after a period, 0 included: it then stays, expired, until a sweep.
// A period below 0 removes it at once, one that is expired too.
func (t *tokens) expire(now time.Time, by principal, mac []byte, period time.Duration) (time.Time, *kerr.Error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now = milliseconds(now)
	found, refusal := t.findLocked(now, mac)
	switch {
	case refusal != nil:
		return time.Time{}, refusal
	case !found.movableBy(by):
		return time.Time{}, kerr.DelegationTokenOwnerMismatch
	case period < 0:
		t.changeLocked(found, now, now, true)
		return time.UnixMilli(period.Milliseconds()), nil // as Kafka has it: the period, not a time
	case found.last().expiry.Before(now):
		return time.Time{}, kerr.DelegationTokenExpired
	}
	expiry := earlier(now.Add(period), found.max)
	t.changeLocked(found, now, expiry, false)
	return expiry, nil
}

// findLocked finds a token that was not removed, by its HMAC.
func (t *tokens) findLocked(now time.Time, mac []byte) (*token, *kerr.Error) {
	if t.key == nil {
		return nil, kerr.DelegationTokenAuthDisabled
	}
	t.sweepLocked(now)
	for _, k := range t.byID {
		if hmac.Equal(k.hmac, mac) && !k.last().removed {
			return k, nil
		}
	}
	return nil, kerr.DelegationTokenNotFound
}

// sweepLocked makes the sweep that was due last, and forgets tokens whose removal every
// node has seen.
func (t *tokens) sweepLocked(now time.Time) {
	due := t.started.Add(now.Sub(t.started) / t.sweep * t.sweep)
	if due.After(t.swept) {
		t.swept = due
		for _, k := range t.byID {
			if last := k.last(); !last.removed && last.expiry.Before(due) {
				t.changeLocked(k, due, last.expiry, true)
			}
		}
	}
	for id, k := range t.byID {
		if last := k.last(); last.removed && last.seenByAll(now) {
			delete(t.byID, id)
		}
	}
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// milliseconds is t as Kafka knows times.
func milliseconds(t time.Time) time.Time { return t.Truncate(time.Millisecond) }
