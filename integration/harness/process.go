//go:build integration

package harness

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// command describes a child process. Out receives its standard output, Log its
// standard error, and its output too where Out is nil.
type command struct {
	Name string // for messages
	Args []string
	Env  []string // added to this process's own
	Dir  string
	Log  *os.File
	Out  *os.File
	New  uintptr // clone flags, e.g. a network namespace of its own
}

// Process is a child that ends with this process, whatever ends it.
type Process struct {
	name string
	cmd  *exec.Cmd
	done chan struct{}
	err  error // of Wait; read it after done
}

// start runs c. The child gets SIGKILL when the thread that started it ends, so
// that thread is kept for it until it has gone.
func start(c command) (*Process, error) {
	p := &Process{name: c.Name, done: make(chan struct{})}
	p.cmd = exec.Command(c.Args[0], c.Args[1:]...)
	p.cmd.Env = append(withoutOurs(os.Environ()), c.Env...)
	p.cmd.Dir = c.Dir
	p.cmd.Stderr = c.Log
	p.cmd.Stdout = c.Log
	if c.Out != nil {
		p.cmd.Stdout = c.Out
	}
	// A group of its own: a Ctrl-C at the terminal is for the run, which then ends
	// its children in order.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true, Cloneflags: c.New}

	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(p.done)
		err := p.cmd.Start()
		started <- err
		if err != nil {
			p.err = err
			return
		}
		p.err = p.cmd.Wait()
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", c.Name, err)
	}
	return p, nil
}

// withoutOurs leaves the settings of these tests out of an environment: the gateway
// would take them for its own, misspelt.
func withoutOurs(environment []string) []string {
	return slices.DeleteFunc(environment, func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return slices.Contains([]string{
			"DOORKEEPER_CHURN", "DOORKEEPER_ENGINE", "DOORKEEPER_KAFKA_IMAGE", "DOORKEEPER_KAFKA_VERSION", "DOORKEEPER_KEEP",
			"DOORKEEPER_SLOW", "DOORKEEPER_SOAK", "DOORKEEPER_TOKEN_LIFE",
		}, name)
	})
}

// PID is the process's number.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Alive says whether the process has not ended yet.
func (p *Process) Alive() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Signal sends sig; a process that has ended gives os.ErrProcessDone.
func (p *Process) Signal(sig syscall.Signal) error { return p.cmd.Process.Signal(sig) }

// Suspend sends SIGSTOP and waits until it has reached every thread, which on a busy
// machine takes a while.
func (p *Process) Suspend() error { return suspend(p) }

func suspend(p Running) error {
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if suspended(p.PID()) {
			return nil
		}
	}
	return fmt.Errorf("process %d does not stop on SIGSTOP", p.PID())
}

// suspended tells whether all threads are stopped (state T in proc(5)).
func suspended(pid int) bool {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil || len(threads) == 0 {
		return false
	}
	for _, file := range threads {
		stat, err := os.ReadFile(file)
		if err != nil {
			continue // a thread that has ended meanwhile
		}
		if _, state, ok := strings.Cut(string(stat), ") "); !ok || state[0] != 'T' {
			return false
		}
	}
	return true
}

// Wait waits until the process has ended, for so long, and returns its exit
// code: -1 where a signal ended it.
func (p *Process) Wait(atMost time.Duration) (int, error) {
	select {
	case <-p.done:
		return p.cmd.ProcessState.ExitCode(), nil
	case <-time.After(atMost):
		return 0, fmt.Errorf("%s (pid %d) has not ended after %s", p.name, p.PID(), atMost)
	}
}

// Stop sends SIGTERM, after grace SIGKILL, and returns when the process has
// ended. One that was suspended is woken, since it could not end otherwise.
func (p *Process) Stop(grace time.Duration) { stop(p, grace) }

func stop(p Running, grace time.Duration) {
	if !p.Alive() {
		return
	}
	_ = p.Signal(syscall.SIGTERM)
	_ = p.Signal(syscall.SIGCONT)
	select {
	case <-p.Done():
	case <-time.After(grace):
		p.Kill()
	}
}

// Kill sends SIGKILL and returns when the process has ended.
func (p *Process) Kill() {
	_ = p.Signal(syscall.SIGKILL)
	<-p.done
}

// run runs a short command to its end and returns its output, which the error
// carries too.
func run(c command) (string, error) {
	f, err := os.CreateTemp("", "doorkeeper-run-")
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close(); _ = os.Remove(f.Name()) }()
	c.Log = f
	p, err := start(c)
	if err != nil {
		return "", err
	}
	<-p.done
	out, err := os.ReadFile(f.Name())
	if p.err != nil {
		return string(out), fmt.Errorf("%s: %w\n%s", strings.Join(c.Args, " "), p.err, out)
	}
	return string(out), err
}

// tail returns the last lines of a file, for messages about a process that did
// not do what it should.
func tail(path string, lines int) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimRight(string(b), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// closeAll runs every function, last one first, and joins their errors.
func closeAll(fs []func() error) error {
	var errs []error
	for i := len(fs) - 1; i >= 0; i-- {
		errs = append(errs, fs[i]())
	}
	return errors.Join(errs...)
}
