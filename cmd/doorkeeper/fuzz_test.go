package main

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
)

// FuzzConfig: whatever the file and one variable hold, parsing ends without a
// panic, in messages that fit on their lines; and what passes without a problem
// keeps the bounds that the rest of the program relies on.
func FuzzConfig(f *testing.F) {
	f.Add([]byte(complete), "DOORKEEPER_TOKENS_LIFETIME=1h")
	f.Add([]byte(minimal), "DOORKEEPER_LISTEN_ADVERTISE_NODES=[1, 2]")
	f.Add([]byte("listen: &a {advertise: *a, tls: [*a]}"), "DOORKEEPER_KAFKA_BOOTSTRAP=[[::1]:1]")
	f.Add([]byte("a: &a [*a, *a]\nkafka: {bootstrap: *a}"), "DOORKEEPER_=")
	f.Add([]byte("listen: {advertise: {nodes: 0-4294967296, base_port: -1}}\n---\n"), "DOORKEEPER_LISTEN_TLS_ACME={a: b}")
	f.Add([]byte("<<: {instance: x}\n? {a: b}\n: c\n"), "DOORKEEPER_LIMITS_FRAME=9223372036854775807GiB")
	f.Add([]byte("instance: !!binary aGk=\nadmin: !!str\nlog: {level: ! info}"), "DOORKEEPER_INSTANCE=\x00")
	f.Fuzz(func(t *testing.T, data []byte, env string) {
		c, r := defaults(), newReport()
		parseConfig(c, data, []string{env}, r)
		for _, w := range r.warnings {
			checkLine(t, w)
		}
		for _, p := range r.problems {
			if p.Text == "" {
				t.Errorf("a problem with %q says nothing", p.Path)
			}
			checkLine(t, p.String())
		}
		if len(r.problems) == 0 {
			checkUsable(t, c)
		}
	})
}

func checkLine(t *testing.T, line string) {
	t.Helper()
	if strings.ContainsFunc(line, unicode.IsControl) {
		t.Errorf("a control character gets out: %q", line)
	}
	if len(line) > 2000 {
		t.Errorf("%d bytes in a line", len(line))
	}
}

func checkUsable(t *testing.T, c *Config) {
	t.Helper()
	a := c.Listen.Advertise
	if !slices.IsSorted(a.Nodes) || len(slices.Compact(slices.Clone(a.Nodes))) != len(a.Nodes) || len(a.Nodes) > maxNodes {
		t.Errorf("nodes %v", a.Nodes)
	}
	for _, id := range a.Nodes {
		if port := a.BasePort + int(id); id < 0 || port < 1 || port > 65535 || port == c.Listen.Address.Port {
			t.Errorf("node %d is at port %d", id, port)
		}
	}
	for _, b := range append(slices.Clone(c.Kafka.Bootstrap), c.Kafka.Control.Bootstrap...) {
		var again Address
		if err := again.UnmarshalText([]byte(b.String())); err != nil || again != b {
			t.Errorf("%v does not read back: %v, %v", b, again, err)
		}
	}
	switch l := c.Limits; {
	case len(c.Kafka.Bootstrap) == 0, len(c.Kafka.Control.Bootstrap) == 0, c.Instance == "", len(c.Identity.Rules) == 0,
		c.Listen.TLS.Certificate == "", c.Listen.TLS.Key == "", c.Listen.TLS.ClientCA == "", c.Kafka.TLS.CA == "", c.Kafka.Control.TLS.CA == "":
		t.Errorf("something that is needed is missing: %+v", c)
	case c.Tokens.Lifetime < Duration(10*time.Second), c.Timeouts.Drain <= 0, c.Timeouts.Stall <= 0, c.Timeouts.Dial <= 0, l.Admission <= 0,
		l.InFlight < 1, l.Sessions < 1, l.Tokens < 1, l.TokenCreations < 1, l.Frame < 1<<10, l.Frame > math.MaxInt32:
		t.Errorf("out of bounds: %+v %+v %+v", c.Tokens, c.Timeouts, l)
	case (c.Admin.TLS.Certificate == "") != (c.Admin.TLS.Key == ""), (c.Admin.TLS.ClientCA == "") != (len(c.Admin.Allow) == 0), c.Admin.TLS.ClientCA != "" && !c.Admin.TLS.on():
		t.Errorf("operators by half: %+v", c.Admin)
	case (c.Kafka.Control.SASL == nil) == (c.Kafka.Control.TLS.Certificate == ""):
		t.Errorf("not exactly one login: %+v", c.Kafka.Control)
	}
}
