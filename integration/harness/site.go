//go:build integration

package harness

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
)

// Site is one test run. It owns a directory, a loopback network 127.77.N.0/24
// that no other run on this machine has, and all that is started on it.
type Site struct {
	Dir  string // removed by Close, unless DOORKEEPER_KEEP is set
	Root string // of the module's source

	number int          // N
	lock   net.Listener // holds N for this run
	pki    *authorities

	mu      sync.Mutex
	hosts   int // how many loopback addresses were handed out
	ports   int // how many blocks of gateway ports were
	undo    []func() error
	closed  bool
	binary  func() (string, error)
	plain   func() (string, error)
	classes func() (string, error)
	netns   func() (*Process, error)
}

// NewSite checks that the machine has what the tests need and takes a network.
// What is missing is listed whole in the error. The caller closes the Site.
func NewSite() (*Site, error) {
	if err := needed(); err != nil {
		return nil, err
	}
	root, err := moduleRoot()
	if err != nil {
		return nil, err
	}
	s := &Site{Root: root}
	if err := s.takeNetwork(); err != nil {
		return nil, err
	}
	if s.Dir, err = os.MkdirTemp("", fmt.Sprintf("doorkeeper-site%d-", s.number)); err != nil {
		return nil, errors.Join(err, s.lock.Close())
	}
	s.pki = newAuthorities(filepath.Join(s.Dir, "pki"))
	s.binary = sync.OnceValues(func() (string, error) { return s.build("doorkeeper", "-race") })
	s.plain = sync.OnceValues(func() (string, error) { return s.build("doorkeeper-plain") })
	s.classes = sync.OnceValues(s.compile)
	s.netns = sync.OnceValues(s.namespace)
	return s, nil
}

// Close ends everything that was started on the site, last one first, and
// returns when all of it has gone.
func (s *Site) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	undo := s.undo
	s.mu.Unlock()
	err := errors.Join(closeAll(undo), s.lock.Close())
	if os.Getenv("DOORKEEPER_KEEP") != "" {
		fmt.Fprintln(os.Stderr, "kept:", s.Dir)
		return err
	}
	return errors.Join(err, os.RemoveAll(s.Dir))
}

// atClose registers what Close has to undo.
func (s *Site) atClose(f func() error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.undo = append(s.undo, f)
}

// LoopbackHost hands out an address of the site's own loopback network. All its
// ports are free.
func (s *Site) LoopbackHost() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hosts++
	if s.hosts > 250 {
		panic("harness: the site has no addresses left")
	}
	return fmt.Sprintf("127.77.%d.%d", s.number, s.hosts)
}

// LoopbackPrefix is how every address that LoopbackHost hands out begins: what
// no client may ever see.
func (s *Site) LoopbackPrefix() string { return fmt.Sprintf("127.77.%d.", s.number) }

// ports of the gateways: blocks of 100 on the front address, the first for
// bootstrap, ten further on begin those of the nodes.
func (s *Site) takePorts() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ports++
	return 10_000 + 100*s.ports
}

func (s *Site) takeNetwork() error {
	first := os.Getpid()
	for i := range 254 {
		n := 1 + (first+i)%254
		// The kernel frees it with the process, however that ends.
		l, err := net.Listen("tcp", fmt.Sprintf("127.77.%d.254:1", n))
		if err == nil {
			s.number, s.lock = n, l
			return nil
		}
	}
	return errors.New("no loopback network 127.77.N.0/24 is free: are 254 runs on this machine?")
}

func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for d := dir; ; d = filepath.Dir(d) {
		if _, err := os.Stat(filepath.Join(d, "go.mod")); err == nil {
			return d, nil
		}
		if d == filepath.Dir(d) {
			return "", fmt.Errorf("no go.mod above %s", dir)
		}
	}
}

// needed lists everything that this machine lacks in one error.
func needed() error {
	var missing []string
	if runtime.GOOS != "linux" {
		missing = append(missing, "Linux (network namespaces, /proc)")
	}
	if os.Geteuid() != 0 {
		missing = append(missing, "root (for a network namespace)")
	}
	for _, tool := range []struct{ name, from string }{
		{"java", "a JDK, 17 or later"}, {"javac", "a JDK, 17 or later"}, {"mvn", "Maven"},
		{"ip", "iproute2"}, {"nsenter", "util-linux"}, {"go", "the Go toolchain"},
	} {
		if _, err := exec.LookPath(tool.name); err != nil {
			missing = append(missing, tool.name+" ("+tool.from+")")
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("the integration tests need, and this machine lacks:\n  %s", strings.Join(missing, "\n  "))
	}
	return nil
}
