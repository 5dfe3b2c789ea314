package connections

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"syscall"
)

// This file decides who is at the other end, from what TCP and TLS show of it.

const loopCure = "point kafka.bootstrap at the brokers' token listener, and look for a name or load balancer that leads back to the gateway"

func ownAddress(a net.Addr) error {
	return refuse(SelfDetected, loopCure, "the address %s is one that this gateway itself listens on", a)
}

func ownCertificate() error {
	return refuse(SelfDetected, loopCure+"; where a broker really shares the gateway's certificate, give it one of its own",
		"the peer shows this gateway's own certificate")
}

func (d *Dialer) isOwn(chain []*x509.Certificate) bool {
	own := d.cfg.OwnCertificate()
	return len(own) > 0 && len(chain) > 0 && bytes.Equal(chain[0].Raw, own)
}

// judgeHandshake says what a failed handshake tells about the peer.
func (d *Dialer) judgeHandshake(target Target, err error) error {
	var (
		verification *tls.CertificateVerificationError
		record       tls.RecordHeaderError
	)
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.As(err, &verification):
		// A loop is a loop also where the gateway's own certificate is of an authority
		// that is not trusted for brokers: that would be the usual case.
		if d.isOwn(verification.UnverifiedCertificates) {
			return ownCertificate()
		}
		return judgeCertificate(target, err)
	case errors.As(err, &record):
		return refuse(NotTLS, "this must be a TLS listener of the broker (SASL_SSL); a plaintext one is never used",
			"the peer does not speak TLS: its first bytes are %q", record.RecordHeader[:])
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		// What a plaintext Kafka listener does, too: it takes the ClientHello for a
		// frame of 369 MB.
		return refuse(PeerClosed, "is this a TLS listener of the broker (SASL_SSL)? a plaintext one closes like this, and so does one over its limits (max.connections)",
			"the peer closed during the TLS handshake: %w", err)
	}
	var network net.Error // time is up, or an alert of the peer
	if errors.As(err, &network) {
		return err
	}
	return refuse(Unsupported, "the listener must offer TLS 1.3, or 1.2 with ECDHE and AES-GCM or ChaCha20-Poly1305 (ssl.enabled.protocols, ssl.cipher.suites)",
		"%w", err)
}

func judgeCertificate(target Target, err error) error {
	var (
		host      x509.HostnameError
		authority x509.UnknownAuthorityError
		invalid   x509.CertificateInvalidError
	)
	switch {
	case errors.As(err, &host):
		return refuse(WrongHost, "the certificate needs a subject alternative name (DNS or IP; the common name does not count) for the very name that is dialled",
			"the broker's certificate is not for %q: %w", target.Host, host)
	case errors.As(err, &authority):
		return refuse(Untrusted, "kafka.tls.ca must hold the authority that issued the broker's certificate", "%w", err)
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return refuse(Untrusted, "renew the broker's certificate, or mend the clock here or there", "%w", err)
	}
	return refuse(Untrusted, "the broker's certificate must be good for a server and of an authority in kafka.tls.ca", "%w", err)
}
