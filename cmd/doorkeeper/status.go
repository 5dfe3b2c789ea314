package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"doorkeeper/connections"
	"doorkeeper/gateway"
	"doorkeeper/internal/pause"
	"doorkeeper/nodestatus"
	"doorkeeper/tlsconf"
	"doorkeeper/tokens"
)

// statusClientID is what node status's connections call themselves.
const statusClientID = "doorkeeper-status"

// A login with a fresh token may be refused although the broker lists the token:
// the SCRAM credential comes a moment later.
const (
	statusLogins    = 5
	statusLoginWait = 100 * time.Millisecond // doubled for each
)

// statusDialer opens node status's connections: logins with the token of the
// gateway's own principal, as the sessions' are with their owners'. The first that
// works proves the whole token path.
type statusDialer struct {
	tokens *tokens.Source
	dialer *connections.Dialer
	tls    *tlsconf.Source
	loops  *loopDetector
	log    *zap.Logger

	proved atomic.Bool

	mu   sync.Mutex
	said map[string]string // address, "" for what has none → the fault logged last
}

// maxSaid bounds what is remembered of addresses that come and go.
const maxSaid = 1000

// dial implements nodestatus.Config.Dial. It ends with ctx, or after the bounds of
// tokens and connections.
func (d *statusDialer) dial(ctx context.Context, a nodestatus.Address) (nodestatus.Conn, error) {
	conn, err := d.open(ctx, a)
	if err != nil {
		d.explain(a, err)
		return nil, err
	}
	d.mu.Lock()
	_, failed := d.said[a.String()]
	delete(d.said, a.String())
	delete(d.said, "")
	d.mu.Unlock()
	if !d.proved.Load() {
		if err := gateway.CheckFeatures(conn.Versions()); err != nil {
			_ = conn.Close()
			d.loops.report(err)
			return nil, err
		}
	}
	first := !d.proved.Swap(true)
	if first || failed {
		d.log.Info("the token path works: logged in with the gateway's own token",
			zap.String("principal", d.tokens.Own()), zap.Stringer("broker", a))
	}
	if first {
		d.warnOfExcess(ctx, conn, d.tokens.Own())
	}
	return conn, nil
}

// warnOfExcess says so where the gateway has rights that it does not need: whoever takes
// the gateway over has them too.
func (d *statusDialer) warnOfExcess(ctx context.Context, conn asker, own string) {
	excess, err := excessRights(ctx, conn)
	if err != nil || len(excess) == 0 {
		return // nothing leans on it; a connection that failed shows at its next use
	}
	d.log.Warn("the gateway's own principal may do more than it needs on the cluster itself",
		zap.String("principal", own), zap.Strings("rights", excess), zap.String("cure", excessCure))
}

func (d *statusDialer) open(ctx context.Context, a nodestatus.Address) (_ *statusConn, err error) {
	lease, err := d.tokens.AcquireOwn(ctx)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			lease.Release()
		}
	}()
	// From here on no client can become the gateway itself (rule 2).
	d.tls.SetOwnPrincipal(d.tokens.Own())
	for try, wait := 1, statusLoginWait; ; try, wait = try+1, 2*wait {
		conn, token, err := d.login(ctx, a, lease)
		if err == nil {
			return &statusConn{KafkaConnection: conn, lease: lease}, nil
		}
		if !gateway.RefusedToken(d.tokens, token, err) || try == statusLogins {
			return nil, err
		}
		if err := lease.Settle(ctx); err != nil {
			return nil, err
		}
		if !pause.For(ctx, wait+rand.N(wait)) {
			return nil, err
		}
	}
}

// login makes one attempt with the newest token, which is not expired meanwhile.
func (d *statusDialer) login(ctx context.Context, a nodestatus.Address, lease *tokens.Lease) (*connections.KafkaConnection, *tokens.Token, error) {
	token, release := lease.Use()
	defer release()
	if err := d.tokens.AwaitAny(ctx, token); err != nil {
		return nil, token, err
	}
	id := statusClientID
	conn, err := d.dialer.Open(ctx, connections.Target{Node: -1, Host: a.Host, Port: a.Port}, connections.ScramOverMtls,
		gateway.Credential(token), connections.ClientInfo{ID: &id})
	return conn, token, err
}

// explain logs why a login did not work, once for each cause while it lasts: the
// attempts go on for as long as the gateway runs, and node status reminds of them.
func (d *statusDialer) explain(a nodestatus.Address, err error) {
	var (
		broker *connections.Error
		token  *tokens.Error
		about  string
		what   = err.Error()
	)
	switch {
	case errors.Is(err, context.Canceled): // the gateway stops
		return
	case errors.As(err, &broker):
		switch broker.Fault {
		case connections.SelfDetected:
			d.loops.report(fmt.Errorf("the gateway is pointed at itself: %w", err))
			return
		case connections.Canceled, connections.LocallyClosed:
			return
		}
		// The text holds port numbers that differ each time; the fault does not.
		about, what = a.String(), broker.Phase.String()+" "+broker.Fault.String()
	case errors.As(err, &token):
		if token.Reason == tokens.ReasonStopped {
			return
		}
		what = token.Phase.String() + " " + token.Reason.String()
	}
	if d.isNew(about, what) {
		d.log.Error("the token path does not work; trying again", zap.Stringer("broker", a), zap.Error(err))
	}
}

func (d *statusDialer) isNew(about, what string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.said[about] == what {
		return false
	}
	if d.said == nil || len(d.said) >= maxSaid {
		d.said = make(map[string]string)
	}
	d.said[about] = what
	return true
}

// statusConn gives the own token's lease back with the connection.
type statusConn struct {
	*connections.KafkaConnection
	lease   *tokens.Lease
	release sync.Once
}

// Close implements nodestatus.Conn.
func (c *statusConn) Close() error {
	c.release.Do(c.lease.Release)
	return c.KafkaConnection.Close()
}

var _ nodestatus.Conn = (*statusConn)(nil)
