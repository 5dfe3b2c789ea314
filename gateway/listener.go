package gateway

import (
	"context"
	"net"
	"net/netip"
	"time"

	"go.uber.org/zap"
)

// Back-off of an accept loop, as when file descriptors run out.
const (
	acceptWaitMin = 5 * time.Millisecond
	acceptWaitMax = time.Second
)

// accept takes client legs until the listener closes. It does nothing that could
// wait for a client: handshakes have goroutines of their own.
func (g *Gateway) accept(ctx context.Context, l *listener) {
	wait := acceptWaitMin
	for {
		conn, err := l.Accept()
		if err == nil {
			wait = acceptWaitMin
			g.take(ctx, l.node, conn)
			continue
		}
		if isClosed(err) {
			return
		}
		// EMFILE and the like: the legs at hand go on, and new ones are taken as soon
		// as there is room.
		g.cfg.Logger.Error("accepting a client failed; trying again", zap.Error(err), zap.Duration("after", wait))
		pause := time.NewTimer(wait)
		<-pause.C
		wait = min(2*wait, acceptWaitMax)
	}
}

// take counts a new leg and starts its handshake, or closes it.
func (g *Gateway) take(ctx context.Context, node int32, conn net.Conn) {
	g.cfg.Observer.LegAccepted()
	from := addressOf(conn.RemoteAddr())
	if reason, ok := g.counters.accept(from); !ok {
		g.refuse(conn, reason)
		return
	}
	g.legs.Go(func() { g.admit(ctx, node, conn, from) })
}

// refuse closes a leg that gets no handshake.
func (g *Gateway) refuse(conn net.Conn, reason Reason) {
	_ = conn.Close()
	g.cfg.Observer.LegRefused(string(reason))
	g.cfg.Logger.Debug("client refused before its handshake", zap.String("reason", string(reason)), zap.Stringer("client", conn.RemoteAddr()))
}

// addressOf returns a peer's address in one form for IPv4 and mapped IPv4.
func addressOf(a net.Addr) netip.Addr {
	if tcp, ok := a.(*net.TCPAddr); ok {
		return tcp.AddrPort().Addr().Unmap().WithZone("")
	}
	return netip.Addr{}
}
