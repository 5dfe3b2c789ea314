package nodestatus

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
)

// Node is one broker as last seen. A copy: it does not change.
type Node struct {
	ID int32
	Address
	Rack string
	// Fenced: the controller has put it aside; it is no member of the cluster now.
	Fenced bool
	State  State
	// Refused says why the address must not be dialled; empty: it may.
	Refused string
}

// String shows the id, the address and the state.
func (n Node) String() string { return fmt.Sprintf("node %d at %s (%s)", n.ID, n.Address, n.State) }

// Table is one published state of the cluster. It never changes; its methods
// never block.
type Table struct {
	// ClusterID is empty before the first answer.
	ClusterID string
	nodes     map[int32]Node
	sorted    []Node // by id
	up        int
}

func newTable(clusterID string, nodes map[int32]Node) *Table {
	t := &Table{ClusterID: clusterID, nodes: nodes}
	for _, id := range slices.Sorted(maps.Keys(nodes)) {
		n := nodes[id]
		t.sorted = append(t.sorted, n)
		if n.State == Up && n.Refused == "" {
			t.up++
		}
	}
	return t
}

// Node returns the broker with that id.
func (t *Table) Node(id int32) (Node, bool) {
	n, ok := t.nodes[id]
	return n, ok
}

// Nodes returns all brokers by rising id, down and refused ones included. The
// slice is the caller's.
func (t *Table) Nodes() []Node { return slices.Clone(t.sorted) }

// Up counts the brokers that are up and may be dialled.
func (t *Table) Up() int { return t.up }

// Bootstrap chooses a broker for a client that named none: up before suspect or
// unknown before down, the given rack first among equals, then at random by rnd
// (nil: by the global source). Brokers that are fenced, refused or excluded are
// never chosen. exclude may be nil. It reports false where none is left.
func (t *Table) Bootstrap(rack string, exclude func(int32) bool, rnd *rand.Rand) (Node, bool) {
	var best []Node
	bestRank := 0
	for _, n := range t.sorted {
		if n.Fenced || n.Refused != "" || exclude != nil && exclude(n.ID) {
			continue
		}
		rank := bootstrapRank(n, rack)
		if len(best) == 0 || rank < bestRank {
			best, bestRank = best[:0], rank
		}
		if rank == bestRank {
			best = append(best, n)
		}
	}
	switch {
	case len(best) == 0:
		return Node{}, false
	case rnd != nil:
		return best[rnd.IntN(len(best))], true
	default:
		return best[rand.IntN(len(best))], true
	}
}

// bootstrapRank orders candidates; a lower one is tried first. One that is down is
// still better than none: the state is advice.
func bootstrapRank(n Node, rack string) int {
	rank := map[State]int{Up: 0, Suspect: 2, Unknown: 2, Down: 4}[n.State]
	if rack == "" || n.Rack != rack {
		rank++
	}
	return rank
}
