// Package tokens holds one live delegation token per owner: fetched once however
// many ask, published atomically, replaced long before it dies, expired when
// nobody can still log in with it.
//
// Read it in this order:
//
//   - source.go:     Source: Run, Acquire, Invalidate, the limit, the stop
//   - entry.go:      what the sessions of one owner share; waiting for a token
//   - task.go:       the owner's goroutine: what is due, and doing it
//   - flight.go:     one creation, its attempts, and the checks of the answer
//   - retire.go:     expiring what was replaced, forgotten or left at the stop
//   - state.go:      absent, creating, live, replacing, retiring, failed
//   - renewal.go:    pure arithmetic: when to replace, when to give up, back-off
//   - ready.go:      Await and AwaitAny: does that broker know the token yet
//   - token.go:      Token, Lease
//   - issuer.go:     what is asked of Kafka; kadmissuer.go asks it
//   - errors.go:     what went wrong and what the operator should change
//
// It never logs in with a token, never sees a client's byte, never prints a
// secret, and never creates a token for a name that its caller has not verified.
// It never falls back on another owner's token: no token means an error.
//
// # Time
//
// Nothing here compares clocks of two machines. The answer to a creation carries
// the controller's issue and expiry times; their difference is the token's life,
// counted from the moment before the request was sent. That moment lies before
// the controller's issue time, so a token is taken for dead a little early and
// never late.
//
// # Orphans
//
// A creation whose answer was lost may have made a token that nobody here knows.
// Before the next creation for that owner, tokens of this instance (its marker
// among the renewers) that are not known here are looked up and expired. An
// orphan that the broker asked does not know yet stays until its life ends. The
// instance name must therefore not be used by two running gateways.
//
// # Goroutines
//
// One per owner (the token task; it makes all creations, checks and expiries of
// that owner, one at a time), and one per (token, broker) for as long as that
// broker is being asked whether it knows the token, at most askBound. All belong
// to Source.Run, which returns when the last has ended.
//
// # Locks
//
// readiness.mu, Source.mu, entry.mu, Token.mu, in this order; none is held over a
// request to Kafka, a log line or a call of the Observer. Lease.Token takes none.
package tokens
