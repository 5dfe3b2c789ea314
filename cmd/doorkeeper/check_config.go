package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"doorkeeper/tlsconf"
)

// checkConfiguration is the first step: the file, the environment, and what the other
// packages find wrong with the keys that they read. What lies in files is the next.
func (c *checker) checkConfiguration(context.Context) []checkResult {
	c.config, c.report = loadConfig(c.flags.Config, c.environ)
	if !c.report.hopeless {
		// The same again for what serve reads beyond the file; a key that has its problem
		// gets no second one.
		beyond := &report{lines: c.report.lines, env: c.report.env}
		c.material = readMaterial(c.config, beyond)
		for _, p := range beyond.problems {
			if !isFileKey(p.Path) && (p.Path == "" || !c.report.has(p.Path)) {
				c.report.problems = append(c.report.problems, p)
			}
		}
		c.report.warnings = append(c.report.warnings, c.beyondTheFile()...)
	}
	var results []checkResult
	var wrong *ConfigError
	if errors.As(c.report.err(c.flags.Config), &wrong) {
		for _, p := range wrong.Problems {
			finding, cure := checkSplit(p.Text)
			p.Text = finding
			results = append(results, checkBad(stepConfiguration, checkKey(p.Path), checkFailed, strings.TrimPrefix(p.String(), p.Path+": "), cure))
		}
	}
	for _, w := range c.report.warnings {
		finding, cure := checkSplit(w)
		if cure == "" && strings.HasPrefix(w, "environment variable ") {
			cure = "if it is meant for the gateway, give it a key's name: " + envName("tokens.lifetime") + " is tokens.lifetime"
		}
		results = append(results, checkBad(stepConfiguration, "", checkWarning, finding, cure))
	}
	if len(results) == 0 {
		results = append(results, checkPassed(stepConfiguration, c.flags.Config, "every key is as it should be"))
	}
	return results
}

// beyondTheFile is what serve warns of at its start.
func (c *checker) beyondTheFile() []string {
	limit, err := descriptorLimit()
	if err != nil {
		return []string{"the limit of open files is not known: " + err.Error()}
	}
	if warning := checkDescriptors(c.config.Limits.Sessions, len(c.config.Listen.Advertise.Nodes), limit); warning != "" {
		return []string{warning}
	}
	return nil
}

func checkKey(path string) string {
	if path == "" {
		return "the file"
	}
	return path
}

// checkSplit takes the cure off a message of the form "what is wrong; what to do".
func checkSplit(text string) (finding, cure string) {
	if before, after, found := strings.Cut(text, "; "); found {
		return before, after
	}
	return text, ""
}

// isFileKey tells which keys name files whose contents the step files looks at.
func isFileKey(path string) bool {
	return slices.Contains([]string{
		"listen.tls.certificate", "listen.tls.key", "listen.tls.client_ca", "kafka.tls.ca", "kafka.tls.certificate", "kafka.tls.key",
		"kafka.control.tls.ca", "kafka.control.tls.certificate", "kafka.control.tls.key", keyPasswordFile,
		"admin.tls.certificate", "admin.tls.key", "admin.tls.client_ca",
	}, path)
}

const keyPasswordFile = "kafka.control.sasl.password_file"

// spoilt returns the first key at or below one of the paths that the configuration has
// wrong, as what a step waits for; "" where none is.
func (c *checker) spoilt(paths ...string) string {
	if c.report.hopeless {
		return stepConfiguration
	}
	for _, p := range c.report.problems {
		for _, path := range paths {
			if p.Path == path || strings.HasPrefix(p.Path, path+".") || strings.HasPrefix(p.Path, path+"[") {
				return fmt.Sprintf("%s: %s", stepConfiguration, p.Path)
			}
		}
	}
	return ""
}

// identity is the part of the configuration that decides about names.
func (c *checker) identity() (tlsconf.Config, error) {
	from, err := tlsconf.ParseFrom(string(c.config.Identity.From))
	tls := c.config.Listen.TLS
	return tlsconf.Config{
		Certificate: tls.Certificate, Key: tls.Key, ClientCA: tls.ClientCA,
		From: from, Rules: c.config.Identity.Rules, Protected: c.config.Identity.Protected, Allow: c.config.Identity.Allow,
	}, err
}
