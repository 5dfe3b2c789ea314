package tlsconf

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"
)

// Config is what New reads. All files are PEM.
type Config struct {
	Certificate string // the gateway's own, followed by its intermediates (listen.tls.certificate)
	Key         string // its key, not encrypted (listen.tls.key)
	ClientCA    string // the authorities of clients (listen.tls.client_ca)

	From  From
	Rules []string // each one rule or several, as Kafka writes them; none at all: DEFAULT

	Protected []string // exact names that no client may have
	Allow     []string // exact names; none: every name that is not protected
}

// Source holds the current Snapshot and the gateway's own name. All its methods
// may be called by several goroutines and never block.
type Source struct {
	current atomic.Pointer[Snapshot]
	own     atomic.Pointer[string]
}

// Snapshot is one consistent set of certificate, trust and policy. It never
// changes, but for the gateway's own name, which is the Source's.
type Snapshot struct {
	server   *tls.Config
	presents []*x509.Certificate // leaf first
	from     From
	rules    []rule
	names    names
	own      *atomic.Pointer[string]
}

// New reads the files and checks everything. Every problem is in the error, each
// a *ConfigError; errors.Join puts one on a line.
//
// Whether the certificate's time has come or gone is not a question for New: see
// CertificateUsable.
func New(cfg Config) (*Source, error) {
	s := new(Source)
	snapshot, err := s.load(cfg)
	if err != nil {
		return nil, err
	}
	s.current.Store(snapshot)
	return s, nil
}

// load makes a snapshot without publishing it.
func (s *Source) load(cfg Config) (*Snapshot, error) {
	pair, chain, err := loadPair(cfg.Certificate, cfg.Key, "listen.tls", forServer)
	problems := []error{err}
	clients, err := loadAuthorities(cfg.ClientCA, "listen.tls.client_ca", onlyAuthorities)
	problems = append(problems, err)
	snapshot, err := newPolicy(cfg)
	if err := errors.Join(append(problems, err)...); err != nil {
		return nil, err
	}
	snapshot.presents, snapshot.own = chain, &s.own
	snapshot.server = serverConfig(pair, clients, func(cs tls.ConnectionState) error {
		_, err := snapshot.Identify(cs)
		return err
	})
	return snapshot, nil
}

// newPolicy makes the part of a snapshot that needs no file: who a verified
// certificate is.
func newPolicy(cfg Config) (*Snapshot, error) {
	rules, err := parseRules(cfg.Rules)
	problems := []error{err}
	names, err := newNames(cfg.Protected, cfg.Allow)
	problems = append(problems, err)
	if !cfg.From.valid() {
		problems = append(problems, &ConfigError{
			Key: "identity.from", Problem: fmt.Sprintf("is %s", cfg.From), Cure: "give one of " + strings.Join(fromNames(), ", "),
		})
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	return &Snapshot{from: cfg.From, rules: rules, names: names, own: new(atomic.Pointer[string])}, nil
}

// Current returns the snapshot in force, never nil. A connection should take all
// that it needs from one snapshot.
func (s *Source) Current() *Snapshot { return s.current.Load() }

// SetOwnPrincipal protects the gateway's own name from now on, in every snapshot.
// A leading "User:" is dropped.
func (s *Source) SetOwnPrincipal(name string) {
	name = strings.TrimPrefix(name, typePrefix)
	s.own.Store(&name)
}

// OwnPrincipal returns the name set, or "" while it is not known: until then
// Identify cannot refuse the gateway's own certificate, so nobody should be
// admitted.
func (s *Source) OwnPrincipal() string { return ownName(&s.own) }

func ownName(p *atomic.Pointer[string]) string {
	if name := p.Load(); name != nil {
		return *name
	}
	return ""
}

// ServerConfig returns the configuration for client legs. It is shared: do not
// modify it. Its VerifyConnection refuses whom Identify refuses.
func (s *Snapshot) ServerConfig() *tls.Config { return s.server }

// CertificateNotAfter returns the moment from which clients will refuse the
// gateway's certificate: the earliest end in the chain that it presents.
func (s *Snapshot) CertificateNotAfter() time.Time { return earliestEnd(s.presents) }

// CertificateUsable returns an error if the gateway's certificate, or one of the
// intermediates that it presents, is expired or not yet valid at now.
func (s *Snapshot) CertificateUsable(now time.Time) error {
	for i, c := range s.presents {
		which := "the gateway's certificate"
		if i > 0 {
			which = "the intermediate " + clip(displaySubject(c)) + " behind the gateway's certificate"
		}
		if now.Before(c.NotBefore) {
			return &ConfigError{
				Key: "listen.tls.certificate", Problem: fmt.Sprintf("%s is not valid before %s", which, c.NotBefore.UTC().Format(time.RFC3339)),
				Cure: "check this machine's clock, or wait",
			}
		}
		if now.After(c.NotAfter) {
			return &ConfigError{
				Key: "listen.tls.certificate", Problem: fmt.Sprintf("%s expired at %s", which, c.NotAfter.UTC().Format(time.RFC3339)),
				Cure: "install a new one",
			}
		}
	}
	return nil
}

func earliestEnd(chain []*x509.Certificate) time.Time {
	var end time.Time
	for _, c := range chain {
		if end.IsZero() || c.NotAfter.Before(end) {
			end = c.NotAfter
		}
	}
	return end
}
