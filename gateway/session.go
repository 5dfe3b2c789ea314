package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"doorkeeper/connections"
	"doorkeeper/internal/wire"
	"doorkeeper/tlsconf"
	"doorkeeper/tokens"
)

// lastWords is how long a client gets to read what was sent to it last.
const lastWords = 2 * time.Second

// past is a deadline that ends a wait at once.
var past = time.Unix(1, 0)

// session is one client leg, its owner's token lease and its one broker leg. It has
// two goroutines: requests (run) and, once there is a broker leg, answers. The
// first end that anybody calls is the session's; everything else follows from it.
type session struct {
	g        *Gateway
	id       uint64
	client   *wire.Stream
	identity tlsconf.Identity
	entry    int32 // the node whose listener the client came to, or bootstrapNode
	from     netip.Addr
	accepted time.Time
	deadline time.Time // for the first complete request
	log      *zap.Logger

	// Written by the request goroutine alone.
	started   bool          // the first request has been read in full
	armed     time.Time     // the client's read deadline, as far as it is ours
	extended  bool          // a frame under way got more time to finish while draining
	due       int           // bytes of a request until it has earned more time
	blocked   time.Duration // that the broker made a request under way wait
	small     [smallFrame]byte
	big       *[]byte // borrowed while bytes of a frame are at hand
	held      int64   // bytes of memory that count against the budget
	lease     *tokens.Lease
	node      int32 // the broker, once chosen
	clientID  string
	answered  chan struct{} // closed when the answer goroutine has ended; nil before it was started
	nRequests uint64

	queue *inflight
	conn  atomic.Pointer[connections.KafkaConnection]

	// Written by the answer goroutine alone.
	writeArmed time.Time
	clientGone bool
	nAnswers   uint64

	expiry *time.Timer     // of the certificate
	ctx    context.Context //nolint:containedctx // ends with the session; its cause is the session's end
	cancel context.CancelCauseFunc
	ended  atomic.Pointer[Error]
	over   chan struct{} // closed when the broker leg is closed and the end is counted

	mu    sync.Mutex
	phase phase
}

// start registers the session and leaves it to its own goroutine.
func (s *session) start(ctx context.Context) {
	s.id = s.g.nextID.Add(1)
	s.ctx, s.cancel = context.WithCancelCause(ctx)
	s.over = make(chan struct{})
	s.queue = newInflight(s.g.cfg.Limits.InFlight)
	// Lazily: a copy of the encoder is 1 KiB that most sessions need at their end alone.
	s.log = s.g.cfg.Logger.WithLazy(zap.Uint64("session", s.id), zap.String("owner", s.identity.Owner),
		zap.Stringer("client", s.client.RemoteAddr()))
	s.node = s.entry
	s.armed = s.deadline
	_ = s.client.SetWriteDeadline(time.Time{})
	s.client.BeforeWait(s.flushBroker)
	s.g.cfg.Observer.SessionStarted()
	if !s.g.register(s) {
		s.end(ending(ReasonShutdown, SideGateway, nil))
	}
	s.g.legs.Go(s.run)
}

// run is the request goroutine: it serves the client and then takes everything down.
func (s *session) run() {
	s.expiry = time.AfterFunc(lookAtClock, s.expire)
	s.expiry.Reset(nextLook(time.Now(), s.identity.NotAfter))
	defer s.expiry.Stop()
	defer s.close()
	defer s.guard()
	s.end(s.requests())
	s.finish()
}

// lookAtClock is how often a session holds the end of its certificate against the wall
// clock, which may have been set since; all other times are durations.
const lookAtClock = time.Minute

// nextLook is how long the certificate need not be looked at.
func nextLook(now, notAfter time.Time) time.Duration {
	return min(max(notAfter.Round(0).Sub(now.Round(0)), 0), lookAtClock) // Round: the wall clock's time
}

// expire ends the session if the certificate that it stands on is over.
func (s *session) expire() {
	switch rest := nextLook(time.Now(), s.identity.NotAfter); {
	case s.ended.Load() != nil:
		return
	case rest > 0:
		s.expiry.Reset(rest)
		return
	}
	s.end(endingf(ReasonCertificate, SideClient, "the certificate, or one of its issuers, was valid until %s", s.identity.NotAfter.UTC().Format(time.RFC3339)))
}

// guard turns a panic of one session into that session's end.
func (s *session) guard() {
	if p := recover(); p != nil {
		s.g.cfg.Observer.Panicked()
		s.log.Error("a programming error ended a session; please report it", zap.String("panic", fmt.Sprintf("%T: %.200v", p, p)), zap.ByteString("stack", debug.Stack()))
		s.end(endingf(ReasonPanic, SideGateway, "panic"))
	}
}

// end ends the session for a reason; only the first one counts, and end tells whether
// this is it. It wakes both goroutines. It may be called by any goroutine, and does not
// wait.
func (s *session) end(e *Error) bool {
	if !s.ended.CompareAndSwap(nil, e) {
		return false
	}
	s.cancel(e)
	_ = s.client.SetReadDeadline(past)
	if e.cuts() {
		s.abort()
	}
	return true
}

// cuts tells of an end whether nothing more may pass in either direction. With the
// others, what the client sent is delivered and what is due is answered.
func (e *Error) cuts() bool {
	switch e.Reason {
	case ReasonClientClosed, ReasonShutdown, ReasonSessionEnding, ReasonClientLost, ReasonBadRequest, ReasonRefusedAPI:
		return false
	default:
		return true
	}
}

// abort cuts the broker leg, and wakes whoever waits for either leg.
func (s *session) abort() {
	if c := s.conn.Load(); c != nil {
		c.Abort()
	}
	now := time.Now()
	_ = s.client.SetReadDeadline(past)
	// An answer under way to a client that does not read must not hold things up.
	_ = s.client.SetWriteDeadline(now.Add(lastWords))
}

// finish delivers what was taken from the client, and lets the answers that are due
// pass, for timeouts.drain at most.
func (s *session) finish() {
	if s.answered == nil {
		return
	}
	s.move(stepDrain)
	conn := s.conn.Load()
	force := time.AfterFunc(s.g.cfg.Timeouts.Drain, s.abort)
	defer force.Stop()
	if err := conn.Finish(); err != nil {
		conn.Abort()
	}
	<-s.answered
}

// close takes down what is left, waits for the answer goroutine, and says once why
// the session ended. The client's slot is free when its socket is.
func (s *session) close() {
	e := s.ended.Load()
	if conn := s.conn.Load(); conn != nil {
		if s.answered != nil {
			select {
			case <-s.answered:
			default: // after a panic
				conn.Abort()
				<-s.answered
			}
		}
		_ = conn.Close()
	}
	if s.lease != nil {
		s.lease.Release()
	}
	s.move(stepClose)
	s.cancel(e)
	s.g.cfg.Observer.SessionEnded(string(e.Reason))
	s.report(e)
	close(s.over)
	if e.Reason == ReasonClientClosed || e.Reason == ReasonClientLost {
		_ = s.client.Close()
	} else {
		s.client.Linger(lastWords)
	}
	s.g.unregister(s)
	s.g.counters.release(s.identity.Owner)
	s.g.counters.closed(s.from)
}

// report writes the session's one line.
func (s *session) report(e *Error) {
	fields := []zap.Field{
		zap.String("reason", string(e.Reason)), zap.String("side", string(e.Side)),
		zap.Int32("node", s.node), zap.String("client_id", s.clientID),
		zap.Uint64("requests", s.nRequests), zap.Uint64("answers", s.nAnswers), zap.Int("unanswered", s.queue.len()),
		zap.Duration("lasted", time.Since(s.accepted).Round(time.Millisecond)),
	}
	if e.Err != nil {
		fields = append(fields, zap.NamedError("cause", e.Err))
	}
	switch {
	case e.Reason == ReasonClientClosed, e.Reason == ReasonShutdown, e.Reason == ReasonSessionEnding, e.Reason == ReasonOperator,
		e.Reason == ReasonBrokerLost && s.queue.len() == 0: // brokers close idle connections after ten minutes
		s.log.Info("session ended", fields...)
	default:
		s.log.Warn("session ended", fields...)
	}
}

// move changes the phase. An illegal change is a programming error and is reported
// like one.
func (s *session) move(e step) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next, err := s.phase.next(e)
	if err != nil {
		panic(err)
	}
	s.phase = next
}

// flushBroker hands on what was taken from the client, before waiting for more.
func (s *session) flushBroker() {
	if c := s.conn.Load(); c != nil {
		began := time.Now()
		_ = c.Flush() // the next write reports the error
		s.blocked += time.Since(began)
	}
}

// flushClient hands answers on, before waiting for more.
func (s *session) flushClient() { _ = s.client.Flush() }

// clientError names what a failed read or write of the client leg means.
func clientError(err error) *Error {
	switch {
	case errors.Is(err, io.EOF):
		return ending(ReasonClientClosed, SideClient, nil)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return endingf(ReasonBadRequest, SideClient, "the client closed in the middle of a request")
	case isTimeout(err):
		return endingf(ReasonClientStalled, SideClient, "no bytes moved for timeouts.stall")
	}
	return ending(ReasonClientLost, SideClient, err)
}

func isTimeout(err error) bool {
	var t interface{ Timeout() bool }
	return errors.As(err, &t) && t.Timeout()
}
