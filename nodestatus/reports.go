package nodestatus

import (
	"maps"
	"time"

	"go.uber.org/zap"
)

const (
	// suspectFor is how long after a first failure another one makes a suspect
	// broker count as down: many sessions fail together when one broker restarts.
	suspectFor = time.Second
	// failureFresh is how long a failure outweighs that the brokers list the node
	// as alive: they notice a broker that hangs only after their session timeout.
	failureFresh = 10 * time.Second
)

// health is what the table does not show of a node.
type health struct {
	first, last time.Time // failures since it was last known to be well
}

// change is one move of a node's state, to be told once the lock is free.
type change struct {
	node     Node
	from, to string // empty: not in the table
	why      string
}

// Table is the newest table; never nil, empty before the first answer. It never
// blocks.
func (w *Watcher) Table() *Table { return w.table.Load() }

// Changed returns a channel that is closed when the next table is published. To
// miss none, call it before Table.
func (w *Watcher) Changed() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.changed
}

// ReportFailure says that a session could not reach that broker, or lost it. It
// never blocks. The list of brokers is read again soon, at most once a second.
func (w *Watcher) ReportFailure(node int32) {
	w.failed(node, "a connection failed")
	select {
	case w.early <- struct{}{}:
	default:
	}
}

// ReportSuccess says that a session reached that broker. It never blocks, and
// costs one atomic load while the broker is up.
func (w *Watcher) ReportSuccess(node int32) {
	if n, ok := w.Table().Node(node); !ok || n.State == Up {
		return
	}
	w.mu.Lock()
	delete(w.health, node)
	changes := w.moveLocked(nil, node, evSucceeded, "a connection succeeded")
	if len(changes) > 0 {
		w.publishLocked()
	}
	w.mu.Unlock()
	w.tell(changes)
}

func (w *Watcher) failed(node int32, why string) {
	w.mu.Lock()
	n, ok := w.nodes[node]
	if !ok {
		w.mu.Unlock()
		return
	}
	now := time.Now()
	h := w.health[node]
	ev := evFailed
	switch {
	case h == nil:
		h = &health{first: now}
		w.health[node] = h
	case n.State == Suspect && now.Sub(h.first) >= suspectFor:
		ev = evFailedOn
	}
	h.last = now
	changes := w.moveLocked(nil, node, ev, why)
	if len(changes) > 0 {
		w.publishLocked()
	}
	w.mu.Unlock()
	w.tell(changes)
}

// moveLocked applies one event to a node of w.nodes, and adds the change if it is
// one.
func (w *Watcher) moveLocked(changes []change, node int32, ev event, why string) []change {
	n, ok := w.nodes[node]
	if !ok {
		return changes
	}
	to, err := n.State.next(ev)
	if err != nil {
		w.cfg.Logger.Error("node status", zap.Error(err)) // a bug; the state stays
		return changes
	}
	if to == n.State {
		return changes
	}
	from := n.State
	n.State = to
	nodes := maps.Clone(w.nodes) // the published table keeps the old one
	nodes[node] = n
	w.nodes = nodes
	return append(changes, change{node: n, from: from.String(), to: to.String(), why: why})
}

// apply takes a new answer over. afterOutage: it is the first after no broker
// could be reached.
func (w *Watcher) apply(a answer, afterOutage bool) {
	w.mu.Lock()
	before := w.nodes
	next := make(map[int32]Node, len(a.nodes))
	var changes []change
	for id, n := range a.nodes {
		n.Refused = w.allowed.refuse(n.Address)
		old, known := before[id]
		if known {
			n.State = old.State
		} else {
			changes = append(changes, change{node: n, to: n.State.String(), why: "it is listed"})
		}
		if n.Refused != "" && (!known || old.Refused != n.Refused) {
			changes = append(changes, change{node: n, why: n.Refused})
		}
		next[id] = n
	}
	for id, old := range before {
		if _, listed := a.nodes[id]; listed {
			continue
		}
		if a.complete {
			delete(w.health, id)
			changes = append(changes, change{node: old, from: old.State.String(), why: "it is not registered any more"})
			continue
		}
		next[id] = old
	}
	w.nodes = next
	now := time.Now()
	for id := range next {
		if afterOutage {
			delete(w.health, id)
			changes = w.moveLocked(changes, id, evForgiven, "no broker could be reached, and now one can")
		}
		if !a.alive[id] {
			changes = w.moveLocked(changes, id, evNotListed, "the brokers do not list it as alive")
			continue
		}
		h := w.health[id]
		if h == nil || now.Sub(h.last) >= failureFresh {
			delete(w.health, id)
			changes = w.moveLocked(changes, id, evListed, "the brokers list it as alive")
		}
	}
	if w.clusterID != a.clusterID || !maps.Equal(before, w.nodes) {
		w.clusterID = a.clusterID
		w.publishLocked()
	}
	w.mu.Unlock()
	w.tell(changes)
}

// publishLocked stores a new table.
func (w *Watcher) publishLocked() {
	w.table.Store(newTable(w.clusterID, w.nodes))
	close(w.changed)
	w.changed = make(chan struct{})
}

// tell logs and counts changes; no lock is held.
func (w *Watcher) tell(changes []change) {
	for _, c := range changes {
		fields := []zap.Field{zap.Int32("node", c.node.ID), zap.Stringer("address", c.node.Address), zap.String("why", c.why)}
		switch {
		case c.from == "" && c.to == "":
			w.cfg.Logger.Error("the address of a broker is refused: nothing connects to it", fields...)
			continue
		case c.from == "":
			w.cfg.Logger.Info("a broker is known", fields...)
		case c.to == "":
			w.cfg.Logger.Info("a broker is gone", fields...)
		case c.to == Unknown.String():
			w.cfg.Logger.Debug("a broker is "+c.to, append(fields, zap.String("was", c.from))...)
		case c.to == Up.String():
			w.cfg.Logger.Info("a broker is up", append(fields, zap.String("was", c.from))...)
		default:
			w.cfg.Logger.Warn("a broker is "+c.to, append(fields, zap.String("was", c.from))...)
		}
		w.cfg.Observer.NodeState(c.from, c.to)
	}
}
