package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime/debug"
	"time"

	"go.uber.org/zap"

	"doorkeeper/internal/wire"
	"doorkeeper/tlsconf"
)

// alertPatience is how long a refused client gets to read the alert that says why.
// Under TLS 1.3 it is already writing; closing at once would turn the alert into a
// reset.
const alertPatience = 2 * time.Second

// admit makes the TLS handshake under the admission deadline, and a session of what
// comes out of it. It runs in a goroutine of its own that ends with the handshake:
// a handshake needs a big stack, and the session's goroutines start with small ones.
func (g *Gateway) admit(ctx context.Context, node int32, conn net.Conn, from netip.Addr) {
	defer g.guardHandshake(conn)
	deadline := time.Now().Add(g.cfg.Timeouts.Admission)
	_ = conn.SetDeadline(deadline)
	snapshot := g.cfg.TLS.Current()
	stream := wire.Server(conn, snapshot.ServerConfig(), g.cfg.Buffers)

	// ctx has no end of its own: the deadline bounds the handshake, and a context
	// that can end would cost a goroutine.
	err := stream.Handshake(ctx)
	g.counters.shaken(from)
	if err == nil {
		// The same function has decided inside the handshake. What it decides now holds:
		// the gateway's own name, which nobody may bear, was known before.
		own := g.cfg.TLS.OwnPrincipal()
		var identity tlsconf.Identity
		if identity, err = snapshot.Identify(stream.ConnectionState()); err == nil {
			g.open(ctx, own, &session{
				g: g, client: stream, identity: identity, entry: node, from: from,
				accepted: time.Now(), deadline: deadline,
			})
			return
		}
	}
	g.turnAway(stream, conn, from, err)
}

// guardHandshake turns a panic during a handshake into that leg's end. The leg's
// slot is lost: a programming error must not let more clients in than the limits say.
func (g *Gateway) guardHandshake(conn net.Conn) {
	if p := recover(); p != nil {
		_ = conn.Close()
		g.cfg.Observer.Panicked()
		g.cfg.Observer.LegRefused(string(ReasonPanic))
		g.cfg.Logger.Error("a programming error ended a handshake; please report it",
			zap.String("panic", fmt.Sprintf("%T: %.200v", p, p)), zap.ByteString("stack", debug.Stack()))
	}
}

// turnAway ends a leg whose handshake failed. The alert is out already.
func (g *Gateway) turnAway(stream *wire.Stream, conn net.Conn, from netip.Addr, err error) {
	defer g.counters.closed(from)
	cause, detail := tlsconf.DescribeHandshakeError(err)
	reason := ReasonHandshake
	log := g.cfg.Logger.Warn
	var chain *tls.CertificateVerificationError
	var refusal *tlsconf.Refusal
	switch {
	case cause == tlsconf.ReasonEOF:
		reason, log = ReasonProbe, g.cfg.Logger.Debug // health probes must not fill the log
	case cause == tlsconf.ReasonTimeout:
		reason = ReasonAdmission
	case cause == tlsconf.ReasonNoCertificate, errors.As(err, &chain), errors.As(err, &refusal):
		reason = ReasonRefused
	}
	g.cfg.Observer.LegRefused(string(reason))
	log("client refused", zap.String("reason", string(reason)), zap.Stringer("client", conn.RemoteAddr()),
		zap.Stringer("listener", conn.LocalAddr()), zap.String("kind", cause), zap.String("cause", detail))
	stream.Linger(alertPatience)
}

// open starts a session, if the gateway can have one, and its owner one more. Else it
// closes plainly: an alert would be final for Java clients.
func (g *Gateway) open(ctx context.Context, own string, s *session) {
	var reason Reason
	var cause string
	switch {
	case own == "":
		// Without its own name the gateway cannot tell whether a client claims it. The
		// handshake was made all the same: a gateway that is pointed at itself, through a
		// load balancer say, knows itself by the certificate.
		reason, cause = ReasonNotReady, "the gateway has no token of its own yet"
	case !g.counters.admit(s.identity.Owner):
		reason, cause = ReasonLimitOwner, "limits.sessions_per_owner is reached"
	default:
		s.start(ctx)
		return
	}
	g.cfg.Observer.LegRefused(string(reason))
	g.cfg.Logger.Warn("client refused", zap.String("reason", string(reason)), zap.String("owner", s.identity.Owner),
		zap.Stringer("client", s.client.RemoteAddr()), zap.String("cause", cause))
	s.client.Linger(alertPatience)
	g.counters.closed(s.from)
}
