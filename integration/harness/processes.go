//go:build integration

package harness

import "fmt"

// ProcessEngine runs nodes as processes, whatever DOORKEEPER_ENGINE says.
func ProcessEngine() Engine { return processes{} }

// processes runs nodes from Maven's jars as children of the test.
type processes struct{}

// Prepare fetches the jars.
func (processes) Prepare(v Version) error {
	_, err := Jars(v)
	return err
}

// Format runs Kafka's storage tool.
func (processes) Format(spec NodeSpec) error {
	jars, err := Jars(spec.Version)
	if err != nil {
		return err
	}
	_, err = run(command{Name: "kafka storage format", Args: append([]string{"java"}, spec.formatting(jars)...), Dir: spec.Dir})
	return err
}

// Start starts a broker; its output is appended to out.log.
func (processes) Start(spec NodeSpec) (Running, error) {
	jars, err := Jars(spec.Version)
	if err != nil {
		return nil, err
	}
	log, err := spec.log()
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }() // the child has its own
	// What is unpacked from jars would stay behind a broker that is killed.
	args := append([]string{"java", "-Djava.io.tmpdir=" + spec.Dir}, spec.serving(jars)...)
	p, err := start(command{Name: fmt.Sprintf("kafka %s in %s", spec.Version, spec.Dir), Args: args, Env: spec.Clock.env(), Dir: spec.Dir, Log: log})
	if err != nil {
		return nil, err
	}
	return p, nil
}
