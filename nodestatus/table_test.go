package nodestatus

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func TestBootstrapChoice(t *testing.T) {
	node := func(id int32, rack string, s State) Node {
		return Node{ID: id, Address: Address{"b", 9000 + id}, Rack: rack, State: s}
	}
	for _, c := range []struct {
		name    string
		nodes   []Node
		rack    string
		exclude []int32
		want    []int32 // any of these, and each of them at times
	}{
		{"nothing known", nil, "a", nil, nil},
		{"all up, no rack", []Node{node(1, "a", Up), node(2, "b", Up), node(3, "", Up)}, "", nil, []int32{1, 2, 3}},
		{"own rack first", []Node{node(1, "a", Up), node(2, "b", Up), node(3, "a", Up)}, "a", nil, []int32{1, 3}},
		{"own rack unknown to all", []Node{node(1, "a", Up), node(2, "b", Up)}, "z", nil, []int32{1, 2}},
		{"up elsewhere before suspect here", []Node{node(1, "a", Suspect), node(2, "b", Up)}, "a", nil, []int32{2}},
		{"excluded", []Node{node(1, "a", Up), node(2, "b", Up), node(3, "c", Up)}, "a", []int32{1, 2}, []int32{3}},
		{"all excluded", []Node{node(1, "a", Up)}, "a", []int32{1}, nil},
		{"none up", []Node{node(1, "a", Down), node(2, "b", Suspect), node(3, "b", Unknown)}, "a", nil, []int32{2, 3}},
		{"all down", []Node{node(1, "a", Down), node(2, "b", Down)}, "b", nil, []int32{2}},
		{"fenced and refused never", []Node{{ID: 1, Fenced: true, State: Up}, {ID: 2, Refused: "x", State: Up}}, "", nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			nodes := map[int32]Node{}
			for _, n := range c.nodes {
				nodes[n.ID] = n
			}
			table := newTable("c", nodes)
			seen := map[int32]bool{}
			for i := range 200 {
				rnd := rand.New(rand.NewPCG(uint64(i), 7))
				if i%2 == 0 {
					rnd = nil
				}
				n, ok := table.Bootstrap(c.rack, func(id int32) bool { return slices.Contains(c.exclude, id) }, rnd)
				if ok != (c.want != nil) {
					t.Fatalf("Bootstrap = %+v, %v", n, ok)
				}
				if ok {
					seen[n.ID] = true
				}
			}
			if len(seen) != len(c.want) {
				t.Errorf("chose %v, want %v", seen, c.want)
			}
			for _, id := range c.want {
				if !seen[id] {
					t.Errorf("never chose %d", id)
				}
			}
		})
	}
}

func TestTableIsSortedAndCountsWhatCanBeDialled(t *testing.T) {
	table := newTable("c", map[int32]Node{
		1001: {ID: 1001, State: Up}, 5: {ID: 5, State: Up, Refused: "x"}, 7: {ID: 7, State: Down}, 0: {ID: 0, State: Up},
	})
	var ids []int32
	for _, n := range table.Nodes() {
		ids = append(ids, n.ID)
	}
	if !slices.Equal(ids, []int32{0, 5, 7, 1001}) || table.Up() != 2 {
		t.Errorf("ids %v, up %d", ids, table.Up())
	}
	table.Nodes()[0].ID = 9
	if n := table.Nodes()[0]; n.ID != 0 {
		t.Error("the caller can change the table")
	}
	if _, ok := table.Node(6); ok {
		t.Error("node 6 is known")
	}
}
