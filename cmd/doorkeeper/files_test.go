package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestPasswordFile(t *testing.T) {
	dir := t.TempDir()
	rows := []struct {
		name, contents string
		mode           os.FileMode
		want           string // the password
		problem        string
		warning        string
	}{
		{"plain", "s3cret", 0o600, "s3cret", "", ""},
		{"line end", "s3cret\n", 0o400, "s3cret", "", ""},
		{"DOS line end", " s3 cret \r\n", 0o600, " s3 cret ", "", ""},
		{"open to the group", "s3cret\n", 0o640, "s3cret", "", "has mode 0640"},
		{"open to all", "s3cret\n", 0o604, "s3cret", "", "has mode 0604"},
		{"empty", "\n", 0o600, "", "is empty; write the password into it", ""},
		{"two lines", "s3cret\n\n", 0o600, "", "has more than one line", ""},
		{"NUL", "s3\x00cret", 0o600, "", "has more than one line", ""},
		{"long", strings.Repeat("s3cret", 1000), 0o600, "", "is longer than 4096 bytes", ""},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			path := filepath.Join(dir, row.name)
			if err := os.WriteFile(path, []byte(row.contents), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(path, row.mode); err != nil {
				t.Fatal(err)
			}
			r := newReport()
			got := readPassword(path, r)
			said := fmt.Sprint(r.err("x"), r.warnings)
			if strings.Contains(said, "s3cret") {
				t.Errorf("a message holds the password: %s", said)
			}
			switch {
			case row.problem != "":
				if len(r.problems) != 1 || !strings.Contains(said, row.problem) || !strings.Contains(said, path) {
					t.Errorf("got %s", said)
				}
			case len(r.problems) > 0 || got.Reveal() != row.want:
				t.Errorf("got %q, %s", got.Reveal(), said)
			}
			if (row.warning == "") != (len(r.warnings) == 0) || !strings.Contains(said, row.warning) {
				t.Errorf("warnings: %v", r.warnings)
			}
		})
	}
}

// TestPasswordFileThatWouldWait: a pipe must not keep the start waiting.
func TestPasswordFileThatWouldWait(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	r := newReport()
	readPassword(pipe, r)
	if err := r.err("x"); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("got %v", err)
	}
}

func TestErrorsOfOthersBecomeProblems(t *testing.T) {
	r := newReport()
	r.lines["listen.tls.key"] = 7
	r.lines["identity.rules"] = 9
	r.add("kafka.tls.ca", "is not set")
	r.addErrors(errors.Join(
		fmt.Errorf("listen.tls.key: %w (%w)", os.ErrPermission, os.ErrInvalid),
		errors.Join(errors.New("identity.rules[1]: no such flag; write L or U")),
		errors.New("kafka.tls.ca: cannot be read"), // follows from what was said
		errors.New("no key: at all"),
		nil,
	))
	r.addErrors(nil)
	want := "the configuration in \"f\" has 4 problems:" +
		"\n  listen.tls.key (line 7): permission denied (invalid argument)" +
		"\n  identity.rules[1] (line 9): no such flag; write L or U" +
		"\n  kafka.tls.ca: is not set" +
		"\n  no key: at all"
	if got := r.err("f").Error(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
