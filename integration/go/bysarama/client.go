// Package bysarama is the client sarama.
package bysarama

import (
	"log"
	"os"

	"github.com/IBM/sarama"

	"clients/client"
)

// Modes are what it can do.
func Modes() map[string]client.Mode {
	sarama.Logger = log.New(os.Stderr, "sarama ", log.Lmicroseconds)
	sarama.DebugLogger = sarama.Logger
	return map[string]client.Mode{"produce": produce, "consume": consume, "transform": transform, "describe": describe, "topics": topics}
}

// connected is a step's configuration, bootstrap addresses and wire. The caller closes
// the wire when all is done.
func connected(s *client.Step, r *client.Result) (*sarama.Config, []string, *client.Wire, error) {
	wire, err := client.NewWire(s, r)
	if err != nil {
		return nil, nil, nil, err
	}
	config := sarama.NewConfig()
	if config.Version, err = sarama.ParseKafkaVersion(s.Get("version", sarama.DefaultVersion.String())); err != nil {
		return nil, nil, nil, err
	}
	// TLS is the wire's, so that what comes can be looked at.
	config.Net.Proxy.Enable, config.Net.Proxy.Dialer = true, wire
	return config, []string{s.Get("bootstrap", "")}, wire, nil
}
