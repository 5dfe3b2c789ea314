package connections

import (
	"errors"
	"maps"
	"math/rand/v2"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/twmb/franz-go/pkg/kmsg"

	"doorkeeper/internal/pause"
)

// This file carries a session over its end by a swap: a fresh leg is opened while the
// old one serves, and takes over when the old one owes nothing. A goroutine of its own
// drives it:
//
//	this goroutine                       request side          response side
//	opens the new leg and logs in        goes on               goes on
//	Draining                             waits in Begin        gives what is in flight
//	ApiVersions behind acks=0 produces                         keeps its answer
//	nothing is unanswered: the new leg   goes on, on the new   is woken, reads the new
//	ends the old one
//
// Never are two legs in use at once: requests are written to KafkaConnection.leg, which
// changes only while nothing is unanswered and none can begin. What fails before that
// leaves the old leg as it was.

const (
	// swapPatience is how long requests wait for a new leg when the old one may take no
	// more; the attempt that is under way then may still end. It is below the request
	// timeout of every client known (librdkafka's 60 s, Java's 30).
	swapPatience = 15 * time.Second
	// The pauses between two attempts grow from swapPauseFirst to swapPauseLast, and are
	// spread by a half.
	swapPauseFirst = 200 * time.Millisecond
	swapPauseLast  = 5 * time.Second
	// signOfLife is how long a leg that waited is listened to, for its end, before it is
	// used.
	signOfLife = time.Millisecond
	// fenceAgain is how long a frame that is half written is given before it is looked at
	// again.
	fenceAgain = 10 * time.Millisecond
)

// errTied ends an attempt on a leg that has got share sessions meanwhile: it is renewed in
// place.
var errTied = errors.New("the leg carries share sessions now")

// swapsLocked chooses the kind of the renewal that begins now.
func (c *KafkaConnection) swapsLocked() bool {
	policy := c.dialer.cfg.Renewal
	switch {
	case c.renewal.tied || policy == RenewReauthenticate:
		return false
	case policy == RenewSwap || c.renewal.refused:
		return true
	}
	if c.books.silent.requests > 0 && !time.Now().Before(c.stop) {
		return false // SaslHandshake may still fence them
	}
	where, known := c.credentials.Where()
	return known && where != c.leg.target
}

// beginSwapLocked has a connection at risk look for a new leg.
func (c *KafkaConnection) beginSwapLocked() {
	c.mustLocked(refreshBegun)
	c.renewal.swapping = true
	c.armLocked(c.stop, c.fenceAtStop)
	c.background.Go(c.swap)
}

// watchSwapLocked plans for what a leg at risk that is to be swapped needs, until a request
// comes: a wake for one that waits already, and the fence.
func (c *KafkaConnection) watchSwapLocked() {
	next := c.stop
	if notBefore := c.renewal.notBefore; notBefore.Before(next) && notBefore.After(time.Now()) {
		next = notBefore
	}
	c.armLocked(next, c.onSwapRisk)
}

func (c *KafkaConnection) onSwapRisk() {
	c.mu.Lock()
	now := time.Now()
	c.changed.Broadcast()
	if now.Before(c.stop) {
		if c.state == AtRiskOfAuthTokenExpiry {
			c.watchSwapLocked()
		}
		c.mu.Unlock()
		return
	}
	if c.state == AtRiskOfAuthTokenExpiry && now.Before(c.renewal.notBefore) {
		c.armLocked(c.renewal.notBefore, c.wake)
	}
	c.mu.Unlock()
	c.fenceAtStop()
}

// swap makes attempts until one works or it is no use.
func (c *KafkaConnection) swap() {
	defer c.endSwap()
	pauses := &backoff.ExponentialBackOff{
		InitialInterval: swapPauseFirst, MaxInterval: swapPauseLast, Multiplier: 2, RandomizationFactor: 0.5,
	}
	pauses.Reset()
	for {
		again := c.attemptSwap()
		if !again || !pause.For(c.life, pauses.NextBackOff()) || !c.refresh() {
			return
		}
	}
}

func (c *KafkaConnection) endSwap() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.renewal.swapping = false
	c.changed.Broadcast() // a request that waits may begin another
}

// refresh begins another attempt, unless the connection has ended meanwhile.
func (c *KafkaConnection) refresh() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.renewal.able || c.state != AtRiskOfAuthTokenExpiry && c.state != RefreshTimeout {
		return false
	}
	c.mustLocked(refreshBegun)
	return true
}

// fenceAtStop is the timer's when a leg that is to be swapped may take no more, and is in
// use yet: acks=0 produces get their fence now, since later it could come too late for the
// broker, and only the leg's end could tell of them then.
func (c *KafkaConnection) fenceAtStop() {
	now := time.Now()
	c.mu.Lock()
	switch {
	case c.state != AtRiskOfAuthTokenExpiry && c.state != Refreshing && c.state != RefreshTimeout, c.renewal.fencing:
		c.mu.Unlock() // takeOver sees to it, or there is nobody left to do so for
		return
	case c.books.silent.requests == 0 && !c.writing, !now.Before(c.lastFenceLocked()):
		c.mu.Unlock()
		return
	case c.writing:
		c.armLocked(now.Add(fenceAgain), c.fenceAtStop)
		c.mu.Unlock()
		return
	}
	stream := c.leg.stream
	c.renewal.fencing = true
	c.renewal.own = ownAnswer{correlationID: ownCorrelationID, limit: maxVersionsAnswer}
	request := Request{Answered: true, own: true}
	c.assertBeginLocked(request, now)
	c.books.begin(request, now)
	c.changed.Broadcast()
	c.mu.Unlock()
	if err := c.sendOwn(stream, c.fenceFrame()); err != nil {
		_ = c.fail(err, true)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.boundOwnLocked() // the response side may be waiting already
}

// attemptSwap makes one attempt and tells whether another is worth it.
func (c *KafkaConnection) attemptSwap() (again bool) {
	began := time.Now()
	c.mu.Lock()
	end := c.leg.begin.Add(c.leg.lifetime)
	late := !began.Before(c.stop)
	out := Renewal{Kind: Swap, Unanswered: c.books.requests}
	c.mu.Unlock()

	var old *leg
	fresh, err := c.freshLeg(late, max(end.Sub(began), 0)+gain)
	if err == nil {
		drainBegan := time.Now()
		old, err = c.takeOver(fresh)
		out.Wait = time.Since(drainBegan)
	}
	out.Took, out.Left, out.Err = time.Since(began), time.Until(end), err
	if !errors.Is(err, errTied) {
		c.tell(out)
	}
	if err == nil {
		_ = old.stream.SetReadDeadline(time.Unix(1, 0)) // the response side leaves it
		_ = old.stream.Close()
		return false
	}
	if fresh != nil {
		_ = fresh.stream.Abort()
	}
	return c.afterFailedSwap(err)
}

// freshLeg logs in on another leg, with the newest credential that lives longer than
// that. Its errors are *Error.
func (c *KafkaConnection) freshLeg(late bool, longer time.Duration) (*leg, error) {
	credential, done, err := c.credentials.Take(late, longer)
	if err != nil {
		return nil, c.noCredential(err)
	}
	target, known := c.credentials.Where()
	if !known {
		target = c.Target()
	}
	fresh, err := c.dialer.leg(c.life, target, c.kind, credential, c.client)
	done(err)
	if err != nil {
		return nil, err
	}
	if !sameVersions(fresh.versions, c.Versions()) {
		_ = fresh.stream.Close()
		return nil, target.fault(PhaseVersions, refuse(VersionsChanged, "", "the broker offers other API versions than before: the client has to ask for them again"), nil)
	}
	return fresh, nil
}

// sameVersions tells whether two answers offer the same APIs in the same versions, in
// whatever order.
func sameVersions(a, b *kmsg.ApiVersionsResponse) bool {
	offers := func(r *kmsg.ApiVersionsResponse) map[int16][2]int16 {
		out := make(map[int16][2]int16, len(r.ApiKeys))
		for _, k := range r.ApiKeys {
			out[k.ApiKey] = [2]int16{k.MinVersion, k.MaxVersion}
		}
		return out
	}
	return maps.Equal(offers(a), offers(b))
}

// takeOver drains the leg in use and puts fresh in its place. It waits for all that is
// unanswered, and for the frame that is half written. It returns the leg that was in
// use, or why that is so still.
func (c *KafkaConnection) takeOver(fresh *leg) (*leg, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.state != Refreshing:
		return nil, c.closedLocked()
	case c.renewal.tied:
		return nil, errTied
	}
	c.mustLocked(refreshed)
	waited, fenced, heard := false, false, false
	for {
		switch {
		case !c.ownAllowedLocked():
			return nil, c.closedLocked()
		case c.writing:
			waited = true
			c.changed.Wait()
		case c.books.requests == 0 && waited && !heard:
			heard = true
			c.mu.Unlock()
			err := fresh.alive()
			c.mu.Lock()
			c.waitsAnewLocked()
			if err != nil {
				return nil, c.fault(PhaseRelay, err)
			}
		case c.books.requests == 0:
			c.assertSwitchLocked(fresh)
			old := c.leg
			c.mustLocked(switched)
			c.leg = fresh
			c.target.Store(&fresh.target)
			c.renewal.notBefore, c.renewal.tooSoon = time.Time{}, 0
			c.watchSessionLocked(rand.Float64())
			c.changed.Broadcast()
			return old, nil
		case !fenced && c.books.silent.requests > 0 && time.Now().Before(c.lastFenceLocked()):
			fenced, waited = true, true
			c.mu.Unlock()
			err := c.fence()
			c.mu.Lock()
			if err != nil {
				return nil, err
			}
		case !fenced && c.books.due == 0:
			return nil, c.fault(PhaseRelay, refuse(Unfenced, "", "acks=0 produces are unanswered, and nothing may follow them before the session end"))
		default:
			waited = true
			c.changed.Wait()
		}
	}
}

// waitsAnewLocked has the patience of a request that waits begin now: what it waited for
// so far was not the new leg.
func (c *KafkaConnection) waitsAnewLocked() {
	if !c.renewal.waiting.IsZero() {
		c.renewal.waiting = time.Now()
	}
}

// lastFenceLocked is until when a fence may be written: it follows what was written before
// stop, the last of which may have been half written then.
func (c *KafkaConnection) lastFenceLocked() time.Time {
	end := c.leg.begin.Add(c.leg.lifetime)
	return c.stop.Add(end.Sub(c.stop) / 2)
}

// fence asks for the broker's versions, behind acks=0 produces: its answer says that the
// broker has handled them. A broker that could not (it is not the leader) closes.
func (c *KafkaConnection) fence() error {
	_, err := c.carry(c.fenceFrame(), ownCorrelationID, maxVersionsAnswer)
	return err
}

func (c *KafkaConnection) fenceFrame() []byte {
	return frame(kmsg.NewPtrApiVersionsRequest(), ownCorrelationID, c.client.ID)
}

// alive tells whether a leg on which nothing is due has ended, nil if not as far as can
// be seen.
func (l *leg) alive() error {
	_ = l.stream.SetReadDeadline(time.Now().Add(signOfLife))
	var b [1]byte
	n, err := l.stream.Read(b[:])
	_ = l.stream.SetReadDeadline(time.Time{})
	if fault, _ := ioFault(err); n == 0 && err != nil && fault == Timeout {
		return nil
	}
	if err == nil {
		err = hostile("an answer that nobody asked for")
	}
	return err
}

// afterFailedSwap goes on with the old leg, and tells whether another attempt is worth
// it: until that may take no more, and then as long as a request waits for it.
func (c *KafkaConnection) afterFailedSwap(err error) (again bool) {
	now := time.Now()
	c.mu.Lock()
	late := !now.Before(c.stop)
	switch {
	case c.state == Refreshing && late:
		c.mustLocked(refreshTimedOut)
	case c.state == Refreshing || c.state == Draining && c.drain == notDraining:
		c.mustLocked(refreshFailed)
	default: // the connection has ended, or its user has
		c.mu.Unlock()
		return false
	}
	if c.books.due > 0 {
		c.waitsAnewLocked()
	}
	patience := swapPatience
	if since := c.renewal.waiting; !since.IsZero() {
		if since.Before(c.stop) {
			since = c.stop
		}
		patience -= now.Sub(since)
	}
	idle := c.renewal.waiting.IsZero()
	tied := c.renewal.tied
	c.changed.Broadcast()
	c.mu.Unlock()

	var e *Error
	switch {
	case tied: // the next request renews on the leg
		return false
	case errors.As(err, &e) && (e.Fault == VersionsChanged || e.Fault == Unfenced), late && patience <= 0:
		_ = c.giveUp()
		return false
	}
	return !late || !idle
}
