package main

import (
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap/zapcore"
	"go.yaml.in/yaml/v3"

	"doorkeeper/connections"
)

// Duration is a time span of zero or more, written as 10s, 5m or 24h.
type Duration time.Duration

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("%s is not a duration; write a number with its unit, such as 500ms, 10s, 5m or 24h", quote(string(text)))
	}
	if v < 0 {
		return fmt.Errorf("%s is negative; write a duration such as 10s", quote(string(text)))
	}
	*d = Duration(v)
	return nil
}

// span is the duration as the rest of the program takes it.
func (d Duration) span() time.Duration { return time.Duration(d) }

// String shows the duration as Go writes it.
func (d Duration) String() string { return time.Duration(d).String() }

// Size is a number of bytes, written as 4096, 64KiB, 100MiB or 1GiB.
type Size int64

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Size) UnmarshalText(text []byte) error {
	t := string(text)
	unit, digits := int64(1), t
	for _, u := range []struct {
		suffix string
		bytes  int64
	}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}} {
		if rest, ok := strings.CutSuffix(t, u.suffix); ok {
			unit, digits = u.bytes, strings.TrimSpace(rest)
			break
		}
	}
	n, err := strconv.ParseUint(digits, 10, 63)
	if err != nil || int64(n) > math.MaxInt64/unit {
		return fmt.Errorf("%s is not a size; write bytes, or a whole number with KiB, MiB or GiB, such as 100MiB", quote(t))
	}
	*s = Size(int64(n) * unit)
	return nil
}

// maxNodes bounds a NodeSet: each id costs a listener.
const maxNodes = 1000

// NodeSet is broker ids in ascending order, each once. It is written as "1-3",
// "1-3,7" or a list of numbers.
type NodeSet []int32

// parseNode implements nodeParser.
func (s *NodeSet) parseNode(n *yaml.Node) error {
	switch {
	case n.Kind == yaml.ScalarNode:
		return s.parse(n.Value)
	case n.Kind == yaml.SequenceNode:
		parts := make([]string, 0, len(n.Content))
		for _, e := range n.Content {
			if e.Kind != yaml.ScalarNode {
				return errors.New("has an entry that is no number; write node ids such as 1-3 or [1, 2, 3]")
			}
			parts = append(parts, e.Value)
		}
		return s.parse(strings.Join(parts, ","))
	}
	return fmt.Errorf("is %s; write node ids such as 1-3 or 1-3,7", kindName(n))
}

func (s *NodeSet) parse(text string) error {
	var ids []int32
	if strings.TrimSpace(text) == "" {
		*s = nil
		return nil
	}
	for part := range strings.SplitSeq(text, ",") {
		low, high, isRange := strings.Cut(part, "-")
		first, err := parseNodeID(low)
		last := first
		if err == nil && isRange {
			last, err = parseNodeID(high)
		}
		if err != nil {
			return fmt.Errorf("%s is not a set of node ids; write whole numbers and ranges, such as 1-3 or 1-3,7", quote(text))
		}
		if last < first {
			return fmt.Errorf("%s runs backwards; write %d-%d", quote(strings.TrimSpace(part)), last, first)
		}
		if int64(last)-int64(first)+int64(len(ids)) >= maxNodes {
			return fmt.Errorf("%s names more than %d nodes; each costs a listener, and those that are left out join when they are seen", quote(text), maxNodes)
		}
		for i := range last - first + 1 { // no overflow: at most maxNodes
			ids = append(ids, first+i)
		}
	}
	slices.Sort(ids)
	for i := 1; i < len(ids); i++ {
		if ids[i] == ids[i-1] {
			return fmt.Errorf("%s names node %d twice; two brokers would share an address", quote(text), ids[i])
		}
	}
	*s = ids
	return nil
}

func parseNodeID(text string) (int32, error) {
	n, err := strconv.ParseUint(strings.TrimSpace(text), 10, 31)
	return int32(n), err
}

// Address is a host and a port, written as host:port or [IPv6]:port. An empty
// host means every address of this machine; only listeners may have it.
type Address struct {
	Host string
	Port int
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (a *Address) UnmarshalText(text []byte) error {
	t := string(text)
	if ip, err := netip.ParseAddr(t); err == nil && ip.Is6() {
		return fmt.Errorf("%s is ambiguous or lacks a port; write an IPv6 address in brackets, such as [::1]:9092", quote(t))
	}
	host, portText, err := net.SplitHostPort(t)
	if err != nil {
		return fmt.Errorf("%s is not an address; write host:port, or [IPv6]:port", quote(t))
	}
	port, err := strconv.ParseUint(portText, 10, 32)
	if err != nil || port < 1 || port > 65535 {
		return fmt.Errorf("%s has no usable port; write a number from 1 to 65535 after the last colon", quote(t))
	}
	if host != "" {
		if err := checkHost(host); err != nil {
			return err
		}
	}
	*a = Address{Host: host, Port: int(port)}
	return nil
}

// String shows the address as net.Dial takes it.
func (a Address) String() string { return net.JoinHostPort(a.Host, strconv.Itoa(a.Port)) }

// anyHost tells whether a listener there answers on every address of the machine.
func (a Address) anyHost() bool {
	if a.Host == "" {
		return true
	}
	ip, err := netip.ParseAddr(a.Host)
	return err == nil && ip.IsUnspecified()
}

// overlaps tells whether two listeners cannot both be bound.
func (a Address) overlaps(b Address) bool {
	return a.Port == b.Port && (a.anyHost() || b.anyHost() || strings.EqualFold(a.Host, b.Host))
}

// Host is a name or an IP address without a port; IPv6 with or without brackets.
type Host string

// UnmarshalText implements encoding.TextUnmarshaler.
func (h *Host) UnmarshalText(text []byte) error {
	t := string(text)
	if inner, ok := strings.CutPrefix(t, "["); ok {
		if inner, ok = strings.CutSuffix(inner, "]"); ok {
			if ip, err := netip.ParseAddr(inner); err != nil || !ip.Is6() {
				return fmt.Errorf("%s is not an IPv6 address in brackets", quote(t))
			}
			t = inner
		}
	}
	if _, _, err := net.SplitHostPort(t); err == nil {
		return fmt.Errorf("%s has a port; write the host alone", quote(t))
	}
	if err := checkHost(t); err != nil {
		return err
	}
	if ip, err := netip.ParseAddr(t); err == nil && ip.IsUnspecified() {
		return fmt.Errorf("%s means every address and cannot be connected to; write the name that clients use", quote(t))
	}
	*h = Host(t)
	return nil
}

// checkHost accepts IP addresses and what DNS, container and machine names
// consist of.
func checkHost(h string) error {
	if _, err := netip.ParseAddr(h); err == nil {
		return nil
	}
	if h == "" || len(h) > 253 || strings.Trim(h, ".") == "" {
		return fmt.Errorf("%s is not a host name; write 1 to 253 letters, digits, dots and hyphens, or an IP address", quote(h))
	}
	for _, r := range h {
		if !isNameRune(r) {
			return fmt.Errorf("%s has the character %s, which host names cannot have; write letters, digits, dots and hyphens, or an IP address", quote(h), quote(string(r)))
		}
	}
	return nil
}

// isNameRune tells what names that others have to parse may consist of.
func isNameRune(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '.' || r == '-' || r == '_'
}

// AdvertiseMode is how brokers are told apart.
type AdvertiseMode string

// The modes.
const (
	modePort AdvertiseMode = "port"
	modeSNI  AdvertiseMode = "sni"
)

// UnmarshalText implements encoding.TextUnmarshaler.
func (m *AdvertiseMode) UnmarshalText(text []byte) error { return choose(m, text, modePort, modeSNI) }

// From is the part of a certificate that names its owner.
type From string

// The parts.
const (
	fromSubject    From = "subject"
	fromCommonName From = "common_name"
	fromSANURI     From = "san_uri"
	fromSANDNS     From = "san_dns"
	fromSANEmail   From = "san_email"
)

// UnmarshalText implements encoding.TextUnmarshaler.
func (f *From) UnmarshalText(text []byte) error {
	return choose(f, text, fromSubject, fromCommonName, fromSANURI, fromSANDNS, fromSANEmail)
}

// Mechanism is a SCRAM mechanism.
type Mechanism string

// The mechanisms that Kafka has.
const (
	scramSHA256 Mechanism = "SCRAM-SHA-256"
	scramSHA512 Mechanism = "SCRAM-SHA-512"
)

// UnmarshalText implements encoding.TextUnmarshaler.
func (m *Mechanism) UnmarshalText(text []byte) error {
	return choose(m, text, scramSHA256, scramSHA512)
}

// Renewal is how a broker leg is carried over its session end.
type Renewal string

// The ways.
const (
	renewalAuto           Renewal = "auto"
	renewalReauthenticate Renewal = "reauthenticate"
	renewalSwap           Renewal = "swap"
)

// UnmarshalText implements encoding.TextUnmarshaler.
func (r *Renewal) UnmarshalText(text []byte) error {
	return choose(r, text, renewalAuto, renewalReauthenticate, renewalSwap)
}

func (r Renewal) policy() connections.RenewalPolicy {
	switch r {
	case renewalReauthenticate:
		return connections.RenewReauthenticate
	case renewalSwap:
		return connections.RenewSwap
	default:
		return connections.RenewAuto
	}
}

// Format is the form of log lines.
type Format string

// The forms.
const (
	formatConsole Format = "console"
	formatJSON    Format = "json"
)

// UnmarshalText implements encoding.TextUnmarshaler.
func (f *Format) UnmarshalText(text []byte) error { return choose(f, text, formatConsole, formatJSON) }

// Level is the least severity that is logged.
type Level zapcore.Level

// UnmarshalText implements encoding.TextUnmarshaler.
func (l *Level) UnmarshalText(text []byte) error {
	var name string
	if err := choose(&name, text, "debug", "info", "warn", "error"); err != nil {
		return err
	}
	level, err := zapcore.ParseLevel(name)
	*l = Level(level)
	return err
}

// choose sets to when text is one of the choices.
func choose[T ~string](to *T, text []byte, choices ...T) error {
	if slices.Contains(choices, T(text)) {
		*to = T(text)
		return nil
	}
	names := make([]string, len(choices))
	for i, c := range choices {
		names[i] = string(c)
	}
	return fmt.Errorf("%s is not known; write %s", quote(string(text)), oneOf(names))
}

// oneOf joins names as "a, b or c".
func oneOf(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:len(names)-1], ", ") + " or " + names[len(names)-1]
}

// Later is a key that is known and has no meaning yet. It remembers that it was
// given, whatever the value.
type Later bool

// parseNode implements nodeParser.
func (l *Later) parseNode(*yaml.Node) error {
	*l = true
	return nil
}
