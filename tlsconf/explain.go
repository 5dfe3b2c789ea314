package tlsconf

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Mapping is what decides about client certificates, without the gateway's own
// certificate and key: the authorities, identity.from, the rules, the lists of names.
type Mapping struct {
	snapshot *Snapshot
	clients  *x509.CertPool
	file     string // of the authorities
}

// NewMapping reads what Config says about clients, and cfg.ClientCA. Every problem is
// in the error, each a *ConfigError.
func NewMapping(cfg Config) (*Mapping, error) {
	clients, err := loadAuthorities(cfg.ClientCA, "listen.tls.client_ca", onlyAuthorities)
	snapshot, policyErr := newPolicy(cfg)
	if err := errors.Join(err, policyErr); err != nil {
		return nil, err
	}
	return &Mapping{snapshot: snapshot, clients: clients, file: cfg.ClientCA}, nil
}

// Verdict is how one step of an Explanation came out.
type Verdict int

// The verdicts.
const (
	Passed     Verdict = iota // as it should be
	NoMatch                   // a rule that is not for this name
	Doubtful                  // taken, but look at it
	Failed                    // the client is refused for this
	NotReached                // nothing was there to look at, after a step before it failed
)

// The steps of an Explanation.
const (
	StepFile        = "file"
	StepCertificate = "certificate"
	StepDates       = "dates"
	StepUsage       = "key_usage"
	StepIssuer      = "issuer"
	StepName        = "name"
	StepRule        = "rule" // one for each that was tried
	StepOwner       = "owner"
)

// Explained is one step on the way from a file to an owner. The certificate's words
// are escaped in it.
type Explained struct {
	Step    string
	Verdict Verdict
	Text    string
	Cure    string // what to change; "" where nothing needs to be
}

// Explanation is how a certificate fared. Identity is what Identify would return, the
// zero value where the client would be refused.
type Explanation struct {
	Steps    []Explained
	Refused  bool
	Identity Identity
}

func (e *Explanation) add(step string, v Verdict, text, cure string) {
	e.Steps = append(e.Steps, Explained{step, v, text, cure})
	e.Refused = e.Refused || v == Failed
}

// Explain takes a client's certificate file through the steps that its certificate
// would go through in a handshake at the time now. What can be said is said, also
// behind a step that failed. The gateway's own name is not known here: see Identify.
// It reads the file, which must be a regular one, and blocks on nothing else.
func (m *Mapping) Explain(file string, now time.Time) Explanation {
	e := Explanation{}
	certs, note, err := readClientFile(file)
	if err != nil {
		e.add(StepFile, Failed, file+" "+err.Problem+because(err.Err), err.Cure)
		for _, step := range []string{StepCertificate, StepDates, StepUsage, StepIssuer, StepName, StepRule, StepOwner} {
			e.add(step, NotReached, "there is no certificate to look at", "")
		}
		return e
	}
	e.add(StepFile, Passed, file+" "+note, "")
	explainCertificate(&e, certs)
	explainDates(&e, certs[0], now)
	explainUsage(&e, certs[0])
	chains := m.explainIssuer(&e, certs, now)
	m.explainName(&e, certs[0], chains)
	return e
}

func because(err error) string {
	if err == nil {
		return ""
	}
	return fmt.Sprintf(" (%v)", err)
}

// explainCertificate says whose certificate it is, and whether TLS can use its key.
func explainCertificate(e *Explanation, certs []*x509.Certificate) {
	leaf := certs[0]
	text := fmt.Sprintf("subject %s, serial %X, issued by %s", clip(displaySubject(leaf)), leaf.SerialNumber, clip(displayName(leaf.RawIssuer, leaf.Issuer.String())))
	switch key := leaf.PublicKey.(type) {
	case *rsa.PublicKey:
		if key.N.BitLen() > mostRSABits {
			e.add(StepCertificate, Failed, fmt.Sprintf("%s; its RSA key has %d bits, %d are the most in a handshake", text, key.N.BitLen(), mostRSABits), "have it issued for a smaller key")
			return
		}
	case *ecdsa.PublicKey, ed25519.PublicKey:
	default:
		e.add(StepCertificate, Failed, fmt.Sprintf("%s; its key (%s) is none that TLS signs with", text, leaf.PublicKeyAlgorithm), "have it issued for an ECDSA, RSA or Ed25519 key")
		return
	}
	isClient := func(c *x509.Certificate) bool { return !isAuthority(c) }
	switch {
	case isAuthority(leaf) && slices.ContainsFunc(certs, isClient):
		e.add(StepCertificate, Doubtful, text+"; it is an authority's, and the client's own stands behind it",
			"put the client's certificate first, then its issuer, and so on upwards: the first is the one that counts")
	case isAuthority(leaf):
		e.add(StepCertificate, Doubtful, text+"; it is an authority's own certificate, which no client should come with", "give the client's certificate")
	default:
		e.add(StepCertificate, Passed, text, "")
	}
}

// mostRSABits is crypto/tls's bound for a peer's key.
const mostRSABits = 8192

func explainDates(e *Explanation, leaf *x509.Certificate, now time.Time) {
	from, to := leaf.NotBefore.UTC().Format(time.RFC3339), leaf.NotAfter.UTC().Format(time.RFC3339)
	switch {
	case now.Before(leaf.NotBefore):
		e.add(StepDates, Failed, "it is not valid before "+from, "check the clocks, or wait")
	case now.After(leaf.NotAfter):
		e.add(StepDates, Failed, "it expired at "+to, "issue a new one")
	default:
		e.add(StepDates, Passed, "valid from "+from+" to "+to, "")
	}
}

func explainUsage(e *Explanation, leaf *x509.Certificate) {
	switch {
	case len(leaf.ExtKeyUsage)+len(leaf.UnknownExtKeyUsage) == 0:
		e.add(StepUsage, Passed, "its extended key usage is not limited", "")
	case slices.Contains(leaf.ExtKeyUsage, x509.ExtKeyUsageClientAuth):
		e.add(StepUsage, Passed, "its extended key usage has clientAuth", "")
	case slices.Contains(leaf.ExtKeyUsage, x509.ExtKeyUsageAny):
		e.add(StepUsage, Passed, "its extended key usage is any", "")
	default:
		e.add(StepUsage, Failed, "it is not for clients: its extended key usage lacks clientAuth", "issue one that has it")
	}
}

// explainIssuer verifies the chain as a handshake does. It is the judge: where it
// fails for what the steps before have said, it repeats nothing.
func (m *Mapping) explainIssuer(e *Explanation, certs []*x509.Certificate, now time.Time) [][]*x509.Certificate {
	options := x509.VerifyOptions{
		Roots: m.clients, Intermediates: x509.NewCertPool(), CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	for _, c := range certs[1:] {
		options.Intermediates.AddCert(c)
	}
	chains, err := certs[0].Verify(options)
	if err == nil {
		chain := chains[0]
		by := chain[len(chain)-1]
		e.add(StepIssuer, Passed, fmt.Sprintf("its chain leads to %s in listen.tls.client_ca (%s)", clip(displaySubject(by)), m.file), "")
		return chains
	}
	if e.Refused {
		// Would it be all right but for that?
		options.CurrentTime, options.KeyUsages = certs[0].NotBefore.Add(time.Second), []x509.ExtKeyUsage{x509.ExtKeyUsageAny}
		if _, otherwise := certs[0].Verify(options); otherwise == nil {
			e.add(StepIssuer, Passed, "its chain leads to an authority in listen.tls.client_ca ("+m.file+")", "")
			return nil
		}
	}
	_, detail := describeChain(&tls.CertificateVerificationError{UnverifiedCertificates: certs, Err: err}, now)
	text, cure, _ := strings.Cut(detail, "; ")
	e.add(StepIssuer, Failed, text, cure)
	return nil
}

// explainName goes from the certificate to the owner. chains are nil where the
// certificate is refused whatever its name.
func (m *Mapping) explainName(e *Explanation, leaf *x509.Certificate, chains [][]*x509.Certificate) {
	s := m.snapshot
	id := Identity{Serial: fmt.Sprintf("%X", leaf.SerialNumber), Subject: displaySubject(leaf)}
	source, err := s.from.extract(leaf)
	if chains != nil {
		if _, tooLong := boundChains(chains); tooLong != nil {
			err = &nameFault{ChainTooLong, tooLong.Error()}
		}
	}
	if err != nil {
		m.refused(e, StepName, s.refuse(id, err))
		return
	}
	id.Source = source
	named := len(e.Steps)
	e.add(StepName, Passed, fmt.Sprintf("identity.from: %s gives %s", s.from, clip(source)), "")
	err = s.identify(&id, func(r rule, owner string, matched bool) {
		switch {
		case matched:
			e.add(StepRule, Passed, fmt.Sprintf("%s matches and makes %s of it", r.text, clip(owner)), "")
		default:
			e.add(StepRule, NoMatch, r.text+" does not match", "")
		}
	})
	switch {
	case err == nil:
		m.accepted(e, id, leaf, chains)
	case id.Rule != "":
		m.refused(e, StepOwner, s.refuse(id, err))
	case len(e.Steps) > named+1:
		last := &e.Steps[len(e.Steps)-1]
		refusal := s.refuse(id, err)
		if last.Verdict == Passed { // it matched, and what came of it cannot be taken
			last.Verdict, last.Text, last.Cure = Failed, refusal.Reason, refusal.Cure
			e.Refused = true
			e.add(StepOwner, NotReached, "there is no name", "")
			return
		}
		m.refused(e, StepRule, refusal)
	default:
		e.Steps = e.Steps[:named]
		m.refused(e, StepName, s.refuse(id, err))
	}
}

// refused ends the explanation at this step.
func (m *Mapping) refused(e *Explanation, step string, r *Refusal) {
	e.add(step, Failed, r.Reason, r.Cure)
	switch step {
	case StepName:
		e.add(StepRule, NotReached, "there is no name to hold against the rules", "")
		fallthrough
	case StepRule:
		e.add(StepOwner, NotReached, "there is no name", "")
	}
}

// accepted ends the explanation of a name that is taken, and with it that of a
// certificate, if the rest of it is good.
func (m *Mapping) accepted(e *Explanation, id Identity, leaf *x509.Certificate, chains [][]*x509.Certificate) {
	why := "it is not protected, and identity.allow is empty, so that everybody else may come in"
	if len(m.snapshot.names.allow) > 0 {
		why = "it is not protected, and it is in identity.allow"
	}
	e.add(StepOwner, Passed, fmt.Sprintf("the name is %s: %s", clip(id.Owner), why), "")
	if e.Refused || chains == nil {
		return
	}
	// The handshake's own word.
	final, err := m.snapshot.Identify(tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf}, VerifiedChains: chains})
	if err != nil {
		e.add(StepOwner, Failed, err.Error(), "this is a fault of the program: report it")
		return
	}
	e.Identity = final
}
