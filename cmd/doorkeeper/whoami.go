package main

import (
	"fmt"
	"strings"
	"time"

	"doorkeeper/tlsconf"
)

// whoamiFlags are the flags of the command.
type whoamiFlags struct {
	Cert   string `arg:"" help:"The client's certificate: PEM, with or without its chain, or DER."`
	Config string `required:"" placeholder:"FILE" help:"The configuration file (YAML). Only identity and listen.tls.client_ca are looked at; no key is needed, and no broker."`
	JSON   bool   `name:"json" help:"Print one JSON document."`
}

// whoamiDocument is what --json prints.
type whoamiDocument struct {
	Owner   string        `json:"owner"` // "" where the certificate is refused
	Rule    string        `json:"rule"`
	OK      bool          `json:"ok"`
	Results []checkResult `json:"results"`
}

// stepOwn is the one thing that cannot be said here.
const stepOwn = "own_principal"

// whoami tells which owner a certificate maps to and by which rule, step by step, and
// returns the exit code: 1 where it would be refused, 2 where the configuration does
// not say. Nothing is dialled.
func whoami(flags whoamiFlags, env environment) int {
	c := &checker{flags: checkFlags{Config: flags.Config}}
	c.config, c.report = loadConfig(flags.Config, env.environ)
	c.report.problems = mattersHere(c.report.problems)
	var mapping *tlsconf.Mapping
	if !c.report.hopeless {
		identity, err := c.identity()
		c.report.addErrors(err)
		mapping, err = tlsconf.NewMapping(identity)
		c.report.addErrors(err)
	}
	if err := c.report.err(flags.Config); err != nil {
		return fail(env.stderr, exitUsage, err)
	}

	sheet := checkSheet{out: newTerminal(env.stdout, env.environ), json: flags.JSON}
	explained := mapping.Explain(flags.Cert, time.Now())
	for _, e := range explained.Steps {
		sheet.add(checkResult{Step: e.Step, Status: statusOf(e.Verdict), Finding: e.Text, Cure: e.Cure})
	}
	if !explained.Refused {
		sheet.add(checkBad(stepOwn, "", checkWarning, "whether that is the gateway's own name, which no client may have, cannot be said without a connection to Kafka",
			"doorkeeper check tells the gateway's name, and is told a client's by --owner"))
	}
	id := explained.Identity
	switch {
	case flags.JSON:
		sheet.encode(whoamiDocument{Owner: id.Owner, Rule: id.Rule, OK: !explained.Refused, Results: sheet.results})
	case explained.Refused:
		_, _ = fmt.Fprintln(env.stdout, sheet.out.bad("refused")+": a client with this certificate does not come in")
	default:
		_, _ = fmt.Fprintf(env.stdout, "%s, by the rule %s\n", sheet.out.good("User:"+oneLine(id.Owner)), oneLine(id.Rule))
	}
	if explained.Refused {
		return exitFailure
	}
	return exitOK
}

// mattersHere leaves the problems that decide about certificates: the rest of the
// configuration may be of another machine.
func mattersHere(problems []Problem) []Problem {
	var out []Problem
	for _, p := range problems {
		if p.Path == "" || p.Path == "identity" || p.Path == "listen.tls.client_ca" || strings.HasPrefix(p.Path, "identity.") {
			out = append(out, p)
		}
	}
	return out
}

func statusOf(v tlsconf.Verdict) checkStatus {
	switch v {
	case tlsconf.Passed:
		return checkOK
	case tlsconf.NoMatch:
		return checkNoMatch
	case tlsconf.Doubtful:
		return checkWarning
	case tlsconf.Failed:
		return checkFailed
	}
	return checkNotRun
}
