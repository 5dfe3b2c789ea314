package bykafkago

import (
	"context"
	"errors"
	"time"

	"github.com/segmentio/kafka-go"

	"clients/client"
)

// produce writes records in turn to all partitions and counts what was acknowledged.
func produce(s *client.Step, r *client.Result) (err error) {
	wire, err := client.NewWire(s, r)
	if err != nil {
		return err
	}
	defer wire.Close()
	partitions := s.Number("partitions", 6)
	records, pace := client.NewRecords(s), client.NewPace(s)
	by := transport(wire)
	defer by.CloseIdleConnections()
	writer := &kafka.Writer{
		Addr: kafka.TCP(s.Get("bootstrap", "")), Topic: s.Get("topic", ""), Transport: by,
		Balancer: kafka.BalancerFunc(func(m kafka.Message, _ ...int) int {
			i, _ := m.WriterData.(int)
			return i % partitions
		}),
		RequiredAcks: map[string]kafka.RequiredAcks{"all": kafka.RequireAll, "1": kafka.RequireOne, "0": kafka.RequireNone}[s.Get("acks", "all")],
		BatchTimeout: 10 * time.Millisecond, Async: true, Logger: said("writer"), ErrorLogger: said("writer error"),
		Completion: func(messages []kafka.Message, err error) {
			for _, m := range messages {
				if i, _ := m.WriterData.(int); err == nil {
					r.Acked(i, int32(m.Partition), m.Offset, m.Key, m.Value)
				} else {
					r.Failed(err)
					r.Refused(i)
				}
			}
		},
	}
	defer func() { err = errors.Join(err, writer.Close()) }()
	return pace.Each(func(i int) error {
		key, value := records.Record(i)
		r.Sent()
		return writer.WriteMessages(context.Background(), kafka.Message{Key: key, Value: value, WriterData: i})
	})
}
