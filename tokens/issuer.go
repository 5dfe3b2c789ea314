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

// Finder is an Issuer that can also list tokens. With it, what a lost answer left
// behind is expired before the next creation.
type Finder interface {
	// Find returns the tokens of one owner that name the renewer. With an empty
	// owner: those of this instance whose owner asked for them itself.
	Find(ctx context.Context, owner, renewer string) ([]Issued, error)
}

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
}

type noObserver struct{}

func (noObserver) TokenState(string, string) {}
func (noObserver) TokenCreated(string)       {}
