package bykafkago

import (
	"context"
	"errors"
	"time"

	"github.com/segmentio/kafka-go"

	"clients/client"
)

// topics makes or deletes a topic, as action says.
func topics(s *client.Step, r *client.Result) error {
	wire, err := client.NewWire(s, r)
	if err != nil {
		return err
	}
	defer wire.Close()
	by := transport(wire)
	defer by.CloseIdleConnections()
	c := &kafka.Client{Addr: kafka.TCP(s.Get("bootstrap", "")), Transport: by, Timeout: 30 * time.Second}
	topic := s.Get("topic", "")
	var answers map[string]error
	switch action := s.Get("action", ""); action {
	case "create":
		did, failed := c.CreateTopics(context.Background(), &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{{
			Topic: topic, NumPartitions: s.Number("partitions", 6), ReplicationFactor: s.Number("replicas", 3),
		}}})
		if err = failed; err == nil {
			answers = did.Errors
		}
	case "delete":
		did, failed := c.DeleteTopics(context.Background(), &kafka.DeleteTopicsRequest{Topics: []string{topic}})
		if err = failed; err == nil {
			answers = did.Errors
		}
	default:
		err = errors.New("unknown action " + action)
	}
	if err = errors.Join(err, answers[topic]); err == nil {
		r.Done()
	}
	return err
}
