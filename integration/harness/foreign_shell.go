//go:build integration

package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// shellLimit bounds every script, whatever its context says.
const shellLimit = 5 * time.Minute

// kafkaTools are Kafka's command-line tools by the names that people know, each
// with its class in the jars of ClientVersion.
func kafkaTools() map[string]string {
	return map[string]string{
		"kafka-console-producer.sh": "org.apache.kafka.tools.ConsoleProducer",
		"kafka-console-consumer.sh": "org.apache.kafka.tools.consumer.ConsoleConsumer",
		"kafka-topics.sh":           "org.apache.kafka.tools.TopicCommand",
		"kafka-configs.sh":          "org.apache.kafka.tools.ConfigCommand",
		"kafka-acls.sh":             "org.apache.kafka.tools.AclCommand",
		"kafka-consumer-groups.sh":  "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
		"kafka-groups.sh":           "org.apache.kafka.tools.GroupsCommand",
		"kafka-cluster.sh":          "org.apache.kafka.tools.ClusterTool",
		"kafka-get-offsets.sh":      "org.apache.kafka.tools.GetOffsetShell",
	}
}

// RunShell runs a script as if it were pasted into a terminal in dir, on a machine
// where Kafka's tools (kafkaTools), kcat and a Python with the clients' libraries
// are at hand, and returns when it has ended; its exit code is its last command's,
// unless it says set -e. It runs on the machine's own network. Whatever is still
// running behind it ends with it.
//
// ctx ends it, and so do five minutes: then there is an error, beside what there is
// of its output.
func (s *Site) RunShell(ctx context.Context, dir, script, stdin string) (Ended, error) {
	ctx, cancel := context.WithTimeout(ctx, shellLimit)
	defer cancel()
	if err := kcatMissing(); err != nil {
		return Ended{}, err
	}
	python, err := s.Python(ctx)
	if err != nil {
		return Ended{}, err
	}
	own, err := os.MkdirTemp(s.Dir, "script-")
	if err != nil {
		return Ended{}, err
	}
	tools, file := filepath.Join(own, "bin"), filepath.Join(own, "script")
	if err := errors.Join(writeTools(own, tools), os.WriteFile(file, []byte(script), 0o600)); err != nil {
		return Ended{}, err
	}
	return s.toEnd(ctx, command{
		Name: "shell", Args: []string{"bash", file}, Dir: dir,
		Env: []string{"PATH=" + tools + ":" + filepath.Dir(python) + ":" + os.Getenv("PATH")},
	}, stdin)
}

// writeTools writes one script for each of kafkaTools into the directory tools, and
// what they log by beside it.
func writeTools(own, tools string) error {
	jars, err := Jars(ClientVersion)
	if err != nil {
		return err
	}
	logging := filepath.Join(own, "log4j2.yaml")
	err = errors.Join(os.MkdirAll(tools, 0o755), os.WriteFile(logging, []byte(`Configuration:
  Appenders:
    Console: {name: err, target: SYSTEM_ERR, PatternLayout: {pattern: "%d %p %m (%c)%n"}}
  Loggers:
    Root: {level: WARN, AppenderRef: {ref: err}}
`), 0o644))
	for name, class := range kafkaTools() {
		text := fmt.Sprintf("#!/bin/sh\nexec java ${KAFKA_HEAP_OPTS:--Xmx256m} -XX:+UseSerialGC -XX:-UsePerfData -Dlog4j2.configurationFile='%s' -cp '%s/*' %s \"$@\"\n",
			logging, jars, class)
		err = errors.Join(err, os.WriteFile(filepath.Join(tools, name), []byte(text), 0o755))
	}
	return err
}
