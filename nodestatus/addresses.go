package nodestatus

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path"
	"strconv"
	"strings"
)

// Address is where a broker listens. Host has no brackets, also where it is an
// IPv6 literal: so it stands in Kafka's protocol.
type Address struct {
	Host string
	Port int32
}

// String is the form for net.Dial and for people: IPv6 literals in brackets.
func (a Address) String() string {
	return net.JoinHostPort(a.Host, strconv.Itoa(int(a.Port)))
}

// hostMost is the longest host name that DNS allows, in bytes.
const hostMost = 255

// ParseAddress reads "host:port" of a configuration: a name, an IPv4 literal, or
// an IPv6 literal in brackets, with or without a zone.
func ParseAddress(s string) (Address, error) {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		if _, bare := netip.ParseAddr(s); bare == nil {
			return Address{}, fmt.Errorf("address %q has no port: write %s", s, net.JoinHostPort(s, "9092"))
		}
		if strings.Count(s, ":") > 1 && !strings.HasPrefix(s, "[") {
			return Address{}, fmt.Errorf("address %q: put the IPv6 literal in brackets, as in [::1]:9092", s)
		}
		return Address{}, fmt.Errorf("address %q is not host:port: %w", s, err)
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return Address{}, fmt.Errorf("address %q: the port must be a number from 1 to 65535", s)
	}
	a := Address{Host: host, Port: int32(n)}
	if err := a.check(); err != nil {
		return Address{}, fmt.Errorf("address %q: %w", s, err)
	}
	if strings.HasPrefix(s, "[") && !strings.Contains(host, ":") {
		return Address{}, fmt.Errorf("address %q: brackets are for IPv6 literals", s)
	}
	return a, nil
}

// ParseAddresses reads several, and reports every wrong one.
func ParseAddresses(list []string) ([]Address, error) {
	var all []Address
	var errs []error
	for _, s := range list {
		a, err := ParseAddress(s)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		all = append(all, a)
	}
	return all, errors.Join(errs...)
}

// check tells what is wrong with an address, whoever gave it.
func (a Address) check() error {
	switch {
	case a.Host == "":
		return errors.New("the host is empty")
	case len(a.Host) > hostMost:
		return fmt.Errorf("the host has %d bytes, %d is the most", len(a.Host), hostMost)
	case a.Port < 1 || a.Port > 65535:
		return fmt.Errorf("the port %d is not from 1 to 65535", a.Port)
	}
	name := a.Host
	if strings.Contains(a.Host, ":") {
		ip, err := netip.ParseAddr(a.Host)
		if err != nil {
			return fmt.Errorf("the host %q has colons and is no IPv6 literal", a.Host)
		}
		name = ip.Zone()
	}
	for _, c := range name {
		ok := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.'
		if !ok {
			return fmt.Errorf("the host %q has the character %q", a.Host, c)
		}
	}
	return nil
}

// allowed decides which addresses a broker may advertise.
type allowed struct {
	networks []netip.Prefix
	patterns []string
}

// parseAllowed reads networks ("10.0.0.0/8", "fd00::/8", a single address) and
// name patterns ("broker-1.kafka.internal", "b*.kafka.internal": a star stands for
// characters of one label). It reports every wrong entry.
func parseAllowed(list []string) (allowed, error) {
	var a allowed
	var errs []error
	for _, s := range list {
		literal := strings.TrimSuffix(strings.TrimPrefix(s, "["), "]")
		if p, err := netip.ParsePrefix(s); err == nil {
			if p.Addr().Is4In6() {
				errs = append(errs, fmt.Errorf("network %q: write it as an IPv4 network", s))
				continue
			}
			a.networks = append(a.networks, p.Masked())
		} else if ip, err := netip.ParseAddr(literal); err == nil {
			ip = ip.WithZone("").Unmap()
			a.networks = append(a.networks, netip.PrefixFrom(ip, ip.BitLen()))
		} else if strings.Contains(s, "/") {
			errs = append(errs, fmt.Errorf("network %q: %w", s, err))
		} else if err := (Address{Host: strings.ReplaceAll(s, "*", "x"), Port: 1}).check(); err != nil {
			errs = append(errs, fmt.Errorf("%q is neither a network nor a name pattern: %w", s, err))
		} else {
			a.patterns = append(a.patterns, labels(s))
		}
	}
	return a, errors.Join(errs...)
}

// labels makes path.Match work by DNS labels: its star stops at slashes.
func labels(name string) string {
	return strings.ReplaceAll(strings.TrimSuffix(strings.ToLower(name), "."), ".", "/")
}

// refuse tells why an address must not be dialled; empty: it may.
func (a allowed) refuse(addr Address) string {
	if err := addr.check(); err != nil {
		return err.Error()
	}
	if len(a.networks) == 0 && len(a.patterns) == 0 {
		return ""
	}
	if ip, err := netip.ParseAddr(addr.Host); err == nil {
		ip = ip.WithZone("").Unmap()
		for _, n := range a.networks {
			if n.Contains(ip) {
				return ""
			}
		}
		return fmt.Sprintf("the address %s is in none of the networks of kafka.addresses", addr.Host)
	}
	// A name is not resolved here: what it resolves to may be different when it is
	// dialled. So a name needs a pattern.
	for _, p := range a.patterns {
		if ok, err := path.Match(p, labels(addr.Host)); ok && err == nil {
			return ""
		}
	}
	return fmt.Sprintf("the name %s matches no name pattern of kafka.addresses", addr.Host)
}
