package main

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// complete is the configuration of the design's section 8, as it can be used now.
const complete = `
listen:
  address: 0.0.0.0:9092
  advertise:
    mode: port
    host: kafka.example.com
    base_port: 9100
    nodes: 1-3
  tls:
    certificate: /etc/doorkeeper/tls.crt
    key: /etc/doorkeeper/tls.key
    client_ca: /etc/doorkeeper/client-ca.pem
    crl: []
identity:
  from: subject
  rules: ['RULE:^CN=([^,]+).*$/$1/', DEFAULT]
  protected: [admin]
  allow: []
kafka:
  bootstrap: ["broker-1:9094"]
  tls: {ca: /etc/doorkeeper/broker-ca.pem}
  control:
    bootstrap: ["broker-1:9093"]
    tls: {ca: /etc/doorkeeper/broker-ca.pem, certificate: /etc/doorkeeper/gateway.crt, key: /etc/doorkeeper/gateway.key}
  rack: ""
  addresses: []
instance: gateway-1
tokens:
  lifetime: 24h
  mechanism: SCRAM-SHA-512
  idle: 1h
  expire_on_stop: false
connections:
  renewal: auto
limits:
  admission: 10s
  sessions: 9000
  sessions_per_owner: 2000
  sessions_per_address: 2000
  handshakes_per_address: 50
  in_flight: 1000
  tokens: 5000
  token_creations: 50
  frame: 100MiB
timeouts: {dial: 5s, drain: 30s, idle: 9m, stall: 2m}
admin:
  address: 127.0.0.1:9644
log:
  level: info
  format: console
`

// minimal is the least that can be used.
const minimal = `
listen:
  advertise: {host: kafka.example.com}
  tls: {certificate: tls.crt, key: tls.key, client_ca: ca.pem}
kafka:
  bootstrap: ["broker-1:9094"]
  tls: {ca: ca.pem}
  control:
    bootstrap: ["broker-1:9093"]
    tls: {ca: ca.pem, certificate: gw.crt, key: gw.key}
instance: gateway-1
`

// parsed parses text and environ and returns the configuration and the problems,
// as lines.
func parsed(t *testing.T, text string, environ ...string) (*Config, []string) {
	t.Helper()
	c, r := defaults(), newReport()
	parseConfig(c, []byte(text), environ, r)
	var lines []string
	if err := r.err("test.yaml"); err != nil {
		var ce *ConfigError
		if !errors.As(err, &ce) {
			t.Fatalf("not a ConfigError: %v", err)
		}
		for _, p := range ce.Problems {
			lines = append(lines, p.String())
		}
	}
	return c, lines
}

// with returns minimal with old replaced by new, which must be there.
func with(t *testing.T, pairs ...string) string {
	t.Helper()
	text := minimal
	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(text, pairs[i]) {
			t.Fatalf("%q is not in the text", pairs[i])
		}
		text = strings.Replace(text, pairs[i], pairs[i+1], 1)
	}
	return text
}

func TestCompleteConfigurationIsRead(t *testing.T) {
	c, problems := parsed(t, complete)
	if problems != nil {
		t.Fatal(problems)
	}
	want := defaults()
	want.Listen.Advertise.Host = "kafka.example.com"
	want.Listen.Advertise.Nodes = NodeSet{1, 2, 3}
	want.Listen.TLS = ListenTLS{
		Certificate: "/etc/doorkeeper/tls.crt", Key: "/etc/doorkeeper/tls.key",
		ClientCA: "/etc/doorkeeper/client-ca.pem", CRL: []string{},
	}
	want.Identity.Rules = []string{"RULE:^CN=([^,]+).*$/$1/", "DEFAULT"}
	want.Identity.Protected = []string{"admin"}
	want.Identity.Allow = []string{}
	want.Kafka = Kafka{
		Bootstrap: []Address{{"broker-1", 9094}},
		TLS:       ClientTLS{CA: "/etc/doorkeeper/broker-ca.pem"},
		Control: Control{
			Bootstrap: []Address{{"broker-1", 9093}},
			TLS: ClientTLS{
				CA:          "/etc/doorkeeper/broker-ca.pem",
				Certificate: "/etc/doorkeeper/gateway.crt", Key: "/etc/doorkeeper/gateway.key",
			},
		},
		Addresses: []string{},
	}
	want.Instance = "gateway-1"
	if !reflect.DeepEqual(c, want) {
		t.Errorf("got  %+v\nwant %+v", c, want)
	}
}

// TestReadmeExampleIsValid: whoever copies it must not meet an error.
func TestReadmeExampleIsValid(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(readme), "```yaml\nlisten:")
	text, _, closed := strings.Cut(rest, "```")
	if !found || !closed {
		t.Fatal("the README has no configuration that begins with listen")
	}
	if _, problems := parsed(t, "listen:"+text); problems != nil {
		t.Errorf("got\n%s", strings.Join(problems, "\n"))
	}
}

func TestMinimalConfigurationTakesDefaults(t *testing.T) {
	c, problems := parsed(t, minimal)
	if problems != nil {
		t.Fatal(problems)
	}
	if c.Listen.Address.String() != "0.0.0.0:9092" || c.Tokens.Mechanism != scramSHA512 ||
		time.Duration(c.Timeouts.Stall) != 2*time.Minute || c.Limits.Frame != 100<<20 || !slices.Equal(c.Identity.Rules, []string{"DEFAULT"}) {
		t.Errorf("%+v", c)
	}
}

func TestScramControlLoginIsRead(t *testing.T) {
	c, problems := parsed(t, with(t, "tls: {ca: ca.pem, certificate: gw.crt, key: gw.key}",
		"tls: {ca: ca.pem}\n    sasl: {mechanism: SCRAM-SHA-256, username: gateway, password_file: /run/secrets/p}",
		// One SASL_SSL listener may serve both logins.
		`"broker-1:9093"`, `"broker-1:9094"`))
	if problems != nil {
		t.Fatal(problems)
	}
	if want := (&SASL{scramSHA256, "gateway", "/run/secrets/p"}); !reflect.DeepEqual(c.Kafka.Control.SASL, want) {
		t.Errorf("got %+v, want %+v", c.Kafka.Control.SASL, want)
	}
}

func TestAnchorsAndBracketsAreRead(t *testing.T) {
	c, problems := parsed(t, with(t, `bootstrap: ["broker-1:9094"]`, `bootstrap: ["[::1]:9094", "[fe80::1%eth0]:9094"]`,
		"tls: {ca: ca.pem}", "tls: {ca: &ca ca.pem}", "tls: {ca: ca.pem, cert", "tls: {ca: *ca, cert", "kafka.example.com", `"[::1]"`))
	if problems != nil {
		t.Fatal(problems)
	}
	if c.Kafka.Control.TLS.CA != "ca.pem" || c.Kafka.Bootstrap[0] != (Address{"::1", 9094}) || c.Kafka.Bootstrap[1].String() != "[fe80::1%eth0]:9094" ||
		c.Listen.Advertise.Host != "::1" {
		t.Errorf("%+v", c.Kafka)
	}
}

// TestBadInput: every row is one mistake, and the message that it must give: the
// key's path, its line, what is wrong and what would be right.
func TestBadInput(t *testing.T) {
	rows := []struct {
		name string
		text string
		want []string
	}{
		{"not YAML", "listen: [", []string{"not YAML: line 1: did not find expected node content"}},
		{"not UTF-8", "instance: \xff", []string{"the file is not UTF-8 text; save it as such"}},
		{"a list", "- listen", []string{"line 1: is a list; write a mapping with the keys listen, identity, kafka, instance, tokens, connections, limits, timeouts, admin, log"}},
		{"two documents", minimal + "---\n{}\n", []string{"the file has more than one YAML document; keep one"}},
		{"misspelt key", with(t, "client_ca", "client_cas"), []string{
			"listen.tls.client_cas (line 4): unknown key; did you mean listen.tls.client_ca?",
			"listen.tls.client_ca: is not set; name the PEM file of the authorities that issue client certificates",
		}},
		{"hyphen for underscore", with(t, "client_ca", "client-ca"), []string{
			"listen.tls.client-ca (line 4): unknown key; did you mean listen.tls.client_ca?",
			"listen.tls.client_ca: is not set; name the PEM file of the authorities that issue client certificates",
		}},
		{"key in the wrong place", minimal + "base_port: 9200\n", []string{
			"base_port (line 12): unknown key; did you mean listen.advertise.base_port?",
		}},
		{"mapping in the wrong place", minimal + "advertise: {}\n", []string{
			"advertise (line 12): unknown key; did you mean listen.advertise?",
		}},
		{"key of nothing here", minimal + "admin: {zookeeper: x}\n", []string{
			"admin.zookeeper (line 12): unknown key; known here: address, tls, allow",
		}},
		{"forging key", minimal + "\"a\\nfake.key: fine\": 1\n", []string{
			`"a\nfake.key: fine" (line 12): unknown key; known here: listen, identity, kafka, instance, tokens, connections, limits, timeouts, admin, log`,
		}},
		{"key twice", minimal + "instance: other\n", []string{"instance (line 12): is there a second time, first on line 11; keep one"}},
		{"key that is a list", minimal + "? [a]\n: b\n", []string{"line 12: has a key that is a list; keys are plain names"}},
		{"merge key", minimal + "admin: {<<: {address: 'x:1'}}\n", []string{"admin (line 12): has a merge key <<, which is not supported; write the keys out"}},
		{"no value", minimal + "admin:\n", []string{"admin (line 12): has no value; write one, or leave the key out for its default"}},
		{"mapping for a value", minimal + "tokens: {lifetime: {h: 1}}\n", []string{"tokens.lifetime (line 12): is a mapping; write one value"}},
		{"value for a mapping", minimal + "tokens: 24h\n", []string{"tokens (line 12): is a single value; write a mapping with the keys lifetime, mechanism, idle, expire_on_stop"}},
		{"value for a list", minimal + "identity: {allow: alice}\n", []string{`identity.allow (line 12): is a single value; write a list, such as ["one", "two"]`}},
		{"list for text", with(t, "instance: gateway-1", "instance: [a]"), []string{"instance (line 11): is a list; write text"}},
		{"truth for text", with(t, "instance: gateway-1", "instance: true"), []string{"instance (line 11): true is a truth value; put it in quotes if it is meant as text"}},
		{"text for truth", minimal + "tokens: {expire_on_stop: maybe}\n", []string{`tokens.expire_on_stop (line 12): "maybe" is not known; write true or false`}},
		{"text for a number", minimal + "limits: {sessions: many}\n", []string{`limits.sessions (line 12): "many" is not a whole number; write digits alone, such as 9100`}},
		{"octal number", minimal + "limits: {sessions: 0100}\n", []string{`limits.sessions (line 12): "0100" is not a whole number; write digits alone, such as 9100`}},
		{"fraction", minimal + "limits: {sessions: 1.5}\n", []string{`limits.sessions (line 12): "1.5" is not a whole number; write digits alone, such as 9100`}},
		{"number beyond 32 bits", minimal + "limits: {sessions: 4294967297}\n", []string{`limits.sessions (line 12): "4294967297" is not a whole number; write digits alone, such as 9100`}},
		{"zero limit", minimal + "limits: {sessions: 0, in_flight: -1}\n", []string{
			"limits.sessions (line 12): 0 is out of bounds; write a number from 1 to 1048576",
			"limits.in_flight (line 12): -1 is out of bounds; write a number from 1 to 100000",
		}},
		{"creations without a bound", minimal + "limits: {token_creations: 0}\n", []string{"limits.token_creations (line 12): 0 is out of bounds; write a number from 1 to 1000"}},
		{"more creations than brokers bear", minimal + "limits: {token_creations: 1001}\n", []string{"limits.token_creations (line 12): 1001 is out of bounds; write a number from 1 to 1000"}},
		{"duration without a unit", minimal + "tokens: {lifetime: 3600}\n", []string{`tokens.lifetime (line 12): "3600" is not a duration; write a number with its unit, such as 500ms, 10s, 5m or 24h`}},
		{"duration in days", minimal + "tokens: {lifetime: 1d}\n", []string{`tokens.lifetime (line 12): "1d" is not a duration; write a number with its unit, such as 500ms, 10s, 5m or 24h`}},
		{"negative duration", minimal + "timeouts: {drain: -1s}\n", []string{`timeouts.drain (line 12): "-1s" is negative; write a duration such as 10s`}},
		{"lifetime too short", minimal + "tokens: {lifetime: 1s}\n", []string{"tokens.lifetime (line 12): 1s is out of bounds; write a duration from 10s to 8760h0m0s"}},
		{"endless admission", minimal + "limits: {admission: 1h}\n", []string{"limits.admission (line 12): 1h0m0s is out of bounds; write a duration from 100ms to 5m0s"}},
		{"no stall", minimal + "timeouts: {stall: 0s}\n", []string{"timeouts.stall (line 12): 0s is out of bounds; write a duration from 1s to 1h0m0s"}},
		{"size in thousands", minimal + "limits: {frame: 100MB}\n", []string{`limits.frame (line 12): "100MB" is not a size; write bytes, or a whole number with KiB, MiB or GiB, such as 100MiB`}},
		{"size beyond all bounds", minimal + "limits: {frame: 9223372036854775807GiB}\n", []string{`limits.frame (line 12): "9223372036854775807GiB" is not a size; write bytes, or a whole number with KiB, MiB or GiB, such as 100MiB`}},
		{"frame beyond Kafka's", minimal + "limits: {frame: 2GiB}\n", []string{"limits.frame (line 12): 2147483648 bytes is out of bounds; write a size from 1KiB to 2147483647 (Kafka's own last)"}},
		{"control character", with(t, "instance: gateway-1", `instance: "a\u001bb"`), []string{`instance (line 11): "a\x1bb" has a control character; leave it out`}},
		{"instance with a blank", with(t, "instance: gateway-1", "instance: gate way"), []string{`instance (line 11): "gate way" cannot be part of a principal's name; write letters, digits, dots, hyphens and underscores, 1 to 100 of them, the same after every restart`}},
		{"empty rules", minimal + "identity: {rules: []}\n", []string{"identity.rules (line 12): is empty, and no certificate would have an owner; write DEFAULT as the only rule to take names as they are"}},
		{"empty names", minimal + "identity: {protected: [a, '', User:b, a], allow: [a]}\n", []string{
			"identity.protected[1] (line 12): is empty; write a principal's name or leave the entry out",
			`identity.protected[2] (line 12): "User:b" has the type in front; write the name alone: "b"`,
			`identity.protected[3] (line 12): "a" is there a second time; keep one`,
			`identity.allow[0] (line 12): "a" is in identity.protected too; a protected name is never an owner, so remove it from one of the two`,
		}},
		{"unknown choice", minimal + "identity: {from: san_ip}\n", []string{`identity.from (line 12): "san_ip" is not known; write subject, common_name, san_uri, san_dns or san_email`}},
		{"unknown mechanism", minimal + "tokens: {mechanism: PLAIN}\n", []string{`tokens.mechanism (line 12): "PLAIN" is not known; write SCRAM-SHA-256 or SCRAM-SHA-512`}},
		{"unknown level", minimal + "log: {level: fatal, format: xml}\n", []string{
			`log.level (line 12): "fatal" is not known; write debug, info, warn or error`,
			`log.format (line 12): "xml" is not known; write console or json`,
		}},

		// What is known and still to come.
		{"sni", with(t, "{host: kafka.example.com}", "{host: kafka.example.com, mode: sni, sni: {pattern: 'b{id}.x', port: 9092}}"), []string{
			"listen.advertise.mode (line 3): not supported by this version; write port, and set host, base_port and nodes",
			"listen.advertise.sni (line 3): not supported by this version; leave it out: with mode port, node n is at host:(base_port + n)",
		}},
		{"acme beside files", with(t, "client_ca: ca.pem}", "client_ca: ca.pem, acme: {email: x}}"), []string{
			"listen.tls.acme (line 4): not supported by this version; leave it out, and name files in listen.tls.certificate and listen.tls.key",
			"listen.tls (line 4): has acme together with certificate or key; keep one of the two",
		}},
		{"crl", with(t, "client_ca: ca.pem}", "client_ca: ca.pem, crl: [a.crl]}"), []string{"listen.tls.crl (line 4): not supported by this version; write [] or leave it out"}},
		{"reauthenticate", minimal + "connections: {renewal: reauthenticate}\n", nil},
		{"swap", minimal + "connections: {renewal: swap}\n", nil},

		// Addresses.
		{"no port", with(t, `"broker-1:9094"`, "broker-1"), []string{`kafka.bootstrap[0] (line 6): "broker-1" is not an address; write host:port, or [IPv6]:port`}},
		{"port 0", with(t, `"broker-1:9094"`, `"broker-1:0"`), []string{`kafka.bootstrap[0] (line 6): "broker-1:0" has no usable port; write a number from 1 to 65535 after the last colon`}},
		{"port over 65535", with(t, `"broker-1:9094"`, `"broker-1:65536"`), []string{`kafka.bootstrap[0] (line 6): "broker-1:65536" has no usable port; write a number from 1 to 65535 after the last colon`}},
		{"IPv6 without brackets", with(t, `"broker-1:9094"`, `"::1:9094"`), []string{`kafka.bootstrap[0] (line 6): "::1:9094" is ambiguous or lacks a port; write an IPv6 address in brackets, such as [::1]:9092`}},
		{"IPv6 read by YAML as a list", with(t, `"broker-1:9094"`, `[::1]:9094`), []string{"not YAML: line 5: did not find expected node content"}},
		{"host with a blank", with(t, `"broker-1:9094"`, `"broker 1:9094"`), []string{`kafka.bootstrap[0] (line 6): "broker 1" has the character " ", which host names cannot have; write letters, digits, dots and hyphens, or an IP address`}},
		{"broker twice", with(t, `"broker-1:9094"`, `"b:9094", "B:9094"`), []string{"kafka.bootstrap[1] (line 6): B:9094 is there a second time; keep one"}},
		{"broker everywhere", with(t, `"broker-1:9094"`, `":9094"`), []string{"kafka.bootstrap[0] (line 6): :9094 names no broker; write host:port"}},
		{"no brokers", with(t, `bootstrap: ["broker-1:9094"]`, `bootstrap: []`), []string{`kafka.bootstrap (line 6): is not set; write the brokers' token listener (SASL_SSL), such as ["broker-1:9094"]`}},
		{"host with a port", with(t, "host: kafka.example.com", "host: kafka.example.com:9092"), []string{
			`listen.advertise.host (line 3): "kafka.example.com:9092" has a port; write the host alone`,
		}},
		{"host of everywhere", with(t, "host: kafka.example.com", "host: 0.0.0.0"), []string{
			`listen.advertise.host (line 3): "0.0.0.0" means every address and cannot be connected to; write the name that clients use`,
		}},
		{"nodes backwards", with(t, "{host:", "{nodes: 3-1, host:"), []string{`listen.advertise.nodes (line 3): "3-1" runs backwards; write 1-3`}},
		{"nodes sharing an address", with(t, "{host:", "{nodes: '1-3,2', host:"), []string{`listen.advertise.nodes (line 3): "1-3,2" names node 2 twice; two brokers would share an address`}},
		{"negative node", with(t, "{host:", "{nodes: '-1', host:"), []string{`listen.advertise.nodes (line 3): "-1" is not a set of node ids; write whole numbers and ranges, such as 1-3 or 1-3,7`}},
		{"endless nodes", with(t, "{host:", "{nodes: 0-2147483647, host:"), []string{`listen.advertise.nodes (line 3): "0-2147483647" names more than 1000 nodes; each costs a listener, and those that are left out join when they are seen`}},
		{"node beyond the last port", with(t, "{host:", "{base_port: 65000, nodes: '500-600', host:"), []string{"listen.advertise.nodes (line 3): node 600 would be at port 65000 + 600 = 65600, and 65535 is the last; lower base_port"}},
		{"base port beyond the last port", with(t, "{host:", "{base_port: 70000, nodes: 1-3, host:"), []string{"listen.advertise.base_port (line 3): 70000 is out of bounds; write a number from 1 to 65535"}},
		{"bootstrap port inside the nodes'", with(t, "{host:", "{base_port: 9090, nodes: 1-3, host:"), []string{"listen.address: port 9092 is also node 2's (base_port 9090 + 2); move listen.address or base_port"}},
		{"admin port inside the nodes'", with(t, "{host:", "{base_port: 9640, nodes: 1-5, host:"), []string{"admin.address: port 9644 is also node 4's (base_port 9640 + 4); move admin.address or base_port"}},
		{"admin on the bootstrap port", minimal + "admin: {address: '127.0.0.1:9092'}\n", []string{"admin.address (line 12): 127.0.0.1:9092 is also listen.address; give each its own port"}},
		{"pointed at its name", with(t, `"broker-1:9094"`, `"kafka.example.com:9092"`), []string{"kafka.bootstrap[0] (line 6): kafka.example.com:9092 is this gateway itself (listen.address, listen.advertise); write a broker's address"}},
		{"pointed at its address", with(t, `"broker-1:9094"`, `"localhost:9092"`), []string{"kafka.bootstrap[0] (line 6): localhost:9092 is this gateway itself (listen.address, listen.advertise); write a broker's address"}},
		{"pointed at its node", with(t, `"broker-1:9093"`, `"127.0.0.1:9101"`, "{host:", "{nodes: 1-3, host:"), []string{"kafka.control.bootstrap[0] (line 9): 127.0.0.1:9101 is this gateway itself (listen.address, listen.advertise); write a broker's address"}},

		// Operators.
		{"an admin address with TLS", minimal + "admin: {address: '0.0.0.0:9644', tls: {certificate: a, key: b}}\n", nil},
		{"operators", minimal + "admin: {tls: {certificate: a, key: b, client_ca: c}, allow: [ops]}\n", nil},
		{"a certificate without key for operators", minimal + "admin: {tls: {certificate: a, client_ca: c}, allow: [ops]}\n", []string{"admin.tls.key: is not set, but admin.tls.certificate is; set both or none"}},
		{"operators without TLS", minimal + "admin: {tls: {client_ca: c}, allow: [ops]}\n", []string{
			"admin.tls.certificate: is not set, but something else of admin.tls is; name the PEM file of the admin address's certificate chain, or leave admin.tls out",
		}},
		{"nobody of an authority", minimal + "admin: {tls: {certificate: a, key: b, client_ca: c}}\n", []string{
			"admin.allow: names nobody, so that nobody could show or expire tokens; write the names of operators' certificates, or leave admin.tls.client_ca out",
		}},
		{"operators of no authority", minimal + "admin: {tls: {certificate: a, key: b}, allow: [ops]}\n", []string{
			"admin.tls.client_ca: is not set, but admin.allow is; name the PEM file of the authorities that issue operators' certificates",
		}},
		{"odd operators", minimal + "admin: {tls: {certificate: a, key: b, client_ca: c}, allow: ['', User:ops, a, a]}\n", []string{
			"admin.allow[0] (line 12): is empty; write a principal's name or leave the entry out",
			`admin.allow[1] (line 12): "User:ops" has the type in front; write the name alone: "ops"`,
			`admin.allow[3] (line 12): "a" is there a second time; keep one`,
		}},

		// The gateway's own login.
		{"one listener for two logins", with(t, `"broker-1:9093"`, `"Broker-1:9094"`), []string{"kafka.control.bootstrap[0] (line 9): Broker-1:9094 is in kafka.bootstrap too; tokens log in on a SASL_SSL listener and a certificate on an SSL listener, so these are two ports of a broker"}},
		{"no login", with(t, ", certificate: gw.crt, key: gw.key", ""), []string{"kafka.control.tls.certificate: is not set, and neither is kafka.control.sasl; the gateway needs a login of its own: name its certificate and key, or a SCRAM user"}},
		{"certificate without key", with(t, ", key: gw.key", ""), []string{"kafka.control.tls.key: is not set, but kafka.control.tls.certificate is; set both or none"}},
		{"key without certificate", with(t, "tls: {ca: ca.pem}", "tls: {ca: ca.pem, key: x}"), []string{"kafka.tls.certificate: is not set, but kafka.tls.key is; set both or none"}},
		{"two logins", with(t, "key: gw.key}", "key: gw.key}\n    sasl: {mechanism: SCRAM-SHA-512, username: u, password_file: p}"), []string{
			"kafka.control.sasl (line 11): is there together with kafka.control.tls.certificate or key; Kafka takes one identity, so keep one of the two",
		}},
		{"half a SCRAM login", with(t, ", certificate: gw.crt, key: gw.key}", "}\n    sasl: {username: u, password: s3cret}"), []string{
			"kafka.control.sasl.password (line 11): unknown key; did you mean kafka.control.sasl.password_file?",
			"kafka.control.sasl.mechanism: is not set; write SCRAM-SHA-512 or SCRAM-SHA-256",
			"kafka.control.sasl.password_file: is not set; name the file that holds the password",
		}},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			_, got := parsed(t, row.text)
			if !slices.Equal(got, row.want) {
				t.Errorf("got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(row.want, "\n  "))
			}
			if strings.Contains(strings.Join(got, ""), "s3cret") {
				t.Error("a message holds a secret")
			}
		})
	}
}

// TestEmptyFileNamesEverythingNeeded: all at once, so that nobody has to try seven
// times.
func TestEmptyFileNamesEverythingNeeded(t *testing.T) {
	for _, text := range []string{"", "# nothing\n", "---\n", "null\n", "{}\n"} {
		_, got := parsed(t, text)
		var paths []string
		for _, line := range got {
			path, _, _ := strings.Cut(line, ": ")
			paths = append(paths, path)
		}
		want := []string{
			"listen.tls.certificate", "listen.tls.key", "listen.tls.client_ca", "listen.advertise.host",
			"kafka.bootstrap", "kafka.control.bootstrap", "kafka.tls.ca", "kafka.control.tls.ca", "kafka.control.tls.certificate",
		}
		if !slices.Equal(paths, want) {
			t.Errorf("%q: got %q, want %q", text, paths, want)
		}
	}
}

func TestConfigErrorIsOneMessageWithABound(t *testing.T) {
	r := newReport()
	r.add("instance", "first")
	if got, want := r.err("a\nb").Error(), "the configuration in \"a\\nb\" has 1 problem:\n  instance: first"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for range 1000 {
		r.add("instance", "again")
	}
	got := r.err("x").Error()
	if lines := strings.Count(got, "\n"); lines != maxProblems+1 || !strings.HasSuffix(got, "\n  and 901 more") {
		t.Errorf("%d lines, ends %q", lines, got[len(got)-30:])
	}
}

func TestConfigurationThatCannotBeRead(t *testing.T) {
	dir := t.TempDir()
	large := filepath.Join(dir, "large.yaml")
	if err := os.WriteFile(large, make([]byte, maxFile+1), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		filepath.Join(dir, "absent.yaml"): "no such file",
		dir:                               "is not a regular file",
		large:                             "is longer than 1048576 bytes",
	} {
		_, r := loadConfig(path, nil)
		err := r.err(path)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "--config") {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestNearestName(t *testing.T) {
	names := []string{"certificate", "key", "client_ca", "crl", "acme", "sessions_per_owner"}
	for name, want := range map[string]string{
		"certficate": "certificate", "Certificate": "certificate", "cert": "certificate", "clientca": "client_ca", "clientCA": "client_ca",
		"keys": "key", "x": "", "sessionsPerOwner": "sessions_per_owner", "session_per_owners": "sessions_per_owner",
		strings.Repeat("certificate", 10): "",
	} {
		if got := nearest(name, names); got != want {
			t.Errorf("nearest(%q) = %q, want %q", name, got, want)
		}
	}
}
