package tlsconf

import (
	"crypto/tls"
	"errors"
)

// sessionCache is how many brokers' sessions a client configuration remembers.
const sessionCache = 256

// ClientFiles are the files for connections to brokers. All are PEM.
type ClientFiles struct {
	CA          string // the brokers' authorities, or a broker's self-signed certificate
	Certificate string // the gateway's own towards brokers, with its intermediates; "" if they ask for none
	Key         string // given exactly if Certificate is
}

// NewClient makes a configuration for connections to brokers. It trusts what is
// in CA and nothing else, the system's authorities included. keyPath is the path
// of the section in the configuration ("kafka.tls"), for the messages; every
// problem is in the error, each a *ConfigError.
//
// ServerName is left empty: the dialer sets it, in a clone, to the host name that
// the broker is known by. A certificate is sent whenever a broker asks for one,
// whatever authorities it names: those lists are incomplete in practice, and a
// broker's refusal says more than a certificate that was silently held back.
func NewClient(files ClientFiles, keyPath string) (*tls.Config, error) {
	roots, err := loadAuthorities(files.CA, keyPath+".ca", selfSignedToo)
	problems := []error{err}
	cfg := &tls.Config{
		MinVersion:                  tls.VersionTLS12,
		RootCAs:                     roots,
		CipherSuites:                suites12(),
		ClientSessionCache:          tls.NewLRUClientSessionCache(sessionCache),
		DynamicRecordSizingDisabled: true,
	}
	switch {
	case files.Certificate != "" && files.Key != "":
		pair, _, err := loadPair(files.Certificate, files.Key, keyPath, forClient)
		problems = append(problems, err)
		cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
	case files.Certificate != "":
		problems = append(problems, &ConfigError{Key: keyPath + ".key", Problem: "is not set, but " + keyPath + ".certificate is", Cure: "give both or none"})
	case files.Key != "":
		problems = append(problems, &ConfigError{Key: keyPath + ".certificate", Problem: "is not set, but " + keyPath + ".key is", Cure: "give both or none"})
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	return cfg, nil
}
