package main

import (
	"context"
	"fmt"

	"doorkeeper/nodestatus"
)

// checkBrokers judges the addresses that the brokers advertise.
func (c *checker) checkBrokers(ctx context.Context) []checkResult {
	if wait := c.spoilt("kafka.addresses"); wait != "" {
		return []checkResult{checkWaits(stepBrokers, "", wait)}
	}
	var results []checkResult
	for _, side := range []struct {
		name    string
		cluster checkCluster
		dialled bool // by the gateway on clients' behalf: kafka.addresses holds
		step    string
	}{
		{"the control listener", c.controlNodes, false, stepControl},
		{"the token listener", c.tokenNodes, true, stepToken},
	} {
		if len(side.cluster.nodes) == 0 {
			results = append(results, checkWaits(stepBrokers, side.name, side.step))
			continue
		}
		found := make([]checkResult, len(side.cluster.nodes))
		checkEach(len(found), func(i int) {
			found[i] = c.checkBroker(ctx, side.name, side.cluster, i, side.dialled)
		})
		results = append(results, found...)
	}
	for _, n := range missingNodes(c.tokenNodes.nodes, c.controlNodes.nodes) {
		if len(c.controlNodes.nodes) > 0 {
			results = append(results, checkBad(stepBrokers, fmt.Sprintf("node %d", n.ID), checkFailed, "the token listener tells of it, and the control listener does not: the gateway cannot ask it whether it knows a token",
				"give every broker a control listener of the same name in listeners and advertised.listeners"))
		}
	}
	return results
}

// checkBroker judges one advertised address.
func (c *checker) checkBroker(ctx context.Context, listener string, cluster checkCluster, i int, dialled bool) checkResult {
	n := cluster.nodes[i]
	target := checkNode(n.ID, n.Address)
	for _, o := range cluster.nodes {
		if o.ID != n.ID && o.Address == n.Address {
			return checkBad(stepBrokers, target, checkFailed, fmt.Sprintf("node %d advertises the same address for %s: whoever is meant for one of them may come to the other", o.ID, listener),
				"give each broker an address of its own in advertised.listeners")
		}
	}
	if dialled {
		why, err := nodestatus.Refusal(c.config.Kafka.Addresses, n.Address)
		switch {
		case err != nil:
			return checkBad(stepBrokers, target, checkFailed, err.Error(), "")
		case why != "":
			return checkBad(stepBrokers, target, checkFailed, why+": the gateway will never dial it", "add its network, or a pattern of its name, to kafka.addresses; or look who advertises it, if it is not yours")
		}
	}
	if err := checkResolves(ctx, n.Host); err != nil {
		return checkBad(stepBrokers, target, checkFailed, fmt.Sprintf("its name does not resolve here: %v", err), "let the name of advertised.listeners resolve on this machine, or advertise one that does")
	}
	return checkPassed(stepBrokers, target, "an address of its own for %s, and it may be dialled", listener)
}
