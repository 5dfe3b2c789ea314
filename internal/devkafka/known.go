package devkafka

import (
	"encoding/base64"
	"maps"
	"time"

	"github.com/xdg-go/scram"
)

// iterations is what Kafka derives a token's credentials with.
const iterations = 4096

// change is something that happened to a token: made, renewed, expired, removed.
type change struct {
	expiry  time.Time
	removed bool
	// seen is when each node learns of it.
	seen map[int32]time.Time
	// credentials of this change: a renewed token has new ones.
	credentials map[credentialKey]scram.StoredCredentials
}

// credentialKey is whose credential it is: each node salts for itself, and anew after
// every start.
type credentialKey struct {
	node      int32
	start     int
	mechanism string
}

// changeLocked appends what happened at a time. No node learns of it before it has
// learned of what happened before.
func (t *tokens) changeLocked(k *token, at, expiry time.Time, removed bool) {
	c := &change{expiry: expiry, removed: removed, seen: map[int32]time.Time{}, credentials: map[credentialKey]scram.StoredCredentials{}}
	for _, node := range t.nodes {
		seen := at.Add(max(t.propagation(node), 0))
		if len(k.changes) > 0 {
			if before := k.last().seen[node]; before.After(seen) {
				seen = before
			}
		}
		c.seen[node] = seen
	}
	// What every node has left behind is forgotten.
	for len(k.changes) > 1 && k.changes[1].seenByAll(at) {
		k.changes = k.changes[1:]
	}
	k.changes = append(k.changes, c)
}

func (c *change) seenByAll(now time.Time) bool {
	for at := range maps.Values(c.seen) {
		if at.After(now) {
			return false
		}
	}
	return true
}

// known is how a node sees the token; nil where it does not.
func (t *token) known(node int32, now time.Time) *change {
	for i := len(t.changes) - 1; i >= 0; i-- {
		if c := t.changes[i]; !c.seen[node].After(now) {
			if c.removed {
				return nil
			}
			return c
		}
	}
	return nil
}

// listed is a token as a node lists it.
type listed struct {
	*token
	expiry time.Time
}

// list returns the tokens that a node knows and that want takes.
func (t *tokens) list(now time.Time, node int32, want func(*token) bool) []listed {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sweepLocked(now)
	var out []listed
	for _, k := range t.byID {
		if c := k.known(node, now); c != nil && want(k) {
			out = append(out, listed{k, c.expiry})
		}
	}
	return out
}

// credential is what a node holds to verify a login with a token, and its expiry as the
// node knows it. An expired token has one until it is swept.
func (t *tokens) credential(now time.Time, node int32, start int, mechanism, id string) (listed, scram.StoredCredentials, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sweepLocked(now)
	k := t.byID[id]
	if k == nil {
		return listed{}, scram.StoredCredentials{}, false
	}
	c := k.known(node, now)
	if c == nil {
		return listed{}, scram.StoredCredentials{}, false
	}
	key := credentialKey{node, start, mechanism}
	stored, ok := c.credentials[key]
	if !ok {
		var err error
		if stored, err = derive(mechanism, id, k.hmac); err != nil {
			return listed{}, stored, false
		}
		c.credentials[key] = stored
	}
	return listed{k, c.expiry}, stored, true
}

// derive makes a credential with a new salt: a token's password is its HMAC in base64
// (standard, padded).
func derive(mechanism, id string, mac []byte) (scram.StoredCredentials, error) {
	client, err := hashOf(mechanism).NewClientUnprepped(id, base64.StdEncoding.EncodeToString(mac), "")
	if err != nil {
		return scram.StoredCredentials{}, err
	}
	return client.GetStoredCredentialsWithError(scram.KeyFactors{Salt: string(random(24)), Iters: iterations})
}
