package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"doorkeeper/internal/pause"
)

const (
	devValue   = "written by alice"
	devRecords = 10 // for each partition, at first
	// devStep bounds one step of the proof; carrying on over a replacement gets
	// devCarry, which is a token's life and patience for a busy machine.
	devStep  = 15 * time.Second
	devCarry = 3 * devProofLife
	devPace  = 100 * time.Millisecond // from one of the carried records to the next
	devWait  = 100 * time.Millisecond // of a fetch at the broker
)

// devProof does what the gateway is for, as its clients do.
type devProof struct {
	kafka   *devKafka
	gateway *devGateway
	written int // records that alice has written
}

// prove says of each step what came of it. The error is the first thing that was
// not as it must be.
func (p *devProof) prove(ctx context.Context, out terminal) error {
	steps := []struct {
		who    string
		do     func(context.Context) (string, error)
		atMost time.Duration
	}{
		{"alice", p.alice, devStep},
		{"bob", p.bob, devStep},
		{"alice", p.carry, devCarry},
	}
	for _, s := range steps {
		ctx, cancel := context.WithTimeout(ctx, s.atMost)
		said, err := s.do(ctx)
		cancel()
		if err != nil {
			_, _ = fmt.Fprintf(out, "  %s  %-5s  %v\n", out.bad("FAILED"), s.who, err)
			return fmt.Errorf("the proof does not hold: %s: %w", s.who, err)
		}
		_, _ = fmt.Fprintf(out, "  %s  %-5s  %s\n", out.good("ok"), s.who, said)
	}
	return nil
}

// alice uses, with her certificate alone, the topic that is hers.
func (p *devProof) alice(ctx context.Context) (string, error) {
	client, err := p.client("alice", kgo.ConsumeTopics(devTopic))
	if err != nil {
		return "", err
	}
	defer closeWith(ctx, client)()
	for range devPartitions * devRecords {
		if err := client.ProduceSync(ctx, p.next()).FirstErr(); err != nil {
			return "", fmt.Errorf("write to %s: %w", devTopic, err)
		}
	}
	if err := p.readAll(ctx, client); err != nil {
		return "", err
	}
	brokers, err := p.kafka.saw("alice")
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("wrote %d records to %s and read them back; %s saw User:alice", p.written, devTopic, brokers), nil
}

// bob has a certificate that is as good, and the broker refuses him: he is not alice.
func (p *devProof) bob(ctx context.Context) (string, error) {
	client, err := p.client("bob")
	if err != nil {
		return "", err
	}
	defer closeWith(ctx, client)()
	err = client.ProduceSync(ctx, &kgo.Record{Topic: devTopic, Value: []byte("written by bob")}).FirstErr()
	switch {
	case err == nil:
		return "", fmt.Errorf("he may write to %s, which is alice's alone", devTopic)
	case !errors.Is(err, kerr.TopicAuthorizationFailed):
		return "", fmt.Errorf("he was to be refused with TOPIC_AUTHORIZATION_FAILED: %w", err)
	}
	brokers, err := p.kafka.saw("bob")
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("was refused by the broker, TOPIC_AUTHORIZATION_FAILED; %s saw User:bob", brokers), nil
}

// carry lets alice go on while her token is replaced by a new one.
func (p *devProof) carry(ctx context.Context) (string, error) {
	client, err := p.client("alice", kgo.ConsumeTopics(devTopic))
	if err != nil {
		return "", err
	}
	defer closeWith(ctx, client)()
	began, from, tokens := time.Now(), p.written, p.kafka.tokensOf("alice")
	for after := 0; after < 2*devPartitions; {
		if err := client.ProduceSync(ctx, p.next()).FirstErr(); err != nil {
			return "", fmt.Errorf("write while the token is replaced: %w", err)
		}
		if p.kafka.tokensOf("alice") > tokens {
			after++
		}
		if !pause.For(ctx, devPace) {
			return "", fmt.Errorf("no login with a new token was seen: %w", ctx.Err())
		}
	}
	if err := p.readAll(ctx, client); err != nil {
		return "", err
	}
	return fmt.Sprintf("went on for %.1f s while her token was replaced: %d records more, none lost, none twice",
		time.Since(began).Seconds(), p.written-from), nil
}

// client is a client as anybody would write it: it knows the bootstrap address and
// has a certificate, and nothing else.
func (p *devProof) client(name string, opts ...kgo.Opt) (*kgo.Client, error) {
	certificate, err := p.gateway.files[name].load()
	if err != nil {
		return nil, err
	}
	return kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(p.gateway.bootstrap), kgo.ClientID("dev-" + name),
		kgo.DialTLSConfig(&tls.Config{
			RootCAs: p.kafka.authority.pool(), Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12,
		}),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.FetchMaxWait(devWait),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	}, opts...)...)
}

// closeWith closes the client when ctx ends, or when the function that it returns is
// called. A context alone does not end a ProduceSync: franz-go gives up no record that a
// broker may hold already, and tries again for as long as the client is open.
func closeWith(ctx context.Context, client *kgo.Client) func() {
	once := sync.OnceFunc(client.Close)
	stop := context.AfterFunc(ctx, once)
	return func() {
		stop()
		once() // waits for the other's end
	}
}

func (p *devProof) next() *kgo.Record {
	r := &kgo.Record{
		Topic: devTopic, Partition: int32(p.written % devPartitions),
		Key: fmt.Appendf(nil, "record-%d", p.written), Value: []byte(devValue),
	}
	p.written++
	return r
}

// readAll reads until every record that was written has come, and fails if one came
// twice; ctx ends the wait.
func (p *devProof) readAll(ctx context.Context, client *kgo.Client) error {
	read, foreign := make(map[string]int), 0
	for len(read) < p.written {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return fmt.Errorf("read %d of %d records: %w", len(read), p.written, err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if string(r.Value) != devValue {
				foreign++
			}
			read[string(r.Key)]++
		})
		if foreign > 0 {
			return errors.New("a record that alice has not written is in her topic")
		}
	}
	for key, times := range read {
		if times != 1 {
			return fmt.Errorf("%s was read %d times", key, times)
		}
	}
	return nil
}

// saw says at how many brokers a principal has logged in, and fails if it has at none.
func (k *devKafka) saw(principal string) (string, error) {
	nodes := make(map[int32]bool)
	for _, l := range k.loginsOf(principal) {
		nodes[l.Node] = true
	}
	switch len(nodes) {
	case 0:
		return "", fmt.Errorf("no broker has seen a login of User:%s", principal)
	case 1:
		return "1 broker", nil
	}
	return fmt.Sprintf("%d brokers", len(nodes)), nil
}

// tokensOf counts the tokens with which a principal has logged in.
func (k *devKafka) tokensOf(principal string) int {
	tokens := make(map[string]bool)
	for _, l := range k.loginsOf(principal) {
		tokens[l.TokenID] = true
	}
	return len(tokens)
}
