package connections

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Peer is what a listener shows to whom has not logged in.
type Peer struct {
	// Certificate is the broker's own, verified.
	Certificate *x509.Certificate
	// WantsCertificate: the TLS handshake asked for a client's certificate. A listener
	// without SASL that does not knows nobody: its peers are ANONYMOUS.
	WantsCertificate bool
	// Versions is the answer to ApiVersions v3.
	Versions *kmsg.ApiVersionsResponse
	// SASL: the listener wants a login, and offers these Mechanisms, 16 at most. Their
	// names are the peer's own words.
	SASL       bool
	Mechanisms []string
}

// OffersTokens tells a broker from another gateway, which offers no token APIs.
func (p *Peer) OffersTokens() bool { return offersTokens(p.Versions) }

// Probe asks a listener what it is: TLS as in Open, ApiVersions, SaslHandshake, and
// the end. No credential and no proof is sent, but the certificate of Config.TLS where
// the listener asks for one. Nothing is left behind. Bounds and errors are Open's; a
// listener without SASL or without the Dialer's mechanism is no error here.
func (d *Dialer) Probe(ctx context.Context, target Target, client ClientInfo) (*Peer, error) {
	release, err := d.slots.acquire(ctx, target.address())
	if err != nil {
		return nil, target.fault(PhaseDial, err, err)
	}
	defer release()
	ctx, cancel := context.WithTimeout(ctx, d.cfg.DialTimeout)
	defer cancel()

	peer := &Peer{}
	config := verifying(d.cfg.TLS.Clone(), target.Host)
	config.ClientSessionCache = nil // a resumed session would not ask for a certificate again
	mine := config.GetClientCertificate
	config.GetClientCertificate = func(asked *tls.CertificateRequestInfo) (*tls.Certificate, error) {
		peer.WantsCertificate = true
		if mine == nil {
			return new(tls.Certificate), nil // none
		}
		return mine(asked)
	}
	stream, err := d.connect(ctx, target, config)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = stream.Abort() })
	defer func() {
		stop()
		_ = stream.Close()
	}()
	if chain := stream.ConnectionState().PeerCertificates; len(chain) > 0 {
		peer.Certificate = chain[0]
	}

	l := &login{rw: stream, flush: stream.Flush, client: client, mechanism: d.cfg.Mechanism, phase: PhaseVersions}
	if err := l.probe(peer); err != nil {
		return nil, target.fault(l.phase, err, ctx.Err())
	}
	return peer, nil
}

// probe is the talk of Probe.
func (l *login) probe(peer *Peer) (err error) {
	if peer.Versions, err = l.versions(); err != nil {
		return err
	}
	l.phase = PhaseMechanism
	answer, err := l.proposal()
	if err != nil {
		return err
	}
	switch err := kerr.ErrorForCode(answer.ErrorCode); {
	case err == nil, errors.Is(err, kerr.UnsupportedSaslMechanism):
		peer.SASL = true
		peer.Mechanisms = slices.Clone(answer.SupportedMechanisms[:min(len(answer.SupportedMechanisms), 16)])
	case errors.Is(err, kerr.IllegalSaslState):
	default:
		return hostile("SaslHandshake: error %d: %w", answer.ErrorCode, err)
	}
	return nil
}

// SpeaksPlainly tells whether a listener speaks Kafka without TLS, as one of
// PLAINTEXT or SASL_PLAINTEXT does: it answers ApiVersions. Nothing else is sent. It
// waits 2 s at most.
func (d *Dialer) SpeaksPlainly(ctx context.Context, target Target) bool {
	ctx, cancel := context.WithTimeout(ctx, plainPatience)
	defer cancel()
	conn, err := d.dial(ctx, "tcp", target.address())
	if err != nil {
		return false
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer func() {
		stop()
		_ = conn.Close()
	}()
	return plainVersions(conn)
}

const plainPatience = 2 * time.Second

func plainVersions(conn io.ReadWriter) bool {
	l := &login{rw: conn, flush: func() error { return nil }}
	_, err := l.versions()
	return err == nil
}
