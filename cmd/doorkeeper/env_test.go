package main

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestEnvironmentNamesAreUnique(t *testing.T) {
	seen := make(map[string]string)
	for _, k := range schema() {
		if other, twice := seen[k.env()]; twice {
			t.Errorf("%s is the name of both %s and %s", k.env(), other, k.path)
		}
		seen[k.env()] = k.path
	}
	for _, want := range []string{
		"DOORKEEPER_LISTEN_ADVERTISE_BASE_PORT", "DOORKEEPER_KAFKA_CONTROL_SASL_PASSWORD_FILE", "DOORKEEPER_TOKENS_LIFETIME",
		"DOORKEEPER_INSTANCE", "DOORKEEPER_LISTEN_TLS_ACME", "DOORKEEPER_TIMEOUTS_STALL",
	} {
		if seen[want] == "" {
			t.Errorf("%s is not known", want)
		}
	}
}

func TestEnvironmentSetsEveryKindOfKey(t *testing.T) {
	c, problems := parsed(t, with(t, ", certificate: gw.crt, key: gw.key", ""),
		"PATH=/bin",
		"DOORKEEPER_TOKENS_LIFETIME=1h",
		"DOORKEEPER_TOKENS_EXPIRE_ON_STOP=true",
		"DOORKEEPER_LIMITS_SESSIONS=12",
		"DOORKEEPER_LIMITS_FRAME=1MiB",
		"DOORKEEPER_KAFKA_RACK=no", // text, whatever YAML makes of it
		"DOORKEEPER_KAFKA_BOOTSTRAP=[\"[::1]:9094\", b2:9094]",
		"DOORKEEPER_IDENTITY_RULES=['RULE:^CN=(.*?),.*$/$1/', DEFAULT]",
		"DOORKEEPER_LISTEN_ADVERTISE_NODES=1-2,5",
		"DOORKEEPER_KAFKA_CONTROL_SASL_MECHANISM=SCRAM-SHA-256",
		"DOORKEEPER_KAFKA_CONTROL_SASL_USERNAME=true",
		"DOORKEEPER_KAFKA_CONTROL_SASL_PASSWORD_FILE=/p=q",
	)
	if problems != nil {
		t.Fatal(problems)
	}
	switch s := c.Kafka.Control.SASL; {
	case time.Duration(c.Tokens.Lifetime) != time.Hour, !c.Tokens.ExpireOnStop, c.Limits.Sessions != 12, c.Limits.Frame != 1<<20,
		c.Kafka.Rack != "no", !slices.Equal(c.Kafka.Bootstrap, []Address{{"::1", 9094}, {"b2", 9094}}),
		len(c.Identity.Rules) != 2, !slices.Equal(c.Listen.Advertise.Nodes, NodeSet{1, 2, 5}),
		s == nil || *s != SASL{scramSHA256, "true", "/p=q"}:
		t.Errorf("%+v", c)
	}
}

func TestNodesFromTheEnvironmentAsAList(t *testing.T) {
	c, problems := parsed(t, minimal, "DOORKEEPER_LISTEN_ADVERTISE_NODES=[2, 1]")
	if problems != nil || !slices.Equal(c.Listen.Advertise.Nodes, NodeSet{1, 2}) {
		t.Errorf("%v %v", c.Listen.Advertise.Nodes, problems)
	}
}

func TestProblemsOfTheEnvironmentNameTheVariable(t *testing.T) {
	_, got := parsed(t, minimal,
		"DOORKEEPER_TOKENS_LIFETIME=soon",
		"DOORKEEPER_LIMITS_SESSIONS=0",
		"DOORKEEPER_KAFKA_BOOTSTRAP=b1:9094",
		"DOORKEEPER_IDENTITY_ALLOW=[a",
		"DOORKEEPER_KAFKA_CONTROL_BOOTSTRAP=[a]",
		"DOORKEEPER_INSTANCE=\xff",
	)
	want := []string{
		`kafka.bootstrap (environment variable DOORKEEPER_KAFKA_BOOTSTRAP): is a single value; write a list, such as ["broker-1:9094", "broker-2:9094"]`,
		`kafka.control.bootstrap[0] (environment variable DOORKEEPER_KAFKA_CONTROL_BOOTSTRAP): "a" is not an address; write host:port, or [IPv6]:port`,
		`identity.allow (environment variable DOORKEEPER_IDENTITY_ALLOW): is not a list in YAML's flow style; write such as ["one", "two"]`,
		`instance (environment variable DOORKEEPER_INSTANCE): is not UTF-8 text`,
		`tokens.lifetime (environment variable DOORKEEPER_TOKENS_LIFETIME): "soon" is not a duration; write a number with its unit, such as 500ms, 10s, 5m or 24h`,
		`limits.sessions (environment variable DOORKEEPER_LIMITS_SESSIONS): 0 is out of bounds; write a number from 1 to 1048576`,
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

func TestEnvironmentHealsTheFile(t *testing.T) {
	c, problems := parsed(t, minimal+"tokens: {lifetime: soon}\n", "DOORKEEPER_TOKENS_LIFETIME=2h")
	if problems != nil || time.Duration(c.Tokens.Lifetime) != 2*time.Hour {
		t.Errorf("%v, %v", c.Tokens.Lifetime, problems)
	}
	// but not its shape
	_, problems = parsed(t, minimal+"tokens: {lifetime: 1h, lifetime: 3h}\n", "DOORKEEPER_TOKENS_LIFETIME=2h")
	if len(problems) != 1 || !strings.Contains(problems[0], "second time") {
		t.Errorf("%v", problems)
	}
}

// TestUnknownVariablesAreWarnings: container platforms inject some, and one may
// hold a secret in the wrong place, so values are never shown.
func TestUnknownVariablesAreWarnings(t *testing.T) {
	r := newReport()
	parseConfig(defaults(), []byte(minimal), []string{
		"DOORKEEPER_PORT=tcp://10.0.0.1:9092", "DOORKEEPER_SERVICE_HOST=10.0.0.1",
		"DOORKEEPER_KAFKA_CONTROL_SASL_PASSWORD=s3cret", "DOORKEEPER_\x1b[2J=x",
	}, r)
	if err := r.err("x"); err != nil {
		t.Fatal(err)
	}
	all := strings.Join(r.warnings, "\n")
	if len(r.warnings) != 4 || !strings.Contains(all, "DOORKEEPER_SERVICE_HOST") || strings.Contains(all, "s3cret") || strings.Contains(all, "\x1b") {
		t.Errorf("%q", r.warnings)
	}
}
