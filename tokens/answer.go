package tokens

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

const sameMapping = "the control listeners of all brokers must be of Kafka 3.6 or later and map the gateway's certificate to the same principal (ssl.principal.mapping.rules)"

// verify holds the answer to a creation against the question: rule 3.
func (e *entry) verify(is Issued) (schedule, *Error) {
	wrong := func(r Reason, cure, format string, args ...any) (schedule, *Error) {
		return schedule{}, &Error{
			Phase: PhaseAnswer, Reason: r, Owner: e.owner, Node: NoNode,
			Err: fmt.Errorf(format, args...), Cure: cure,
		}
	}
	if is.OwnerType != principalUser {
		return wrong(ReasonWrongAnswer, "principal.builder.class on the brokers must give principals of the type User", "the token's owner is of the type %q", is.OwnerType)
	}
	if is.ID == "" || is.HMAC.IsEmpty() {
		return wrong(ReasonWrongAnswer, "", "the token has no id or no secret")
	}
	if e.owner != "" {
		if is.Owner != e.owner {
			return wrong(ReasonWrongAnswer, sameMapping, "the token is for %q", is.Owner)
		}
		if own := e.source.Own(); is.Requester != "" && is.Requester != own {
			return wrong(ReasonWrongAnswer, sameMapping, "the token was asked for by %q, the gateway is %q", is.Requester, own)
		}
	} else {
		if is.Owner == "" || is.Owner == "ANONYMOUS" {
			return wrong(ReasonWrongAnswer, "the control listener does not know the gateway: give it a certificate (kafka.control.tls, ssl.client.auth=required) or a SCRAM user (kafka.control.sasl)", "the gateway's own principal is %q", is.Owner)
		}
		if err := e.source.learnOwn(is.Owner); err != nil {
			return wrong(ReasonWrongAnswer, sameMapping, "%w", err)
		}
	}
	p, ok := plan(lifeOf(is.Issue, is.Expiry), rand.Float64())
	if !ok {
		return wrong(ReasonLifeTooShort, "raise tokens.lifetime, and delegation.token.expiry.time.ms and delegation.token.max.lifetime.ms on every broker and controller",
			"a token that lives %v is of no use, %v is the least", lifeOf(is.Issue, is.Expiry), shortestLife)
	}
	return p, nil
}

// ours tells of a token that Kafka lists whether this instance made it: the
// gateway asked for it, which nobody else can have done, it names this instance's
// marker, and the gateway may expire it. Everything else is left alone, be it a
// sibling's or planted (S22).
func ours(is Issued, own, marker string) bool {
	return own != "" && is.Requester == own && is.OwnerType == principalUser && is.Owner != "" &&
		is.ID != "" && !is.HMAC.IsEmpty() &&
		slices.Contains(is.Renewers, marker) &&
		(is.Owner == own || slices.Contains(is.Renewers, own))
}

// adoptable makes a Token of one of ours, if it has enough of its life left by the
// controller's clock; nil if not. since, if not zero, is the moment before which it
// cannot have been asked for: what is older is none that was meant.
func (s *Source) adoptable(is Issued, since time.Time, released func()) *Token {
	now := time.Now()
	controller, width, known := s.clock.now(now)
	if !known {
		return nil
	}
	p, age, ok := planAdopted(is.Issue, is.Expiry, controller, rand.Float64())
	if !ok {
		return nil
	}
	asked := now.Add(-age)
	if asked.Add(width).Before(since) {
		return nil
	}
	return newToken(is, p, later(asked, since), time.Time{}, released)
}

// leftover makes a token of ours that is to be expired. One that is over by the
// controller's clock is let go.
func (s *Source) leftover(is Issued, released func()) *retired {
	now := time.Now()
	p := schedule{dead: min(max(lifeOf(is.Issue, is.Expiry), 0), longestLife)}
	age := time.Duration(0)
	if controller, _, known := s.clock.now(now); known {
		age = max(controller.Sub(is.Issue), 0)
	}
	return &retired{token: newToken(is, p, now.Add(-min(age, longestLife)), time.Time{}, released)}
}
