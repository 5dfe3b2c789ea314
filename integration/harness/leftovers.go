//go:build integration

package harness

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// What a run makes that the kernel does not take back with it carries the number of
// its network: its directory and the containers (siteName), the interface (dkNa), and
// its processes, by the TMPDIR that they were given. Whoever holds a network's lock
// may remove all that has its number: its own run is dead, as it would hold the lock
// otherwise, and no new one can take the number meanwhile.

// siteName is how the names of a site's directory and containers begin. Directories
// that are to be kept have another one.
func siteName(n int) string {
	if keep() {
		return fmt.Sprintf("doorkeeper-kept%d-", n)
	}
	return fmt.Sprintf("doorkeeper-site%d-", n)
}

// keep says whether whoever runs the tests wants to look at what they leave.
func keep() bool { return os.Getenv("DOORKEEPER_KEEP") != "" }

// siteNumber finds the number in a name that begins with siteName.
func siteNumber(name string) (int, bool) {
	rest, ok := strings.CutPrefix(name, "doorkeeper-site")
	if !ok {
		rest, ok = strings.CutPrefix(name, "doorkeeper-kept")
	}
	digits, _, dash := strings.Cut(rest, "-")
	n, err := strconv.Atoi(digits)
	return n, ok && dash && err == nil && n >= 1 && n <= 254
}

// sweeper removes what dead runs have left.
type sweeper struct {
	own   int                  // whose lock this run holds
	locks map[int]net.Listener // of dead runs; nil for those alive
	swept []string
	errs  []error
}

// sweep removes everything that dead runs have left on this machine, and returns what
// that was. own is the network that this run has taken, and has made nothing in yet.
func sweep(own int) ([]string, error) {
	s := &sweeper{own: own, locks: map[int]net.Listener{}}
	defer func() {
		for _, l := range s.locks {
			if l != nil {
				_ = l.Close()
			}
		}
	}()
	s.processes()
	s.containers()
	s.interfaces()
	s.directories()
	return s.swept, errors.Join(s.errs...)
}

// dead says whether the run of that number has ended, and holds its lock from then on.
func (s *sweeper) dead(n int) bool {
	if n == s.own {
		return true
	}
	l, asked := s.locks[n]
	if !asked {
		if l, _ = lockNetwork(n); l == nil { // not a nil of another type
			s.locks[n] = nil
			return false
		}
		s.locks[n] = l
	}
	return l != nil
}

func (s *sweeper) did(err error, format string, args ...any) {
	what := fmt.Sprintf(format, args...)
	if err != nil {
		s.errs = append(s.errs, fmt.Errorf("%s: %w", what, err))
		return
	}
	s.swept = append(s.swept, what)
}

// processes ends those whose temporary files are in a dead run's directory. Children
// end with the run; theirs need not.
func (s *sweeper) processes() {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		s.errs = append(s.errs, err)
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		p, err := os.FindProcess(pid) // holds it: the number is not used again
		if err != nil {
			continue
		}
		if n, ours := siteOfProcess(pid); ours && s.dead(n) {
			program, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
			err := p.Kill()
			if errors.Is(err, os.ErrProcessDone) {
				err = nil
			}
			s.did(err, "process %d (%s)", pid, bytes.TrimSpace(program))
		}
		_ = p.Release()
	}
}

// siteOfProcess finds the number of the run that a process was started by.
func siteOfProcess(pid int) (int, bool) {
	environment, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		return 0, false
	}
	for entry := range bytes.SplitSeq(environment, []byte{0}) {
		if tmp, ok := bytes.CutPrefix(entry, []byte("TMPDIR=")); ok {
			return siteNumber(filepath.Base(filepath.Dir(string(tmp))))
		}
	}
	return 0, false
}

// containers removes those of this machine's Docker engine, whatever this run uses,
// with their volumes. Their mounts go with them.
func (s *sweeper) containers() {
	if _, err := exec.LookPath("docker"); err != nil {
		return
	}
	found, err := askDocker("ps", "--all", "--no-trunc", "--filter", "label="+label, "--format", `{{.ID}} {{.Label "`+label+`"}}`)
	if err != nil {
		return // no engine, no containers
	}
	for line := range strings.Lines(found) {
		id, site, _ := strings.Cut(strings.TrimSpace(line), " ")
		if n, ours := siteNumber(site); ours && s.dead(n) {
			err := removeContainer(id)
			s.did(err, "container %.12s of %s", id, site)
		}
	}
}

// removeContainer returns when the container has gone. One that the engine itself is
// removing already, since its program has ended, is waited for.
func removeContainer(id string) error {
	_, err := askDocker("rm", "--force", "--volumes", id)
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if left, listErr := askDocker("ps", "--all", "--quiet", "--filter", "id="+id); listErr == nil && left == "" {
			return nil
		}
	}
	return fmt.Errorf("it is still there: %w", err)
}

// interfaces removes the outer ends of namespaces: they go with the last process in
// there, but only a while later.
func (s *sweeper) interfaces() {
	all, err := net.Interfaces()
	if err != nil {
		s.errs = append(s.errs, err)
	}
	for _, i := range all {
		var n int
		var end rune
		if _, err := fmt.Sscanf(i.Name, "dk%d%c", &n, &end); err != nil || end != 'a' || !s.dead(n) {
			continue
		}
		_, err := run(command{Name: "ip", Args: []string{"ip", "link", "delete", i.Name}})
		if _, gone := net.InterfaceByName(i.Name); gone != nil {
			err = nil
		}
		s.did(err, "interface %s", i.Name)
	}
}

// directories removes those of dead runs, after whatever is mounted in them.
func (s *sweeper) directories() {
	entries, err := os.ReadDir(os.TempDir())
	if err != nil {
		s.errs = append(s.errs, err)
	}
	for _, e := range entries {
		n, ours := siteNumber(e.Name())
		if !ours || !e.IsDir() || !s.dead(n) {
			continue
		}
		dir := filepath.Join(os.TempDir(), e.Name())
		mounts, err := mountsBelow(dir)
		for _, m := range mounts {
			err := syscall.Unmount(m, syscall.MNT_DETACH)
			s.did(err, "mount %s", m)
		}
		if err == nil && len(s.errs) == 0 && strings.HasPrefix(e.Name(), "doorkeeper-site") {
			s.did(os.RemoveAll(dir), "directory %s", dir)
		}
	}
}

// mountsBelow lists the mount points in a directory, the last one first.
func mountsBelow(dir string) ([]string, error) {
	info, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	var found []string
	for line := range strings.Lines(string(info)) {
		if f := strings.Fields(line); len(f) > 4 && strings.HasPrefix(f[4], dir+"/") {
			found = append(found, f[4])
		}
	}
	slices.Reverse(found)
	return found, nil
}
