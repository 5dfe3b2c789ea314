//go:build integration

package harness

import (
	"context"
	"path/filepath"
)

// GoClients returns the program that integration/go builds: clients in Go that are no
// dependencies of this module. ctx ends the build.
func (s *Site) GoClients(ctx context.Context) (string, error) {
	path := filepath.Join(s.Dir, "go-clients")
	return path, s.done(ctx, command{
		Name: "go build", Dir: filepath.Join(s.Root, "integration", "go"), Args: []string{"go", "build", "-mod=readonly", "-o", path, "."},
	})
}
