// Package tokens holds one live delegation token per owner: fetched once however
// many ask, published atomically, replaced long before it dies, adopted by the next
// run of the same instance, expired when nobody can still log in with it.
//
// Read it in this order:
//
//   - source.go:     Source: Config, Run, the stop
//   - acquire.go:    Acquire, Invalidate, ReportDead; the limit of owners
//   - entry.go:      what the sessions of one owner share; waiting for a token
//   - task.go:       the owner's goroutine: what is due, and doing it
//   - flight.go:     one creation, its attempts, and the publication
//   - pace.go:       how many creations there may be; refusal.go: what all would be told
//   - answer.go:     the checks of an answer, and whose a listed token is
//   - adopt.go:      what an earlier run or a lost answer left: adopted or expired
//   - check.go:      a login was refused, or gave no life: is the token gone
//   - retire.go:     expiring what was replaced, forgotten or left at the stop
//   - state.go:      absent, creating, live, replacing, retiring, failed
//   - renewal.go:    pure arithmetic: when to replace, when to give up, back-off
//   - clock.go:      the controller's clock
//   - ready.go:      Await and AwaitAny: does that broker know the token yet; ask.go asks
//   - token.go:      Token, Lease
//   - list.go:       what an operator sees and can do
//   - issuer.go:     what is asked of Kafka; kadmissuer.go, controlwrite.go and
//     lanes.go ask it
//   - errors.go:     what went wrong and what the operator should change; grant.go: the
//     right that the gateway needs, as a command
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
// A list of tokens has absolute times only. What is left of an adopted token's life
// is told by the controller's own clock, as the last own creation showed it. A
// controller whose clock steps, or another one with another clock, makes tokens end
// earlier than planned; a login shows that (ReportDead), and the step is logged.
//
// # Adoption
//
// Every token names a marker as a renewer, doorkeeper-<instance>. At the start the
// gateway's own token is created: its answer gives the own principal and the
// controller's clock. Then the tokens with the marker are listed, on a broker that
// lists the own new token and so knows everything older, and handed to the tasks of
// their owners; no owner gets a new token before that (or before 3 s are over). Ours
// is what the gateway itself asked for, with this marker, and may expire; everything
// else is left alone. Siblings' tokens are never used, so that nobody but ourselves
// ends a token that is handed out here. The instance name must therefore not be used
// by two running gateways.
//
// # Lost answers
//
// A creation whose answer was lost may have made a token. Before the next creation
// for that owner tokens with the marker are listed: one that fits is adopted. What
// shows only later (a broker that hung passes the request on minutes after) is found
// by looks 10 s, 1 min and 10 min after the loss, and after every start, and expired.
//
// # Bounds
//
// Owners: Config.Limit. Tokens per owner: 1, and 2 while the replaced one is not
// expired; a replacement waits for that until 0.8 of the life. Creations:
// Config.CreationRate for new owners, half of it for replacements, 3 s of queue.
// Requests under way: 32 over all owners, 16 questions per broker.
//
// # Goroutines
//
// One per owner (the token task; it makes all creations, checks and expiries of
// that owner, one at a time), one that looks at the list of tokens, and one per
// (token, broker) for as long as that broker is being asked whether it knows the
// token, at most askBound. All belong to Source.Run, which returns when the last has
// ended.
//
// # Locks
//
// readiness.mu, Source.mu, entry.mu, then those of Token, controllerClock, pace,
// sweeps, perNode and lanes, of which nobody takes two; none is held over a request
// to Kafka, a log line or a call of the Observer. Lease.Token takes none.
package tokens
