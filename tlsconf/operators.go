package tlsconf

import (
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// OperatorConfig is what NewOperators reads. All files are PEM.
type OperatorConfig struct {
	Certificate string // the admin address's own, followed by its intermediates (admin.tls.certificate)
	Key         string // its key, not encrypted (admin.tls.key)
	ClientCA    string // the authorities of operators (admin.tls.client_ca); "": nobody is asked for a certificate

	From  From     // identity.from
	Rules []string // identity.rules
	Allow []string // exact names of those who may (admin.allow)
}

// Operators is TLS for the admin address, and who may do there what not everybody may.
// It never changes.
type Operators struct {
	server *tls.Config
	policy *Snapshot
	allow  []string
}

// NewOperators reads the files and checks everything. Every problem is in the error,
// each a *ConfigError.
func NewOperators(cfg OperatorConfig) (*Operators, error) {
	pair, _, err := loadPair(cfg.Certificate, cfg.Key, "admin.tls", forServer)
	problems := []error{err}
	// From and rules are the clients' too, and what is wrong with them is New's to say.
	policy, err := newPolicy(Config{From: cfg.From, Rules: cfg.Rules})
	problems = append(problems, err)
	for i, name := range cfg.Allow {
		at := fmt.Sprintf("admin.allow[%d]", i)
		switch {
		case strings.HasPrefix(name, typePrefix):
			problems = append(problems, &ConfigError{Key: at, Problem: "begins with " + typePrefix, Cure: "give the bare name: " + strings.TrimPrefix(name, typePrefix)})
		case reserved(name) != "":
			problems = append(problems, &ConfigError{Key: at, Problem: "is " + clip(name) + ": " + reserved(name), Cure: "take it out"})
		case checkCharacters("it", name) != nil:
			problems = append(problems, &ConfigError{Key: at, Problem: "is " + clip(name) + ", which nobody can have", Err: checkCharacters("it", name), Cure: "take it out"})
		}
	}
	o := &Operators{policy: policy, allow: slices.Clone(cfg.Allow)}
	o.server = serverConfig(pair, nil, nil)
	o.server.ClientAuth = tls.NoClientCert
	o.server.NextProtos = []string{"http/1.1"}
	if cfg.ClientCA != "" {
		clients, err := loadAuthorities(cfg.ClientCA, "admin.tls.client_ca", onlyAuthorities)
		problems = append(problems, err)
		// Probes and scrapers have no certificate; one that is shown has to be good.
		o.server.ClientAuth, o.server.ClientCAs = tls.VerifyClientCertIfGiven, clients
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	return o, nil
}

// ServerConfig returns the configuration for the admin address: HTTP/1.1, a client's
// certificate asked for but not demanded, if there are authorities for one. It is
// shared: do not modify it.
func (o *Operators) ServerConfig() *tls.Config { return o.server }

// Name tells who came with a verified certificate: its name as identity.from and
// identity.rules give it, if that is in admin.allow. Names that are protected from
// clients may be there. The error is a *Refusal. A connection may be asked about at any
// time: once its certificate has ended, the answer is no.
func (o *Operators) Name(cs tls.ConnectionState, now time.Time) (string, error) {
	id, err := o.policy.Identify(cs)
	switch {
	case err != nil:
		return "", err
	case now.After(id.NotAfter):
		err = &nameFault{Unverified, "it, or one of its issuers, was valid until " + id.NotAfter.UTC().Format(time.RFC3339)}
	case !slices.Contains(o.allow, id.Owner):
		err = &nameFault{NotAllowed, "its name " + clip(id.Owner) + " is not in admin.allow"}
	default:
		return id.Owner, nil
	}
	r := o.policy.refuse(id, err)
	if r.Code == NotAllowed {
		r.Cure = "add the name to admin.allow if this is an operator"
	} else {
		r.Cure = "come with a certificate that is valid now"
	}
	return "", r
}

// InspectOperators looks at each of the files that NewOperators reads, as InspectServer
// does.
func InspectOperators(cfg OperatorConfig) []Inspection {
	found := inspectPair(cfg.Certificate, cfg.Key, "admin.tls", forServer)
	if cfg.ClientCA != "" {
		found = append(found, inspectAuthorities(cfg.ClientCA, "admin.tls.client_ca", onlyAuthorities))
	}
	return found
}
