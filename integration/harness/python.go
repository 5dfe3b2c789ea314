//go:build integration

package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

func (s *Site) pythonDir() string { return filepath.Join(s.Root, "integration", "python") }

// Python returns the interpreter of an environment that has what
// integration/python/requirements.txt names, and nothing else. It is made by the first
// who asks (cache.go), which takes some seconds. ctx ends that.
func (s *Site) Python(ctx context.Context) (string, error) {
	which, err := whichPython()
	if err != nil {
		return "", err
	}
	list := filepath.Join(s.pythonDir(), "requirements.txt")
	requirements, err := os.ReadFile(list)
	if err != nil {
		return "", err
	}
	python := filepath.Join("bin", "python3")
	dir, err := made(ctx, "python", append(requirements, which...), python, func(dir string) error {
		err := s.done(ctx, command{Name: "python", Args: []string{"python3", "-m", "venv", dir}})
		if err != nil {
			return err
		}
		return s.done(ctx, command{Name: "python", Args: []string{
			filepath.Join(dir, python), "-m", "pip", "install", "--quiet", "--no-input", "--require-hashes", "--only-binary", ":all:", "--requirement", list,
		}})
	})
	return filepath.Join(dir, python), err
}

// whichPython is the path and version of this machine's Python; what it lacks is the
// error.
func whichPython() (string, error) {
	if _, err := exec.LookPath("python3"); err != nil {
		return "", errors.New("python3, 3.10 or later, with venv (Debian's packages python3 and python3-venv)")
	}
	// Debian has what venv needs in a package of its own.
	const asked = "import sys, venv, ensurepip; assert sys.version_info >= (3, 10), sys.version; print(sys.executable, sys.version)"
	out, err := exec.Command("python3", "-c", asked).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("python3, 3.10 or later, with venv (Debian's package python3-venv): %w: %s", err, lastBytes(string(out), 200))
	}
	return string(out), nil
}
