package main

import (
	"context"
	"crypto/x509"
	"fmt"
	"net"
	"slices"
	"strconv"
)

// checkNames holds what clients are told against the certificate and the cluster.
func (c *checker) checkNames(ctx context.Context) []checkResult {
	if wait := c.spoilt("listen.advertise", "listen.address"); wait != "" {
		return []checkResult{checkWaits(stepNames, "", wait)}
	}
	results := []checkResult{c.checkHostInCertificate(), c.checkHostResolves(ctx)}
	return append(results, c.checkNodeIDs()...)
}

func (c *checker) checkHostInCertificate() checkResult {
	host := string(c.config.Listen.Advertise.Host)
	target := "listen.advertise.host (" + host + ")"
	if len(c.own) == 0 {
		return checkWaits(stepNames, target, stepFiles+": listen.tls.certificate")
	}
	leaf, err := x509.ParseCertificate(c.own)
	if err == nil {
		err = leaf.VerifyHostname(host)
	}
	if err != nil {
		return checkBad(stepNames, target, checkFailed, fmt.Sprintf("clients will refuse the gateway's certificate (listen.tls.certificate): %v", err),
			fmt.Sprintf("have a certificate issued with the subject alternative name %s, or let listen.advertise.host be a name that it has", quote(host)))
	}
	return checkPassed(stepNames, target, "the gateway's certificate is for that name")
}

// checkHostResolves only warns: clients may have another name server.
func (c *checker) checkHostResolves(ctx context.Context) checkResult {
	host := string(c.config.Listen.Advertise.Host)
	target := "listen.advertise.host (" + host + ")"
	if err := checkResolves(ctx, host); err != nil {
		return checkBad(stepNames, target, checkWarning, fmt.Sprintf("it does not resolve here: %v", err), "see that it resolves where the clients are: they dial it")
	}
	return checkPassed(stepNames, target, "it resolves")
}

func checkResolves(ctx context.Context, host string) error {
	if net.ParseIP(host) != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, checkResolve)
	defer cancel()
	_, err := net.DefaultResolver.LookupHost(ctx, host)
	return err
}

// checkNodeIDs holds the cluster's brokers against the addresses that they get here.
func (c *checker) checkNodeIDs() []checkResult {
	const key = "listen.advertise.nodes"
	seen := c.controlNodes
	if len(seen.nodes) == 0 {
		seen = c.tokenNodes
	}
	if len(seen.nodes) == 0 {
		return []checkResult{checkWaits(stepNames, key, stepControl+": a login that tells which brokers there are")}
	}
	configured := c.config.Listen.Advertise.Nodes
	var results []checkResult
	var absent, unknown []string
	for _, n := range seen.nodes {
		port, ok := c.gatewayPort(n.ID)
		target := fmt.Sprintf("node %d", n.ID)
		switch taken := c.takenPort(port); {
		case !ok:
			results = append(results, checkBad(stepNames, target, checkFailed,
				fmt.Sprintf("its port at the gateway would be listen.advertise.base_port %d + %d = %d, and 65535 is the last: it has no address here and is left out of every answer", c.config.Listen.Advertise.BasePort, n.ID, port),
				"lower listen.advertise.base_port"))
		case taken != "":
			results = append(results, checkBad(stepNames, target, checkFailed, fmt.Sprintf("its port at the gateway, %d, is also that of %s", port, taken), "move "+taken+" or listen.advertise.base_port"))
		case !slices.Contains(configured, n.ID):
			absent = append(absent, strconv.Itoa(int(n.ID)))
		}
	}
	for _, id := range configured {
		if _, known := seen.find(id); !known {
			unknown = append(unknown, strconv.Itoa(int(id)))
		}
	}
	if len(absent) > 0 {
		results = append(results, checkBad(stepNames, key, checkWarning, "it leaves out "+oneNode(absent)+" of the cluster: after a start, clients find nobody there until the gateway has seen the cluster, and firewalls have to know of them",
			"name every broker in "+key))
	}
	if len(unknown) > 0 {
		results = append(results, checkBad(stepNames, key, checkWarning, "it names "+oneNode(unknown)+", and the cluster has no such broker now: down, or another cluster, or a slip",
			"start what is down, or take it out"))
	}
	if len(results) == 0 {
		results = append(results, checkPassed(stepNames, key, "each of the cluster's %s has an address of its own at the gateway", countOf(len(seen.nodes), "broker", "brokers")))
	}
	return results
}

func oneNode(ids []string) string {
	if len(ids) == 1 {
		return "node " + ids[0]
	}
	return "the nodes " + fmt.Sprint(ids)
}
