//go:build integration

package integration

// This file proves that a run which is killed in the middle leaves nothing behind for
// longer than to the next start: not its containers, not a process that has outlived
// its parent nor the namespace in which that one lives, no interface, no mount and no
// directory. What is of a run that lives stays untouched: this one.

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"doorkeeper/integration/harness"
)

// helperMode names, for this very binary, a part to play in place of the tests.
const helperMode = "DOORKEEPER_TEST_HELPER"

// mess is what a victim says of itself before it is killed.
type mess struct {
	Dir, Mount, Interface string
	Node, Orphan          int // processes
}

// helper plays a part: a "victim" makes a mess and waits for its end, a "successor" is
// a run that starts and ends.
func helper(mode string, s *harness.Site) error {
	if mode == "successor" {
		return json.NewEncoder(os.Stdout).Encode(s.Swept)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	c, err := s.StartCluster(ctx, harness.ClusterConfig{Nodes: 1})
	if err != nil {
		return err
	}
	m := mess{Dir: s.Dir, Mount: filepath.Join(s.Dir, "mounted"), Node: c.Node(1).PID()}
	// Children end with the run. This is what one of theirs is like: the parent of its
	// own namespace, at the far end of an interface of the run's.
	orphan := exec.Command("unshare", "--net", "sleep", "infinity")
	orphan.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := orphan.Start(); err != nil {
		return err
	}
	m.Orphan = orphan.Process.Pid
	number := strings.Split(s.LoopbackPrefix(), ".")[2]
	m.Interface = "dk" + number + "a"
	if err := os.Mkdir(m.Mount, 0o755); err != nil {
		return err
	}
	for _, args := range [][]string{
		{"mount", "-t", "tmpfs", "none", m.Mount},
		{"ip", "link", "add", m.Interface, "type", "veth", "peer", "name", "dk" + number + "b", "netns", fmt.Sprint(m.Orphan)},
	} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", args[0], err, out)
		}
	}
	if err := json.NewEncoder(os.Stdout).Encode(m); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, os.Stdin) // for ever, unless the test dies first
	return err
}

// startHelper starts this binary in another part, with a temporary directory of its
// own, and returns the first line that it writes.
func startHelper(t *testing.T, mode, tmp string) (*exec.Cmd, string) {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	cmd := exec.CommandContext(within(t, 3*time.Minute), self)
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(e string) bool { return strings.HasPrefix(e, "DOORKEEPER_KEEP=") }),
		helperMode+"="+mode, "TMPDIR="+tmp)
	cmd.Stderr = os.Stderr
	_, err = cmd.StdinPipe() // closed with this process
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the %s said %q, %v; it ended with %v", mode, line, err, cmd.Wait())
	}
	return cmd, line
}

func TestNextRunRemovesWhatAKilledOneLeft(t *testing.T) {
	c := cluster(t) // this run lives
	_, err := site.Front()
	must(t, err)

	tmp := t.TempDir()
	victim, line := startHelper(t, "victim", tmp)
	var m mess
	must(t, json.Unmarshal([]byte(line), &m))
	must(t, victim.Process.Kill())
	if err := victim.Wait(); err == nil {
		t.Fatal("the victim was not killed")
	}
	there := map[string]func() bool{
		"the directory": func() bool { _, err := os.Lstat(m.Dir); return err == nil },
		"the mount":     func() bool { return mounted(t, m.Mount) },
		"the interface": func() bool { _, err := net.InterfaceByName(m.Interface); return err == nil },
		"the orphan":    func() bool { return lives(m.Orphan) },
		"the node":      func() bool { return lives(m.Node) },
	}
	for what, is := range there {
		if what == "the node" && !inDocker() { // a child, which ends with the run
			continue
		}
		if !is() {
			t.Errorf("%s went with the victim: this proves nothing", what)
		}
	}

	successor, line := startHelper(t, "successor", tmp)
	must(t, successor.Wait())
	t.Logf("removed: %s", line)
	for what, is := range there {
		for end := time.Now().Add(patience); is() && time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		}
		if is() {
			t.Errorf("%s is still there", what)
		}
	}
	if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
		t.Errorf("left in the temporary directory: %v, %v", left, err)
	}
	if inDocker() {
		out, err := exec.Command("docker", "ps", "--all", "--quiet", "--filter", "label=doorkeeper.test="+filepath.Base(m.Dir)).Output()
		if err != nil || len(out) > 0 {
			t.Errorf("containers: %q, %v", out, err)
		}
	}

	must(t, c.Await(within(t, patience)))
	for _, n := range c.Nodes {
		if !lives(n.PID()) {
			t.Errorf("node %d of the run that lives was removed", n.ID)
		}
	}
	front := "dk" + strings.Split(site.LoopbackPrefix(), ".")[2] + "a"
	if _, err := net.InterfaceByName(front); err != nil {
		t.Errorf("the interface %s of the run that lives: %v", front, err)
	}
	if _, err := os.Lstat(site.Dir); err != nil {
		t.Error(err)
	}
}

func inDocker() bool { return harness.EngineName(os.Getenv("DOORKEEPER_ENGINE")) == harness.Docker }

// lives says whether a process has not ended; one that nobody has waited for has.
func lives(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, state, ok := strings.Cut(string(stat), ") ")
	return err == nil && ok && state[0] != 'Z' && state[0] != 'X'
}

func mounted(t *testing.T, path string) bool {
	t.Helper()
	mounts, err := os.ReadFile("/proc/self/mounts")
	must(t, err)
	return strings.Contains(string(mounts), " "+path+" ")
}
