package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// results are the figures of every repetition, by case and side; a case's sides have as
// many each.
type results struct {
	order []string // of cases
	by    map[string]map[string][]figures
}

func (r *results) add(name, side string, f figures) {
	if r.by == nil {
		r.by = map[string]map[string][]figures{}
	}
	if r.by[name] == nil {
		r.by[name] = map[string][]figures{}
		r.order = append(r.order, name)
	}
	r.by[name][side] = append(r.by[name][side], f)
}

// row is a figure that is printed. What only the gateway has has no ratio.
type row struct {
	name string
	only bool // of the gateway
	of   func(figures) float64
}

func rows() []row {
	quantile := func(q float64) func(figures) float64 {
		return func(f figures) float64 {
			i := min(len(f.latencies)-1, int(q*float64(len(f.latencies))))
			return float64(f.latencies[i]) / float64(time.Microsecond)
		}
	}
	return []row{
		{"MB/s", false, func(f figures) float64 { return float64(f.bytes) / 1e6 / f.wall.Seconds() }},
		{"requests/s", false, func(f figures) float64 { return float64(f.requests) / f.wall.Seconds() }},
		{"p50 µs", false, quantile(0.5)},
		{"p99 µs", false, quantile(0.99)},
		{"gateway CPU s/GB", true, func(f figures) float64 { return f.cpu.Seconds() / (float64(f.bytes) / 1e9) }},
		{"gateway CPU µs/request", true, func(f figures) float64 { return float64(f.cpu.Microseconds()) / float64(f.requests) }},
		{"allocations/frame", true, func(f figures) float64 { return f.allocations / float64(2*f.requests) }},
	}
}

// print writes the table: medians of the repetitions, and the median of the ratios, each
// within one repetition, so that what the machine did meanwhile counts on both sides.
func (r *results) print(out io.Writer) error {
	var b strings.Builder
	line := func(name, figure, direct, through, ratio string) {
		b.WriteString(strings.TrimRight(fmt.Sprintf("%-22s  %-20s  %10s  %8s  %5s", name, figure, direct, through, ratio), " ") + "\n")
	}
	line("case", "figure", "direct TLS", "gateway", "ratio")
	for _, name := range r.order {
		title := name
		for _, row := range rows() {
			direct, through := valuesOf(r.by[name]["direct"], row.of), valuesOf(r.by[name]["gateway"], row.of)
			before, ratio := "", ""
			if !row.only {
				ratios := make([]float64, len(through))
				for i := range ratios {
					ratios[i] = through[i] / direct[i]
				}
				before, ratio = short(median(direct)), fmt.Sprintf("%.2f", median(ratios))
			}
			line(title, row.name, before, short(median(through)), ratio)
			title = ""
		}
	}
	b.WriteString(note)
	_, err := io.WriteString(out, b.String())
	return err
}

const note = `
Medians over the repetitions, which ran in turns; ratios are gateway to direct within each.
Allocations are those of the whole process: crypto/tls makes one for each TLS record of at
most 16 KiB that it reads. What the gateway's own code makes is own-allocs/frame of its
benchmarks.
`

func valuesOf(all []figures, of func(figures) float64) []float64 {
	out := make([]float64, len(all))
	for i := range all {
		out[i] = of(all[i])
	}
	return out
}

func median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	v = slices.Sorted(slices.Values(v))
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// short has three digits that count.
func short(v float64) string {
	switch {
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}
