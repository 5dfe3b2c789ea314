package connections

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"doorkeeper/internal/wire"
)

// deliverPatience is how long a connection that ended itself waits for the broker to
// close, too, where that is the only sign that requests without an answer were read.
// It covers the time for which a broker throttles a producer.
const deliverPatience = 30 * time.Second

// KafkaConnection is one authenticated connection to one broker. Its user sees
// requests and answers; the leg beneath, its session end and what follows from that
// stay in here.
//
// Two goroutines use it at a time: one the request side (Begin, Write, End, Flush,
// Finish), one the response side (NextAnswer, Read, Answered). Everything else may
// be called by any.
//
// At risk, which is announced by State and by Observer.AtRisk, a connection that was
// opened with Credentials begins a new session with the next request: on the same leg,
// before that request (renew.go), or on a fresh leg, which takes over when the old one
// has answered everything (swap.go). One that has nothing to renew itself with, or whose broker refuses to,
// ends itself as soon as nothing is unanswered and no frame is half written: it
// half-closes towards the broker, and both sides return ErrSessionEnding. Until
// Stop, a margin before the session end, it takes requests nevertheless; from then on
// Begin waits for what is outstanding and returns ErrSessionEnding.
type KafkaConnection struct {
	dialer      *Dialer
	target      atomic.Pointer[Target] // the leg's
	kind        Kind
	mechanism   Mechanism
	stall       time.Duration
	observer    Observer
	client      ClientInfo
	credentials Credentials // nil: the session is not renewed

	life    context.Context //nolint:containedctx // ends with the connection, and with it what swap waits for; nil without credentials
	endLife context.CancelFunc

	// The request side's own.
	out     *leg          // written to last
	inFrame bool          // between Begin and End
	longest time.Duration // that the requests under way have let the broker wait, in sum and where bounded

	// The response side's own.
	in         *leg // read from last
	head       [answerHead]byte
	unread     int // bytes of the current answer
	beforeWait func()

	mu      sync.Mutex
	changed sync.Cond // on mu: something that a side waits for
	state   State
	leg     *leg // in use; a swap changes it, when nothing is unanswered
	renewal renewal
	stop    time.Time // when nothing more may be written, zero for a session without an end
	books   admission
	writing bool     // inFrame, for the others
	drain   drainage // why state is Draining
	err     *Error   // why state is Closed, nil after Close and Abort
	timer   *time.Timer

	background sync.WaitGroup // timer functions that will run or are running, and a swap

	closing  sync.Once
	closeErr error
}

// drainage is why a connection takes no more requests.
type drainage uint8

const (
	notDraining drainage = iota
	sessionEnding
	finished
)

func newConnection(target Target, kind Kind, d *Dialer, client ClientInfo) *KafkaConnection {
	c := &KafkaConnection{dialer: d, kind: kind, mechanism: d.cfg.Mechanism, stall: d.cfg.Stall, observer: d.cfg.Observer, client: client}
	c.target.Store(&target)
	c.changed.L = &c.mu
	return c
}

// begin and open frame what the Dialer does.
func (c *KafkaConnection) begin() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.moveLocked(dialBegun)
}

func (c *KafkaConnection) open(l *leg) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.moveLocked(loggedIn); err != nil {
		return err
	}
	c.leg, c.out, c.in = l, l, l
	c.renewal.able = c.credentials != nil && l.lifetime > 0
	c.watchSessionLocked(rand.Float64())
	return nil
}

// watchSessionLocked plans for the end of the session that the leg has now.
func (c *KafkaConnection) watchSessionLocked(jitter float64) {
	c.stop = time.Time{}
	c.renewal.jitter = jitter
	if c.leg.lifetime > 0 {
		begin, stop := moments{c.leg.lifetime, c.renewal.able, c.leg.took, c.longest, jitter}.times()
		c.stop = c.leg.begin.Add(stop)
		c.armLocked(c.leg.begin.Add(begin), c.onRisk)
	}
}

func (c *KafkaConnection) moveLocked(e event) error {
	to, err := c.state.next(e)
	c.state = to
	if to == Closed {
		c.end()
	}
	return err
}

// mustLocked is moveLocked where the event belongs to the state. If it does not, that is a
// programming error, and the connection ends by it rather than go on as nobody thought.
func (c *KafkaConnection) mustLocked(e event) {
	if err := c.moveLocked(e); err != nil {
		_ = c.moveLocked(ended)
		c.err = c.fault(PhaseRelay, refuse(LocallyClosed, "a programming error: please report it", "%w", err))
		c.disarmLocked()
		c.changed.Broadcast()
	}
}

// end ends what a swap waits for.
func (c *KafkaConnection) end() {
	if c.endLife != nil {
		c.endLife()
	}
}

// armLocked has f called at the given time, in a goroutine of its own, in place of
// what was to be called before.
func (c *KafkaConnection) armLocked(at time.Time, f func()) {
	c.disarmLocked()
	c.background.Add(1)
	c.timer = time.AfterFunc(time.Until(at), func() {
		defer c.background.Done()
		f()
	})
}

func (c *KafkaConnection) disarmLocked() {
	if c.timer != nil && c.timer.Stop() {
		c.background.Done()
	}
	c.timer = nil
}

// onRisk is the timer's at the begin of risk.
func (c *KafkaConnection) onRisk() {
	c.mu.Lock()
	if c.state != Open {
		c.mu.Unlock()
		return
	}
	c.riskLocked()
	quiet := c.endIfQuietLocked()
	c.mu.Unlock()

	if quiet {
		c.halfClose()
	}
}

// riskLocked makes an Open connection one at risk.
func (c *KafkaConnection) riskLocked() {
	c.mustLocked(riskBegun)
	c.observer.AtRisk() // does not block; and is told before the end that may follow at once
	switch {
	case !c.renewal.able:
		c.armLocked(c.stop, c.onStop)
	case c.swapsLocked():
		c.changed.Broadcast() // as below
		c.watchSwapLocked()
	default:
		// The next request renews, whenever it comes; so does one that waits already.
		c.armLocked(c.renewal.notBefore, c.wake)
	}
}

// onStop is the timer's when nothing more may be written.
func (c *KafkaConnection) onStop() {
	c.mu.Lock()
	quiet := c.endIfQuietLocked()
	c.mu.Unlock()
	if quiet {
		c.halfClose()
	}
}

// endIfQuietLocked moves a connection at risk on to Draining if this is a moment to
// end it. The caller must then call halfClose, without the lock.
//
// Until stop, a quiet moment has nothing unanswered at all. After it, requests
// without an answer no longer count: the half-close is what has them delivered, and
// the broker's own close is their answer.
func (c *KafkaConnection) endIfQuietLocked() bool {
	switch {
	case c.state != AtRiskOfAuthTokenExpiry && c.state != RefreshTimeout:
		return false
	case c.renewal.able || c.writing || c.books.due > 0:
		return false
	}
	if c.books.requests > 0 && time.Now().Before(c.stop) {
		return false
	}
	c.mustLocked(drainBegun)
	c.drain = sessionEnding
	if c.credentials != nil {
		c.observer.ForcedClose("session_end")
	}
	c.disarmLocked()
	c.changed.Broadcast()
	return true
}

// halfClose carries out what endIfQuietLocked decided. No frame is half written, and
// Begin lets none begin, so nobody else writes. It waits for the broker to take the
// last bytes, until the write deadline.
func (c *KafkaConnection) halfClose() {
	s := c.leg.stream
	_ = s.SetWriteDeadline(time.Now().Add(c.stall))
	err := s.CloseWrite()
	switch {
	case c.Unanswered() == 0:
		// Nothing can have been lost, whatever became of our close.
		_ = s.SetReadDeadline(time.Unix(1, 0)) // wakes NextAnswer
	case err != nil:
		_ = c.fail(err, true)
	default:
		_ = s.SetReadDeadline(time.Now().Add(deliverPatience))
	}
}

// Finish ends the request side: what was gathered goes out, then the broker is told
// that no more comes. NextAnswer goes on to give what is outstanding, then io.EOF.
// A request that is half written is lost, as it is for the broker. It belongs to the
// request side, and waits for the broker to take the last bytes, for Config.Stall at
// most. Calling it again, or after the connection ended, does nothing.
func (c *KafkaConnection) Finish() error {
	c.mu.Lock()
	if c.drain != notDraining || c.state == Closed {
		c.mu.Unlock()
		return nil
	}
	if err := c.moveLocked(drainBegun); err != nil {
		c.mu.Unlock()
		return c.fault(PhaseRelay, err)
	}
	c.drain = finished
	c.out = c.leg
	c.end()
	c.disarmLocked()
	if c.writing {
		c.books.abandon()
		c.writing = false
	}
	c.inFrame = false
	c.changed.Broadcast()
	c.mu.Unlock()

	c.extendWriteDeadline(c.out)
	if err := c.out.stream.CloseWrite(); err != nil {
		return c.fail(err, false)
	}
	return nil
}

// fail records the first error of a connection and returns what its sides are to
// return from then on. dead says that no more answers can come: then reads and writes
// under way are ended, too. A broker that takes nothing may still have answered.
func (c *KafkaConnection) fail(err error, dead bool) error {
	c.mu.Lock()
	if c.state != Closed {
		phase := PhaseRelay
		if c.state == Reauthenticating && c.books.ownNext() {
			phase = c.renewal.phase // it is the renewal that failed, not what is in front of it
		}
		c.mustLocked(ended)
		c.err = c.fault(phase, err)
		c.disarmLocked()
		c.changed.Broadcast()
	}
	out, stream := c.closedLocked(), c.leg.stream
	c.mu.Unlock()
	if dead {
		_ = stream.Abort()
	}
	return out
}

// fault is an *Error about the leg in use.
func (c *KafkaConnection) fault(phase Phase, err error) *Error {
	return c.Target().fault(phase, err, nil)
}

// closedLocked is what a Closed connection returns.
func (c *KafkaConnection) closedLocked() error {
	if c.err != nil {
		return c.err
	}
	return c.fault(PhaseRelay, net.ErrClosed)
}

// Close ends the connection: what was gathered goes out, then TLS and TCP are closed.
// Its error says that this did not work on a connection that was alive until then and
// had requests that the broker may not have got.
// It waits 5 s at most for a broker that takes no bytes, and until no goroutine of
// the connection lives. Both sides' calls return an error. Closing again waits for
// the first and returns the same.
func (c *KafkaConnection) Close() error {
	c.closing.Do(func() {
		stream, lossy := c.shut()
		if err := stream.Close(); err != nil && lossy {
			c.closeErr = c.fault(PhaseRelay, err)
		}
		c.background.Wait()
	})
	return c.closeErr
}

// Abort ends the connection at once, without a word to the broker. It never waits.
// Close must follow, which then does not wait for the broker either.
func (c *KafkaConnection) Abort() {
	stream, _ := c.shut()
	_ = stream.Abort()
}

// shut makes the connection Closed and everybody in it leave. It returns what is left to
// be closed, and whether the connection was alive until then, with something unanswered.
func (c *KafkaConnection) shut() (stream *wire.Stream, lossy bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	lossy = c.state != Closed && c.books.requests > 0
	c.mustLocked(ended)
	c.disarmLocked()
	c.changed.Broadcast()
	return c.leg.stream, lossy
}

// State returns the state of the moment.
func (c *KafkaConnection) State() State {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state
}

// SessionEnd returns the moment after which the broker takes no more requests, and
// whether there is one.
func (c *KafkaConnection) SessionEnd() (time.Time, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.leg.lifetime == 0 {
		return time.Time{}, false
	}
	return c.leg.begin.Add(c.leg.lifetime), true
}

// SessionLifetime returns how long the broker lets the session live from its last
// login or re-authentication on (session_lifetime_ms, KIP-368); 0: without an end.
func (c *KafkaConnection) SessionLifetime() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.leg.lifetime
}

// Unanswered returns how many requests were begun whose answer was not read in full.
// Those without an answer count until one after them is answered.
func (c *KafkaConnection) Unanswered() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.books.requests
}

// Versions returns the broker's answer to the ApiVersions v3 of the login. It is
// shared: not to be modified. Its API versions stay the same for the connection's life.
func (c *KafkaConnection) Versions() *kmsg.ApiVersionsResponse {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.leg.versions
}

// Target returns the broker's address.
func (c *KafkaConnection) Target() Target { return *c.target.Load() }

// Kind returns the connection's kind.
func (c *KafkaConnection) Kind() Kind { return c.kind }

// BeforeWait has f called, on the response side, each time that it is about to wait
// for the broker: the moment to flush what was made of earlier answers. It must be
// set before the first NextAnswer.
func (c *KafkaConnection) BeforeWait(f func()) {
	c.beforeWait = f
	c.in.stream.BeforeWait(f)
}

// Format implements fmt.Formatter: every verb shows the broker and the state, nothing
// else.
func (c *KafkaConnection) Format(f fmt.State, _ rune) {
	_, _ = fmt.Fprintf(f, "KafkaConnection{%s %s %s}", c.kind, c.Target(), c.State())
}
