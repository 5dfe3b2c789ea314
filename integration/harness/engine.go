//go:build integration

package harness

import (
	"syscall"
	"time"
)

// Engine runs Kafka nodes: here as processes of this machine (processes.go). A
// container engine on the host's network can stand in its place, as everything
// that a node needs is files in one directory and addresses to listen on.
type Engine interface {
	// Format makes a node's storage in spec.Dir/data, before its first start.
	Format(spec NodeSpec) error
	// Start starts a node and returns at once; the caller owns it.
	Start(spec NodeSpec) (Running, error)
}

// Running is a node that was started. Process is one.
type Running interface {
	PID() int
	Signal(syscall.Signal) error
	Suspend() error // SIGSTOP, waited for
	Stop(grace time.Duration)
	Kill()
	Alive() bool
	Done() <-chan struct{}
}

// NodeSpec is what an Engine needs to know. Dir holds server.properties and the
// log configuration, and gets out.log, authorizer.log and the data.
type NodeSpec struct {
	Version Version
	Dir     string
	Heap    string   // e.g. "320m"
	JVM     []string // more options of the JVM
}
