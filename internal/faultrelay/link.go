package faultrelay

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"doorkeeper/internal/pause"
)

const (
	// pieceSize is how much is read at once, and linePieces how many such pieces a
	// direction holds: what is late waits here, so that latency costs no throughput.
	pieceSize  = 32 << 10
	linePieces = 64
	// tick is the time for which a slow rate saves bytes up: less could not be waited for.
	tick = 5 * time.Millisecond
)

// link is one connection through the relay.
type link struct {
	relay *Relay
	asked int             // which of the relay's connections it is
	ends  [2]*net.TCPConn // by the Direction that begins there
	own   *[2]Faults      // nil: the relay's
	n     int             // as Vary counted it, or -1

	passed [2]int64 // relay.mu guards it
}

// now is what happens to byte at of a direction, up to which byte that is so (0: to all),
// and a channel that is closed once it is something else.
func (l *link) now(d Direction, at int64) (f Faults, until int64, changed <-chan struct{}) {
	f, changed = l.relay.now(d)
	if l.own != nil {
		f = l.own[d]
	}
	if at < f.From {
		return Faults{ResetAt: f.ResetAt}, f.From, changed
	}
	return f, 0, changed
}

// piece is bytes on their way, or an end.
type piece struct {
	bytes []byte
	due   time.Time
	err   error // io.EOF where the sender ended; else it was reset, or the relay closes
}

// run relays until both directions have ended, or ctx does.
func (l *link) run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var all sync.WaitGroup
	for d := range Direction(2) {
		line := make(chan piece, linePieces)
		all.Go(func() {
			defer close(line)
			l.read(ctx, d, line)
		})
		all.Go(func() {
			if !l.write(ctx, d, line) { // the other direction is of no use any more
				cancel()
				l.reset()
			}
		})
	}
	all.Wait()
}

// read puts what comes on the line until an end, which it puts there too.
func (l *link) read(ctx context.Context, d Direction, line chan<- piece) {
	last, at := time.Time{}, int64(0)
	for {
		p := piece{bytes: make([]byte, pieceSize)}
		n, err := l.ends[d].Read(p.bytes)
		f, _, _ := l.now(d, at)
		at += int64(n)
		p.bytes, p.err, p.due = p.bytes[:n], err, time.Now().Add(f.Latency)
		if f.Jitter > 0 {
			p.due = p.due.Add(rand.N(f.Jitter))
		}
		if p.due.Before(last) { // what was sent first comes first
			p.due = last
		}
		last = p.due
		select {
		case line <- p:
		case <-ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

// write takes pieces off the line as they are due. It returns false if the connection is
// to be reset.
func (l *link) write(ctx context.Context, d Direction, line <-chan piece) bool {
	to := l.ends[1-d]
	at := int64(0)
	for p := range line {
		if time.Until(p.due) > 0 && !pause.For(ctx, time.Until(p.due)) {
			return false
		}
		for len(p.bytes) > 0 {
			f, until, ok := l.flowing(ctx, d, at)
			if !ok {
				return false
			}
			n := len(p.bytes)
			if until > 0 {
				n = min(n, int(until-at))
			}
			if f.Slice > 0 {
				n = min(n, f.Slice)
			}
			if f.Rate > 0 {
				n = min(n, max(1, int(int64(f.Rate)*int64(tick)/int64(time.Second))))
			}
			if f.ResetAt > 0 {
				n = min(n, int(max(0, f.ResetAt-at)))
			}
			if !f.Swallow && n > 0 {
				l.relay.show(l.asked, d, p.bytes[:n])
				if _, err := to.Write(p.bytes[:n]); err != nil {
					return false
				}
				l.relay.count(l, d, n)
			}
			at += int64(n)
			if f.ResetAt > 0 && at >= f.ResetAt {
				return false
			}
			p.bytes = p.bytes[n:]
			if f.Rate > 0 && !pause.For(ctx, time.Duration(int64(n)*int64(time.Second)/int64(f.Rate))) {
				return false
			}
		}
		if p.err == nil {
			continue
		}
		f, _, ok := l.flowing(ctx, d, at)
		switch {
		case !ok || !errors.Is(p.err, io.EOF):
			return false
		case f.Swallow: // the end is lost too: the other side never hears of it
			continue
		default:
			_ = to.CloseWrite()
		}
	}
	return true
}

// flowing waits while the direction stalls and returns what now does then; false if ctx
// ended.
func (l *link) flowing(ctx context.Context, d Direction, at int64) (f Faults, until int64, ok bool) {
	for {
		f, until, changed := l.now(d, at)
		if !f.Stall {
			return f, until, ctx.Err() == nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return f, until, false
		}
	}
}

func (l *link) reset() {
	for _, c := range l.ends {
		reset(c)
	}
}
