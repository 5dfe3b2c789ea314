package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// The broker is this program too.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == asBroker {
		main()
		return
	}
	goleak.VerifyTestMain(m)
}

// A run in small measures every case on both sides, so that it works when it is wanted.
func TestABenchOfEverythingInSmall(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), settings{repetitions: 1, scale: 0.01}, &out); err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%s", &out)
	for _, c := range cases() {
		if !strings.Contains(out.String(), c.name) {
			t.Errorf("the table has no line for %q", c.name)
		}
	}
	if n := strings.Count(out.String(), "allocations/frame"); n != len(cases()) {
		t.Errorf("the table has %d lines of allocations, want %d", n, len(cases()))
	}
	for _, wrong := range []string{"NaN", "Inf"} {
		if strings.Contains(out.String(), wrong) {
			t.Errorf("the table has a figure that is %s", wrong)
		}
	}
}

func TestMediansAndRatiosAreTakenWithinRepetitions(t *testing.T) {
	var r results
	second := []time.Duration{time.Second}
	// The machine was slow in the second repetition, on both sides.
	for i, slow := range []time.Duration{1, 10, 1} {
		r.add("case", "direct", figures{wall: slow * time.Second, latencies: second, bytes: 8e6, requests: 1})
		r.add("case", "gateway", figures{wall: slow * 2 * time.Second, latencies: second, bytes: 8e6, requests: 1, cpu: time.Duration(i+1) * 8 * time.Millisecond})
	}
	var out bytes.Buffer
	if err := r.print(&out); err != nil {
		t.Fatal(err)
	}
	got := map[string][]string{}
	for line := range strings.Lines(out.String()) {
		name, figures, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "case  "), "  ")
		if strings.TrimSpace(name) == "" {
			name, figures, _ = strings.Cut(strings.TrimSpace(figures), "  ")
		}
		got[name] = strings.Fields(figures)
	}
	for name, want := range map[string]string{"MB/s": "8.00 4.00 0.50", "gateway CPU s/GB": "2.00", "p99 µs": "1000000 1000000 1.00"} {
		if have := strings.Join(got[name], " "); have != want {
			t.Errorf("%s: %q, want %q, in\n%s", name, have, want, &out)
		}
	}
}

// The other measurement, in small.
func TestRenewalsAreMeasuredInSmall(t *testing.T) {
	var out bytes.Buffer
	if err := runRenewals(t.Context(), settings{legs: 16, life: 11 * time.Second, kinds: []string{"swap"}}, &out); err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%s", &out)
	for _, want := range []string{"swap, 16", "renewals: "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("there is no %q", want)
		}
	}
}
