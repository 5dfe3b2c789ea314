// Package bykafkago is the client segmentio/kafka-go. It has neither idempotent nor
// transactional producers.
package bykafkago

import (
	"fmt"
	"os"
	"time"

	"github.com/segmentio/kafka-go"

	"clients/client"
)

// Modes are what it can do.
func Modes() map[string]client.Mode {
	return map[string]client.Mode{"produce": produce, "consume": consume, "describe": describe, "topics": topics}
}

// said is where the library logs.
func said(what string) kafka.Logger {
	return kafka.LoggerFunc(func(format string, args ...any) {
		fmt.Fprintf(os.Stderr, "kafka-go "+what+" "+format+"\n", args...)
	})
}

// transport makes the connections of writers and of administration. TLS is the wire's,
// so that what comes can be looked at.
func transport(w *client.Wire) *kafka.Transport {
	return &kafka.Transport{Dial: w.DialContext, MetadataTTL: 5 * time.Second}
}
