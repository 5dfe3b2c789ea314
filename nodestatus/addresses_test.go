package nodestatus

import (
	"net"
	"strings"
	"testing"
)

// B71: IPv6 literals. The configuration takes brackets, the protocol has none.
func TestParseAddress(t *testing.T) {
	for _, c := range []struct {
		in, host string
		port     int32
		problem  string
	}{
		{"broker-1:9094", "broker-1", 9094, ""},
		{"Broker_1.kafka.internal.:1", "Broker_1.kafka.internal.", 1, ""},
		{"10.0.0.1:65535", "10.0.0.1", 65535, ""},
		{"[::1]:9094", "::1", 9094, ""},
		{"[fe80::1%eth0]:9094", "fe80::1%eth0", 9094, ""},
		{"[::ffff:10.0.0.1]:9094", "::ffff:10.0.0.1", 9094, ""},
		{"::1", "", 0, "write [::1]:9092"},
		{"fe80::1%eth0", "", 0, "write [fe80::1%eth0]:9092"},
		{"10.0.0.1", "", 0, "write 10.0.0.1:9092"},
		{"::1:9094", "", 0, "write [::1:9094]:9092"}, // an address as it stands
		{"fd00::1::2:9094", "", 0, "in brackets"},
		{"[::1]", "", 0, "missing port"},
		{"[::1:9094", "", 0, "missing ']'"},
		{"[broker-1]:9094", "", 0, "brackets are for IPv6"},
		{"[::g]:9094", "", 0, "no IPv6 literal"},
		{"broker-1", "", 0, "missing port"},
		{":9094", "", 0, "host is empty"},
		{"", "", 0, "missing port"},
		{"broker-1:", "", 0, "from 1 to 65535"},
		{"broker-1:0", "", 0, "from 1 to 65535"},
		{"broker-1:65536", "", 0, "from 1 to 65535"},
		{"broker-1:-1", "", 0, "from 1 to 65535"},
		{"broker-1:http", "", 0, "from 1 to 65535"},
		{"SSL://broker-1:9094", "", 0, "brackets"},
		{"bro ker:9094", "", 0, `' '`},
		{"bro\nker:9094", "", 0, `'\n'`},
		{strings.Repeat("a", 256) + ":1", "", 0, "256 bytes"},
	} {
		a, err := ParseAddress(c.in)
		if c.problem != "" {
			if err == nil || !strings.Contains(err.Error(), c.problem) {
				t.Errorf("%q: %v, %v; want a problem with %q", c.in, a, err, c.problem)
			}
			continue
		}
		if err != nil || a.Host != c.host || a.Port != c.port {
			t.Errorf("%q: %+v, %v; want %s and %d", c.in, a, err, c.host, c.port)
			continue
		}
		if again, err := ParseAddress(a.String()); err != nil || again != a {
			t.Errorf("%q printed as %q and read as %+v, %v", c.in, a, again, err)
		}
	}
	if _, err := ParseAddresses([]string{"a:1", "b", "c:0"}); err == nil || !strings.Contains(err.Error(), `"b"`) || !strings.Contains(err.Error(), `"c:0"`) {
		t.Errorf("not every problem is named: %v", err)
	}
}

// S10 (part): what brokers advertise must lie in the allowed networks, or match a
// name pattern.
func TestAllowedAddresses(t *testing.T) {
	list := []string{"10.1.0.0/16", "fd00::/8", "192.0.2.7", "[2001:db8::7]", "b*.kafka.internal", "Exact.example.com", "*.two.*"}
	a, err := parseAllowed(list)
	if err != nil {
		t.Fatal(err)
	}
	for host, ok := range map[string]bool{
		"10.1.2.3": true, "10.2.2.3": false, "::ffff:10.1.2.3": true, "fd12::1": true, "fd12::1%eth0": true, "fe80::1": false,
		"192.0.2.7": true, "192.0.2.8": false, "2001:db8::7": true, "2001:db8::8": false,
		"b1.kafka.internal": true, "B1.Kafka.Internal": true, "b1.kafka.internal.": true, "b.kafka.internal": true,
		"c1.kafka.internal": false, "b1.evil.kafka.internal": false, "b1.kafka.internal.evil.com": false, "kafka.internal": false,
		"exact.example.com": true, "xexact.example.com": false, "x.two.y": true, "x.y.two.z": false,
		"localhost": false, "127.0.0.1": false, "169.254.169.254": false,
	} {
		if why := a.refuse(Address{host, 9094}); (why == "") != ok {
			t.Errorf("%s: %q, want allowed %v", host, why, ok)
		}
	}
	for _, addr := range []Address{
		{"", 9094}, {"b1.kafka.internal", 0}, {"b1.kafka.internal", -1}, {"b1.kafka.internal", 65536}, {"[::1]", 9094},
		{"b1.kafka.internal\n", 9094}, {"b1/kafka.internal", 9094}, {"b*.kafka.internal", 9094}, {"b\u202e1", 9094},
	} {
		if a.refuse(addr) == "" {
			t.Errorf("%q is allowed", addr)
		}
		if (allowed{}).refuse(addr) == "" {
			t.Errorf("%q is allowed where any is", addr)
		}
	}
	if why := (allowed{}).refuse(Address{"anything", 1}); why != "" {
		t.Errorf("an empty list refuses: %s", why)
	}
	for _, bad := range []string{"", "10.0.0.0/33", "a/b", "::ffff:10.0.0.0/104", "b[1].x", "b\\1", "b 1"} {
		if _, err := parseAllowed([]string{"10.0.0.0/8", bad}); err == nil {
			t.Errorf("%q is taken for a network or pattern", bad)
		}
	}
}

func FuzzParseAddress(f *testing.F) {
	for _, s := range []string{"broker-1:9094", "[::1]:9094", "[fe80::1%eth0]:1", "::1", "[a]:1", ":", "a:65536", "[::% ]:1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		a, err := ParseAddress(s)
		if err != nil {
			return
		}
		if again, err := ParseAddress(a.String()); err != nil || again != a {
			t.Fatalf("%q gives %+v, which is read back as %+v, %v", s, a, again, err)
		}
		if _, _, err := net.SplitHostPort(a.String()); err != nil || strings.ContainsAny(a.Host, "[]\n\x00/ ") {
			t.Fatalf("%q gives %+v", s, a)
		}
		if why := (allowed{}).refuse(a); why != "" {
			t.Fatalf("%q is refused: %s", s, why)
		}
	})
}

func FuzzAllowed(f *testing.F) {
	f.Add("10.0.0.0/8", "10.1.2.3")
	f.Add("b*.kafka.internal", "b1.kafka.internal")
	f.Add("*.*", "x.y")
	f.Add("fd00::/8", "fd00::1%x")
	f.Fuzz(func(t *testing.T, entry, host string) {
		a, err := parseAllowed([]string{entry})
		if err != nil {
			return
		}
		if len(a.networks)+len(a.patterns) != 1 {
			t.Fatalf("%q became %+v", entry, a)
		}
		if a.refuse(Address{host, 1}) == "" && (Address{host, 1}).check() != nil {
			t.Fatalf("%q allows the malformed host %q", entry, host)
		}
		if strings.Count(host, ".") != strings.Count(entry, ".") && len(a.patterns) == 1 && !strings.HasSuffix(host, ".") && !strings.HasSuffix(entry, ".") && a.refuse(Address{host, 1}) == "" {
			t.Fatalf("%q matches %q across labels", entry, host)
		}
	})
}
