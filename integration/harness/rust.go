//go:build integration

package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Rust returns the client that integration/rust builds, with a librdkafka of its own:
// the first who asks on this machine builds both, which takes a minute or two, and what
// has not changed is kept (cache.go). ctx ends that.
func (s *Site) Rust(ctx context.Context) (string, error) {
	which, err := whichRust()
	if err != nil {
		return "", err
	}
	sources := filepath.Join(s.Root, "integration", "rust")
	lock, err := os.ReadFile(filepath.Join(sources, "Cargo.lock"))
	if err != nil {
		return "", err
	}
	target, err := cacheDir("rust", append(lock, which...))
	if err != nil {
		return "", err
	}
	unlock, err := lockFile(ctx, target+".lock")
	if err != nil {
		return "", err
	}
	defer unlock()
	err = s.done(ctx, command{Name: "cargo", Dir: sources, Args: []string{"cargo", "build", "--locked", "--quiet", "--target-dir", target}})
	if err != nil {
		return "", err
	}
	built, err := os.ReadFile(filepath.Join(target, "debug", "client")) // another run may build it anew
	if err != nil {
		return "", err
	}
	own := filepath.Join(s.Dir, "rust-client")
	return own, os.WriteFile(own, built, 0o755)
}

// whichRust is the version of this machine's Rust; what it lacks for that is the error.
func whichRust() (string, error) {
	for _, tool := range []string{"g++", "pkg-config"} {
		if _, err := exec.LookPath(tool); err != nil {
			return "", fmt.Errorf("%s, to build librdkafka (Debian's packages g++ and pkg-config)", tool)
		}
	}
	if err := exec.Command("pkg-config", "--exists", "libssl").Run(); err != nil {
		return "", errors.New("OpenSSL's headers, to build librdkafka (Debian's package libssl-dev)")
	}
	var said strings.Builder
	for _, tool := range []string{"cargo", "rustc"} {
		out, err := exec.Command(tool, "--version").CombinedOutput()
		if err != nil {
			return "", fmt.Errorf("%s, of Rust 1.75 or later (Debian's package cargo, or cargo-web): %w: %s", tool, err, lastBytes(string(out), 200))
		}
		said.Write(out)
	}
	return said.String(), nil
}
