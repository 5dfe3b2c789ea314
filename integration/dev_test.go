//go:build integration

package integration

// This file proves `doorkeeper dev` as a newcomer meets it: the binary alone, run to
// its end, interrupted at any moment, and used with what it prints, pasted as it is.

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// TestDevSettingsWorkAsTheyArePasted: each block of commands that a running `dev`
// prints, in the order in which it prints them.
func TestDevSettingsWorkAsTheyArePasted(t *testing.T) {
	ctx := within(t, 3*time.Minute)
	d := startDev(t, "--dir", filepath.Join(t.TempDir(), "a dir")) // blanks need quotes
	text := d.await(t, "Stop with Ctrl-C")

	blocks := map[string]string{}
	for _, block := range regexp.MustCompile(`(?ms)^(Java|kcat|librdkafka[^\n]*)\n\n(.*?)\n\n`).FindAllStringSubmatch(text, -1) {
		title, _, _ := strings.Cut(block[1], ",")
		blocks[title] = block[2]
	}
	for _, paste := range []struct{ title, says string }{
		{"Java", "hello\n"},
		{"kcat", "hello\n"},
		{"librdkafka", "hello\n"},
	} {
		script := blocks[paste.title]
		if script == "" {
			t.Fatalf("nothing to paste for %s in\n%s", paste.title, text)
		}
		ended, err := site.RunShell(ctx, t.TempDir(), script, "")
		must(t, err)
		if ended.Code != 0 || !strings.Contains(ended.Stdout, paste.says) && !strings.Contains(ended.Stdout, "written by alice\n") {
			t.Errorf("%s: exit %d, said %q and:\n%s", paste.title, ended.Code, last(ended.Stdout, 5), last(ended.Stderr, 30))
		}
		t.Logf("%s: %d lines, said on stderr:\n%s", paste.title, strings.Count(ended.Stdout, "\n"), last(ended.Stderr, 5))
	}
	must(t, d.Process.Signal(syscall.SIGINT))
	if code := d.end(t); code != 130 {
		t.Errorf("exit %d after Ctrl-C", code)
	}
}

// TestDevEndsAtAnyMoment: wherever Ctrl-C finds it, `dev` ends at once with 130, and
// its temporary directory is gone.
func TestDevEndsAtAnyMoment(t *testing.T) {
	var all sync.WaitGroup
	for i := range 12 {
		all.Go(func() {
			after := time.Duration(i*i) * 100 * time.Millisecond // densely at its start
			temporary := t.TempDir()
			d := startDevIn(t, temporary)
			time.Sleep(after)
			if err := d.Process.Signal(syscall.SIGINT); err != nil {
				t.Errorf("after %v: %v", after, err)
				return
			}
			// Before the process has taken signals over, the system itself ends it.
			if code := d.end(t); code != 130 && d.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGINT {
				t.Errorf("after %v: exit %d\n%s", after, code, d.output())
			}
			if left, err := os.ReadDir(temporary); err != nil || len(left) > 0 {
				t.Errorf("after %v: left behind %v (%v)", after, left, err)
			}
		})
	}
	all.Wait()
}

// devProcess is `doorkeeper dev`.
type devProcess struct {
	*exec.Cmd
	mu  sync.Mutex
	out bytes.Buffer
}

func startDev(t *testing.T, args ...string) *devProcess {
	t.Helper()
	return startDevIn(t, t.TempDir(), args...)
}

// startDevIn makes temporary the directory of temporary files. The process ends after five
// minutes at the latest, and says then where it was.
func startDevIn(t *testing.T, temporary string, args ...string) *devProcess {
	t.Helper()
	binary, err := site.Binary()
	must(t, err)
	d := &devProcess{Cmd: exec.CommandContext(within(t, 5*time.Minute), binary, append([]string{"dev"}, args...)...)}
	d.Cancel = func() error { return d.Process.Signal(syscall.SIGQUIT) }
	d.WaitDelay = time.Minute
	d.Env = append(os.Environ(), "TMPDIR="+temporary, "GOTRACEBACK=all")
	d.Stdout, d.Stderr = d, d
	must(t, d.Start())
	return d
}

func (d *devProcess) Write(p []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.out.Write(p)
}

func (d *devProcess) output() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.out.String()
}

// await waits until text was printed, for a minute at most.
func (d *devProcess) await(t *testing.T, text string) string {
	t.Helper()
	for range 600 {
		if out := d.output(); strings.Contains(out, text) {
			return out
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatalf("no %q in\n%s", text, d.output())
	return ""
}

// end waits for the process and returns its exit code.
func (d *devProcess) end(t *testing.T) int {
	t.Helper()
	var exit *exec.ExitError
	if err := d.Wait(); err != nil && !errors.As(err, &exit) {
		t.Error(fmt.Errorf("wait for dev: %w", err))
	}
	return d.ProcessState.ExitCode()
}
