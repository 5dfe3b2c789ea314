package checker

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// produces pairs a connection's answers with its Produce requests, and lets a trick do
// something to the nth of them.
type produces struct {
	nth   func() bool // counts; true once
	keys  map[int32]int16
	extra int32 // the correlation id of a request that no client has sent
}

func (p *produces) request(f frame) []frame {
	p.keys[f.requestID()] = f.key()
	return []frame{f}
}

func (p *produces) answer(f frame) []frame { return []frame{f} }

func (p *produces) isProduce(answer frame) bool { return p.keys[answer.answeredID()] == produceKey }

// ackDropped loses the answer to one request.
type ackDropped struct{ produces }

func (p *ackDropped) answer(f frame) []frame {
	if p.isProduce(f) && p.nth() {
		return nil
	}
	return []frame{f}
}

// sentTwice sends one request twice, and hides the second answer.
type sentTwice struct{ produces }

func (p *sentTwice) request(f frame) []frame {
	p.produces.request(f)
	if f.key() == produceKey && p.nth() {
		return []frame{f, f.asRequest(p.extra)}
	}
	return []frame{f}
}

func (p *sentTwice) answer(f frame) []frame {
	if f.answeredID() == p.extra {
		return nil
	}
	return []frame{f}
}

// swapped exchanges two requests, and gives the client its answers in its order.
type swapped struct {
	produces
	held, early   frame // a request, an answer
	first, second int32 // in the client's order
}

func (p *swapped) request(f frame) []frame {
	p.produces.request(f)
	switch {
	case f.key() != produceKey:
	case p.held != nil:
		first := p.held
		p.held, p.second = nil, f.requestID()
		return []frame{f, first}
	case p.nth():
		p.held, p.first = f, f.requestID()
		return nil
	}
	return []frame{f}
}

func (p *swapped) answer(f frame) []frame {
	switch id := f.answeredID(); {
	case p.second != 0 && id == p.second:
		p.early = f
		return nil
	case p.early != nil && id == p.first:
		early := p.early
		p.early = nil
		return []frame{f, early}
	}
	return []frame{f}
}

// wrongRequest gives two requests each other's answer.
type wrongRequest struct {
	produces
	held frame
}

func (p *wrongRequest) answer(f frame) []frame {
	switch {
	case !p.isProduce(f):
	case p.held != nil:
		first := p.held
		p.held = nil
		return []frame{f.asAnswer(first.answeredID()), first.asAnswer(f.answeredID())}
	case p.nth():
		p.held = f
		return nil
	}
	return []frame{f}
}

// F41: each planted fault is caught, and named; without one, nothing is found.
func TestPlantedFaultsAreFound(t *testing.T) {
	for _, tc := range []struct {
		what string
		of   func(produces) trick
		want Kind
		none bool
	}{
		{what: "no fault", of: func(p produces) trick { return &p }, none: true},
		{what: "an acknowledgement is dropped", of: func(p produces) trick { return &ackDropped{p} }, want: Unacknowledged},
		{what: "a request is sent twice", of: func(p produces) trick { return &sentTwice{p} }, want: Doubled},
		{what: "two requests are swapped", of: func(p produces) trick { return &swapped{produces: p} }, want: Reordered},
		{what: "an answer is given to the wrong request", of: func(p produces) trick { return &wrongRequest{produces: p} }, want: Misplaced},
	} {
		t.Run(tc.what, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			fake, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "t"))
			if err != nil {
				t.Fatal(err)
			}
			defer fake.Close()
			var seen atomic.Int32
			m := newMeddler(t, fake.ListenAddrs()[0], func() trick {
				return tc.of(produces{nth: func() bool { return seen.Add(1) == 20 }, keys: map[int32]int16{}, extra: -7})
			})
			client, err := kgo.NewClient(kgo.SeedBrokers(fake.ListenAddrs()...),
				kgo.Dialer(func(ctx context.Context, network, _ string) (net.Conn, error) {
					return (&net.Dialer{}).DialContext(ctx, network, m.ln.Addr().String())
				}),
				kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DisableIdempotentWrite(), kgo.MaxProduceRequestsInflightPerBroker(5),
				kgo.ProducerLinger(0), kgo.ProducerBatchMaxBytes(1200), kgo.RecordRetries(0),
			)
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			l := &Ledger{Topic: "t", Prefix: "p", Size: 100}
			wrote := l.Write(ctx, client, 3000, 1, 0)
			if n := seen.Load(); !tc.none && n < 21 {
				t.Fatalf("%d requests were not enough to plant a fault", n)
			}
			j := NewJudge(l)
			if err := Read(ctx, j.Topics(), j.Observe, kgo.SeedBrokers(fake.ListenAddrs()...)); err != nil {
				t.Fatal(err)
			}
			kinds := map[Kind]bool{}
			for _, f := range j.Findings() {
				kinds[f.Kind] = true
				t.Log(f)
			}
			switch {
			case tc.none && (len(kinds) > 0 || wrote != nil || j.Observed() != 3000):
				t.Errorf("%d records, %v", j.Observed(), wrote)
			case !tc.none && (!kinds[tc.want] || len(kinds) != 1):
				t.Errorf("wanted %s and nothing else; the writer saw %v", tc.want, wrote)
			case tc.want == Doubled, tc.want == Reordered, tc.want == Misplaced:
				if wrote != nil { // it is the checker alone who knows
					t.Errorf("the writer saw it: %v", wrote)
				}
			}
		})
	}
}
