//go:build integration

package harness

import (
	"context"
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
	Dir   string   // removed by Close, unless DOORKEEPER_KEEP is set
	Root  string   // of the module's source
	Swept []string // what dead runs had left, and NewSite has removed

	number int          // N
	lock   net.Listener // holds N for this run
	pki    *authorities
	tmp    string // TMPDIR as it was
	nodes  Engine // of all clusters that do not choose their own

	mu      sync.Mutex
	hosts   int // how many loopback addresses were handed out
	ports   int // how many blocks of gateway ports were
	undo    []func() error
	closed  bool
	binary  func() (string, error)
	plain   func() (string, error)
	classes func() (string, error)
	netns   func() (*Process, error)

	goClients, rust func(context.Context) (string, error)
}

// NewSite checks that the machine has what the tests need, takes a network, and
// removes what runs that were killed have left behind (leftovers.go). What is missing
// is listed whole in the error. The caller closes the Site.
//
// From then on this process and its children keep their temporary files in the Site's
// directory (TMPDIR), so that they go with it.
func NewSite() (s *Site, err error) {
	root, err := moduleRoot()
	if err != nil {
		return nil, err
	}
	s = &Site{Root: root}
	if s.nodes, err = s.engine(); errors.Join(needed(), err) != nil {
		return nil, errors.Join(needed(), err)
	}
	if err := s.takeNetwork(); err != nil {
		return nil, err
	}
	lock := s.lock
	defer func() {
		if err != nil {
			err = errors.Join(err, lock.Close())
		}
	}()
	if s.Swept, err = sweep(s.number); err != nil {
		return nil, fmt.Errorf("remove what killed runs have left: %w", err)
	}
	if s.Dir, err = os.MkdirTemp("", siteName(s.number)); err != nil {
		return nil, err
	}
	s.tmp = os.Getenv("TMPDIR")
	tmp := filepath.Join(s.Dir, "tmp")
	if err := errors.Join(os.Mkdir(tmp, 0o700), os.Setenv("TMPDIR", tmp)); err != nil {
		return nil, err
	}
	s.pki = newAuthorities(filepath.Join(s.Dir, "pki"))
	s.binary = sync.OnceValues(func() (string, error) { return s.build("doorkeeper", "-race") })
	s.plain = sync.OnceValues(func() (string, error) { return s.build("doorkeeper-plain") })
	s.classes = sync.OnceValues(s.compile)
	s.netns = sync.OnceValues(s.namespace)
	s.goClients, s.rust = onceMade(s.GoClients), onceMade(s.Rust)
	return s, nil
}

// Prepare gets what the run's clusters and Java clients are run from: Kafka's jars or an
// image, which can take minutes the first time. Without it, whoever needs it first does.
func (s *Site) Prepare() error {
	err := s.nodes.Prepare(KafkaVersion())
	for _, v := range []Version{ClientVersion, OlderClientVersion} {
		_, jars := Jars(v)
		err = errors.Join(err, jars)
	}
	return err
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
	err := errors.Join(closeAll(undo), os.Setenv("TMPDIR", s.tmp))
	if keep() {
		fmt.Fprintln(os.Stderr, "kept:", s.Dir)
	} else {
		err = errors.Join(err, os.RemoveAll(s.Dir))
	}
	return errors.Join(err, s.lock.Close()) // last: it guards the rest
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
		if l, err := lockNetwork(n); err == nil {
			s.number, s.lock = n, l
			return nil
		}
	}
	return errors.New("no loopback network 127.77.N.0/24 is free: are 254 runs on this machine?")
}

// lockNetwork takes 127.77.n.0/24 and all that is named after n. The kernel gives it
// back with the process, however that ends.
func lockNetwork(n int) (net.Listener, error) {
	return net.Listen("tcp", fmt.Sprintf("127.77.%d.254:1", n))
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
		{"kcat", "Debian's package kcat"}, {"ip", "iproute2"}, {"nsenter", "util-linux"}, {"go", "the Go toolchain"},
	} {
		if _, err := exec.LookPath(tool.name); err != nil {
			missing = append(missing, tool.name+" ("+tool.from+")")
		}
	}
	_, python := whichPython()
	_, rust := whichRust()
	for _, err := range []error{python, nodeMissing(), rust} {
		if err != nil {
			missing = append(missing, err.Error())
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("the integration tests need, and this machine lacks:\n  %s", strings.Join(missing, "\n  "))
	}
	return nil
}
