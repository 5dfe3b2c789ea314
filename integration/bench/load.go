package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/errgroup"
)

// The versions that today's clients speak, where answers may end with addresses: the
// gateway walks over them.
const (
	produceVersion = 12
	fetchVersion   = 18
)

// kind is what a case's requests are.
type kind int

const (
	produce kind = iota
	fetch
)

// load is one case.
type load struct {
	name     string
	kind     kind
	records  int // bytes of records in a request, or asked for
	legs     int
	depth    int // requests in flight on a leg
	requests int // in all
}

// cases are sized so that the kernel's 10 ms of CPU time do not matter in a median.
func cases() []load {
	return []load{
		{"produce, 256 KiB", produce, 256 << 10, 2, 4, 2400},
		{"fetch, 256 KiB", fetch, 256 << 10, 2, 1, 2400},
		{"small, 1 connection", produce, 100, 1, 1, 4000},
		{"small, 64 connections", produce, 100, 64, 1, 38400},
	}
}

// scaled has another amount, at least what every leg has in flight.
func (l load) scaled(by float64) load {
	l.requests = max(int(float64(l.requests)*by), l.legs*l.depth)
	return l
}

// frame is the request that is made over and over.
func (l load) frame() []byte {
	var topic [16]byte
	copy(topic[:], "benchbenchbench.")
	if l.kind == fetch {
		r := kmsg.NewPtrFetchRequest()
		r.Version, r.MaxWaitMillis, r.MinBytes, r.MaxBytes = fetchVersion, 500, 1, int32(l.records)
		t, p := kmsg.NewFetchRequestTopic(), kmsg.NewFetchRequestTopicPartition()
		p.PartitionMaxBytes = int32(l.records)
		t.TopicID, t.Partitions = topic, []kmsg.FetchRequestTopicPartition{p}
		r.Topics = []kmsg.FetchRequestTopic{t}
		return encode(r)
	}
	r := kmsg.NewPtrProduceRequest()
	r.Version, r.Acks, r.TimeoutMillis = produceVersion, 1, 30_000
	t, p := kmsg.NewProduceRequestTopic(), kmsg.NewProduceRequestTopicPartition()
	p.Records = records(l.records)
	t.Topic, t.Partitions = clientID, []kmsg.ProduceRequestTopicPartition{p}
	r.Topics = []kmsg.ProduceRequestTopic{t}
	return encode(r)
}

// figures are what one case gave on one side.
type figures struct {
	wall        time.Duration
	latencies   []time.Duration // sorted
	bytes       int64           // of requests and answers
	requests    int
	cpu         time.Duration // of the gateway
	allocations float64       // in the gateway
}

// measure runs a case on one side. Connections are made, and used once, before it begins.
func (l *lab) measure(ctx context.Context, s side, c load) (f figures, err error) {
	legs := make([]*leg, c.legs)
	defer func() {
		for _, leg := range legs {
			if leg != nil {
				_ = leg.conn.Close()
			}
		}
	}()
	for i := range legs {
		if legs[i], err = s.open(ctx); err != nil {
			return f, err
		}
		defer context.AfterFunc(ctx, func() { _ = legs[i].conn.NetConn().Close() })()
		if _, err = legs[i].run(c, c.depth); err != nil {
			return f, err
		}
	}
	through := !s.login
	var cpu time.Duration
	var made float64
	if through {
		if made, err = metric(ctx, l.admin, mallocs); err != nil {
			return f, err
		}
		if cpu, err = l.gateway.cpu(); err != nil {
			return f, err
		}
	}
	began := time.Now()
	latencies := make([][]time.Duration, c.legs)
	var group errgroup.Group
	for i, leg := range legs {
		group.Go(func() (err error) {
			latencies[i], err = leg.run(c, c.requests/c.legs)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return f, errors.Join(err, context.Cause(ctx))
	}
	f.wall = time.Since(began)
	if through {
		after, err := l.gateway.cpu()
		if err != nil {
			return f, err
		}
		all, err := metric(ctx, l.admin, mallocs)
		if err != nil {
			return f, err
		}
		f.cpu, f.allocations = after-cpu, max(0, all-made-l.scrape)
	}
	f.latencies = slices.Sorted(slices.Values(slices.Concat(latencies...)))
	f.requests = len(f.latencies)
	f.bytes = int64(f.requests) * int64(len(c.frame())+len(legs[0].answer))
	return f, nil
}

// run makes n requests, so many at a time, and returns how long each took from before it
// was written until its answer was read. Every answer is compared with the first.
func (l *leg) run(c load, n int) ([]time.Duration, error) {
	frame := c.frame()
	sent := make([]time.Time, n)
	took := make([]time.Duration, 0, n)
	var first []byte
	next := 0
	for range n {
		for next < n && next-len(took) < c.depth {
			sent[next] = time.Now()
			if err := l.send(frame, uint32(next+2)); err != nil {
				return nil, err
			}
			next++
		}
		if err := l.receive(uint32(len(took) + 2)); err != nil {
			return nil, err
		}
		took = append(took, time.Since(sent[len(took)]))
		if first == nil {
			first = bytes.Clone(l.answer)
			if c.kind == fetch && !bytes.Contains(first, records(c.records)) {
				return nil, fmt.Errorf("an answer of %d bytes without the records", len(first))
			}
		}
		if !bytes.Equal(first[8:], l.answer[8:]) {
			return nil, errors.New("an answer that is not the one before")
		}
	}
	return took, nil
}
