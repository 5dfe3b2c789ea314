package main

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"doorkeeper/internal/shell"
	"doorkeeper/tokens"
)

// grantsFlags are the flags of the command.
type grantsFlags struct {
	Owners        string `required:"" placeholder:"FILE" help:"The principals that clients have, without \"User:\", one a line: a name, a beginning and * (app-*), or * for everybody. # begins a comment."`
	Principal     string `required:"" placeholder:"NAME" help:"The gateway's own principal, without \"User:\", as brokers map its certificate or login."`
	Bootstrap     string `default:"localhost:9092" placeholder:"HOST:PORT" help:"Where an administrator's tools find the brokers."`
	CommandConfig string `default:"admin.properties" placeholder:"FILE" help:"The administrator's own settings."`
}

// maxOwners bounds the file of owners, in bytes.
const maxOwners = 1 << 20

// grants prints the commands that give the gateway exactly the rights that it needs:
// CREATE_TOKENS on each of the owners (KIP-373), and nothing else. Nothing is dialled.
func grants(flags grantsFlags, env environment) int {
	data, err := readBounded(flags.Owners, maxOwners)
	if err != nil {
		return fail(env.stderr, exitUsage, fmt.Errorf("--owners: %w; name a readable file with one principal a line", err))
	}
	owners, err := parseOwners(string(data))
	if err != nil {
		return fail(env.stderr, exitUsage, fmt.Errorf("--owners %s:\n%w", quote(flags.Owners), err))
	}
	if problem := unfitOwner(flags.Principal); problem != "" {
		return fail(env.stderr, exitUsage, fmt.Errorf("--principal: %s", problem))
	}
	var b strings.Builder
	for _, o := range owners {
		fmt.Fprintln(&b, tokens.Grant{
			Bootstrap: shell.Quote(flags.Bootstrap), CommandConfig: shell.Quote(flags.CommandConfig),
			Gateway: flags.Principal, Owner: o.name, Prefixed: o.prefixed,
		}.Command())
	}
	_, _ = fmt.Fprint(env.stdout, b.String())
	return exitOK
}

// granted is whom one command is about.
type granted struct {
	name     string // without "User:"; "" with prefixed for everybody
	prefixed bool
}

// parseOwners reads the file of owners; the error lists all that is wrong with it.
func parseOwners(text string) ([]granted, error) {
	var (
		out      []granted
		problems []string
		seen     = make(map[granted]int)
	)
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		o := granted{name: line}
		o.name, o.prefixed = strings.CutSuffix(line, "*")
		problem := ""
		if !o.prefixed || o.name != "" {
			problem = unfitOwner(o.name)
		}
		if first := seen[o]; problem == "" && first > 0 {
			problem = fmt.Sprintf("%s is there a second time, first on line %d; keep one", quote(line), first)
		}
		if problem != "" {
			problems = append(problems, fmt.Sprintf("  line %d: %s", i+1, problem))
			continue
		}
		seen[o] = i + 1
		out = append(out, o)
	}
	switch {
	case len(problems) > maxProblems:
		problems = append(problems[:maxProblems], fmt.Sprintf("  and %d more", len(problems)-maxProblems))
		fallthrough
	case len(problems) > 0:
		return nil, fmt.Errorf("%s", strings.Join(problems, "\n"))
	case len(out) == 0:
		return nil, fmt.Errorf("  it names nobody; write one principal a line, or * for everybody")
	}
	return out, nil
}

// unfitOwner says why a name cannot be an owner's, or its beginning, and what would be
// right; "" if it can.
func unfitOwner(name string) string {
	switch {
	case name == "":
		return "is empty; write a principal's name"
	case !utf8.ValidString(name):
		return fmt.Sprintf("%s is not UTF-8", quote(name))
	case strings.HasPrefix(name, "User:"):
		return fmt.Sprintf("%s: write the name alone, without User:", quote(name))
	case strings.Contains(name, "*"):
		return fmt.Sprintf("%s: * may stand at the end only, for every name that begins so", quote(name))
	case strings.ContainsFunc(name, func(r rune) bool { return unicode.IsControl(r) || isForging(r) }):
		return fmt.Sprintf("%s has characters that nobody sees; the gateway lets nobody in with such a name", quote(name))
	case name == "ANONYMOUS" || strings.HasPrefix(name, "doorkeeper-"):
		return fmt.Sprintf("%s is never a client's name", quote(name))
	}
	return ""
}
