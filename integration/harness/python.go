//go:build integration

package harness

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"golang.org/x/sys/unix"
)

func (s *Site) pythonDir() string { return filepath.Join(s.Root, "integration", "python") }

// Python returns the interpreter of an environment that has what
// integration/python/requirements.txt names, and nothing else. It is made below
// the user's cache directory (XDG_CACHE_HOME) by the first who asks, which takes
// some seconds; another run that asks meanwhile waits. ctx ends either.
func (s *Site) Python(ctx context.Context) (string, error) {
	which, err := whichPython()
	if err != nil {
		return "", err
	}
	dir, err := s.pythonEnvironment(which)
	if err != nil {
		return "", err
	}
	python := filepath.Join(dir, "bin", "python3")
	whole := func() bool {
		_, made := os.Stat(filepath.Join(dir, "complete"))
		_, there := os.Stat(python) // a link to a Python that may have been removed
		return made == nil && there == nil
	}
	if whole() {
		return python, nil
	}
	unlock, err := lockFile(ctx, dir+".lock")
	if err != nil {
		return "", err
	}
	defer unlock()
	if whole() { // made by whoever had the lock
		return python, nil
	}
	return python, s.makePython(ctx, dir)
}

// pythonEnvironment is the directory for these requirements and that Python.
func (s *Site) pythonEnvironment(which string) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	cache = filepath.Join(cache, "doorkeeper")
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", err
	}
	requirements, err := os.ReadFile(filepath.Join(s.pythonDir(), "requirements.txt"))
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(append(requirements, which...))
	return filepath.Join(cache, "python-"+hex.EncodeToString(sum[:6])), nil
}

// makePython makes the environment where it will stay, since it knows its own
// path. The file "complete" comes last: without it, the next one begins anew.
func (s *Site) makePython(ctx context.Context, dir string) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	for _, args := range [][]string{
		{"python3", "-m", "venv", dir},
		{filepath.Join(dir, "bin", "python3"), "-m", "pip", "install", "--quiet", "--no-input", "--require-hashes", "--only-binary", ":all:",
			"--requirement", filepath.Join(s.pythonDir(), "requirements.txt")},
	} {
		ended, err := s.toEnd(ctx, command{Name: "python", Args: args}, "")
		if err == nil {
			err = ended.OK()
		}
		if err != nil {
			return fmt.Errorf("make the Python clients' environment %s: %q: %w", dir, args, err)
		}
	}
	return os.WriteFile(filepath.Join(dir, "complete"), nil, 0o644)
}

// whichPython is the path and version of this machine's Python; what it lacks is the
// error.
func whichPython() (string, error) {
	if _, err := exec.LookPath("python3"); err != nil {
		return "", errors.New("python3, 3.9 or later, with venv (Debian's packages python3 and python3-venv)")
	}
	// Debian has what venv needs in a package of its own.
	const asked = "import sys, venv, ensurepip; assert sys.version_info >= (3, 9), sys.version; print(sys.executable, sys.version)"
	out, err := exec.Command("python3", "-c", asked).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("python3, 3.9 or later, with venv (Debian's package python3-venv): %w: %s", err, lastBytes(string(out), 200))
	}
	return string(out), nil
}

// lockFile waits until this process alone has the lock, or ctx ends. The kernel
// gives it back with the process, however that ends.
func lockFile(ctx context.Context, path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	err = until(ctx, func() error { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) })
	if err != nil {
		return nil, errors.Join(fmt.Errorf("wait for whoever makes it (lock %s): %w", path, err), f.Close())
	}
	return func() { _ = f.Close() }, nil
}
