//go:build integration

package harness

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TelemetrySink gives all nodes of a cluster the plugin without which brokers offer no
// client metrics (KIP-714): java/broker, which logs each push that it gets.
func (s *Site) TelemetrySink(cfg ClusterConfig) (ClusterConfig, error) {
	jars, err := Jars(ClientVersion)
	if err != nil {
		return cfg, err
	}
	cfg.ClassPath = filepath.Join(s.Dir, "broker-classes")
	source := filepath.Join(s.Root, "integration", "java", "broker", "TelemetrySink.java")
	_, err = run(command{Name: "javac", Args: []string{
		"javac", "-nowarn", "--release", "17", "-d", cfg.ClassPath, "-cp", jars + "/*", source,
	}})
	properties := map[string]string{"metric.reporters": "TelemetrySink"}
	for k, v := range cfg.Properties {
		properties[k] = v
	}
	cfg.Properties = properties
	return cfg, err
}

// Push is one that a broker got from a client.
type Push struct {
	Principal, Client, Instance string
	Terminating                 bool
	Bytes                       int
}

// Pushes are those that the node has got, in their order.
func (n *Node) Pushes() ([]Push, error) {
	log, err := os.ReadFile(n.Log())
	if err != nil {
		return nil, err
	}
	var out []Push
	for line := range strings.Lines(string(log)) {
		var p Push
		if _, err := fmt.Sscanf(line, "telemetry: principal=%s client=%s instance=%s terminating=%t bytes=%d", &p.Principal, &p.Client, &p.Instance, &p.Terminating, &p.Bytes); err == nil {
			out = append(out, p)
		}
	}
	return out, nil
}

// Subscribe has every client push all its metrics at this interval, in milliseconds; 0
// ends it.
func (a *Admin) Subscribe(ctx context.Context, name string, interval int) error {
	op := kmsg.IncrementalAlterConfigOpSet
	if interval == 0 {
		op = kmsg.IncrementalAlterConfigOpDelete
	}
	all, every := "*", fmt.Sprint(interval)
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.Resources = []kmsg.IncrementalAlterConfigsRequestResource{{
		ResourceType: kmsg.ConfigResourceTypeClientMetrics, ResourceName: name,
		Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{
			{Name: "metrics", Op: op, Value: &all}, {Name: "interval.ms", Op: op, Value: &every},
		},
	}}
	resp, err := req.RequestWith(ctx, a.Kafka)
	if err != nil {
		return err
	}
	for _, r := range resp.Resources {
		if err := kerr.ErrorForCode(r.ErrorCode); err != nil {
			return fmt.Errorf("subscription %s: %w: %s", name, err, deref(r.ErrorMessage))
		}
	}
	return nil
}
