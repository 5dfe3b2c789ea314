package tlsconf

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"time"
)

// MaxChain is the largest number of certificates in a client's verified chain,
// leaf and root included.
const MaxChain = 5

// suites12 are the suites of TLS 1.2 that are allowed: forward secret and AEAD
// (RFC 9325). Those of TLS 1.3 cannot be chosen in crypto/tls, and all are good.
func suites12() []uint16 {
	return []uint16{
		tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
		tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
		tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
		tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
		tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
		tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
	}
}

// serverConfig is the configuration for client legs. verify runs in each
// handshake, after crypto/tls has verified the chain; its error becomes the alert
// bad_certificate.
//
// Tickets are off: a resumed session would be let in by what was true when the
// ticket was made. Record sizes are not ramped up, since a Kafka client waits for
// whole frames, not for the first bytes.
func serverConfig(pair tls.Certificate, clients *x509.CertPool, verify func(tls.ConnectionState) error) *tls.Config {
	return &tls.Config{
		Certificates:                []tls.Certificate{pair},
		ClientAuth:                  tls.RequireAndVerifyClientCert,
		ClientCAs:                   clients,
		MinVersion:                  tls.VersionTLS12,
		CipherSuites:                suites12(),
		SessionTicketsDisabled:      true,
		DynamicRecordSizingDisabled: true,
		VerifyConnection:            verify,
	}
}

// boundChains drops the chains that are too long and returns the moment at which
// the last of the others ends. Several chains come up where an authority is
// certified twice; the certificate is good for as long as one of them is.
func boundChains(chains [][]*x509.Certificate) (time.Time, error) {
	var end time.Time
	for _, chain := range chains {
		if len(chain) > MaxChain {
			continue
		}
		if e := earliestEnd(chain); e.After(end) {
			end = e
		}
	}
	if end.IsZero() {
		return end, fmt.Errorf("its chain has %d certificates, %d are the most", len(chains[0]), MaxChain)
	}
	return end, nil
}
