package devkafka

import (
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// late is a store of two nodes of which the second learns of things by a settable time.
func late(by *time.Duration) (*tokens, time.Time) {
	start := time.UnixMilli(1_700_000_000_000)
	cfg := Config{Expiry: time.Hour, MaxLifetime: 3 * time.Hour, Sweep: time.Minute, Propagation: func(node int32) time.Duration {
		if node == 2 {
			return *by
		}
		return 0
	}}
	return newTokens(cfg, []int32{1, 2}, start), start
}

func (t *tokens) lists(now time.Time, node int32) int {
	return len(t.list(now, node, func(*token) bool { return true }))
}

func refusalOf(err *kerr.Error) error {
	if err == nil {
		return nil
	}
	return err
}

func TestANodeLearnsInOrder(t *testing.T) {
	by := 10 * time.Second
	store, now := late(&by)
	k, err := store.create(now, user("alice"), user("gateway"), []principal{user("gateway")}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if store.lists(now, 1) != 1 || store.lists(now, 2) != 0 || store.lists(now.Add(10*time.Second), 2) != 1 {
		t.Error("a node does not learn of a token in its own time")
	}
	if _, _, ok := store.credential(now, 2, 1, scram256, k.id); ok {
		t.Error("a node that does not know a token takes it")
	}
	// The removal is quicker on its way than the creation was: it may not overtake it.
	by = 0
	if _, err := store.expire(now.Add(time.Second), user("gateway"), k.hmac, -1); err != nil {
		t.Fatal(err)
	}
	if store.lists(now.Add(2*time.Second), 1) != 0 || store.lists(now.Add(11*time.Second), 2) != 0 {
		t.Error("a removed token is known")
	}
	store.lists(now.Add(time.Hour), 1)
	if len(store.byID) != 0 {
		t.Error("a token that nobody knows any more is kept")
	}
}

func TestSweepsComeInTheirInterval(t *testing.T) {
	var by time.Duration
	store, now := late(&by)
	k, _ := store.create(now, user("alice"), user("alice"), nil, 30*time.Second)
	at := func(after time.Duration) int { return store.lists(now.Add(after), 1) }
	if at(31*time.Second) != 1 || at(time.Minute-1) != 1 {
		t.Error("an expired token is gone before the sweep")
	}
	if l, _, ok := store.credential(now.Add(59*time.Second), 1, 1, scram512, k.id); !ok || lifetime(now.Add(59*time.Second), l.expiry, 0) != 0 {
		t.Error("an expired token that was not swept logs in with a life, or not at all")
	}
	if at(time.Minute) != 0 {
		t.Error("an expired token outlives the sweep")
	}
}

func TestRenewAndExpire(t *testing.T) {
	var by time.Duration
	store, now := late(&by)
	k, _ := store.create(now, user("alice"), user("gateway"), []principal{user("renewer")}, 2*time.Hour)
	for _, c := range []struct {
		who    string
		period time.Duration
		want   time.Duration
		err    error
	}{
		{"alice", time.Minute, time.Minute, nil},
		{"renewer", 0, time.Hour, nil},                // the cluster's own
		{"renewer", 90 * time.Minute, time.Hour, nil}, // cut to it
		{"gateway", time.Minute, 0, kerr.DelegationTokenOwnerMismatch},
	} {
		got, err := store.renew(now, user(c.who), k.hmac, c.period)
		if !errors.Is(refusalOf(err), c.err) || err == nil && got.Sub(now) != c.want {
			t.Errorf("%s renews for %v: %v, %v", c.who, c.period, got.Sub(now), err)
		}
	}
	if got, err := store.renew(now.Add(59*time.Minute+90*time.Second-time.Minute), user("alice"), k.hmac, time.Hour); err != nil || got.After(k.max) {
		t.Errorf("renewed until %v, at most %v: %v", got, k.max, err)
	}
	if _, err := store.expire(now, user("alice"), k.hmac, 0); err != nil {
		t.Error(err)
	}
	if _, err := store.expire(now.Add(time.Second), user("alice"), k.hmac, 0); !errors.Is(refusalOf(err), kerr.DelegationTokenExpired) {
		t.Errorf("an expired token is expired: %v", err)
	}
	if _, err := store.renew(now.Add(time.Second), user("gateway"), k.hmac, 0); !errors.Is(refusalOf(err), kerr.DelegationTokenExpired) {
		t.Errorf("an expired token is renewed: %v", err)
	}
	if _, err := store.expire(now.Add(time.Second), user("alice"), k.hmac, -1); err != nil {
		t.Errorf("an expired token cannot be removed: %v", err)
	}
	if _, err := store.expire(now.Add(time.Second), user("alice"), k.hmac, -1); !errors.Is(refusalOf(err), kerr.DelegationTokenNotFound) {
		t.Errorf("a removed token is removed: %v", err)
	}
}

func TestCredentialsOfANode(t *testing.T) {
	var by time.Duration
	store, now := late(&by)
	k, _ := store.create(now, user("alice"), user("alice"), nil, 0)
	salt := func(node int32, start int, mechanism string) string {
		_, stored, ok := store.credential(now, node, start, mechanism, k.id)
		if !ok {
			t.Fatal("no credential")
		}
		return stored.Salt
	}
	first := salt(1, 1, scram512)
	if salt(1, 1, scram512) != first {
		t.Error("a salt changes by itself")
	}
	for what, other := range map[string]string{
		"another node": salt(2, 1, scram512), "another mechanism": salt(1, 1, scram256), "a restart": salt(1, 2, scram512),
	} {
		if other == first {
			t.Errorf("%s has the same salt", what)
		}
	}
	if _, err := store.renew(now, user("alice"), k.hmac, 0); err != nil {
		t.Fatal(err)
	}
	if salt(1, 1, scram512) == first {
		t.Error("a renewed token has its old salt")
	}
}
