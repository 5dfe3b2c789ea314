package main

import (
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// terminal writes for people: in colour where a terminal shows it, plain elsewhere.
type terminal struct {
	io.Writer
	colour bool
}

// newTerminal looks at w and at the environment: NO_COLOR (no-color.org) and
// TERM=dumb ask for plain text.
func newTerminal(w io.Writer, environ []string) terminal {
	f, ok := w.(*os.File)
	if !ok {
		return terminal{w, false}
	}
	for _, e := range environ {
		if name, value, _ := strings.Cut(e, "="); name == "NO_COLOR" && value != "" || e == "TERM=dumb" {
			return terminal{w, false}
		}
	}
	return terminal{w, term.IsTerminal(int(f.Fd()))}
}

func (t terminal) good(s string) string  { return t.paint("32", s) }
func (t terminal) bad(s string) string   { return t.paint("31;1", s) }
func (t terminal) title(s string) string { return t.paint("1", s) }
func (t terminal) faint(s string) string { return t.paint("2", s) }

func (t terminal) paint(code, s string) string {
	if !t.colour {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}
