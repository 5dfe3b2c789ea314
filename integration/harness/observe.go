//go:build integration

package harness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Output is everything that the gateway has written so far.
func (g *Gateway) Output() string {
	b, err := os.ReadFile(g.Log)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// Lines are the JSON lines of the output; what is no JSON is left out.
func (g *Gateway) Lines() []map[string]any {
	var out []map[string]any
	for l := range strings.Lines(g.Output()) {
		var m map[string]any
		if json.Unmarshal([]byte(l), &m) == nil && m != nil {
			out = append(out, m)
		}
	}
	return out
}

// AwaitOutput waits until the output contains every one of the texts; ctx ends
// the wait.
func (g *Gateway) AwaitOutput(ctx context.Context, texts ...string) error {
	return until(ctx, func() error {
		out := g.Output()
		for _, t := range texts {
			if !strings.Contains(out, t) {
				return fmt.Errorf("the gateway has not said %q; its last lines:\n%s", t, tail(g.Log, 15))
			}
		}
		return nil
	})
}

// Races is an error with the report if the race detector has found something.
func (g *Gateway) Races() error {
	if _, report, found := strings.Cut(g.Output(), "WARNING: DATA RACE"); found {
		return errors.New("data race in the gateway:" + report[:min(len(report), 6000)])
	}
	return nil
}

// Metrics are the figures of one look at /metrics: series → value.
type Metrics map[string]float64

// Metrics looks at /metrics.
func (g *Gateway) Metrics(ctx context.Context) (Metrics, error) {
	_, body, err := g.Get(ctx, "/metrics")
	if err != nil {
		return nil, err
	}
	m := Metrics{}
	for l := range strings.Lines(body) {
		series, value, ok := strings.Cut(strings.TrimSpace(l), "} ")
		if ok {
			series += "}"
		} else {
			series, value, ok = strings.Cut(strings.TrimSpace(l), " ")
		}
		if !ok || strings.HasPrefix(l, "#") {
			continue
		}
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return nil, fmt.Errorf("metrics line %q: %w", l, err)
		}
		m[series] = v
	}
	return m, nil
}

// Sum adds up the series of that name that have all the labels, each written
// like reason="client". A series that does not exist counts nothing.
func (m Metrics) Sum(name string, labels ...string) float64 {
	sum := 0.0
series:
	for s, v := range m {
		bare, rest, _ := strings.Cut(s, "{")
		if bare != name {
			continue
		}
		for _, l := range labels {
			if !strings.Contains(","+strings.TrimSuffix(rest, "}")+",", ","+l+",") {
				continue series
			}
		}
		sum += v
	}
	return sum
}

// Histogram is a histogram without further labels for people: how many were at most so
// much, and more than the bound before.
func (m Metrics) Histogram(name string) string {
	bounds := map[float64]float64{}
	for s, v := range m {
		if le, ok := strings.CutPrefix(s, name+`_bucket{le="`); ok {
			bound, err := strconv.ParseFloat(strings.TrimSuffix(le, `"}`), 64) // +Inf too
			if err == nil {
				bounds[bound] = v
			}
		}
	}
	out, before := "", 0.0
	for _, bound := range slices.Sorted(maps.Keys(bounds)) {
		if n := bounds[bound] - before; n > 0 {
			out += fmt.Sprintf(" <=%v: %v,", bound, n)
		}
		before = bounds[bound]
	}
	return strings.Trim(out, " ,")
}

// Resources is what the kernel says about the process.
type Resources struct {
	RSS, Threads, Files, Sockets int // RSS in bytes
}

// Resources looks at /proc.
func (p *Process) Resources() (Resources, error) {
	var r Resources
	proc := fmt.Sprintf("/proc/%d", p.PID())
	status, err := os.ReadFile(filepath.Join(proc, "status"))
	if err != nil {
		return r, err
	}
	for l := range strings.Lines(string(status)) {
		f := strings.Fields(l)
		if len(f) < 2 {
			continue
		}
		n, _ := strconv.Atoi(f[1]) // lines of words stay 0
		switch f[0] {
		case "VmRSS:":
			r.RSS = n << 10
		case "Threads:":
			r.Threads = n
		}
	}
	files, err := os.ReadDir(filepath.Join(proc, "fd"))
	for _, f := range files {
		r.Files++
		if to, err := os.Readlink(filepath.Join(proc, "fd", f.Name())); err == nil && strings.HasPrefix(to, "socket:") {
			r.Sockets++
		}
	}
	return r, err
}
