package tokens

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap/zapcore"

	"doorkeeper/internal/secret"
)

// Token is one delegation token. Its exported fields never change. Under every
// verb and in every encoder it shows its id and owner alone.
type Token struct {
	// ID is the SCRAM user name.
	ID string
	// Owner is the name of the principal that a login with the token becomes,
	// without "User:".
	Owner string
	// Password is the SCRAM password: the HMAC in base64 (standard, padded).
	Password secret.Text
	// Derived keeps the keys derived from Password, for as long as the token lives.
	Derived *secret.Memo
	// Life is expiry minus issue, by the controller's clock.
	Life time.Duration
	// Asked is the moment (own monotonic clock) before the creation was asked
	// for, of an adopted token about so: the life ends at Asked+Life or a little
	// later.
	Asked time.Time

	hmac secret.Text
	plan schedule
	made time.Time // of the answer to the creation; zero for an adopted token

	mu       sync.Mutex
	uses     int    // logins under way
	sealed   bool   // about to be expired: no login may begin
	released func() // wakes the owner's task; nil for tokens made elsewhere

	ready readiness // ready.go
}

func newToken(is Issued, p schedule, asked, made time.Time, released func()) *Token {
	return &Token{
		ID:       is.ID,
		Owner:    is.Owner,
		Password: secret.New(base64.StdEncoding.EncodeToString([]byte(is.HMAC.Reveal()))),
		Derived:  new(secret.Memo),
		Life:     lifeOf(is.Issue, is.Expiry),
		Asked:    asked,
		hmac:     is.HMAC,
		plan:     p,
		made:     made,
		released: released,
	}
}

// Left is the life that is left, by the own monotonic clock; negative when over.
func (t *Token) Left() time.Duration { return t.plan.dead - time.Since(t.Asked) }

func (t *Token) usableAt(now time.Time) bool { return now.Sub(t.Asked) < t.plan.usable }
func (t *Token) deadAt(now time.Time) bool   { return now.Sub(t.Asked) >= t.plan.dead }

// Use says that a login with the token is under way; the caller calls release
// once when that login has ended. A replaced token is expired only when no use is
// left. Use never blocks.
//
// A token that was replaced and expired between Lease.Token and Use is refused by
// the broker; Lease.Use closes that gap.
func (t *Token) Use() (release func()) {
	t.mu.Lock()
	t.uses++
	t.mu.Unlock()
	return t.releaseOnce()
}

// tryUse is Use, unless the token is about to be expired.
func (t *Token) tryUse() (release func(), ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.sealed {
		return nil, false
	}
	t.uses++
	return t.releaseOnce(), true
}

func (t *Token) releaseOnce() func() {
	return sync.OnceFunc(func() {
		t.mu.Lock()
		t.uses--
		last := t.uses == 0
		t.mu.Unlock()
		if last && t.released != nil {
			t.released()
		}
	})
}

// seal keeps new logins away, if none is under way.
func (t *Token) seal() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.uses > 0 {
		return false
	}
	t.sealed = true
	return true
}

// Format implements fmt.Formatter: every verb shows the id and the owner.
func (t *Token) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(t.String())) }

// String implements fmt.Stringer.
func (t *Token) String() string { return fmt.Sprintf("token %s of %q", t.ID, t.Owner) }

// GoString implements fmt.GoStringer.
func (t *Token) GoString() string { return t.String() }

// MarshalText implements encoding.TextMarshaler.
func (t *Token) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// MarshalJSON implements json.Marshaler.
func (t *Token) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]string{"id": t.ID, "owner": t.Owner})
}

// LogValue implements slog.LogValuer.
func (t *Token) LogValue() slog.Value {
	return slog.GroupValue(slog.String("id", t.ID), slog.String("owner", t.Owner))
}

// MarshalLogObject implements zapcore.ObjectMarshaler.
func (t *Token) MarshalLogObject(enc zapcore.ObjectEncoder) error {
	enc.AddString("id", t.ID)
	enc.AddString("owner", t.Owner)
	return nil
}

// Lease is one session's hold on its owner's token. While any is held the token
// is replaced in time; the holder calls Release when its session ends.
type Lease struct {
	entry    *entry
	released atomic.Bool
}

// Token is the newest token of the owner, never nil. One atomic load: cheap
// enough for every request.
func (l *Lease) Token() *Token { return l.entry.current.Load() }

// Use is Token and Token.Use in one step, without the gap between them. It never
// blocks.
func (l *Lease) Use() (t *Token, release func()) {
	for {
		t = l.Token()
		if release, ok := t.tryUse(); ok {
			return t, release
		}
		// A successor is published before a token is sealed. The one exception is
		// the stop of the source, after which there is no newer one.
		if l.Token() == t {
			return t, t.Use()
		}
	}
}

// Settle waits until a token can be handed out again, after Invalidate or ReportDead:
// for the check to end, or for the new token. Where nothing is in doubt it returns at
// once. It ends with an *Error as Source.Acquire does.
func (l *Lease) Settle(ctx context.Context) error { return l.entry.await(ctx) }

// Release gives the lease back. Further calls do nothing. It never blocks.
func (l *Lease) Release() {
	if l.released.CompareAndSwap(false, true) {
		l.entry.leave()
	}
}
