package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"doorkeeper/connections"
	"doorkeeper/internal/pause"
)

// checkShortest is the least life of a token, and of a session, that the gateway can
// work with.
const checkShortest = 3 * time.Second

// checkTokenLogins logs in with the token on every token listener: those of
// kafka.bootstrap, and those that the brokers advertise.
func (c *checker) checkTokenLogins(ctx context.Context) []checkResult {
	if wait := c.spoilt("kafka.bootstrap", "kafka.tls", "tokens.mechanism"); wait != "" {
		return []checkResult{checkWaits(stepToken, "", wait)}
	}
	if c.material.token == nil {
		return []checkResult{checkWaits(stepToken, "", stepFiles+": kafka.tls")}
	}
	mechanism, err := connections.ParseMechanism(string(c.config.Tokens.Mechanism))
	if err != nil {
		return []checkResult{checkBad(stepToken, "tokens.mechanism", checkFailed, err.Error(), "")}
	}
	c.tokens = c.dialer(connections.Config{TLS: c.material.token, Mechanism: mechanism})
	c.logins, c.tokenNodes = c.walk(ctx, stepToken, c.config.Kafka.Bootstrap, c.visitToken)
	if id := c.controlNodes.id; c.tokenNodes.id != "" && id != "" && id != c.tokenNodes.id {
		for _, h := range c.logins {
			if h.result.Status == checkOK {
				h.result = checkBad(stepToken, h.name(), checkFailed, fmt.Sprintf("it is a broker of the cluster %s, and kafka.control.bootstrap leads to %s", quote(c.tokenNodes.id), quote(id)),
					"let kafka.bootstrap and kafka.control.bootstrap name listeners of the same brokers")
			}
		}
	}
	for _, h := range c.logins {
		if h.refused && c.keyFailed(h.node) {
			h.result.Cure = "mend what " + stepKey + " says of this node"
		}
	}
	results := checkResults(c.logins)
	if len(c.tokenNodes.nodes) == 0 {
		return append(results, checkWaits(stepToken, "the other nodes of the cluster", "a login at one address of kafka.bootstrap"))
	}
	for _, n := range missingNodes(c.controlNodes.nodes, c.tokenNodes.nodes) {
		results = append(results, checkBad(stepToken, fmt.Sprintf("node %d", n.ID), checkFailed, "it is in the cluster, but not among the brokers that the token listener tells of: it has no listener of that name",
			"give every broker a token listener of the same name in listeners and advertised.listeners"))
	}
	return results
}

// visitToken goes to one token listener.
func (c *checker) visitToken(ctx context.Context, h *checkHop) {
	h.result = c.probeToken(ctx, h)
	if h.result.Status != checkOK {
		return
	}
	token := c.login()
	switch {
	case token == nil:
		h.result = checkBad(stepToken, h.name(), checkNotRun, "TLS, host name and mechanism are as they should be; the login waits for "+stepRights, "")
	case token.life < checkShortest:
		h.result = checkBad(stepToken, h.name(), checkNotRun, "TLS, host name and mechanism are as they should be; the login waits for "+stepLifetime+": the token is gone before it could be used", "")
	default:
		h.conn, h.result = c.logIn(ctx, h, token)
	}
}

// logIn tries some times: a broker takes a token a moment after it shows it.
func (c *checker) logIn(ctx context.Context, h *checkHop, token *checkToken) (*connections.KafkaConnection, checkResult) {
	tries := statusLogins
	switch {
	case c.keyFailed(h.node):
		tries = 1
	case c.sheet.has(stepKey, "", checkFailed): // at a bootstrap address, it may be that node
		tries = 3
	}
	for try, wait := 1, statusLoginWait; ; try, wait = try+1, 2*wait {
		conn, err := c.tokens.Open(ctx, h.target(), connections.ScramOverMtls, token.credential(), checkClient())
		if err == nil {
			return conn, checkPassed(stepToken, h.name(), "logged in with the token of User:%s by %s", token.owner, c.config.Tokens.Mechanism)
		}
		fault := checkFault(err)
		switch {
		case fault.Fault == connections.CredentialExpired:
			h.short = true
			return nil, checkBad(stepToken, h.name(), checkNotRun, "the broker took the login; using it waits for "+stepLifetime, "")
		case fault.Fault != connections.CredentialRefused:
			return nil, checkBad(stepToken, h.name(), checkFailed, told(fault), fault.Cure)
		case try >= tries || !pause.For(ctx, wait+rand.N(wait)):
			h.refused = true
			return nil, checkBad(stepToken, h.name(), checkFailed, told(fault), fault.Cure)
		}
	}
}

// probeToken looks at the listener before anybody logs in.
func (c *checker) probeToken(ctx context.Context, h *checkHop) checkResult {
	peer, err := c.tokens.Probe(ctx, h.target(), checkClient())
	if err != nil {
		fault := checkFault(err)
		if checkPlain(ctx, c.tokens, h, fault) {
			return checkBad(stepToken, h.name(), checkFailed, checkPlainFinding, "kafka.bootstrap must name the brokers' token listener of the protocol SASL_SSL: tokens are never sent without TLS")
		}
		return checkBad(stepToken, h.name(), checkFailed, told(fault), tokenCure(fault))
	}
	h.peer = peer
	mechanism := string(c.config.Tokens.Mechanism)
	switch {
	case !peer.SASL && !peer.OffersTokens():
		return checkBad(stepToken, h.name(), checkFailed, "it is another gateway: it takes no SASL login and offers no delegation tokens", "kafka.bootstrap must name the brokers' own token listener (SASL_SSL)")
	case !peer.SASL:
		return checkBad(stepToken, h.name(), checkFailed, "it takes no SASL login: a listener of the protocol SSL, for client certificates",
			"kafka.bootstrap must name the token listener (SASL_SSL); are kafka.bootstrap and kafka.control.bootstrap the wrong way round?")
	case !slices.Contains(peer.Mechanisms, mechanism):
		return checkBad(stepToken, h.name(), checkFailed, fmt.Sprintf("it does not offer %s: %s", mechanism, offered(peer)),
			fmt.Sprintf("delegation tokens log in by SCRAM: add %s to listener.name.<that listener>.sasl.enabled.mechanisms (or sasl.enabled.mechanisms) with its sasl.jaas.config, or change tokens.mechanism", mechanism))
	}
	return checkResult{Step: stepToken, Target: h.name(), Status: checkOK}
}

// tokenCure is the fault's own, and where it has none, or one that asks, a plain one.
func tokenCure(fault *connections.Error) string {
	switch fault.Fault {
	case connections.Unreachable:
		return "is the broker up, does its name resolve here, is this the port of its token listener, and does no firewall stand between? The address is of kafka.bootstrap, or what the broker advertises for that listener (advertised.listeners)"
	case connections.WrongHost:
		return "the broker's certificate for that listener needs a subject alternative name (DNS or IP; the common name does not count) for the very name that is dialled: have it issued so, or write that name in kafka.bootstrap and advertised.listeners"
	}
	return fault.Cure
}

// checkReauthentication logs in anew on each connection that has a login, and uses it.
func (c *checker) checkReauthentication(ctx context.Context) []checkResult {
	var nodes []*checkHop
	for _, h := range c.logins {
		if !h.fenced && h.node >= 0 {
			nodes = append(nodes, h)
		}
	}
	if len(nodes) == 0 {
		return []checkResult{checkWaits(stepReauth, "", stepToken)}
	}
	results := make([]checkResult, len(nodes))
	checkEach(len(nodes), func(i int) {
		h := nodes[i]
		switch {
		case h.conn == nil && h.short:
			results[i] = checkWaits(stepReauth, h.name(), stepLifetime+": "+h.name())
		case h.conn == nil:
			results[i] = checkWaits(stepReauth, h.name(), stepToken+": "+h.name())
		default:
			h.lifetime = h.conn.SessionLifetime()
			results[i] = c.reauthenticate(ctx, h)
		}
	})
	return results
}

func (c *checker) reauthenticate(ctx context.Context, h *checkHop) checkResult {
	if h.lifetime < checkShortest {
		return checkWaits(stepReauth, h.name(), stepLifetime+": "+h.name())
	}
	bounded, cancel := context.WithTimeout(ctx, checkRequest)
	defer cancel()
	err := h.conn.Reauthenticate(bounded, c.login().credential())
	if err == nil {
		_, err = h.readCluster(ctx)
	}
	if err == nil {
		return checkPassed(stepReauth, h.name(), "the same connection logged in anew, and goes on")
	}
	fault := checkFault(err)
	cure := fault.Cure
	if fault.Fault == connections.PeerClosed || fault.Fault == connections.TooSoon || fault.Fault == connections.Hostile || fault.Fault == connections.Timeout {
		cure = "every Kafka broker since 2.2 can do this (KIP-368): look for something between the gateway and the broker, such as a proxy that reads Kafka's protocol, and let kafka.bootstrap and advertised.listeners lead to the brokers themselves"
	}
	return checkBad(stepReauth, h.name(), checkFailed, "logging in anew on the same connection failed: "+told(fault), cure)
}

// checkLifetimes holds what the brokers give against what is asked for.
func (c *checker) checkLifetimes(context.Context) []checkResult {
	token := c.login()
	if token == nil {
		return []checkResult{checkWaits(stepLifetime, "tokens", stepRights)}
	}
	results := []checkResult{judgeTokenLife(c.config.Tokens.Lifetime.span(), token.life, token.longest)}
	for _, h := range c.logins {
		if h.fenced || h.node < 0 && !h.short {
			continue
		}
		switch {
		case h.short:
			results = append(results, judgeSession(h.name(), 0, token.left()))
		case h.conn == nil:
			results = append(results, checkWaits(stepLifetime, h.name(), stepToken+": "+h.name()))
		default:
			results = append(results, judgeSession(h.name(), h.lifetime, token.left()))
		}
	}
	return results
}

// judgeTokenLife tells what becomes of tokens.lifetime: Kafka cuts it without a word.
func judgeTokenLife(asked, life, longest time.Duration) checkResult {
	const target = "tokens"
	setting := "delegation.token.expiry.time.ms"
	if longest < asked {
		setting = "delegation.token.max.lifetime.ms"
	}
	switch {
	case life < checkShortest:
		return checkBad(stepLifetime, target, checkFailed, fmt.Sprintf("they live for %s; under %s the gateway cannot work with them", life, checkShortest),
			"raise "+setting+" on every controller and broker (its default is a day or more), and tokens.lifetime")
	case life < asked:
		return checkBad(stepLifetime, target, checkWarning, fmt.Sprintf("tokens.lifetime asks for %s, and Kafka gives %s: %s", asked, life, setting),
			fmt.Sprintf("write tokens.lifetime: %s, or raise %s on every controller and broker", life, setting))
	}
	return checkPassed(stepLifetime, target, "they live for %s, as tokens.lifetime asks", life)
}

// judgeSession tells what becomes of a session: it ends with the token, or sooner by
// connections.max.reauth.ms. left is the life that the token has left, which was a
// little more when the broker looked.
func judgeSession(target string, lifetime, left time.Duration) checkResult {
	const slack = 5 * time.Second
	switch {
	case lifetime < checkShortest && left > checkShortest:
		return checkBad(stepLifetime, target, checkFailed, fmt.Sprintf("its sessions live for less than %s: too short for the gateway to work with", checkShortest),
			"raise connections.max.reauth.ms of that listener, or take it away: a session then lives as long as its token")
	case lifetime < checkShortest:
		return checkBad(stepLifetime, target, checkFailed, fmt.Sprintf("its sessions live for less than %s, as the tokens do", checkShortest), "let tokens live longer: tokens.lifetime, delegation.token.expiry.time.ms")
	case lifetime < left-slack:
		return checkBad(stepLifetime, target, checkWarning, fmt.Sprintf("its sessions live for %s (connections.max.reauth.ms), less than the token: every client's login is renewed that often", lifetime),
			"if that is not meant, raise connections.max.reauth.ms on the brokers")
	}
	return checkPassed(stepLifetime, target, "its sessions live as long as the token: %s", lifetime.Round(time.Second))
}
