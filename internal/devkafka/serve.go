package devkafka

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"
)

const (
	// handshakeTime bounds the TLS handshake.
	handshakeTime = 30 * time.Second
	// idleTime is after how long without a request a connection ends
	// (connections.max.idle.ms), and how long it may take to take an answer.
	idleTime = 10 * time.Minute
	// failureDelay is how long a refused login waits for its answer
	// (connection.failed.authentication.delay.ms).
	failureDelay = 100 * time.Millisecond
)

// conn is one client's connection. One goroutine serves it, one request at a time:
// Kafka reads the next one only after the last answer is written, and judges the
// session's end then.
type conn struct {
	cluster *Cluster
	node    *node
	// withTokens says which listener it came to.
	withTokens bool
	tls        *tls.Conn
	host       string // the client's, for ACLs

	behind       *behind
	principal    string // without "User:"; "" before the login
	state        state
	session      session
	conversation *conversation
	again        bool // the conversation is not the first

	closing sync.Mutex
	done    chan struct{} // closed by close
}

func newConn(n *node, plain net.Conn, withTokens bool) *conn {
	cfg := n.cluster.controlTLS
	if withTokens {
		cfg = n.cluster.tokenTLS
	}
	return &conn{cluster: n.cluster, node: n, withTokens: withTokens, tls: tls.Server(plain, cfg), done: make(chan struct{})}
}

// serve serves the connection until it ends; close ends it from outside.
func (c *conn) serve() {
	err := c.begin()
	for err == nil && c.state != failed {
		err = c.turn()
	}
	if err != nil && !errors.Is(err, io.EOF) && !c.isClosed() {
		c.cluster.cfg.Logger.Debug("connection ended", zap.Int32("node", c.node.id), zap.Bool("token listener", c.withTokens),
			zap.String("principal", c.principal), zap.Stringer("state", c.state), zap.Error(err))
	}
	c.close()
	if c.behind != nil {
		c.behind.await()
	}
}

// begin does the TLS handshake and connects to kfake, on the control listener in the
// name that the client's certificate gives.
func (c *conn) begin() error {
	if err := c.tls.SetDeadline(time.Now().Add(handshakeTime)); err != nil {
		return err
	}
	if err := c.tls.Handshake(); err != nil {
		return err
	}
	there, ended, err := c.cluster.nets.of(c.node.id).dial(c.done, c.tls.RemoteAddr())
	if err != nil {
		return err
	}
	c.closing.Lock()
	c.behind = &behind{there, ended}
	if c.isClosed() {
		_ = c.behind.close()
	}
	c.closing.Unlock()
	c.host, _, _ = net.SplitHostPort(c.tls.RemoteAddr().String())
	if c.withTokens {
		return nil
	}
	c.state = ready
	return c.become(c.cluster.cfg.Principal(c.tls.ConnectionState().PeerCertificates[0]))
}

// become fixes the principal, for good.
func (c *conn) become(name string) error {
	c.principal = name
	return c.behind.become(name)
}

// turn reads one request and answers it.
func (c *conn) turn() error {
	if err := c.tls.SetDeadline(time.Now().Add(idleTime)); err != nil {
		return err
	}
	limit := int64(maxRequestLogin)
	if c.state == ready {
		limit = maxRequest
	}
	r, err := readRequest(c.tls, limit, c.cluster.served)
	if err != nil {
		return err
	}
	answer, e, err := c.handle(time.Now(), r)
	if err != nil {
		return err
	}
	if c.state = next(c.state, e); c.state == failed {
		select {
		case <-time.After(failureDelay):
		case <-c.done:
		}
	}
	if answer == nil {
		return nil
	}
	_, err = c.tls.Write(answer)
	return err
}

// handle makes the answer to a request that was read at now, nil where there is none,
// and says what the request was. An error ends the connection without an answer.
func (c *conn) handle(now time.Time, r request) ([]byte, event, error) {
	switch r.Key {
	case keyHandshake:
		return c.handshake(now, r)
	case keyAuthenticate:
		return c.authenticate(now, r)
	}
	switch {
	case c.state == ready && c.session.over(now):
		return nil, otherRequest, errSessionOver
	case r.Key == keyVersions && (c.state == fresh || c.state == ready):
		return c.versions(r)
	case c.state != ready:
		return nil, otherRequest, nil
	}
	var answer kmsg.Response
	var err error
	switch r.Key {
	case keyCreateToken, keyRenewToken, keyExpireToken, keyDescribeToken:
		answer, err = c.tokenAPI(now, r)
	case keyDescribeACLs, keyCreateACLs, keyDeleteACLs:
		answer, err = c.aclAPI(r)
	case keyProduce:
		frame, err := c.produce(r)
		return frame, otherRequest, err
	default:
		frame, err := c.forward(r)
		return frame, otherRequest, err
	}
	if err != nil {
		return nil, otherRequest, err
	}
	c.decide(r.Key, answer)
	return answerFrame(r.CorrelationID, answer), otherRequest, nil
}

// close ends the connection; serve then returns. It may be called by anybody, often.
func (c *conn) close() {
	c.closing.Lock()
	defer c.closing.Unlock()
	if c.isClosed() {
		return
	}
	close(c.done)
	// Without waiting for a client that does not read: what was written is on its way.
	_ = c.tls.SetWriteDeadline(time.Now().Add(time.Second))
	_ = c.tls.Close()
	if c.behind != nil {
		_ = c.behind.close()
	}
}

func (c *conn) isClosed() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}
