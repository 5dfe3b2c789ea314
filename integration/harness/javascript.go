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

func (s *Site) nodeDir() string { return filepath.Join(s.Root, "integration", "node") }

// Node returns the directory of the modules that integration/node/package-lock.json
// names, for NODE_PATH. It is made by the first who asks (cache.go). ctx ends that.
func (s *Site) Node(ctx context.Context) (modules string, err error) {
	if err := nodeMissing(); err != nil {
		return "", err
	}
	var key []byte
	files := map[string][]byte{}
	for _, name := range []string{"package.json", "package-lock.json"} {
		if files[name], err = os.ReadFile(filepath.Join(s.nodeDir(), name)); err != nil {
			return "", err
		}
		key = append(key, files[name]...)
	}
	dir, err := made(ctx, "node", key, "node_modules", func(dir string) error {
		for name, text := range files {
			if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
				return err
			}
		}
		return s.done(ctx, command{Name: "npm", Dir: dir, Args: []string{"npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier"}})
	})
	return filepath.Join(dir, "node_modules"), err
}

// nodeMissing is what this machine lacks for that.
func nodeMissing() error {
	const what = "node and npm, of Node.js 18 or later (Debian's packages nodejs and npm)"
	if _, err := exec.LookPath("npm"); err != nil {
		return errors.New(what)
	}
	out, err := exec.Command("node", "-e", "process.exit(process.versions.node.split('.')[0] < 18 ? 1 : 0)").CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", what, err, lastBytes(string(out), 200))
	}
	return nil
}
