//go:build integration

package harness

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"time"
)

// The ports of every node, on its own host.
const (
	controlPort    = 29093
	tokenPort      = 29094
	internalPort   = 29095
	controllerPort = 29096
	jmxPort        = 29099
)

// properties is a node's server.properties. Four listeners: TOKEN for clients
// with delegation tokens, CONTROL for those with a certificate, INTERNAL and
// CONTROLLER for the brokers themselves. INTERNAL is apart from CONTROL so that
// CONTROL can be advertised at a relay without harm to replication.
func (c *Cluster) properties(n *Node) map[string]string {
	replicas := min(3, c.cfg.Nodes)
	var voters []string
	for _, v := range c.Nodes {
		if v.cfg.BrokerOnly {
			continue
		}
		voters = append(voters, fmt.Sprintf("%d@%s:%d", v.ID, v.Host, controllerPort))
	}
	at := func(port int) string { return fmt.Sprintf("%s:%d", n.Host, port) }
	p := map[string]string{
		"process.roles":            "broker,controller",
		"node.id":                  strconv.Itoa(int(n.ID)),
		"broker.rack":              fmt.Sprintf("rack-%d", 1+(n.ID-1)%3),
		"controller.quorum.voters": strings.Join(voters, ","),
		"log.dirs":                 filepath.Join(n.dir, "data"),

		"listeners":                      "TOKEN://" + at(tokenPort) + ",CONTROL://" + at(controlPort) + ",INTERNAL://" + at(internalPort) + ",CONTROLLER://" + at(controllerPort),
		"advertised.listeners":           "TOKEN://" + n.TokenAddress() + ",CONTROL://" + n.ControlAddress() + ",INTERNAL://" + at(internalPort),
		"listener.security.protocol.map": "TOKEN:SASL_SSL,CONTROL:SSL,INTERNAL:SSL,CONTROLLER:SSL",
		"controller.listener.names":      "CONTROLLER",
		"inter.broker.listener.name":     "INTERNAL",

		"sasl.enabled.mechanisms":                            "SCRAM-SHA-256,SCRAM-SHA-512",
		"listener.name.token.scram-sha-256.sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required;",
		"listener.name.token.scram-sha-512.sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required;",

		"ssl.client.auth":                     "required",
		"listener.name.token.ssl.client.auth": c.cfg.TokenClientAuth,
		"ssl.principal.mapping.rules":         `RULE:^.*CN=([a-zA-Z0-9._-]+).*$/$1/,DEFAULT`,
		"ssl.keystore.type":                   "PEM",
		"ssl.keystore.location":               n.certificate.Files.Combined,
		"ssl.truststore.type":                 "PEM",
		"ssl.truststore.location":             n.certificate.CAFile(),

		"authorizer.class.name":            "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
		"super.users":                      "User:broker;User:admin",
		"allow.everyone.if.no.acl.found":   "false",
		"connections.max.reauth.ms":        millis(c.cfg.Reauth),
		"default.replication.factor":       strconv.Itoa(replicas),
		"min.insync.replicas":              strconv.Itoa(min(2, replicas)),
		"num.partitions":                   "6",
		"auto.create.topics.enable":        "false",
		"group.initial.rebalance.delay.ms": "0",

		// Small internal topics: quick to make, and every node coordinates some.
		"offsets.topic.num.partitions":                     "6",
		"offsets.topic.replication.factor":                 strconv.Itoa(replicas),
		"transaction.state.log.num.partitions":             "6",
		"transaction.state.log.replication.factor":         strconv.Itoa(replicas),
		"transaction.state.log.min.isr":                    "1",
		"share.coordinator.state.topic.num.partitions":     "3",
		"share.coordinator.state.topic.replication.factor": strconv.Itoa(replicas),
		"share.coordinator.state.topic.min.isr":            "1",

		// Small nodes: several share two cores and some gigabytes.
		"num.network.threads":                "2",
		"num.io.threads":                     "4",
		"background.threads":                 "2",
		"log.cleaner.dedupe.buffer.size":     "4194304",
		"log.segment.bytes":                  "67108864",
		"controller.quorum.fetch.timeout.ms": "4000",
	}
	if !c.cfg.NoTokens {
		p["delegation.token.secret.key"] = c.secret
		p["delegation.token.max.lifetime.ms"] = millis(c.cfg.TokenMax)
		p["delegation.token.expiry.time.ms"] = millis(c.cfg.TokenExpiry)
		p["delegation.token.expiry.check.interval.ms"] = millis(c.cfg.TokenCheck)
	}
	if n.Version().Reload4j() { // Kafka 4 has it by default
		p["group.coordinator.rebalance.protocols"] = "classic,consumer"
	}
	if n.cfg.BrokerOnly {
		p["process.roles"] = "broker"
		p["listeners"] = strings.TrimSuffix(p["listeners"], ",CONTROLLER://"+at(controllerPort))
	}
	if n.cfg.AdvertisedController != "" {
		p["advertised.listeners"] += ",CONTROLLER://" + n.cfg.AdvertisedController
	}
	n.addListeners(p)
	maps.Copy(p, c.cfg.Properties)
	maps.Copy(p, n.cfg.Properties)
	return p
}

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

func (c *Cluster) writeFiles(n *Node) error {
	var b strings.Builder
	p := c.properties(n)
	for _, k := range slices.Sorted(maps.Keys(p)) {
		if p[k] == "" { // an override that takes the setting away
			continue
		}
		fmt.Fprintf(&b, "%s=%s\n", k, strings.ReplaceAll(p[k], `\`, `\\`))
	}
	if err := os.WriteFile(filepath.Join(n.dir, "server.properties"), []byte(b.String()), 0o600); err != nil {
		return err
	}
	data := struct{ Root, Authorizer, File string }{c.cfg.LogLevel, c.cfg.AuthorizerLevel, n.AuthorizerLog()}
	if n.Version().Reload4j() {
		return writeTemplate(filepath.Join(n.dir, "log4j.properties"), log4j1, data)
	}
	return writeTemplate(filepath.Join(n.dir, "log4j2.yaml"), log4j2, data)
}

// The authorizer's decisions go to a file of their own: allowed ones are logged
// at DEBUG, denied ones at INFO.
var log4j2 = template.Must(template.New("log4j2.yaml").Parse(`Configuration:
  Appenders:
    Console:
      name: out
      PatternLayout: {pattern: "%d %p %m (%c)%n"}
    File:
      name: authorizer
      fileName: "{{.File}}"
      PatternLayout: {pattern: "%d %p %m (%c)%n"}
  Loggers:
    Root: {level: {{.Root}}, AppenderRef: {ref: out}}
    Logger:
    - {name: kafka.authorizer.logger, level: {{.Authorizer}}, additivity: false, AppenderRef: {ref: authorizer}}
`))

var log4j1 = template.Must(template.New("log4j.properties").Parse(`log4j.rootLogger={{.Root}}, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d %p %m (%c)%n
log4j.appender.authorizer=org.apache.log4j.FileAppender
log4j.appender.authorizer.File={{.File}}
log4j.appender.authorizer.layout=org.apache.log4j.PatternLayout
log4j.appender.authorizer.layout.ConversionPattern=%d %p %m (%c)%n
log4j.logger.kafka.authorizer.logger={{.Authorizer}}, authorizer
log4j.additivity.kafka.authorizer.logger=false
`))
