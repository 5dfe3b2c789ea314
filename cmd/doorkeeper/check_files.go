package main

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"doorkeeper/tlsconf"
)

// checkSoon is how long before its end a certificate is spoken of. Of one that lives
// for less than three times that, the last third counts: it is renewed by machines.
const checkSoon = 30 * 24 * time.Hour

// checkFiles looks at each file by itself: there, readable, what it should be, fitting
// its pair, and how long it is good for.
func (c *checker) checkFiles(context.Context) []checkResult {
	if wait := c.spoilt(); wait != "" {
		return []checkResult{checkWaits(stepFiles, "", wait)}
	}
	identity, _ := c.identity() // its part of the configuration was looked at
	inspections := tlsconf.InspectServer(identity)
	inspections = append(inspections, tlsconf.InspectClient(tlsconf.ClientFiles(c.config.Kafka.TLS), "kafka.tls")...)
	inspections = append(inspections, tlsconf.InspectClient(tlsconf.ClientFiles(c.config.Kafka.Control.TLS), "kafka.control.tls")...)
	if c.config.Admin.TLS.on() {
		inspections = append(inspections, tlsconf.InspectOperators(c.config.operators(identity.From))...)
	}
	now := time.Now()
	var results []checkResult
	for _, i := range inspections {
		if i.File == "" || c.report.has(i.Key) {
			continue // the configuration's own problem
		}
		if i.Key == "listen.tls.certificate" && i.Err == nil {
			c.own = i.Certificates[0].Raw
		}
		results = append(results, checkFile(i, now))
	}
	if s := c.config.Kafka.Control.SASL; s != nil && s.PasswordFile != "" {
		results = append(results, checkPassword(s.PasswordFile))
	}
	return results
}

func checkFile(i tlsconf.Inspection, now time.Time) checkResult {
	target := i.Key + " (" + i.File + ")"
	var problem *tlsconf.ConfigError
	switch {
	case errors.As(i.Err, &problem):
		finding := problem.Problem
		if problem.Err != nil {
			finding += fmt.Sprintf(" (%v)", problem.Err)
		}
		return checkBad(stepFiles, target, checkFailed, finding, problem.Cure)
	case i.Err != nil:
		return checkBad(stepFiles, target, checkFailed, i.Err.Error(), "")
	case len(i.Certificates) == 0:
		return checkPassed(stepFiles, target, "a private key that TLS can use")
	case isAuthorityKey(i.Key):
		return checkAuthorities(target, i.Certificates, now)
	}
	return checkChain(target, i.Certificates, now)
}

func isAuthorityKey(key string) bool {
	return strings.HasSuffix(key, ".ca") || strings.HasSuffix(key, ".client_ca")
}

// checkChain judges a certificate of the gateway's by the first of its chain to end.
func checkChain(target string, chain []*x509.Certificate, now time.Time) checkResult {
	end := chain[0]
	for _, cert := range chain {
		if cert.NotAfter.Before(end.NotAfter) {
			end = cert
		}
	}
	for _, cert := range chain {
		if now.Before(cert.NotBefore) {
			end = cert
		}
	}
	what := "it"
	if end != chain[0] {
		what = "the intermediate " + quote(end.Subject.String()) + " behind it"
	}
	status, when := checkDates(end.NotBefore, end.NotAfter, now)
	switch status {
	case checkOK:
		return checkPassed(stepFiles, target, "subject %s, %s", quote(chain[0].Subject.String()), when)
	case checkWarning:
		return checkBad(stepFiles, target, status, what+" "+when, "have a new one issued and put it in place in time")
	}
	return checkBad(stepFiles, target, status, what+" "+when, "put a certificate in place that is valid now, with its key; or mend this machine's clock")
}

// checkAuthorities judges a trust file: one authority that has ended does no harm
// beside another that has not.
func checkAuthorities(target string, all []*x509.Certificate, now time.Time) checkResult {
	worst, usable, first := checkOK, 0, all[0].NotAfter
	var said []string
	for _, cert := range all {
		if cert.NotAfter.Before(first) {
			first = cert.NotAfter
		}
		status, when := checkDates(cert.NotBefore, cert.NotAfter, now)
		if status != checkFailed {
			usable++
		}
		if status != checkOK {
			worst = checkWarning
			said = append(said, quote(cert.Subject.String())+" "+when)
		}
	}
	switch {
	case usable == 0:
		return checkBad(stepFiles, target, checkFailed, "no authority in it is valid now: "+strings.Join(said, ", "), "put the authorities' present certificates into it")
	case worst != checkOK:
		return checkBad(stepFiles, target, checkWarning, strings.Join(said, ", "), "add the authority's new certificate before that, and take the old one out when nothing of it is left")
	}
	return checkPassed(stepFiles, target, "%s, valid until %s", countOf(len(all), "authority", "authorities"), first.UTC().Format(time.RFC3339))
}

func countOf(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// checkDates judges a validity at the time now. Pure.
func checkDates(from, to, now time.Time) (checkStatus, string) {
	const day = 24 * time.Hour
	soon := min(checkSoon, to.Sub(from)/3)
	switch left := to.Sub(now); {
	case now.Before(from):
		return checkFailed, "is not valid before " + from.UTC().Format(time.RFC3339)
	case left < 0:
		return checkFailed, "expired at " + to.UTC().Format(time.RFC3339)
	case left < soon && left < 2*day:
		return checkWarning, fmt.Sprintf("ends in %s, at %s", left.Round(time.Minute), to.UTC().Format(time.RFC3339))
	case left < soon:
		return checkWarning, fmt.Sprintf("ends in %d days, at %s", left/day, to.UTC().Format(time.RFC3339))
	}
	return checkOK, "valid until " + to.UTC().Format(time.RFC3339)
}

// checkPassword looks at the file of the control login's password as readPassword does.
func checkPassword(path string) checkResult {
	target := keyPasswordFile + " (" + path + ")"
	r := newReport()
	readPassword(path, r)
	for _, p := range r.problems {
		finding, cure := checkSplit(p.Text)
		return checkBad(stepFiles, target, checkFailed, finding, cure)
	}
	if len(r.warnings) > 0 {
		if info, err := os.Stat(path); err == nil {
			return checkBad(stepFiles, target, checkWarning, fmt.Sprintf("others can read the password: its mode is %04o", info.Mode().Perm()), "chmod 0600 "+path)
		}
	}
	return checkPassed(stepFiles, target, "a password")
}
