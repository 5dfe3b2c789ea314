//go:build integration

package harness

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

// What clients of other languages need is fetched and built once on a machine, below
// the user's cache directory (XDG_CACHE_HOME), by the first run that asks; another one
// that asks meanwhile waits. Each directory is named after its kind and the sum of all
// that decides what is in it.

// made is a kind's directory for this key. While it lacks the file "complete", or the
// file there, it is begun anew: fill makes what is in it, where it will stay. ctx ends
// the wait for another run.
func made(ctx context.Context, kind string, key []byte, there string, fill func(dir string) error) (string, error) {
	dir, err := cacheDir(kind, key)
	if err != nil {
		return "", err
	}
	whole := func() bool {
		_, complete := os.Stat(filepath.Join(dir, "complete"))
		_, exists := os.Stat(filepath.Join(dir, there)) // Python there is a link to one that may have been removed
		return complete == nil && exists == nil
	}
	if whole() {
		return dir, nil
	}
	unlock, err := lockFile(ctx, dir+".lock")
	if err != nil {
		return "", err
	}
	defer unlock()
	if whole() { // made by whoever had the lock
		return dir, nil
	}
	if err := errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o755)); err != nil {
		return "", err
	}
	if err := fill(dir); err != nil {
		return "", fmt.Errorf("make %s: %w", dir, err)
	}
	return dir, os.WriteFile(filepath.Join(dir, "complete"), nil, 0o644)
}

func cacheDir(kind string, key []byte) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	cache = filepath.Join(cache, "doorkeeper")
	sum := sha256.Sum256(key)
	return filepath.Join(cache, kind+"-"+hex.EncodeToString(sum[:6])), os.MkdirAll(cache, 0o755)
}

// done runs a program to its end, which must be 0.
func (s *Site) done(ctx context.Context, c command) error {
	ended, err := s.toEnd(ctx, c, "")
	if err == nil {
		err = ended.OK()
	}
	if err != nil {
		return fmt.Errorf("%q: %w", c.Args, err)
	}
	return nil
}

// onceMade calls build once a run, and again if that failed: the context that it failed
// by may have been another's.
func onceMade(build func(context.Context) (string, error)) func(context.Context) (string, error) {
	var mu sync.Mutex
	var path string
	return func(ctx context.Context) (string, error) {
		mu.Lock()
		defer mu.Unlock()
		if path != "" {
			return path, nil
		}
		made, err := build(ctx)
		if err == nil {
			path = made
		}
		return made, err
	}
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
