//go:build integration

package harness

import (
	"fmt"
	"os"
	"path/filepath"
)

// clusterID is any 22 characters of base64: each cluster has a network of its own.
const clusterID = "ZG9vcmtlZXBlci1kb29yaw"

// processes runs nodes from Maven's jars as children of the test.
type processes struct{}

func (processes) java(spec NodeSpec, heap string, main ...string) ([]string, error) {
	jars, err := Jars(spec.Version)
	if err != nil {
		return nil, err
	}
	logging := "-Dlog4j2.configurationFile=" + filepath.Join(spec.Dir, "log4j2.yaml")
	if spec.Version.Reload4j() {
		logging = "-Dlog4j.configuration=file:" + filepath.Join(spec.Dir, "log4j.properties")
	}
	args := []string{
		"java", "-Xmx" + heap, "-XX:+UseSerialGC", "-XX:-UsePerfData",
		"-Djava.net.preferIPv4Stack=true", logging,
	}
	args = append(args, spec.JVM...)
	args = append(args, "-cp", jars+"/*")
	return append(args, main...), nil
}

// Format runs Kafka's storage tool.
func (e processes) Format(spec NodeSpec) error {
	spec.JVM = []string{"-XX:TieredStopAtLevel=1"} // no JMX port: nothing is to be watched
	args, err := e.java(spec, "128m", "kafka.tools.StorageTool", "format", "-t", clusterID, "-c", filepath.Join(spec.Dir, "server.properties"))
	if err != nil {
		return err
	}
	_, err = run(command{Name: "kafka storage format", Args: args, Dir: spec.Dir})
	return err
}

// Start starts a broker; its output is appended to out.log.
func (e processes) Start(spec NodeSpec) (Running, error) {
	args, err := e.java(spec, spec.Heap, "kafka.Kafka", filepath.Join(spec.Dir, "server.properties"))
	if err != nil {
		return nil, err
	}
	log, err := os.OpenFile(filepath.Join(spec.Dir, "out.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }() // the child has its own
	p, err := start(command{Name: fmt.Sprintf("kafka %s in %s", spec.Version, spec.Dir), Args: args, Dir: spec.Dir, Log: log})
	if err != nil {
		return nil, err
	}
	return p, nil
}
