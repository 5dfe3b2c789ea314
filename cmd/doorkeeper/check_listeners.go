package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"slices"
	"time"
)

// checkBinding is one listener of the gateway's.
type checkBinding struct {
	target  string // the key
	address string
}

// checkListeners binds every listener and lets go of it again.
func (c *checker) checkListeners(ctx context.Context) []checkResult {
	if wait := c.spoilt("listen.address", "listen.advertise", "admin"); wait != "" {
		return []checkResult{checkWaits(stepListeners, "", wait)}
	}
	own := c.config.Listen.Address
	bindings := []checkBinding{{"listen.address (" + own.String() + ")", own.String()}}
	for _, id := range c.nodeIDs() {
		port, ok := c.gatewayPort(id)
		if ok && c.takenPort(port) == "" { // advertised_names speaks of the others
			at := Address{Host: own.Host, Port: port}.String()
			bindings = append(bindings, checkBinding{fmt.Sprintf("node %d (%s)", id, at), at})
		}
	}
	bindings = append(bindings, checkBinding{"admin.address (" + c.config.Admin.Address.String() + ")", c.config.Admin.Address.String()})

	results := make([]checkResult, len(bindings))
	for i, b := range bindings {
		results[i] = c.bind(ctx, b)
	}
	// Only a gateway that holds all the others can hold the admin listener, too.
	if results[0].Status == checkWarning && results[len(results)-1].Status == checkFailed {
		results[len(results)-1].Status = checkWarning
		results[len(results)-1].Cure = "if the gateway that runs already serves its pages there, that is as it should be; else free it, or change admin.address"
	}
	return results
}

// bind takes one address for a moment.
func (c *checker) bind(ctx context.Context, b checkBinding) checkResult {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", b.address)
	if err == nil {
		err = l.Close()
	}
	switch {
	case err == nil:
		return checkPassed(stepListeners, b.target, "free")
	case c.servesAlready(ctx, b.address):
		return checkBad(stepListeners, b.target, checkWarning, "a gateway with this certificate (listen.tls.certificate) listens there already", "if that is the one of this configuration, it is as it should be")
	}
	return checkBad(stepListeners, b.target, checkFailed, err.Error(),
		"free the address: ss -ltnp shows who has it; or change listen.address, listen.advertise.base_port or admin.address. An address that this machine does not have cannot be bound either; 0.0.0.0 is all that it has")
}

// servesAlready tells whether whoever listens there shows the gateway's certificate.
func (c *checker) servesAlready(ctx context.Context, address string) bool {
	if len(c.own) == 0 {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if host, port, err := net.SplitHostPort(address); err == nil && (Address{Host: host}).anyHost() {
		address = net.JoinHostPort("localhost", port)
	}
	same := false
	dialer := tls.Dialer{Config: &tls.Config{
		MinVersion: tls.VersionTLS12,
		//nolint:gosec // G402: nothing is sent; all that is asked is which certificate it shows
		InsecureSkipVerify: true,
		VerifyConnection: func(cs tls.ConnectionState) error {
			same = len(cs.PeerCertificates) > 0 && bytes.Equal(cs.PeerCertificates[0].Raw, c.own)
			return nil
		},
	}}
	if conn, err := dialer.DialContext(ctx, "tcp", address); err == nil {
		_ = conn.Close()
	}
	return same
}

// nodeIDs are the brokers that get a listener: those of the configuration, and those of
// the cluster.
func (c *checker) nodeIDs() []int32 {
	ids := slices.Clone([]int32(c.config.Listen.Advertise.Nodes))
	for _, cluster := range []checkCluster{c.controlNodes, c.tokenNodes} {
		for _, n := range cluster.nodes {
			ids = append(ids, n.ID)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// gatewayPort is a broker's port at the gateway, if it can have one.
func (c *checker) gatewayPort(id int32) (int, bool) {
	port := int64(c.config.Listen.Advertise.BasePort) + int64(id)
	return int(port), port <= 65535
}

// takenPort is the key of the gateway's own listener that has a port already.
func (c *checker) takenPort(port int) string {
	at := Address{Host: c.config.Listen.Address.Host, Port: port}
	switch {
	case port == c.config.Listen.Address.Port:
		return "listen.address"
	case at.overlaps(c.config.Admin.Address):
		return "admin.address"
	}
	return ""
}
