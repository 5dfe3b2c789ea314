//go:build integration

package integration

import (
	"context"
	"fmt"
	"os"
	"strings"
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
		return site.StartCluster(ctx, harness.ClusterConfig{
			// Clients that say in which rack they are may read from a follower there (KIP-392).
			Properties: map[string]string{"replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector"},
			Node: func(id int32) harness.NodeConfig {
				return harness.NodeConfig{Properties: map[string]string{"broker.rack": fmt.Sprintf("rack-%d", id)}}
			},
		})
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
	code := 1
	if len(s.Swept) > 0 && os.Getenv(helperMode) == "" {
		fmt.Fprintln(os.Stderr, "left by runs that were killed, and removed:\n ", strings.Join(s.Swept, "\n  "))
	}
	if err := s.Prepare(); err != nil { // before any test's time runs
		fmt.Fprintln(os.Stderr, err)
	} else if mode := os.Getenv(helperMode); mode == "" {
		code = m.Run()
	} else if err := helper(mode, s); err != nil { // leftovers_test.go
		fmt.Fprintln(os.Stderr, mode+":", err)
	} else {
		code = 0
	}
	if err := s.Close(); err != nil {
		fmt.Fprintln(os.Stderr, "left behind:", err)
		code = 1
	}
	return code
}
