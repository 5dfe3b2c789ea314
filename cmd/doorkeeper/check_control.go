package main

import (
	"context"
	"fmt"

	"doorkeeper/connections"
	"doorkeeper/nodestatus"
)

// checkControl logs in on every control listener: those of kafka.control.bootstrap, and
// those that the brokers advertise.
func (c *checker) checkControl(ctx context.Context) []checkResult {
	if wait := c.spoilt("kafka.control"); wait != "" {
		return []checkResult{checkWaits(stepControl, "", wait)}
	}
	if c.material.control == nil || c.sheet.has(stepFiles, keyPasswordFile+" ("+c.passwordFile()+")", checkFailed) {
		return []checkResult{checkWaits(stepControl, "", stepFiles+": kafka.control")}
	}
	mechanism := connections.ScramSHA512
	if s := c.config.Kafka.Control.SASL; s != nil {
		var err error
		if mechanism, err = connections.ParseMechanism(string(s.Mechanism)); err != nil {
			return []checkResult{checkBad(stepControl, "kafka.control.sasl.mechanism", checkFailed, err.Error(), "")}
		}
	}
	c.control = c.dialer(connections.Config{TLS: c.material.control, Mechanism: mechanism})
	c.controls, c.controlNodes = c.walk(ctx, stepControl, c.config.Kafka.Control.Bootstrap, c.visitControl)
	results := checkResults(c.controls)
	if len(c.controlNodes.nodes) == 0 {
		results = append(results, checkWaits(stepControl, "the other nodes of the cluster", "a login at one address of kafka.control.bootstrap"))
	}
	return results
}

func (c *checker) passwordFile() string {
	if s := c.config.Kafka.Control.SASL; s != nil {
		return s.PasswordFile
	}
	return ""
}

// visitControl goes to one control listener.
func (c *checker) visitControl(ctx context.Context, h *checkHop) {
	h.result = c.probeControl(ctx, h)
	if h.result.Status != checkOK {
		return
	}
	var credential *connections.Credential
	if s := c.config.Kafka.Control.SASL; s != nil {
		credential = &connections.Credential{Username: s.Username, Password: c.material.password}
	}
	conn, err := c.control.Open(ctx, h.target(), connections.General, credential, checkClient())
	if err != nil {
		fault := checkFault(err)
		h.result = checkBad(stepControl, h.name(), checkFailed, told(fault), c.controlCure(fault))
		return
	}
	h.conn = conn
}

// probeControl looks at the listener before anybody logs in. What it says on success
// holds once the login has worked, too.
func (c *checker) probeControl(ctx context.Context, h *checkHop) checkResult {
	sasl := c.config.Kafka.Control.SASL
	peer, err := c.control.Probe(ctx, h.target(), checkClient())
	if err != nil {
		fault := checkFault(err)
		if checkPlain(ctx, c.control, h, fault) {
			return checkBad(stepControl, h.name(), checkFailed, checkPlainFinding,
				"name a listener of the protocol SSL (with kafka.control.tls.certificate) or SASL_SSL (with kafka.control.sasl): see listener.security.protocol.map of the broker")
		}
		return checkBad(stepControl, h.name(), checkFailed, told(fault), c.controlCure(fault))
	}
	h.peer = peer
	switch {
	case !peer.SASL && !peer.OffersTokens():
		return checkBad(stepControl, h.name(), checkFailed, "it is another gateway: it offers no delegation tokens, as every broker does", "kafka.control.bootstrap must name the brokers' own control listeners")
	case sasl == nil && peer.SASL:
		return checkBad(stepControl, h.name(), checkFailed, fmt.Sprintf("it wants a SASL login (%s), and the gateway has a certificate for it: this is no control listener of the protocol SSL", offered(peer)),
			"name the brokers' SSL listener in kafka.control.bootstrap (are kafka.control.bootstrap and kafka.bootstrap the wrong way round?), or give the gateway a SCRAM user in kafka.control.sasl")
	case sasl == nil && !peer.WantsCertificate:
		return checkBad(stepControl, h.name(), checkFailed, "one-way TLS: it asks for no client certificate, so that the gateway is ANONYMOUS there and may do nothing",
			"set listener.name.<that listener, in small letters>.ssl.client.auth=required in the broker's server.properties, or name another listener in kafka.control.bootstrap")
	case sasl != nil && !peer.SASL:
		return checkBad(stepControl, h.name(), checkFailed, "it takes no SASL login: a listener of the protocol SSL",
			"name a SASL_SSL listener in kafka.control.bootstrap, or give the gateway a certificate (kafka.control.tls.certificate and key) in place of kafka.control.sasl")
	case sasl != nil:
		return checkPassed(stepControl, h.name(), "logged in by %s as %s", sasl.Mechanism, quote(sasl.Username))
	}
	return checkPassed(stepControl, h.name(), "TLS is good both ways: the broker's certificate is for %s, and it asked for the gateway's and took it", quote(h.address.Host))
}

// offered lists what a listener offers, whose own words they are.
func offered(peer *connections.Peer) string {
	if len(peer.Mechanisms) == 0 {
		return "it names no mechanism"
	}
	return "it offers " + quote(fmt.Sprint(peer.Mechanisms))
}

// controlCure is what to change where a control listener cannot be logged in at.
func (c *checker) controlCure(fault *connections.Error) string {
	switch fault.Fault {
	case connections.Unreachable:
		return "is the broker up, does its name resolve here, is this the port of its control listener, and does no firewall stand between? The address is of kafka.control.bootstrap, or what the broker advertises for that listener (advertised.listeners)"
	case connections.Timeout:
		return "the broker hangs, is overloaded, or packets to it are dropped on the way; timeouts.dial is how long a login may take"
	case connections.WrongHost:
		return "the broker's certificate for that listener needs a subject alternative name (DNS or IP; the common name does not count) for the very name that is dialled: have it issued so, or write that name in kafka.control.bootstrap and advertised.listeners"
	case connections.Untrusted:
		return "kafka.control.tls.ca must hold the authority that issued the broker's certificate, and that certificate must be valid now and good for a server"
	case connections.RefusedByPeer:
		return "the broker wants another certificate: kafka.control.tls.certificate must be valid now and of an authority in the listener's ssl.truststore.location"
	case connections.NoMechanism:
		return "kafka.control.sasl.mechanism must be among sasl.enabled.mechanisms of that listener"
	case connections.CredentialRefused:
		return "check kafka.control.sasl: username, the password in password_file, and that the user has that mechanism: kafka-configs.sh --bootstrap-server <broker> --command-config <admin.properties> --alter --add-config 'SCRAM-SHA-512=[password=...]' --entity-type users --entity-name <username>"
	case connections.SelfDetected:
		return "kafka.control.bootstrap must name the brokers' control listeners; look for a name or load balancer that leads back to the gateway"
	case connections.PeerClosed:
		return "name the brokers' control listener (SSL or SASL_SSL) in kafka.control.bootstrap; the broker's own log says why it closed the connection"
	case connections.Hostile, connections.NotTLS:
		return "what answers there is no Kafka broker's TLS listener: see kafka.control.bootstrap"
	}
	return fault.Cure
}

// missingNodes are those that one kind of listener tells of and the other does not.
func missingNodes(want, have []nodestatus.Node) []nodestatus.Node {
	var missing []nodestatus.Node
	for _, n := range want {
		if _, found := (checkCluster{nodes: have}).find(n.ID); !found && !n.Fenced {
			missing = append(missing, n)
		}
	}
	return missing
}
