package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// maxProblems bounds a message: a file that is no configuration at all could
// have one problem for each line.
const maxProblems = 100

// Problem is one thing that is wrong with the configuration.
type Problem struct {
	Path string // the key; "" when the file as a whole is meant
	Line int    // in the file; 0 when the key is not there
	Env  string // the environment variable that set the key, or ""
	Text string // what is wrong, and what would be right; never a secret

	// shape marks what is wrong with the file, not with a key's value: it stays
	// when the environment overrides the value.
	shape bool
}

func (p Problem) String() string {
	var b strings.Builder
	b.WriteString(p.Path)
	where := ""
	switch {
	case p.Env != "":
		where = "environment variable " + p.Env
	case p.Line > 0:
		where = "line " + strconv.Itoa(p.Line)
	}
	switch {
	case where != "" && p.Path != "":
		b.WriteString(" (" + where + ")")
	case where != "":
		b.WriteString(where)
	}
	if b.Len() > 0 {
		b.WriteString(": ")
	}
	b.WriteString(p.Text)
	return b.String()
}

// ConfigError is everything that is wrong with a configuration.
type ConfigError struct {
	Source   string // the file
	Problems []Problem
}

// Error lists every problem, one a line.
func (e *ConfigError) Error() string {
	var b strings.Builder
	count := "1 problem"
	if len(e.Problems) != 1 {
		count = strconv.Itoa(len(e.Problems)) + " problems"
	}
	fmt.Fprintf(&b, "the configuration in %s has %s:", quote(e.Source), count)
	for i, p := range e.Problems {
		if i == maxProblems {
			fmt.Fprintf(&b, "\n  and %d more", len(e.Problems)-i)
			break
		}
		b.WriteString("\n  " + p.String())
	}
	return b.String()
}

// report collects problems and remembers where each key was set.
type report struct {
	problems []Problem
	warnings []string
	lines    map[string]int    // key → line in the file
	env      map[string]string // key → variable that set it
	hopeless bool              // the file could not be read at all: nothing more can be said
}

func newReport() *report {
	return &report{lines: make(map[string]int), env: make(map[string]string)}
}

// add reports a problem with the key at path, or with an entry path[n] of it.
func (r *report) add(path, format string, args ...any) {
	at := path
	if r.lines[at] == 0 && r.env[at] == "" && strings.HasSuffix(at, "]") {
		at = at[:strings.LastIndexByte(at, '[')]
	}
	r.problems = append(r.problems, Problem{
		Path: path, Line: r.lines[at], Env: r.env[at], Text: fmt.Sprintf(format, args...),
	})
}

// addShape reports a problem with the file's shape at a line.
func (r *report) addShape(path string, line int, format string, args ...any) {
	r.problems = append(r.problems, Problem{Path: path, Line: line, Text: fmt.Sprintf(format, args...), shape: true})
}

// addOnce reports a problem unless the key, its list or an entry of it already
// has one: what follows from a problem is none of its own.
func (r *report) addOnce(path, format string, args ...any) {
	if !r.has(path) {
		r.add(path, format, args...)
	}
}

func (r *report) has(path string) bool {
	return slices.ContainsFunc(r.problems, func(p Problem) bool {
		return p.Path == path || strings.HasPrefix(p.Path, path+"[") || strings.HasPrefix(path, p.Path+"[")
	})
}

func (r *report) warn(format string, args ...any) {
	r.warnings = append(r.warnings, fmt.Sprintf(format, args...))
}

// err returns the problems as one error, those of the file first and in its
// order, then those that have no line. It returns nil when there are none.
func (r *report) err(source string) error {
	if len(r.problems) == 0 {
		return nil
	}
	slices.SortStableFunc(r.problems, func(a, b Problem) int {
		switch {
		case a.Line != 0 && b.Line != 0:
			return a.Line - b.Line
		case a.Line != 0:
			return -1
		case b.Line != 0:
			return 1
		}
		return 0
	})
	return &ConfigError{Source: source, Problems: r.problems}
}

// quote shows a value from outside so that it cannot forge or flood a message.
func quote(s string) string {
	const longest = 100
	if len(s) > longest {
		return strconv.QuoteToASCII(s[:longest]) + "…"
	}
	if !strings.ContainsFunc(s, func(r rune) bool { return r == '\uFFFD' || !strconv.IsPrint(r) }) {
		return strconv.Quote(s)
	}
	return strconv.QuoteToASCII(s)
}
