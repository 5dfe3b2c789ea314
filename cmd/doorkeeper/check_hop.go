package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"doorkeeper/connections"
	"doorkeeper/nodestatus"
)

// checkHop is one listener of a broker, and what became of going there.
type checkHop struct {
	node    int32 // -1: a bootstrap address that no broker advertises
	address nodestatus.Address
	fenced  bool

	peer   *connections.Peer            // nil: TLS or ApiVersions did not come about
	conn   *connections.KafkaConnection // nil: no login
	result checkResult

	lifetime time.Duration // of its session after the login
	short    bool          // the login was taken, and its session is too short to be used
	refused  bool          // the token was not taken
}

// name is the hop's target in results.
func (h *checkHop) name() string { return checkNode(h.node, h.address) }

func checkNode(node int32, a nodestatus.Address) string {
	if node < 0 {
		return a.String()
	}
	return fmt.Sprintf("node %d (%s)", node, a)
}

func (h *checkHop) target() connections.Target {
	return connections.Target{Node: h.node, Host: h.address.Host, Port: h.address.Port}
}

// checkClient is what the check calls itself at the brokers.
func checkClient() connections.ClientInfo {
	id := "doorkeeper-check"
	return connections.ClientInfo{ID: &id, SoftwareName: "doorkeeper", SoftwareVersion: "check"}
}

// checkCluster is the cluster as the brokers tell it on one kind of listener.
type checkCluster struct {
	id    string
	nodes []nodestatus.Node // by id
}

func (c checkCluster) find(id int32) (nodestatus.Node, bool) {
	i := slices.IndexFunc(c.nodes, func(n nodestatus.Node) bool { return n.ID == id })
	if i < 0 {
		return nodestatus.Node{}, false
	}
	return c.nodes[i], true
}

// readCluster asks the hop's broker for all of them, within checkRequest.
func (h *checkHop) readCluster(ctx context.Context) (checkCluster, error) {
	ctx, cancel := context.WithTimeout(ctx, checkRequest)
	defer cancel()
	id, nodes, err := nodestatus.Read(ctx, h.conn, h.address)
	return checkCluster{id: id, nodes: nodes}, err
}

// checkAsk makes one request within checkRequest.
func checkAsk[T kmsg.Response](ctx context.Context, conn *connections.KafkaConnection, request kmsg.Request) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, checkRequest)
	defer cancel()
	var none T
	answer, err := conn.Request(ctx, request)
	if err != nil {
		return none, err
	}
	response, ok := answer.(T)
	if !ok {
		return none, fmt.Errorf("the answer to %s is a %T", kmsg.NameForKey(request.Key()), answer)
	}
	return response, nil
}

// walk goes to every bootstrap address, and from what the first of them tells to every
// broker. visit must set the hop's result, and its conn where it could log in. It
// returns the hops, those of bootstrap addresses that no broker advertises first, and
// the cluster.
func (c *checker) walk(ctx context.Context, step string, bootstrap []Address, visit func(context.Context, *checkHop)) ([]*checkHop, checkCluster) {
	hops := make([]*checkHop, len(bootstrap))
	clusters := make([]checkCluster, len(bootstrap))
	checkEach(len(bootstrap), func(i int) {
		h := &checkHop{node: -1, address: nodestatus.Address{Host: bootstrap[i].Host, Port: int32(bootstrap[i].Port)}} //nolint:gosec // parsed to be a port
		hops[i] = h
		visit(ctx, h)
		if h.conn == nil {
			return
		}
		var err error
		if clusters[i], err = h.readCluster(ctx); err != nil {
			h.result = checkBad(step, h.name(), checkFailed, "logged in, but it does not tell which brokers there are: "+err.Error(), "the broker's own log says why")
		}
	})

	var cluster checkCluster
	for i := range clusters {
		if cluster.id == "" {
			cluster = clusters[i]
		}
	}
	for i, h := range hops {
		if id := clusters[i].id; id != "" && id != cluster.id {
			h.result = checkBad(step, h.name(), checkFailed, fmt.Sprintf("it is a broker of the cluster %s, and the other addresses are of %s", quote(id), quote(cluster.id)),
				"keep the addresses of one cluster")
		}
	}

	brokers := make([]*checkHop, len(cluster.nodes))
	checkEach(len(cluster.nodes), func(i int) {
		n := cluster.nodes[i]
		h := &checkHop{node: n.ID, address: n.Address, fenced: n.Fenced}
		brokers[i] = h
		known := slices.IndexFunc(hops, func(b *checkHop) bool { return b.address == n.Address })
		switch {
		case n.Fenced:
			h.result = checkBad(step, h.name(), checkFailed, "the broker is registered, but down: the controller has fenced it", "start it, or unregister it if it is gone for good (kafka-cluster.sh unregister), and check again")
		case known >= 0 && firstAt(cluster.nodes, n): // been there already
			node := h.node
			*h = *hops[known]
			h.node = node
			h.result.Target = h.name()
		default:
			visit(ctx, h)
		}
	})
	// What a broker advertises is told with the broker.
	hops = slices.DeleteFunc(hops, func(b *checkHop) bool {
		return slices.ContainsFunc(cluster.nodes, func(n nodestatus.Node) bool { return n.Address == b.address && !n.Fenced })
	})
	return append(hops, brokers...), cluster
}

// firstAt tells whether n is the first broker to advertise its address.
func firstAt(nodes []nodestatus.Node, n nodestatus.Node) bool {
	return slices.IndexFunc(nodes, func(o nodestatus.Node) bool { return o.Address == n.Address && !o.Fenced }) ==
		slices.IndexFunc(nodes, func(o nodestatus.Node) bool { return o.ID == n.ID })
}

// checkResults collects what the hops' visits have said.
func checkResults(hops []*checkHop) []checkResult {
	out := make([]checkResult, len(hops))
	for i, h := range hops {
		out[i] = h.result
	}
	return out
}

// anyConn is a connection to whichever broker could be logged in at, nil if none.
func anyConn(hops []*checkHop) *connections.KafkaConnection {
	for _, h := range hops {
		if h.conn != nil && h.conn.State() == connections.Open {
			return h.conn
		}
	}
	return nil
}

// checkFault is err as what went wrong on the way to a broker.
func checkFault(err error) *connections.Error {
	var fault *connections.Error
	if errors.As(err, &fault) {
		return fault
	}
	return &connections.Error{Phase: connections.PhaseRelay, Err: err}
}

// told is the finding of a fault: how far it came, and what happened.
func told(fault *connections.Error) string {
	return fmt.Sprintf("%s: %v", strings.ReplaceAll(fault.Phase.String(), "_", " "), fault.Err)
}

// checkPlain tells whether the fault is that of a listener without TLS, which says so
// itself when it is asked.
func checkPlain(ctx context.Context, d *connections.Dialer, h *checkHop, fault *connections.Error) bool {
	if fault.Phase != connections.PhaseTLS || fault.Fault != connections.PeerClosed && fault.Fault != connections.NotTLS && fault.Fault != connections.Timeout {
		return false
	}
	return d.SpeaksPlainly(ctx, h.target())
}

const checkPlainFinding = "it speaks Kafka without TLS: a listener of the protocol PLAINTEXT or SASL_PLAINTEXT"
