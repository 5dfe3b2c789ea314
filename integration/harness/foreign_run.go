//go:build integration

package harness

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// Ended is a program that has run to its end.
type Ended struct {
	Stdout, Stderr string // at most 16 MiB of each
	Code           int    // -1 where a signal ended it
}

// OK is an error with the program's last words unless it ended with 0.
func (e Ended) OK() error {
	if e.Code == 0 {
		return nil
	}
	return fmt.Errorf("it ended with %d and said:\n%s", e.Code, lastBytes(e.Stdout+e.Stderr, 6000))
}

func lastBytes(text string, n int) string { return text[max(0, len(text)-n):] }

// toEnd runs a program with this as its standard input. ctx ends it, and then the
// error says so, beside what there is of its output.
//
// It is the first process of a namespace of processes: whatever it has started ends
// with it, by the kernel's hand, and so with this run too, however that ends.
func (s *Site) toEnd(ctx context.Context, c command, stdin string) (Ended, error) {
	dir, err := os.MkdirTemp(s.Dir, filepath.Base(c.Name)+"-")
	if err != nil {
		return Ended{}, err
	}
	in, out, log := filepath.Join(dir, "stdin"), filepath.Join(dir, "stdout"), filepath.Join(dir, "stderr")
	if err := os.WriteFile(in, []byte(stdin), 0o600); err != nil {
		return Ended{}, err
	}
	if c.Out, err = os.Create(out); err != nil {
		return Ended{}, err
	}
	defer func() { _ = c.Out.Close() }()
	if c.Log, err = os.Create(log); err != nil {
		return Ended{}, err
	}
	defer func() { _ = c.Log.Close() }()
	c.Args = append([]string{"sh", "-c", `in=$1; shift; exec "$@" <"$in"`, "sh", in}, c.Args...)
	c.New |= syscall.CLONE_NEWPID
	p, err := start(c)
	if err != nil {
		return Ended{}, err
	}
	select {
	case <-p.Done():
	case <-ctx.Done():
		p.Kill()
		err = fmt.Errorf("%s: %w; its last lines:\n%s\n%s", c.Name, context.Cause(ctx), tail(out, 10), tail(log, 20))
	}
	code, _ := p.Wait(time.Minute) // it has ended
	return Ended{Stdout: head(out), Stderr: head(log), Code: code}, err
}

// head is a file's beginning.
func head(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = f.Close() }()
	b, err := io.ReadAll(io.LimitReader(f, 16<<20))
	if err != nil {
		return err.Error()
	}
	return string(b)
}
