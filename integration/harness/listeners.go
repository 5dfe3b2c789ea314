//go:build integration

package harness

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// ControlPort and TokenPort are the ports of every node's listeners, for a relay that has
// to know them before the node exists.
const (
	ControlPort = controlPort
	TokenPort   = tokenPort
)

// ControllerPort is the same for every node's controller listener.
const ControllerPort = controllerPort

// firstExtraPort is that of the first of NodeConfig.Listeners, in alphabetical
// order.
const firstExtraPort = 29101

// Listener is the address of one of NodeConfig.Listeners.
func (n *Node) Listener(name string) string { return n.at(ExtraPort(n.cfg.Listeners, name)) }

// ExtraPort is the port of one of NodeConfig.Listeners, for what has to know it before
// the node exists.
func ExtraPort(listeners map[string]string, name string) int {
	i := slices.Index(slices.Sorted(maps.Keys(listeners)), name)
	if i < 0 {
		panic("harness: the node has no listener " + name)
	}
	return firstExtraPort + i
}

// addListeners puts NodeConfig.Listeners into the node's properties. Settings of
// one alone are NodeConfig.Properties: listener.name.NAME in small letters.
func (n *Node) addListeners(p map[string]string) {
	add := func(key, value string) { p[key] = strings.Join([]string{p[key], value}, ",") }
	for _, name := range slices.Sorted(maps.Keys(n.cfg.Listeners)) {
		advertised := first(n.cfg.Advertised[name], n.Listener(name))
		add("listeners", fmt.Sprintf("%s://%s", name, n.Listener(name)))
		add("advertised.listeners", fmt.Sprintf("%s://%s", name, advertised))
		add("listener.security.protocol.map", name+":"+n.cfg.Listeners[name])
	}
}
