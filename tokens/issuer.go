package tokens

import (
	"context"
	"time"

	"doorkeeper/internal/secret"
)

// Creation says what token is wanted (CreateDelegationToken v3, KIP-48, KIP-373).
type Creation struct {
	// Owner is the principal's name without "User:". Empty: whoever asks.
	Owner string
	// Renewers are names without "User:" of who may expire the token.
	Renewers []string
	// Lifetime is the life wanted; Kafka cuts it to its own maximum without an
	// error. Zero: Kafka's maximum.
	Lifetime time.Duration
}

// Issued is Kafka's answer. The times are the controller's: only their
// differences mean anything here.
type Issued struct {
	ID string
	// OwnerType and Owner are the principal that the token logs in as.
	OwnerType, Owner string
	// Requester is who asked for the token; empty where Kafka does not say.
	Requester string
	// Renewers are the names of the principals of type User that may expire it.
	Renewers []string
	// HMAC holds the raw bytes.
	HMAC secret.Text
	// Issue and Expiry: an absurd life saturates in the difference.
	Issue, Expiry time.Time
}

// Issuer asks Kafka, on the control connection. Every call ends when ctx does.
// An error that is not an *Error counts as transient, and after Create as a lost
// answer.
type Issuer interface {
	// Create asks for a token exactly once: after a lost answer it must not ask
	// again, since creating is not idempotent.
	Create(ctx context.Context, c Creation) (Issued, error)
	// Known asks that very broker whether it knows the token yet
	// (DescribeDelegationToken; a broker answers from its own cache).
	Known(ctx context.Context, node int32, owner, tokenID string) (bool, error)
	// Nodes are the ids of the brokers that are up.
	Nodes(ctx context.Context) ([]int32, error)
	// Expire ends a token at once (a period of −1 ms: with 0 an expired token
	// would still log in until the broker sweeps it). A token that is gone is no
	// error. Logins made with it go on.
	Expire(ctx context.Context, hmac secret.Text) error
}

// Finder is an Issuer that can also list tokens. With it, what was made before this
// process was started is adopted, and so is what a lost answer left behind.
type Finder interface {
	// Find returns the tokens that name the renewer (DescribeDelegationToken): of
	// one owner, or of all with an empty one. The broker answers from its own
	// cache and may be a little behind the controller.
	Find(ctx context.Context, owner, renewer string) ([]Issued, error)
}

// Comparer is an Issuer that also tells a broker that computes another secret for
// the same token: its delegation.token.secret.key is another one. Used in place of
// Known where there is one.
type Comparer interface {
	// KnownAs is Known; an *Error with ReasonKeyDiffers if the broker's secret is
	// not hmac.
	KnownAs(ctx context.Context, node int32, owner, tokenID string, hmac secret.Text) (bool, error)
}

// An Issuer may also be an io.Closer: Source.Run closes it at its end.

// Observer is told what happens; its methods must not block. They may be called
// from several goroutines.
type Observer interface {
	// TokenState: an owner's token changed its state. "absent" is also where an
	// owner comes from and goes to that the source does not hold: it is no state
	// to count.
	TokenState(from, to string)
	// TokenCreated: a creation that was asked of Kafka ended; "created", or the
	// Reason it failed for.
	TokenCreated(result string)
	// TokenAdopted: a token made earlier is used on; after a restart, or after an
	// answer that was lost.
	TokenAdopted()
	// TokenExpired: an expiry ended; "expired", or the Reason it failed for.
	TokenExpired(result string)
	// TokenFailed: a request to Kafka failed, or was not made because too many
	// wait. request is "create", "describe", "expire" or "nodes"; code is Kafka's
	// error code, 0 where no answer came.
	TokenFailed(request, reason string, code int16)
	// TokenKnown: node was first seen to know a new token so long after the
	// answer to its creation.
	TokenKnown(node int32, after time.Duration)
	// TokenGauge hands over, from New, how to read one of the Gauges. read may be
	// called at any time, also after Run; it looks at every owner.
	TokenGauge(name string, read func() float64)
}

// The names that TokenGauge is called with.
const (
	GaugeHeld      = "held"           // tokens of this instance at Kafka, as far as known here
	GaugeMost      = "most_per_owner" // the most of one owner: 1, and 2 during a replacement
	GaugeWaiting   = "waiting"        // creations that wait for their turn
	GaugeOldestAge = "oldest_age"     // seconds, of the published tokens
	GaugeLeastLeft = "least_left"     // seconds, of the published tokens
)

type noObserver struct{}

func (noObserver) TokenState(string, string)         {}
func (noObserver) TokenCreated(string)               {}
func (noObserver) TokenAdopted()                     {}
func (noObserver) TokenExpired(string)               {}
func (noObserver) TokenFailed(string, string, int16) {}
func (noObserver) TokenKnown(int32, time.Duration)   {}
func (noObserver) TokenGauge(string, func() float64) {}
