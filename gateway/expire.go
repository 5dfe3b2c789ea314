package gateway

import (
	"context"
	"errors"

	"doorkeeper/tokens"
)

// Expired is what came of ExpireOwner.
type Expired struct {
	// Token says that a token was expired at Kafka; else this gateway held none of the
	// owner's.
	Token bool
	// Sessions is how many of the owner's sessions were ended.
	Sessions int
	// Ending is how many of them, or of those that were ending anyway, had not closed
	// their broker leg yet when ctx ended.
	Ending int
}

// ExpireOwner expires the tokens of owner that this gateway holds, and then ends every
// session of owner at once, for the reason ReasonOperator: nothing passes any more in
// either direction, and what was unanswered stays so, as when a certificate ends. It
// waits for both, as long as ctx lives: some 15 s for Kafka, where a creation is under
// way, and 2 s for the sessions. What a broker had received before may still be done.
//
// When it has returned nil and Ending is 0:
//
//   - Every session of owner that was admitted before Kafka confirmed the expiry has
//     ended and its broker leg is closed, in whatever phase it was: so has each that had
//     logged in with one of these tokens, or was about to, also on a broker that has not
//     heard of the expiry yet. A session has to be registered before it can have a lease,
//     and those are ended that are registered when the tokens are gone.
//   - A session of owner that is admitted later logs in with another token.
//
// A session that came in between is ended too, though it may have had the new token.
// The owner is not locked out: its clients come back, as long as their certificates
// are accepted. Other gateways have tokens and sessions of their own.
//
// Where Kafka refuses, or does not answer, no session is ended, since they would come
// back with the same token; whether it is gone is then not known, and the same call
// may be made again. The error is a *tokens.Error or wraps one; its reason is NotHeld
// where owner has neither a token nor a session here.
func (g *Gateway) ExpireOwner(ctx context.Context, owner string) (Expired, error) {
	var result Expired
	err := g.cfg.Tokens.ExpireOwner(ctx, owner)
	var cause *tokens.Error
	switch {
	case err == nil:
		result.Token = true
	case !errors.As(err, &cause) || cause.Reason != tokens.ReasonNotHeld:
		return result, err
	}
	ended := g.endSessions(owner, &result)
	if !result.Token && len(ended) == 0 {
		return result, err
	}
	for i, s := range ended {
		select {
		case <-s.over:
		case <-ctx.Done():
			result.Ending = stillOpen(ended[i:])
			return result, nil
		}
	}
	return result, nil
}

// endSessions ends all sessions of owner that are registered, and cuts those that are
// ending for another reason but still deliver or answer. It counts the former.
func (g *Gateway) endSessions(owner string, result *Expired) []*session {
	g.mu.Lock()
	var theirs []*session
	for s := range g.sessions {
		if s.identity.Owner == owner && !s.isOver() {
			theirs = append(theirs, s)
		}
	}
	g.mu.Unlock()
	for _, s := range theirs {
		if s.end(ending(ReasonOperator, SideGateway, nil)) {
			result.Sessions++
		} else {
			s.abort()
		}
	}
	return theirs
}

// stillOpen counts those that have not closed their broker leg.
func stillOpen(sessions []*session) int {
	n := 0
	for _, s := range sessions {
		if !s.isOver() {
			n++
		}
	}
	return n
}

// isOver tells whether the broker leg is closed; the client may still be reading the
// last words.
func (s *session) isOver() bool {
	select {
	case <-s.over:
		return true
	default:
		return false
	}
}

// Sessions counts the sessions of each owner that have been admitted and have not
// ended. It looks at every session and does not wait for any.
func (g *Gateway) Sessions() map[string]int {
	g.mu.Lock()
	defer g.mu.Unlock()
	counts := make(map[string]int)
	for s := range g.sessions {
		if s.ended.Load() == nil {
			counts[s.identity.Owner]++
		}
	}
	return counts
}
