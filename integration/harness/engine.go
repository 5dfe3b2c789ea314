//go:build integration

package harness

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// Engine runs Kafka nodes: as processes of this machine (processes.go), or in
// containers on the machine's network (docker.go). Either way a node is files in
// one directory and addresses to listen on, and a process of this machine.
type Engine interface {
	// Prepare gets what nodes of that version are run from, which can take minutes
	// the first time.
	Prepare(v Version) error
	// Format makes a node's storage in spec.Dir/data, before its first start.
	Format(spec NodeSpec) error
	// Start starts a node and returns once it has a PID; the caller owns it.
	Start(spec NodeSpec) (Running, error)
}

// Running is a node that was started: a Process or a container.
type Running interface {
	PID() int // as this machine sees it
	Signal(syscall.Signal) error
	Suspend() error // SIGSTOP, waited for
	Stop(grace time.Duration)
	Kill()
	Alive() bool
	Done() <-chan struct{}
}

// NodeSpec is what an Engine needs to know. Dir holds server.properties and the
// log configuration, and gets out.log, authorizer.log and the data. All files that
// are named in there, or in JVM, lie in the Site's directory.
type NodeSpec struct {
	Version Version
	Dir     string
	Heap    string   // e.g. "320m"
	JVM     []string // more options of the JVM
	Clock   *Clock   // nil: the machine's; for processes alone

	ClassPath string // a directory of more classes
}

// EngineName chooses an Engine.
type EngineName string

// The engines.
const (
	Processes EngineName = "processes"
	Docker    EngineName = "docker"
)

// AsProcesses is the Engine Processes, for a cluster that needs it whatever
// DOORKEEPER_ENGINE names.
func AsProcesses() Engine { return processes{} }

// engine is the one that DOORKEEPER_ENGINE names, processes otherwise.
func (s *Site) engine() (Engine, error) {
	switch name := first(EngineName(os.Getenv("DOORKEEPER_ENGINE")), Processes); name {
	case Processes:
		return processes{}, nil
	case Docker:
		return newDocker(s)
	default:
		return nil, fmt.Errorf("DOORKEEPER_ENGINE is %q; it can be %q or %q", name, Processes, Docker)
	}
}

// java are the arguments of a JVM, without its own name, that runs one of Kafka's
// programs from the jars of a class path.
func (spec NodeSpec) java(heap, jars string, program ...string) []string {
	logging := "-Dlog4j2.configurationFile=" + filepath.Join(spec.Dir, "log4j2.yaml")
	if spec.Version.Reload4j() {
		logging = "-Dlog4j.configuration=file:" + filepath.Join(spec.Dir, "log4j.properties")
	}
	args := []string{
		"-Xmx" + heap, "-XX:+UseSerialGC", "-XX:-UsePerfData",
		"-Djava.net.preferIPv4Stack=true", logging,
	}
	args = append(args, spec.JVM...)
	classes := jars + "/*"
	if spec.ClassPath != "" {
		classes += ":" + spec.ClassPath
	}
	args = append(args, "-cp", classes)
	return append(args, program...)
}

// formatting are the arguments of Kafka's storage tool.
func (spec NodeSpec) formatting(jars string) []string {
	spec.JVM = []string{"-XX:TieredStopAtLevel=1"} // no JMX port: nothing is to be watched
	return spec.java("128m", jars, "kafka.tools.StorageTool", "format", "-t", clusterID, "-c", spec.properties())
}

// serving are the arguments of a broker.
func (spec NodeSpec) serving(jars string) []string {
	return spec.java(spec.Heap, jars, "kafka.Kafka", spec.properties())
}

func (spec NodeSpec) properties() string { return filepath.Join(spec.Dir, "server.properties") }

// log opens the file that a node's output is appended to. The caller closes it when
// the node has its own.
func (spec NodeSpec) log() (*os.File, error) {
	return os.OpenFile(filepath.Join(spec.Dir, "out.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
}

// clusterID is any 22 characters of base64: each cluster has a network of its own.
const clusterID = "ZG9vcmtlZXBlci1kb29yaw"
