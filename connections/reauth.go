package connections

import (
	"context"
	"errors"
	"math/rand/v2"
)

// Reauthenticate begins a new session on the same leg (KIP-368): the login's
// mechanism again, with a credential of the same principal, or the broker refuses.
// On success the connection is Open with the session end that the broker gave anew,
// whatever end it had before: brokers take it late, too.
//
// The connection has to be idle: nothing unanswered, no frame begun. Like Request it
// uses both sides of the connection, and nobody else may meanwhile. It waits for the
// broker until ctx ends, which leaves the connection dead; with a ctx that has ended
// nothing is sent, and the connection lives.
//
// Every error is an *Error. After one with the Fault TooSoon the connection is at
// risk and lives on with its old session; a second after the last re-authentication
// it can be tried again. After any other error but that of an ended ctx the connection is
// Closed, as it is for the broker.
func (c *KafkaConnection) Reauthenticate(ctx context.Context, credential *Credential) error {
	if err := ctx.Err(); err != nil {
		return c.Target().fault(PhaseMechanism, err, err)
	}
	if err := c.beginReauth(); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, c.Abort)
	defer stop()
	c.extendWriteDeadline(c.out)
	l := &login{
		rw: c.leg.stream, flush: c.leg.stream.Flush, client: ClientInfo{ID: c.client.ID}, mechanism: c.mechanism, again: true,
		conversation: newConversation(c.mechanism, credential, c.kind == ScramOverMtls, newNonce(), c.observer),
	}
	begin, lifetime, err := l.session(c.kind, c.leg.versions)
	if err != nil {
		return c.failReauth(c.Target().fault(l.phase, err, ctx.Err()))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.moveLocked(reauthenticated); err != nil { // closed meanwhile
		return c.closedLocked()
	}
	c.leg.begin, c.leg.lifetime = begin, lifetime
	c.watchSessionLocked(rand.Float64())
	return nil
}

// beginReauth takes the connection, if this is a moment for it.
func (c *KafkaConnection) beginReauth() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.refusalLocked(); err != nil {
		return err
	}
	switch {
	case c.writing || c.books.requests > 0:
		panic("connections: Reauthenticate with requests under way")
	case c.leg.begin.IsZero():
		return c.fault(PhaseMechanism, refuse(NoSasl, "", "%w", errNoLogin))
	}
	if err := c.moveLocked(reauthBegun); err != nil {
		return c.fault(PhaseMechanism, err)
	}
	c.disarmLocked()
	return nil
}

// errNoLogin is what Reauthenticate returns where there is nothing to do again.
var errNoLogin = errors.New("the connection did not log in by SASL")

// failReauth says what a failed re-authentication leaves.
func (c *KafkaConnection) failReauth(e *Error) error {
	if e.Fault != TooSoon {
		_ = c.fail(e, true)
		return e
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.moveLocked(reauthPostponed); err != nil { // closed meanwhile
		return c.closedLocked()
	}
	if !c.stop.IsZero() {
		c.armLocked(c.stop, c.onStop)
	}
	return e
}
