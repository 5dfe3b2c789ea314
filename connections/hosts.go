package connections

import (
	"crypto/tls"
	"sync"
)

// hostsMost bounds the configurations that are kept; a cluster has as many hosts as
// brokers.
const hostsMost = 4096

// hosts are the TLS configurations for the brokers' hosts, each made once: a connection
// keeps its configuration for life, and one of its own would cost it 1.3 KiB.
type hosts struct {
	base *tls.Config
	mu   sync.Mutex
	of   map[string]*tls.Config
}

// config is for connections to this host. Nobody may change it.
func (h *hosts) config(host string) *tls.Config {
	h.mu.Lock()
	defer h.mu.Unlock()
	if c := h.of[host]; c != nil {
		return c
	}
	if h.of == nil || len(h.of) >= hostsMost {
		h.of = make(map[string]*tls.Config)
	}
	c := verifying(h.base.Clone(), host)
	h.of[host] = c
	return c
}

// verifying has a configuration of the caller's own verify that the broker is host: SCRAM
// without channel binding has nothing else to tell a broker by.
func verifying(c *tls.Config, host string) *tls.Config {
	c.ServerName, c.InsecureSkipVerify = host, false
	return c
}
