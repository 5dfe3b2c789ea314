package tokens

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"doorkeeper/internal/pause"
	"doorkeeper/internal/secret"
)

// fakeKafka is an Issuer and Finder in memory, three brokers and one controller
// whose clock is far from ours.
type fakeKafka struct {
	mu       sync.Mutex
	self     string
	life     time.Duration
	clock    time.Duration                             // the controller's clock less ours
	unswept  bool                                      // tokens whose life is over stay
	lagList  time.Duration                             // Find shows tokens that much later
	hangFind bool                                      // Find answers nothing
	failFind int                                       // so many of them fail
	stuck    time.Duration                             // what is lost happens that much later
	latency  time.Duration                             // of every creation
	onCreate func(n int, c Creation) error             // n from 1; the token is made only on nil
	onAnswer func(is *Issued)                          // changes the answer
	loseAll  bool                                      // creations happen, answers are lost
	lag      map[int32]time.Duration                   // a broker knows tokens that much later
	hung     map[int32]bool                            // a broker that answers nothing
	askErr   func(node int32, asked int) (bool, error) // overrides a broker's answer where it returns true
	failList bool
	failExp  int           // so many expiries fail
	slowExp  time.Duration // of every expiry

	creates  []Creation
	at       []time.Time
	tokens   map[string]*fakeToken
	expired  []string
	asked    map[int32]int
	finds    int
	opened   int // closed again by Close
	inFlight map[string]int
	lost     []string // made, but the answer was lost
	overlap  bool     // two creations of one owner at the same time
}

type fakeToken struct {
	is   Issued
	made time.Time
}

func newFakeKafka() *fakeKafka {
	return &fakeKafka{
		self: gatewayName, life: time.Hour, latency: 50 * time.Millisecond, clock: -7 * 365 * 24 * time.Hour,
		lag: map[int32]time.Duration{}, hung: map[int32]bool{}, tokens: map[string]*fakeToken{},
		asked: map[int32]int{}, inFlight: map[string]int{},
	}
}

func (k *fakeKafka) Create(ctx context.Context, c Creation) (Issued, error) {
	k.mu.Lock()
	k.creates = append(k.creates, c)
	k.at = append(k.at, time.Now())
	n := len(k.creates)
	who := c.Owner + " of " + c.Renewers[len(c.Renewers)-1]
	k.inFlight[who]++
	k.overlap = k.overlap || k.inFlight[who] > 1
	hook, latency := k.onCreate, k.latency
	k.mu.Unlock()
	defer func() {
		k.mu.Lock()
		k.inFlight[who]--
		k.mu.Unlock()
	}()
	if !pause.For(ctx, latency) {
		return Issued{}, ctx.Err()
	}
	if hook != nil {
		if err := hook(n, c); err != nil {
			return Issued{}, err
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	owner := c.Owner
	if owner == "" {
		owner = k.self
	}
	is := Issued{
		ID: fmt.Sprintf("id-%d", n), OwnerType: "User", Owner: owner, Requester: k.self, Renewers: c.Renewers,
		HMAC: secret.New(fmt.Sprintf("hmac-%d", n)), Issue: k.now(), Expiry: k.now().Add(k.life),
	}
	if k.loseAll && k.stuck > 0 {
		k.lost = append(k.lost, is.ID)
		time.AfterFunc(k.stuck, func() {
			k.mu.Lock()
			defer k.mu.Unlock()
			is.Issue, is.Expiry = k.now(), k.now().Add(k.life)
			k.tokens[is.ID] = &fakeToken{is: is, made: time.Now()}
			if k.onAnswer != nil {
				k.onAnswer(&is)
			}
		})
		return Issued{}, errors.New("connection reset")
	}
	k.tokens[is.ID] = &fakeToken{is: is, made: time.Now()}
	if k.onAnswer != nil {
		k.onAnswer(&is)
	}
	if k.loseAll {
		k.lost = append(k.lost, is.ID)
		return Issued{}, errors.New("connection reset")
	}
	return is, nil
}

// now is the controller's clock; mu is held.
func (k *fakeKafka) now() time.Time { return time.Now().Add(k.clock) }

// sweep removes what is over by the controller's clock; mu is held.
func (k *fakeKafka) sweep() {
	for id, t := range k.tokens {
		if !k.unswept && !k.now().Before(t.is.Expiry) {
			delete(k.tokens, id)
		}
	}
}

// login is what a broker says to a login with t: the life of the session, 0 for a
// token that is over and not yet swept, or a refusal.
func (k *fakeKafka) login(t *Token) (time.Duration, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.sweep()
	kept, ok := k.tokens[t.ID]
	if !ok || !kept.is.HMAC.Equal(t.hmac) {
		return 0, errors.New("SASL_AUTHENTICATION_FAILED")
	}
	return max(kept.is.Expiry.Sub(k.now()), 0), nil
}

// plant puts a token of somebody else's making there.
func (k *fakeKafka) plant(is Issued) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if is.Issue.IsZero() {
		is.Issue, is.Expiry = k.now().Add(-time.Minute), k.now().Add(k.life)
	}
	k.tokens[is.ID] = &fakeToken{is: is, made: time.Now().Add(-time.Hour)}
}

func (k *fakeKafka) Known(ctx context.Context, node int32, owner, id string) (bool, error) {
	k.mu.Lock()
	k.asked[node]++
	n, hung, hook := k.asked[node], k.hung[node], k.askErr
	k.mu.Unlock()
	if hung {
		<-ctx.Done()
		return false, ctx.Err()
	}
	if !pause.For(ctx, time.Millisecond) {
		return false, ctx.Err()
	}
	if hook != nil {
		if over, err := hook(node, n); over {
			return false, err
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.sweep()
	t, ok := k.tokens[id]
	return ok && t.is.Owner == owner && time.Since(t.made) >= k.lag[node], nil
}

func (k *fakeKafka) Nodes(context.Context) ([]int32, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.failList {
		return nil, errors.New("no broker")
	}
	return []int32{1, 2, 3}, nil
}

func (k *fakeKafka) Expire(ctx context.Context, hmac secret.Text) error {
	k.mu.Lock()
	slow := k.slowExp
	k.mu.Unlock()
	if ctx.Err() != nil || slow > 0 && !pause.For(ctx, slow) {
		return ctx.Err()
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.failExp > 0 {
		k.failExp--
		return errors.New("broker away")
	}
	for id, t := range k.tokens {
		if t.is.HMAC.Equal(hmac) {
			delete(k.tokens, id)
			k.expired = append(k.expired, id)
		}
	}
	return nil
}

func (k *fakeKafka) Find(ctx context.Context, owner, renewer string) ([]Issued, error) {
	k.mu.Lock()
	k.finds++
	hang := k.hangFind
	k.mu.Unlock()
	if hang {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.failFind > 0 {
		k.failFind--
		return nil, errors.New("broker away")
	}
	k.sweep()
	var found []Issued
	for _, t := range k.tokens {
		if (t.is.Owner == owner || owner == "") && slices.Contains(t.is.Renewers, renewer) && time.Since(t.made) >= k.lagList {
			found = append(found, t.is)
		}
	}
	return found, nil
}

// Close implements io.Closer, for Source.Run.
func (k *fakeKafka) Close() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.opened--
	return nil
}

func (k *fakeKafka) set(change func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	change()
}

// total counts the creations.
func (k *fakeKafka) total() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.creates)
}

// createsOf counts the creations for one owner.
func (k *fakeKafka) createsOf(owner string) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	n := 0
	for _, c := range k.creates {
		if c.Owner == owner {
			n++
		}
	}
	return n
}

func (k *fakeKafka) live(owner string) (ids []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for id, t := range k.tokens {
		if t.is.Owner == owner {
			ids = append(ids, id)
		}
	}
	return ids
}

func (k *fakeKafka) hasExpired(id string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Contains(k.expired, id)
}

func (k *fakeKafka) askedOf(node int32) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.asked[node]
}
