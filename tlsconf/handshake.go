package tlsconf

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"time"
)

// Reasons of failed handshakes, fit for a metric's label. A Refusal's reason is
// its code.
const (
	ReasonNoCertificate = "no_certificate"
	ReasonUnknownCA     = "unknown_ca"
	ReasonExpired       = "expired"
	ReasonNotYetValid   = "not_yet_valid"
	ReasonWrongUsage    = "wrong_key_usage"
	ReasonBadChain      = "bad_chain"
	ReasonHTTP          = "http"
	ReasonPlainKafka    = "plaintext_kafka"
	ReasonProxyHeader   = "proxy_header"
	ReasonNotTLS        = "not_tls"
	ReasonClientAlert   = "client_alert"
	ReasonEOF           = "eof"
	ReasonTimeout       = "timeout"
	ReasonStopped       = "stopped"
	ReasonOther         = "handshake"
)

// noCertificate is crypto/tls's text; it has no value for that case. A test holds
// it against the Go version in use.
const noCertificate = "tls: client didn't provide a certificate"

// DescribeHandshakeError says why a server's handshake with a client failed:
// reason is one of a fixed set, detail is a sentence for the log, with what came
// from the client escaped. err must not be nil.
func DescribeHandshakeError(err error) (reason, detail string) {
	var refusal *Refusal
	var record tls.RecordHeaderError
	var chain *tls.CertificateVerificationError
	var network *net.OpError
	switch {
	case errors.As(err, &refusal):
		return refusal.Code.String(), refusal.Error()
	case errors.As(err, &chain):
		return describeChain(chain, time.Now())
	case errors.As(err, &record):
		return describeRecord(record.RecordHeader)
	case strings.HasSuffix(err.Error(), noCertificate):
		return ReasonNoCertificate, "the client sent no certificate; set a key store at the client, with a certificate of an authority in listen.tls.client_ca " +
			"(clients hold back those of other authorities)"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return ReasonTimeout, "the client did not complete the handshake within limits.admission"
	case errors.Is(err, context.Canceled), errors.Is(err, net.ErrClosed):
		return ReasonStopped, "the gateway gave the handshake up"
	case errors.As(err, &network) && network.Op == "remote error":
		// crypto/tls keeps the type of received alerts to itself.
		return ReasonClientAlert, fmt.Sprintf("the client refused the gateway (%v); check that it trusts the authority of listen.tls.certificate, and that the host name it dials is in that certificate", network.Err)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return ReasonEOF, "the client closed the connection during the handshake, as a port probe does; or it does not trust the gateway's certificate and says nothing"
	}
	return ReasonOther, "the TLS handshake failed: " + clip(err.Error())
}

func describeChain(e *tls.CertificateVerificationError, now time.Time) (reason, detail string) {
	who := "the client's certificate"
	if len(e.UnverifiedCertificates) > 0 {
		leaf := e.UnverifiedCertificates[0]
		who = fmt.Sprintf("the client's certificate (subject %s, serial %X, issuer %s)", clip(displaySubject(leaf)), leaf.SerialNumber,
			clip(displayName(leaf.RawIssuer, leaf.Issuer.String())))
	}
	var unknown x509.UnknownAuthorityError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(e.Err, &unknown) && issuedByNoAuthority(e.UnverifiedCertificates):
		return ReasonBadChain, who + " was issued by a certificate that is no authority's; have it issued by an authority in listen.tls.client_ca"
	case errors.As(e.Err, &unknown):
		return ReasonUnknownCA, who + " leads to no authority in listen.tls.client_ca; add its authority there, or have the client send its intermediates"
	case errors.As(e.Err, &invalid):
		return describeInvalid(invalid, who, now)
	}
	return ReasonBadChain, who + " cannot be verified: " + clip(e.Err.Error())
}

// issuedByNoAuthority tells whether the client sent the leaf's issuer, and that may
// not issue.
func issuedByNoAuthority(sent []*x509.Certificate) bool {
	for i, c := range sent {
		if i > 0 && bytes.Equal(c.RawSubject, sent[0].RawIssuer) {
			return !isAuthority(c)
		}
	}
	return false
}

func describeInvalid(e x509.CertificateInvalidError, who string, now time.Time) (reason, detail string) {
	switch e.Reason {
	case x509.Expired:
		if e.Cert != nil && now.Before(e.Cert.NotBefore) {
			return ReasonNotYetValid, fmt.Sprintf("%s, or one above it, is not valid before %s; check the clocks", who, e.Cert.NotBefore.UTC().Format(time.RFC3339))
		}
		if e.Cert != nil {
			return ReasonExpired, fmt.Sprintf("%s, or one above it, expired at %s; issue a new one", who, e.Cert.NotAfter.UTC().Format(time.RFC3339))
		}
		return ReasonExpired, who + " has expired; issue a new one"
	case x509.IncompatibleUsage:
		return ReasonWrongUsage, who + " is not for clients: its extended key usage lacks clientAuth; issue one that has it"
	case x509.NotAuthorizedToSign:
		return ReasonBadChain, who + " was issued by a certificate that is no authority's"
	}
	return ReasonBadChain, who + " cannot be verified: " + clip(e.Error())
}

// describeRecord says what speaks instead of TLS, from its first five bytes.
func describeRecord(head [5]byte) (reason, detail string) {
	for _, method := range []string{"GET ", "HEAD ", "POST ", "PUT ", "DELETE ", "OPTIONS ", "CONNECT ", "PATCH ", "TRACE ", "PRI * "} {
		if bytes.HasPrefix([]byte(method), head[:]) || strings.HasPrefix(string(head[:]), method) {
			return ReasonHTTP, "the client speaks HTTP; this port is for Kafka over TLS"
		}
	}
	switch {
	case string(head[:]) == "PROXY", string(head[:]) == "\r\n\r\n\x00":
		return ReasonProxyHeader, "something in front sends a PROXY protocol header, which the gateway does not read; switch it off there"
	case head[0] == 0:
		// A frame's length of less than 16 MiB, then the API key's first byte.
		return ReasonPlainKafka, "the client speaks Kafka without TLS; set security.protocol=SSL at the client"
	}
	return ReasonNotTLS, fmt.Sprintf("the client does not speak TLS: its first bytes are % x", head)
}
