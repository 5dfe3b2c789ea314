package bysarama

import (
	"errors"

	"github.com/IBM/sarama"

	"clients/client"
)

// topics makes or deletes a topic, as action says.
func topics(s *client.Step, r *client.Result) (err error) {
	config, bootstrap, wire, err := connected(s, r)
	if err != nil {
		return err
	}
	defer wire.Close()
	admin, err := sarama.NewClusterAdmin(bootstrap, config)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, admin.Close()) }()
	topic := s.Get("topic", "")
	switch action := s.Get("action", ""); action {
	case "create":
		err = admin.CreateTopic(topic, &sarama.TopicDetail{NumPartitions: int32(s.Number("partitions", 6)), ReplicationFactor: int16(s.Number("replicas", 3))}, false)
	case "delete":
		err = admin.DeleteTopic(topic)
	default:
		err = errors.New("unknown action " + action)
	}
	if err == nil {
		r.Done()
	}
	return err
}
