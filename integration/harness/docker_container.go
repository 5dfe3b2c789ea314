//go:build integration

package harness

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// container is a node in a container: the command that waits for its end and takes
// its output, and the JVM itself, which is a process of this machine like any other.
type container struct {
	*Process // docker run

	name string
	pid  int
	jvm  *os.Process // holds the process, so that a signal can reach no other
}

// newContainer waits until the container's JVM runs, and takes cli over.
func newContainer(name string, cli *Process, spec NodeSpec) (_ *container, err error) {
	defer func() {
		if err != nil {
			_, _ = askDocker("rm", "--force", "--volumes", name) // it may be there or not
			cli.Kill()
		}
	}()
	c := &container{Process: cli, name: name}
	for end := time.Now().Add(time.Minute); c.jvm == nil; time.Sleep(20 * time.Millisecond) {
		if !cli.Alive() || time.Now().After(end) {
			return nil, fmt.Errorf("container %s does not start; the last lines:\n%s", name, tail(filepath.Join(spec.Dir, "out.log"), 20))
		}
		pid, err := askDocker("inspect", "--format", "{{.State.Pid}}", name)
		if err != nil {
			continue // it is not there yet
		}
		if c.pid, err = strconv.Atoi(pid); err != nil {
			return nil, err
		}
		if c.pid > 0 {
			if c.jvm, err = os.FindProcess(c.pid); err != nil {
				return nil, err
			}
		}
	}
	// The number is the engine's: another machine's, or another namespace's, would be
	// somebody else's process here.
	for end := time.Now().Add(10 * time.Second); cli.Alive() && !c.ours(spec); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			return nil, fmt.Errorf("process %d is not container %s: the Docker engine has to run on this machine, and see its processes as this run does", c.pid, name)
		}
	}
	return c, nil
}

// ours tells whether the JVM's number is that of a process which was given the node's
// files.
func (c *container) ours(spec NodeSpec) bool {
	line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", c.pid))
	return strings.Contains(string(line), spec.Dir)
}

// PID is the JVM's number on this machine.
func (c *container) PID() int { return c.pid }

// Signal sends sig to the JVM; one that has ended gives os.ErrProcessDone.
func (c *container) Signal(sig syscall.Signal) error { return c.jvm.Signal(sig) }

// Suspend does as Process.Suspend does.
func (c *container) Suspend() error { return suspend(c) }

// Stop does as Process.Stop does.
func (c *container) Stop(grace time.Duration) { stop(c, grace) }

// Kill sends SIGKILL and returns when the container has gone.
func (c *container) Kill() {
	_ = c.Signal(syscall.SIGKILL)
	select {
	case <-c.done:
	case <-time.After(time.Minute): // an engine that has lost sight of it
		_, _ = askDocker("rm", "--force", "--volumes", c.name)
		c.Process.Kill()
	}
}
