//go:build integration

package integration

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"doorkeeper/integration/harness"
)

// The site and its main cluster are shared by all tests that need no settings of
// their own, since a cluster costs many seconds.
var (
	site   *harness.Site
	shared = sync.OnceValues(func() (*harness.Cluster, error) {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		return site.StartCluster(ctx, harness.ClusterConfig{})
	})
)

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	s, err := harness.NewSite()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	site = s
	code := m.Run()
	if err := s.Close(); err != nil {
		fmt.Fprintln(os.Stderr, "left behind:", err)
		code = 1
	}
	return code
}
