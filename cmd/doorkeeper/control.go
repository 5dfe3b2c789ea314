package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"doorkeeper/internal/secret"
)

// Bounds of the control connection.
const (
	// controlRequest is how long one request may wait for its answer; callers
	// have shorter contexts where a client waits.
	controlRequest = 10 * time.Second
	// controlIdle keeps the connection from one token to the next where clients come
	// and go; brokers close idle ones after 10 minutes.
	controlIdle = 4 * time.Minute
)

// controlConfig is what the control client is made of.
type controlConfig struct {
	kafka    Control
	tls      *tls.Config
	password secret.Text // of kafka.sasl
	dial     time.Duration
	loops    *loopDetector
}

// newControl makes the client of the gateway's own login. It is handed to
// tokens.NewKadmIssuer and to nobody else; no client byte ever passes it. It
// connects when it is first asked for something, so that it can be made while all
// brokers are down.
func newControl(c controlConfig) (*kgo.Client, error) {
	seeds := make([]string, len(c.kafka.Bootstrap))
	for i, a := range c.kafka.Bootstrap {
		seeds[i] = a.String()
	}
	dialer := controlDialer{tls: c.tls, timeout: c.dial, loops: c.loops}
	opts := []kgo.Opt{
		kgo.SeedBrokers(seeds...),
		kgo.ClientID("doorkeeper-control"),
		kgo.Dialer(dialer.dial),
		// Creating a token is not idempotent: what to do after a lost answer is for
		// tokens to decide.
		kgo.RequestRetries(0),
		kgo.RetryTimeout(controlRequest),
		kgo.RequestTimeoutOverhead(controlRequest),
		kgo.ConnIdleTimeout(controlIdle),
		// The control connection carries the requests of tokens and no others.
		kgo.DisableClientMetrics(),
	}
	if s := c.kafka.SASL; s != nil {
		auth := scram.Auth{User: s.Username, Pass: c.password.Reveal()}
		mechanism := auth.AsSha512Mechanism()
		if s.Mechanism == scramSHA256 {
			mechanism = auth.AsSha256Mechanism()
		}
		opts = append(opts, kgo.SASL(mechanism))
	}
	client, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, fmt.Errorf("make the control client (kafka.control): %w", err)
	}
	return client, nil
}

// controlDialer dials brokers' control listeners and notices when the other end is
// this gateway.
type controlDialer struct {
	tls     *tls.Config
	timeout time.Duration // TCP and TLS together
	loops   *loopDetector
}

// dial names the address in its errors: the control client picks brokers by itself, and
// the operator has to know which one it was.
func (d controlDialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := d.secure(ctx, network, address)
	if err != nil {
		return nil, fmt.Errorf("control listener %s: %w", address, err)
	}
	return conn, nil
}

func (d controlDialer) secure(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	var tcp net.Dialer
	conn, err := tcp.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	if err := d.loops.check(conn.RemoteAddr(), nil); err != nil {
		_ = conn.Close()
		return nil, err
	}
	config := d.tls.Clone()
	if config.ServerName, _, err = net.SplitHostPort(address); err != nil {
		_ = conn.Close()
		return nil, err
	}
	secure := tls.Client(conn, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		var refused *tls.CertificateVerificationError
		if errors.As(err, &refused) {
			err = errors.Join(d.loops.check(nil, refused.UnverifiedCertificates), err)
		}
		return nil, err
	}
	if err := d.loops.check(nil, secure.ConnectionState().PeerCertificates); err != nil {
		_ = secure.Close()
		return nil, err
	}
	return secure, nil
}
