package gateway

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"doorkeeper/connections"
	"doorkeeper/internal/pause"
	"doorkeeper/nodestatus"
	"doorkeeper/tokens"
)

// Bounds on making a broker leg.
const (
	// connectWithin runs from the first request to the leg being ready, token
	// creation included: librdkafka gives its first answer 10 s, and takes a close in
	// that state for a broker older than ApiVersions.
	connectWithin = 7500 * time.Millisecond
	// attemptWithin bounds one broker of several that could serve as well.
	attemptWithin = 2500 * time.Millisecond
	// refusedWait is the first pause before a login is tried again that a broker
	// refused although it lists the token: its SCRAM credential comes a moment later.
	refusedWait = 50 * time.Millisecond
	// refusals is how often a login may be refused before the owner's session ends.
	refusals = 6
)

// connect makes the session's broker leg, if there is none yet. f is the first
// request that a broker has to answer. It waits connectWithin at most.
func (s *session) connect(f *frame) error {
	if s.conn.Load() != nil {
		return nil
	}
	s.move(stepRequest)
	began := time.Now()
	ctx, cancel := context.WithTimeout(s.ctx, connectWithin)
	defer cancel()

	// The login needs a big stack for a moment, and this goroutine will live long:
	// another one does it.
	type result struct {
		conn *connections.KafkaConnection
		err  error
	}
	done := make(chan result, 1)
	client := clientInfo(f)
	if client.ID != nil {
		s.clientID = *client.ID
	}
	s.g.legs.Go(func() {
		r := result{err: ending(ReasonPanic, SideGateway, nil)}
		defer func() { done <- r }()
		defer s.guard()
		r.conn, r.err = s.login(ctx, client)
	})
	r := <-done
	if r.err != nil {
		return s.loginError(r.err)
	}
	s.conn.Store(r.conn)
	r.conn.BeforeWait(s.flushClient)
	if e := s.ended.Load(); e != nil {
		r.conn.Abort() // whoever ended the session did not see the connection
		return e
	}
	s.move(stepConnected)
	s.answered = make(chan struct{})
	s.g.legs.Go(s.answers)
	s.log.Debug("session connected", zap.Int32("node", s.node), zap.String("client_id", s.clientID), zap.Duration("took", time.Since(began)))
	if !s.started {
		// The time that the client had to wait for us does not count against it.
		s.arm(s.deadline.Add(time.Since(began)))
		if f.whole() {
			s.started = true
		}
	}
	return nil
}

// clientInfo takes from the first request what the broker should know of the
// client: its id, and the software that it names in ApiVersions (KIP-511).
func clientInfo(f *frame) connections.ClientInfo {
	var info connections.ClientInfo
	if f.header.ClientID != nil {
		id := string(f.header.ClientID)
		info.ID = &id
	}
	if f.header.Key == int16(kmsg.ApiVersions) && f.header.Version >= 3 && f.header.Version <= f.rule.max {
		request := kmsg.NewPtrApiVersionsRequest()
		request.SetVersion(f.header.Version)
		if request.ReadFrom(f.payload()[f.header.Size:]) == nil {
			info.SoftwareName, info.SoftwareVersion = request.ClientSoftwareName, request.ClientSoftwareVersion
		}
	}
	return info
}

// login gets the owner's token and logs in with it on the broker that the client
// means, or on any that is up.
func (s *session) login(ctx context.Context, client connections.ClientInfo) (*connections.KafkaConnection, error) {
	lease, err := s.g.cfg.Tokens.Acquire(ctx, s.identity.Owner)
	if err != nil {
		return nil, err
	}
	s.lease = lease
	if s.entry != bootstrapNode {
		node, err := s.findNode(ctx)
		if err != nil {
			return nil, err
		}
		return s.loginAt(ctx, node, client)
	}
	tried := make(map[int32]bool)
	for {
		node, ok := s.g.cfg.Nodes.Table().Bootstrap(s.g.cfg.Rack, func(id int32) bool { return tried[id] }, nil)
		if !ok {
			if err == nil {
				err = endingf(ReasonUnreachable, SideBroker, "no broker is up")
			}
			return nil, err
		}
		tried[node.ID] = true
		attempt, cancel := context.WithTimeout(ctx, attemptWithin)
		conn, attemptErr := s.loginAt(attempt, node, client)
		cancel()
		if attemptErr == nil {
			return conn, nil
		}
		if err = attemptErr; ctx.Err() != nil || !anotherBroker(err) {
			return nil, err
		}
	}
}

// findNode returns the broker whose address the client dialled. One that the table
// does not know may have joined a moment ago: it is asked for once more.
func (s *session) findNode(ctx context.Context) (nodestatus.Node, error) {
	changed := s.g.cfg.Nodes.Changed()
	for {
		node, ok := s.g.cfg.Nodes.Table().Node(s.entry)
		if ok {
			if node.Refused != "" {
				return node, endingf(ReasonUnreachable, SideGateway, "node %d: %s", node.ID, node.Refused)
			}
			return node, nil
		}
		s.g.cfg.Nodes.ReportFailure(s.entry)
		wait, cancel := context.WithTimeout(ctx, attemptWithin)
		select {
		case <-changed:
			changed = s.g.cfg.Nodes.Changed()
			cancel()
		case <-wait.Done():
			cancel()
			return nodestatus.Node{}, endingf(ReasonUnknownNode, SideClient, "the cluster has no node %d", s.entry)
		}
	}
}

// loginAt logs in on one broker, again if it does not know the token yet.
func (s *session) loginAt(ctx context.Context, node nodestatus.Node, client connections.ClientInfo) (*connections.KafkaConnection, error) {
	s.node = node.ID
	wait := refusedWait
	for try := 1; ; try++ {
		conn, token, err := s.attempt(ctx, node, client)
		if err == nil {
			s.g.cfg.Nodes.ReportSuccess(node.ID)
			return conn, nil
		}
		var fault *connections.Error
		if !errors.As(err, &fault) {
			return nil, err
		}
		if !RefusedToken(s.g.cfg.Tokens, token, err) {
			if !errors.Is(ctx.Err(), context.Canceled) { // the session's own end says nothing of the broker
				s.g.cfg.Nodes.ReportFailure(node.ID)
			}
			return nil, err
		}
		if try == refusals {
			return nil, err
		}
		if settled := s.lease.Settle(ctx); settled != nil {
			return nil, settled
		}
		if !pause.For(ctx, wait+rand.N(wait)) {
			return nil, err
		}
		wait *= 2
	}
}

// attempt makes one attempt with the newest token, which is not expired meanwhile.
func (s *session) attempt(ctx context.Context, node nodestatus.Node, client connections.ClientInfo) (*connections.KafkaConnection, *tokens.Token, error) {
	token, release := s.lease.Use()
	defer release()
	if err := s.g.cfg.Tokens.Await(ctx, token, node.ID); err != nil {
		return nil, token, err
	}
	conn, err := s.g.cfg.Dialer.OpenRenewing(ctx, connections.Target{Node: node.ID, Host: node.Host, Port: node.Port},
		Credential(token), client, newSuccessors(s, node.ID, token))
	if err == nil {
		token.Accepted(node.ID)
	}
	return conn, token, err
}

// Credential is a token as a login needs it.
func Credential(token *tokens.Token) *connections.Credential {
	return &connections.Credential{Username: token.ID, Password: token.Password, Derived: token.Derived}
}

// RefusedToken tells whether err means that a broker did not accept token, or gave the
// session no life with it, and then lets source look into it. It never blocks; the
// lease's Settle waits for what comes of it.
func RefusedToken(source *tokens.Source, token *tokens.Token, err error) bool {
	var fault *connections.Error
	if !errors.As(err, &fault) {
		return false
	}
	switch fault.Fault {
	case connections.CredentialRefused:
		source.Invalidate(token)
	case connections.CredentialExpired:
		source.ReportDead(token)
	default:
		return false
	}
	return true
}

// anotherBroker tells whether it makes sense to try the same on another broker.
func anotherBroker(err error) bool {
	var fault *connections.Error
	return errors.As(err, &fault) || errors.Is(err, context.DeadlineExceeded)
}

// loginError is the session's end when no broker leg came about.
func (s *session) loginError(err error) error {
	if e := s.ended.Load(); e != nil {
		return e
	}
	var (
		own    *Error
		broker *connections.Error
		token  *tokens.Error
	)
	switch {
	case errors.As(err, &own):
		return own
	case errors.As(err, &token):
		return ending(ReasonTokens, SideBroker, err)
	case errors.As(err, &broker):
		return ending(ReasonUnreachable, SideBroker, err)
	case errors.Is(err, context.DeadlineExceeded):
		return ending(ReasonUnreachable, SideBroker, fmt.Errorf("no broker leg within %v of the first request: %w", connectWithin, err))
	}
	return ending(ReasonUnreachable, SideBroker, err)
}
