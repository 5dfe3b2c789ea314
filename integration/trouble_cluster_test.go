//go:build integration

package integration

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"doorkeeper/integration/harness"
	"doorkeeper/internal/faultrelay"
)

// lone is a cluster of a single node for trouble that three would not show better:
// its control listener is reached through a relay, and it has listeners that a
// gateway can be pointed at by mistake.
type lone struct {
	*harness.Cluster
	control *faultrelay.Relay
	oneWay  string // SSL that asks for no certificate
	plain   string // PLAINTEXT
}

// loneShared is started by whoever asks first. A test leaves it as it found it.
var loneShared = sync.OnceValues(func() (*lone, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	host := site.LoopbackHost()
	relay, err := faultrelay.New(host+":0", net.JoinHostPort(host, fmt.Sprint(harness.ControlPort)))
	if err != nil {
		return nil, err
	}
	c, err := site.StartCluster(ctx, harness.ClusterConfig{Nodes: 1, Node: func(int32) harness.NodeConfig {
		return harness.NodeConfig{
			Host: host, AdvertisedControl: relay.Address(),
			Listeners:  map[string]string{"ONEWAY": "SSL", "PLAIN": "PLAINTEXT"},
			Properties: map[string]string{"listener.name.oneway.ssl.client.auth": "none"},
		}
	}})
	if err != nil {
		return nil, err
	}
	n := c.Node(1)
	return &lone{Cluster: c, control: relay, oneWay: n.Listener("ONEWAY"), plain: n.Listener("PLAIN")}, nil
})

func loneCluster(t *testing.T) *lone {
	t.Helper()
	c, err := loneShared()
	must(t, err)
	return c
}

// afterwards is a context for cleaning up, when the test's own has ended.
func afterwards() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), time.Minute)
}

// closedPlainly sends a request as user, who was let in, and wants a plain close
// within the time: no alert, no error that a client takes for final.
func closedPlainly(t *testing.T, g *harness.Gateway, user string, within time.Duration) time.Duration {
	t.Helper()
	r := rawClient(t, g, g.Bootstrap, user)
	began := time.Now()
	_, err := r.Write(frame(metadata(), 1))
	must(t, err)
	must(t, r.SetReadDeadline(time.Now().Add(patience)))
	if _, _, err := r.Receive(); err == nil || err.Error() != "EOF" {
		t.Errorf("%s got %v, not a plain close", user, err)
	}
	took := time.Since(began)
	if took > within {
		t.Errorf("%s was closed after %s, not within %s", user, took, within)
	}
	return took
}

// retryable checks that a Java client saw no error that it takes for final.
func retryable(t *testing.T, r harness.JavaResult) {
	t.Helper()
	if len(r.Fatal) > 0 {
		t.Errorf("java took something for final: %v; all: %v", r.Fatal, r.Errors)
	}
}
