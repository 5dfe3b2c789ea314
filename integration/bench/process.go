package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// child is a process started here.
type child struct {
	name string
	cmd  *exec.Cmd
	log  string        // the file that has what it says
	end  func() error  // asks it to end
	done chan struct{} // closed when it has ended
	err  error         // why; read it after done
}

// startChild starts a process; its standard error goes to a file, and its standard output
// too where out is nil. It must be called on a thread that outlives the child.
func startChild(name, log string, in io.Reader, out io.Writer, args ...string) (*child, error) {
	f, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	c := &child{name: name, log: log, done: make(chan struct{})}
	c.cmd = exec.Command(args[0], args[1:]...)
	c.end = func() error { return c.cmd.Process.Signal(syscall.SIGTERM) }
	c.cmd.SysProcAttr = bound()
	c.cmd.Stdin, c.cmd.Stdout, c.cmd.Stderr = in, out, f
	if out == nil {
		c.cmd.Stdout = f
	}
	if err := c.cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", name, err), f.Close())
	}
	go func() {
		defer close(c.done)
		c.err = errors.Join(c.cmd.Wait(), f.Close())
	}()
	return c, nil
}

// stop asks the child to end, kills it after 20 s, and returns when it has ended.
func (c *child) stop() error {
	_ = c.end()
	select {
	case <-c.done:
	case <-time.After(20 * time.Second):
		_ = c.cmd.Process.Kill()
		<-c.done
	}
	if c.err != nil {
		return c.failed(c.err)
	}
	return nil
}

// failed is an error with the last that the child has said.
func (c *child) failed(err error) error {
	b, _ := os.ReadFile(c.log)
	return fmt.Errorf("%s: %w\n%s", c.name, err, b[max(0, len(b)-2000):])
}

// ticks is the kernel's unit of CPU time in /proc: USER_HZ is 100 wherever Go runs.
const ticks = 100

// cpu is the CPU time that the child has used, in user mode and in the kernel.
func (c *child) cpu() (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", c.cmd.Process.Pid))
	if err != nil {
		return 0, fmt.Errorf("CPU time is read from /proc, on Linux: %w", err)
	}
	// The name in the second field may have spaces; utime and stime are fields 14 and 15.
	_, rest, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0, fmt.Errorf("/proc/%d/stat has %d fields", c.cmd.Process.Pid, len(fields))
	}
	user, err := strconv.ParseInt(fields[11], 10, 64)
	if err != nil {
		return 0, err
	}
	system, err := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * time.Second / ticks, err
}

// metric reads one figure of a gateway's metrics.
func metric(ctx context.Context, admin, name string) (float64, error) {
	body, err := get(ctx, "http://"+admin+"/metrics")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(body) {
		if value, found := strings.CutPrefix(line, name+" "); found {
			return strconv.ParseFloat(strings.TrimSpace(value), 64)
		}
	}
	return 0, fmt.Errorf("the gateway has no metric %s", name)
}

// get reads a page; anything but status 200 is an error.
func get(ctx context.Context, url string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, 4<<20))
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: status %d: %s", url, resp.StatusCode, body)
	}
	return string(body), errors.Join(err, resp.Body.Close())
}
