package main

import (
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// validate checks what must hold within and between the keys. It does not touch
// the disk. Keys that could not be read have their problem already and get none
// that only follows from it.
func validate(c *Config, r *report) {
	validateLater(c, r)
	validateListen(c, r)
	validateIdentity(c, r)
	validateKafka(c, r)
	validateAddresses(c, r)
	validateAdmin(c, r)
	validateInstance(c, r)
	validateBounds(c, r)
}

// validateLater refuses values of known keys that ask for what is still to come.
func validateLater(c *Config, r *report) {
	const text = "not supported by this version; "
	if c.Listen.Advertise.Mode == modeSNI {
		r.addOnce("listen.advertise.mode", text+"write port, and set host, base_port and nodes")
	}
	if c.Listen.Advertise.SNI != nil {
		r.addOnce("listen.advertise.sni", text+"leave it out: with mode port, node n is at host:(base_port + n)")
	}
	if c.Listen.TLS.ACME {
		r.addOnce("listen.tls.acme", text+"leave it out, and name files in listen.tls.certificate and listen.tls.key")
	}
	if len(c.Listen.TLS.CRL) > 0 {
		r.addOnce("listen.tls.crl", text+"write [] or leave it out")
	}
}

func validateListen(c *Config, r *report) {
	tls := c.Listen.TLS
	if tls.ACME && (tls.Certificate != "" || tls.Key != "") {
		r.add("listen.tls", "has acme together with certificate or key; keep one of the two")
	}
	if !tls.ACME {
		require(r, "listen.tls.certificate", tls.Certificate, "name the PEM file of the gateway's certificate chain")
		require(r, "listen.tls.key", tls.Key, "name the PEM file of the certificate's private key")
	}
	require(r, "listen.tls.client_ca", tls.ClientCA, "name the PEM file of the authorities that issue client certificates")

	a := c.Listen.Advertise
	if a.Mode != modePort {
		return
	}
	require(r, "listen.advertise.host", string(a.Host), "write the name by which clients reach this gateway")
	if !within(r, "listen.advertise.base_port", int64(a.BasePort), 1, 65535) {
		return
	}
	if n := len(a.Nodes); n > 0 && a.BasePort+int(a.Nodes[n-1]) > 65535 {
		r.addOnce("listen.advertise.nodes", "node %d would be at port %d + %d = %d, and 65535 is the last; lower base_port",
			a.Nodes[n-1], a.BasePort, a.Nodes[n-1], int64(a.BasePort)+int64(a.Nodes[n-1]))
	}
}

func validateIdentity(c *Config, r *report) {
	id := c.Identity
	if len(id.Rules) == 0 {
		r.addOnce("identity.rules", "is empty, and no certificate would have an owner; write DEFAULT as the only rule to take names as they are")
	}
	principals(r, "identity.protected", id.Protected)
	principals(r, "identity.allow", id.Allow)
	for i, name := range id.Allow {
		if slices.Contains(id.Protected, name) {
			r.addOnce(fmt.Sprintf("identity.allow[%d]", i), "%s is in identity.protected too; a protected name is never an owner, so remove it from one of the two", quote(name))
		}
	}
}

// principals checks a list of names.
func principals(r *report, list string, names []string) {
	for i, name := range names {
		path := fmt.Sprintf("%s[%d]", list, i)
		switch {
		case r.has(path):
		case name == "":
			r.add(path, "is empty; write a principal's name or leave the entry out")
		case strings.HasPrefix(name, "User:"):
			r.add(path, "%s has the type in front; write the name alone: %s", quote(name), quote(strings.TrimPrefix(name, "User:")))
		case slices.Contains(names[:i], name):
			r.add(path, "%s is there a second time; keep one", quote(name))
		}
	}
}

func validateKafka(c *Config, r *report) {
	k := c.Kafka
	brokers(r, "kafka.bootstrap", k.Bootstrap, "write the brokers' token listener (SASL_SSL), such as [\"broker-1:9094\"]")
	brokers(r, "kafka.control.bootstrap", k.Control.Bootstrap, "write the brokers' control listener, such as [\"broker-1:9093\"]")
	require(r, "kafka.tls.ca", k.TLS.CA, "name the PEM file of the authorities that issue the brokers' certificates; the system's are never used")
	require(r, "kafka.control.tls.ca", k.Control.TLS.CA, "name the PEM file of the authorities that issue the brokers' certificates; the system's are never used")
	pair(r, "kafka.tls", k.TLS)
	pair(r, "kafka.control.tls", k.Control.TLS)

	hasCertificate := k.Control.TLS.Certificate != "" || k.Control.TLS.Key != ""
	switch s := k.Control.SASL; {
	case s == nil && !hasCertificate:
		r.addOnce("kafka.control.tls.certificate", "is not set, and neither is kafka.control.sasl; the gateway needs a login of its own: name its certificate and key, or a SCRAM user")
	case s != nil:
		if hasCertificate {
			r.addOnce("kafka.control.sasl", "is there together with kafka.control.tls.certificate or key; Kafka takes one identity, so keep one of the two")
		}
		require(r, "kafka.control.sasl.mechanism", string(s.Mechanism), "write SCRAM-SHA-512 or SCRAM-SHA-256")
		require(r, "kafka.control.sasl.username", s.Username, "write the name of the gateway's SCRAM user")
		require(r, "kafka.control.sasl.password_file", s.PasswordFile, "name the file that holds the password")
	}
	if k.Control.SASL != nil {
		return // one SASL_SSL listener may serve both logins
	}
	for i, a := range k.Control.Bootstrap {
		if slices.ContainsFunc(k.Bootstrap, a.same) {
			r.addOnce(fmt.Sprintf("kafka.control.bootstrap[%d]", i),
				"%s is in kafka.bootstrap too; tokens log in on a SASL_SSL listener and a certificate on an SSL listener, so these are two ports of a broker", a)
		}
	}
}

func (a Address) same(b Address) bool { return a.Port == b.Port && strings.EqualFold(a.Host, b.Host) }

func brokers(r *report, path string, list []Address, want string) {
	if len(list) == 0 {
		r.addOnce(path, "is not set; %s", want)
	}
	for i, a := range list {
		entry := fmt.Sprintf("%s[%d]", path, i)
		switch {
		case r.has(entry):
		case a.anyHost():
			r.add(entry, "%s names no broker; write host:port", a)
		case slices.ContainsFunc(list[:i], a.same):
			r.add(entry, "%s is there a second time; keep one", a)
		}
	}
}

func pair(r *report, path string, t ClientTLS) {
	if t.Certificate != "" && t.Key == "" {
		r.addOnce(path+".key", "is not set, but %s.certificate is; set both or none", path)
	}
	if t.Key != "" && t.Certificate == "" {
		r.addOnce(path+".certificate", "is not set, but %s.key is; set both or none", path)
	}
}

// validateAddresses finds listeners that cannot stand side by side, and broker
// addresses that are the gateway's own.
func validateAddresses(c *Config, r *report) {
	own, adv := c.Listen.Address, c.Listen.Advertise
	node := func(id int32) Address { return Address{Host: own.Host, Port: adv.BasePort + int(id)} }
	known := adv.Mode == modePort && !r.has("listen.advertise.base_port") && !r.has("listen.advertise.nodes")

	if known {
		for _, id := range adv.Nodes {
			if node(id).Port == own.Port {
				r.addOnce("listen.address", "port %d is also node %d's (base_port %d + %d); move listen.address or base_port", own.Port, id, adv.BasePort, id)
			}
			if node(id).overlaps(c.Admin.Address) {
				r.addOnce("admin.address", "port %d is also node %d's (base_port %d + %d); move admin.address or base_port", c.Admin.Address.Port, id, adv.BasePort, id)
			}
		}
	}
	if own.overlaps(c.Admin.Address) {
		r.addOnce("admin.address", "%s is also listen.address; give each its own port", c.Admin.Address)
	}

	isOwn := func(a Address) bool {
		ports := []int{own.Port}
		if known {
			for _, id := range adv.Nodes {
				ports = append(ports, node(id).Port)
			}
		}
		host := strings.EqualFold(a.Host, own.Host) || strings.EqualFold(a.Host, string(adv.Host)) || own.anyHost() && isLoopback(a.Host)
		return host && slices.Contains(ports, a.Port)
	}
	for _, list := range []struct {
		path      string
		addresses []Address
	}{{"kafka.bootstrap", c.Kafka.Bootstrap}, {"kafka.control.bootstrap", c.Kafka.Control.Bootstrap}} {
		for i, a := range list.addresses {
			if isOwn(a) {
				r.addOnce(fmt.Sprintf("%s[%d]", list.path, i), "%s is this gateway itself (listen.address, listen.advertise); write a broker's address", a)
			}
		}
	}
}

// validateAdmin wants everything or nothing of what makes operators known.
func validateAdmin(c *Config, r *report) {
	a := c.Admin
	if a.TLS.Certificate != "" && a.TLS.Key == "" {
		r.addOnce("admin.tls.key", "is not set, but admin.tls.certificate is; set both or none")
	}
	if a.TLS.Certificate == "" && (a.TLS.Key != "" || a.TLS.ClientCA != "") {
		r.addOnce("admin.tls.certificate", "is not set, but something else of admin.tls is; name the PEM file of the admin address's certificate chain, or leave admin.tls out")
	}
	principals(r, "admin.allow", a.Allow)
	switch {
	case a.TLS.ClientCA != "" && len(a.Allow) == 0:
		r.addOnce("admin.allow", "names nobody, so that nobody could show or expire tokens; write the names of operators' certificates, or leave admin.tls.client_ca out")
	case a.TLS.ClientCA == "" && len(a.Allow) > 0:
		r.addOnce("admin.tls.client_ca", "is not set, but admin.allow is; name the PEM file of the authorities that issue operators' certificates")
	}
}

func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && ip.IsLoopback()
}

// maxInstance keeps doorkeeper-<instance> a short principal name, in bytes.
const maxInstance = 100

func validateInstance(c *Config, r *report) {
	const cure = "write letters, digits, dots, hyphens and underscores, 1 to 100 of them, the same after every restart"
	switch {
	case c.Instance == "":
		r.addOnce("instance", "is empty, and this machine has no host name to take its place; %s", cure)
	case len(c.Instance) > maxInstance || strings.ContainsFunc(c.Instance, func(r rune) bool { return !isNameRune(r) }):
		r.addOnce("instance", "%s cannot be part of a principal's name; %s", quote(c.Instance), cure)
	}
}

// maxCreations keeps brokers, which take some 5 ms of their metadata thread for each
// token, able to do anything else.
const maxCreations = 1000

func validateBounds(c *Config, r *report) {
	const day = 24 * time.Hour
	span(r, "tokens.lifetime", c.Tokens.Lifetime, 10*time.Second, 365*day)
	span(r, "tokens.idle", c.Tokens.Idle, time.Second, 365*day)
	span(r, "limits.admission", c.Limits.Admission, 100*time.Millisecond, 5*time.Minute)
	span(r, "timeouts.dial", c.Timeouts.Dial, 100*time.Millisecond, 2*time.Minute)
	span(r, "timeouts.drain", c.Timeouts.Drain, 100*time.Millisecond, time.Hour)
	span(r, "timeouts.idle", c.Timeouts.Idle, time.Second, day)
	span(r, "timeouts.stall", c.Timeouts.Stall, time.Second, time.Hour)
	for _, l := range []struct {
		path  string
		value int
		most  int64
	}{
		{"limits.sessions", c.Limits.Sessions, 1 << 20},
		{"limits.sessions_per_owner", c.Limits.SessionsPerOwner, 1 << 20},
		{"limits.sessions_per_address", c.Limits.SessionsPerAddress, 1 << 20},
		{"limits.handshakes_per_address", c.Limits.HandshakesPerAddress, 1 << 20},
		{"limits.in_flight", c.Limits.InFlight, 100_000},
		{"limits.tokens", c.Limits.Tokens, 1 << 20},
		{"limits.token_creations", c.Limits.TokenCreations, maxCreations},
	} {
		within(r, l.path, int64(l.value), 1, l.most)
	}
	if f := c.Limits.Frame; f < 1<<10 || f > math.MaxInt32 {
		r.addOnce("limits.frame", "%d bytes is out of bounds; write a size from 1KiB to 2147483647 (Kafka's own last)", f)
	}
}

func require(r *report, path, value, want string) {
	if value == "" {
		r.addOnce(path, "is not set; %s", want)
	}
}

func within(r *report, path string, value, least, most int64) bool {
	ok := least <= value && value <= most
	if !ok {
		r.addOnce(path, "%d is out of bounds; write a number from %d to %d", value, least, most)
	}
	return ok
}

func span(r *report, path string, value Duration, least, most time.Duration) {
	if v := time.Duration(value); v < least || v > most {
		r.addOnce(path, "%s is out of bounds; write a duration from %s to %s", v, least, most)
	}
}
