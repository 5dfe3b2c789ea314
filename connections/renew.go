package connections

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// This file says what a renewal is and when it begins, and renews a session on its leg
// (KIP-368) while requests are under way; swap.go is the other way. Here the
// request side drives it from Begin, where no frame is half written:
//
//	request side                                     response side
//	SaslHandshake, behind what is in flight          gives what is in flight to its user,
//	  waits                                      ←   keeps the answer
//	the newest credential that the broker knows
//	SaslAuthenticate: client-first, client-final
//	  waits after each                           ←   keeps each answer
//	verifies; the new session end; the request
//
// The handshake is a barrier: its answer says that everything in front of it was
// handled, acks=0 produces too. Until the final answer nothing but SaslAuthenticate is
// written, since the broker would close. Own requests have their place in the books
// like all others, and by that place their answers are told from a client's.
//
// The handshake waits for its answer before client-first goes out, though a broker
// takes both in one write: behind it, the newest credential may be another one, and
// the broker would look at what it has read already only after its 300 ms poll.
//
// Brokers take a re-authentication after the session end, too. So an idle leg is
// renewed by its next request.

// Credentials is where a connection finds what to begin its next sessions with. The
// request side calls it, and a swap in the background; Take of one is never called while
// the other is renewing.
type Credentials interface {
	// Newer tells, before every request, whether there is another credential than the
	// one taken last, or that the leg logged in with. It must not wait or allocate.
	Newer() bool
	// Prepare says that the newest will be taken in a second or later. It must not wait.
	Prepare()
	// Take returns the newest credential if the broker is known to have it and it lives
	// for longer than that: with less, a new session would be no gain. done is called
	// when the login is over, with nil if it worked; until then the credential must not
	// be withdrawn. Patient, it may wait for some seconds, but must return when the
	// connection is aborted; else it should not wait.
	Take(patient bool, longer time.Duration) (credential *Credential, done func(error), err error)
	// Where returns the broker's present address; false where it is not known, and then
	// the leg's is taken. It must not wait.
	Where() (Target, bool)
	// Renewed hears of every attempt.
	Renewed(Renewal)
}

// RenewalKind is how a session is carried over its end.
type RenewalKind uint8

const (
	// Reauthenticate: on the same leg.
	Reauthenticate RenewalKind = iota
	// Swap: a fresh leg takes the old one's place.
	Swap
)

// String returns the name used in logs and labels.
func (k RenewalKind) String() string {
	switch k {
	case Reauthenticate:
		return "reauthenticate"
	case Swap:
		return "swap"
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// RenewalPolicy chooses between the kinds.
type RenewalPolicy uint8

const (
	// RenewAuto re-authenticates, and swaps where that cannot serve: the broker takes no
	// re-authentication, or its address is another one now.
	RenewAuto RenewalPolicy = iota
	// RenewReauthenticate never swaps.
	RenewReauthenticate
	// RenewSwap re-authenticates only a leg that must not be swapped: see Request.Ties.
	RenewSwap
)

// Renewal tells of an attempt to renew a session.
type Renewal struct {
	Kind       RenewalKind
	Wait       time.Duration // for what was in flight: from SaslHandshake to its answer, or while the old leg drained
	Took       time.Duration // all of it
	Left       time.Duration // of the old session at the end; negative where that was over
	Unanswered int           // requests that were under way when it began
	Err        error         // nil: the session is renewed; else an *Error
}

// Result is "ok", or the Fault.
func (r Renewal) Result() string {
	var e *Error
	switch {
	case r.Err == nil:
		return "ok"
	case errors.As(r.Err, &e):
		return e.Fault.String()
	}
	return "error"
}

// renewal is what a connection knows of its renewals. KafkaConnection.mu guards it.
type renewal struct {
	// able: the session can be renewed. It becomes false when that was tried in vain for
	// too long; then the connection ends as one without Credentials.
	able   bool
	jitter float64
	// notBefore is when the next attempt may begin: Kafka takes one a second.
	notBefore time.Time
	tooSoon   int // refusals for that reason, in a row
	phase     Phase
	own       ownAnswer

	refused  bool      // the broker takes no re-authentication
	tied     bool      // the leg carried a request that Ties
	swapping bool      // a goroutine of swap lives
	fencing  bool      // the answer to fenceAtStop is due
	waiting  time.Time // since when a request waits; zero: none does
}

const (
	// apart is the least time between two re-authentications of a leg (KIP-368 has it
	// at a second), counted from the answer to SaslHandshake.
	apart = time.Second
	// tooSoonMost is how often in a row a broker may refuse a re-authentication as too
	// early before it is taken for one that has none.
	tooSoonMost = 3
	// againMost bounds the pause after an attempt that found no credential.
	againMost = 30 * time.Second
	// gain is how much longer than the present one a new session has to live.
	gain = 2 * minMargin
)

// noteNewer plans a renewal for a newer credential, or begins it.
func (c *KafkaConnection) noteNewer() {
	now := time.Now()
	c.mu.Lock()
	l := c.leg
	first := l.newerAt.IsZero()
	switch {
	case first:
		l.newerAt = now.Add(newerDelay(l.lifetime, rand.Float64()))
	case !now.Before(l.newerAt) && c.state == Open && c.renewal.able:
		c.riskLocked()
	}
	c.mu.Unlock()
	if first {
		c.credentials.Prepare()
	}
}

// renewLocked tells whether this is the moment to renew the session.
func (c *KafkaConnection) renewLocked(now time.Time) bool {
	if c.state != AtRiskOfAuthTokenExpiry && c.state != RefreshTimeout {
		return false
	}
	return c.renewal.able && !c.renewal.swapping && !c.renewal.fencing && !now.Before(c.renewal.notBefore)
}

// renew makes one attempt. After nil the connection takes requests for as long as its
// session lasts, whether that is a new one or not.
func (c *KafkaConnection) renew() error {
	began := time.Now()
	c.mu.Lock()
	late := !began.Before(c.stop)
	end := c.leg.begin.Add(c.leg.lifetime)
	c.mu.Unlock()

	longer := max(end.Sub(began), 0) + gain
	credential, done, err := c.credentials.Take(late, longer)
	if err != nil {
		c.tell(Renewal{Took: time.Since(began), Left: time.Until(end), Unanswered: c.Unanswered(), Err: c.noCredential(err)})
		return c.postpone(late, time.Until(end)/10)
	}

	c.mu.Lock()
	if err := c.refusalLocked(); err != nil {
		c.mu.Unlock()
		done(err)
		return err
	}
	out := Renewal{Unanswered: c.books.requests}
	c.assertReauthLocked(time.Now())
	c.mustLocked(reauthBegun)
	c.renewal.phase = PhaseMechanism
	c.disarmLocked()
	c.mu.Unlock()

	out.Err = c.reauthenticate(&out, credential, done, longer)
	out.Took, out.Left = time.Since(began), time.Until(end)
	c.tell(out)
	var e *Error
	switch {
	case out.Err == nil:
		return nil
	case !errors.As(out.Err, &e) || e.Fault == LocallyClosed || e.Phase == PhaseRelay:
		return out.Err
	case e.Fault == TooSoon:
		return c.postponeReauth()
	}
	c.observer.ForcedClose(e.Fault.String())
	return out.Err
}

// tell says how an attempt went.
func (c *KafkaConnection) tell(r Renewal) {
	c.credentials.Renewed(r)
	c.observer.Renewed(r.Kind.String(), r.Result(), r.Left, r.Took, r.Unanswered)
}

func (c *KafkaConnection) noCredential(err error) *Error {
	return c.fault(PhaseMechanism, refuse(NoCredential, "", "no credential to renew the session with: %w", err))
}

// reauthenticate has the talk with the broker. Every error is an *Error; but for the
// Fault TooSoon the connection is Closed then.
func (c *KafkaConnection) reauthenticate(out *Renewal, credential *Credential, done func(error), longer time.Duration) (err error) {
	defer func() { done(err) }()
	l := &login{carry: c.carry, client: c.client, mechanism: c.mechanism, again: true, phase: PhaseMechanism}
	began := time.Now()
	err = l.handshake(c.leg.versions)
	answered := time.Now()
	out.Wait = answered.Sub(began)
	c.mu.Lock()
	c.renewal.notBefore = answered.Add(apart)
	c.renewal.phase = PhaseAuthenticate
	c.mu.Unlock()
	if err != nil {
		return c.failRenewal(PhaseMechanism, err)
	}

	// What was in flight may have taken minutes, and the credential may have died in them:
	// then another is worth a wait.
	if c.credentials.Newer() {
		patient := out.Wait > longer/2
		if newer, doneNewer, err := c.credentials.Take(patient, gain); err == nil {
			done(errSuperseded)
			credential, done = newer, doneNewer
		}
	}
	l.conversation = newConversation(c.mechanism, credential, c.kind == ScramOverMtls, newNonce(), c.observer)
	begin, lifetime, err := l.prove(c.kind)
	if err != nil {
		return c.failRenewal(l.phase, err)
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state != Reauthenticating {
		return c.closedLocked()
	}
	c.mustLocked(reauthenticated)
	c.leg.begin, c.leg.lifetime, c.leg.took = begin, lifetime, time.Since(answered)
	c.renewal.tooSoon = 0
	c.leg.newerAt = time.Time{}
	c.watchSessionLocked(rand.Float64())
	c.changed.Broadcast()
	return nil
}

// errSuperseded is what a credential hears that was taken and not needed.
var errSuperseded = errors.New("a newer credential took its place")

// failRenewal ends the connection, unless the broker would only have it later.
func (c *KafkaConnection) failRenewal(phase Phase, err error) error {
	e := c.fault(phase, err)
	if e.Fault == TooSoon {
		return e
	}
	return c.fail(e, true)
}

// postponeReauth goes on with the old session after error 34.
func (c *KafkaConnection) postponeReauth() error {
	c.mu.Lock()
	if c.state != Reauthenticating {
		defer c.mu.Unlock()
		return c.closedLocked()
	}
	c.mustLocked(reauthPostponed)
	c.changed.Broadcast()
	c.renewal.tooSoon++
	give := c.renewal.tooSoon >= tooSoonMost
	if give && c.dialer.cfg.Renewal == RenewAuto && !c.renewal.tied {
		give, c.renewal.refused = false, true
	}
	c.mu.Unlock()
	if give {
		return c.giveUp()
	}
	return c.postpone(false, 0)
}

// postpone puts the next attempt off, for a second at least. Late, there is no next
// attempt: what could be waited for has been.
func (c *KafkaConnection) postpone(late bool, pause time.Duration) error {
	if late {
		return c.giveUp()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state == AtRiskOfAuthTokenExpiry {
		at := time.Now().Add(min(max(pause, apart), againMost))
		if at.After(c.renewal.notBefore) {
			c.renewal.notBefore = at
		}
		c.armLocked(c.renewal.notBefore, c.wake) // a request may wait for it
	}
	return nil
}

// wake has the request side look again.
func (c *KafkaConnection) wake() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changed.Broadcast()
}

// giveUp makes the connection one whose session ends as it would without Credentials.
func (c *KafkaConnection) giveUp() error {
	c.mu.Lock()
	c.renewal.able = false
	if c.state == AtRiskOfAuthTokenExpiry || c.state == RefreshTimeout {
		c.armLocked(c.stop, c.onStop)
	}
	quiet := c.endIfQuietLocked()
	c.mu.Unlock()
	if quiet {
		c.halfClose()
	}
	return nil
}
