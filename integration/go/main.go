// Command clients is Kafka clients in Go for the integration tests:
//
//	clients CLIENT STEP...
//
// CLIENT is sarama or kafka-go. A STEP is JSON, {"mode": MODE, "settings": {KEY: TEXT,
// ...}}; they are done one after the other, in one process, and for each a line of JSON
// is printed (client/result.go). The modes and their settings are those of ../python.
// What the libraries log goes to standard error. Exits with 0 once all steps are done,
// whatever they saw: the tests judge.
package main

import (
	"fmt"
	"os"
	"time"

	"clients/bykafkago"
	"clients/bysarama"
	"clients/client"
)

func main() {
	if err := run(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(name string, texts []string) error {
	modes := map[string]map[string]client.Mode{"sarama": bysarama.Modes(), "kafka-go": bykafkago.Modes()}[name]
	for _, text := range texts {
		step, err := client.Parse(text)
		if err != nil {
			return err
		}
		mode := modes[step.Mode]
		if mode == nil {
			return fmt.Errorf("%s has no mode %q", name, step.Mode)
		}
		result := client.NewResult(step)
		began := time.Now()
		if err := mode(step, result); err != nil {
			result.Failed(err)
		} else if err := step.AllUsed(); err != nil {
			return err
		}
		if err := result.Print(os.Stdout, time.Since(began)); err != nil {
			return err
		}
	}
	return nil
}
