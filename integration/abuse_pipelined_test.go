//go:build integration

package integration

// This file proves that a client may write far ahead: hundreds of requests before
// its token and its broker leg exist, and a hundred megabytes before it reads the
// first answer. All is answered in order, and the gateway's memory stays bounded,
// since it reads no faster than the broker and the client take.

import (
	"bytes"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"doorkeeper/integration/harness"
)

// B31: 500 requests in one write right after the handshake, of an owner whose token
// does not exist yet; some are answered by the gateway itself, between those that
// the broker answers.
func TestRequestsBeforeTheBrokerLegAreAnsweredInOrder(t *testing.T) {
	const requests = 500
	g := gateway(t, cluster(t), harness.GatewayConfig{})
	asked := make(map[int32]kmsg.Request)
	var all []byte
	for i := int32(1); i <= requests; i++ {
		var req kmsg.Request = metadata()
		switch i % 5 {
		case 1:
			v := kmsg.NewPtrApiVersionsRequest()
			v.Version, v.ClientSoftwareName, v.ClientSoftwareVersion = 3, "raw", "1"
			req = v
		case 2:
			h := kmsg.NewPtrSASLHandshakeRequest()
			h.Version, h.Mechanism = 1, "SCRAM-SHA-512"
			req = h
		case 3:
			d := kmsg.NewPtrDescribeDelegationTokenRequest()
			d.Version = 2
			req = d
		}
		asked[i] = req
		all = append(all, frame(req, i)...)
	}
	r := rawClient(t, g, g.Bootstrap, "eager")
	_, err := r.Write(all)
	must(t, err)
	must(t, r.SetReadDeadline(time.Now().Add(patience)))
	for i := int32(1); i <= requests; i++ {
		got, rest, err := r.Receive()
		must(t, err)
		if got != i {
			t.Fatalf("answer %d is to request %d", i, got)
		}
		resp, err := harness.Parse(asked[i], rest)
		must(t, err)
		checkAnswer(t, i, resp)
	}
}

func checkAnswer(t *testing.T, i int32, resp kmsg.Response) {
	t.Helper()
	var code, want int16
	switch r := resp.(type) {
	case *kmsg.MetadataResponse:
		if len(r.Brokers) != 3 {
			t.Errorf("answer %d names %d brokers", i, len(r.Brokers))
		}
	case *kmsg.ApiVersionsResponse:
		code = r.ErrorCode
	case *kmsg.SASLHandshakeResponse:
		code, want = r.ErrorCode, kerr.IllegalSaslState.Code
	case *kmsg.DescribeDelegationTokenResponse:
		code, want = r.ErrorCode, kerr.DelegationTokenRequestNotAllowed.Code
	}
	if code != want {
		t.Errorf("answer %d has error %d, not %d", i, code, want)
	}
}

// B31: five produces of 20 MB, written before any answer is read; then the same with
// reads of 20 MB between them, whose answers are taken slowly.
func TestHundredMegabytesAheadOfTheAnswers(t *testing.T) {
	const (
		size  = 20 << 20
		times = 5
		most  = 24 << 20 // of the gateway's growth: far below what is under way
	)
	c := cluster(t)
	ctx := within(t, 3*time.Minute)
	topic := topicFor(t, c, "bulky")
	big := "26214400"
	_, err := c.Admin.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Name: "max.message.bytes", Value: &big}}, topic)
	must(t, err)
	g := gateway(t, c, harness.GatewayConfig{Plain: true})
	leader := g.NodeAddress(1) // of partition 0
	rawReady(t, g, leader, "bulky")
	sent := produce(topic, 0, -1, batch([]byte("k"), bytes.Repeat([]byte("0123456789abcdef"), size/16)))
	before := rss(t, g)
	peak := peakOf(t, g)

	r := rawReady(t, g, leader, "bulky")
	for i := range int32(times) {
		_, err := r.Write(frame(sent, 100+i))
		must(t, err)
	}
	must(t, r.SetReadDeadline(time.Now().Add(2*patience)))
	for i := range int32(times) {
		wantAnswer(t, r, sent, 100+i)
	}

	// The second half: writing and reading at the same time, as else Kafka itself,
	// which answers one request after the other, could not go on.
	var wg sync.WaitGroup
	read := fetch(topic, 0, 0, size+1<<20, 1, time.Second)
	wg.Go(func() {
		for i := range int32(times) {
			read.Topics[0].Partitions[0].FetchOffset = int64(i)
			if _, err := r.Write(append(frame(sent, 200+2*i), frame(read, 201+2*i)...)); err != nil {
				t.Error(err)
				return
			}
		}
	})
	time.Sleep(2 * time.Second) // both directions are full by now
	must(t, r.SetReadDeadline(time.Now().Add(3*patience)))
	for i := range int32(times) {
		wantAnswer(t, r, sent, 200+2*i)
		got := wantAnswer(t, r, read, 201+2*i).(*kmsg.FetchResponse)
		if n := len(got.Topics[0].Partitions[0].RecordBatches); n < size {
			t.Errorf("fetch %d brought %d bytes", i, n)
		}
	}
	wg.Wait()

	grown := peak() - before
	t.Logf("200 MB in, 100 MB out: %s before, grown by %s at most", kib(before), kib(grown))
	if grown > most {
		t.Errorf("memory grew by %s", kib(grown))
	}
}

// wantAnswer reads the next answer, which must be the one to req, without an error.
func wantAnswer(t *testing.T, r *harness.Raw, req kmsg.Request, correlation int32) kmsg.Response {
	t.Helper()
	got, rest, err := r.Receive()
	must(t, err)
	if got != correlation {
		t.Fatalf("an answer to %d, where that to %d is due", got, correlation)
	}
	resp, err := harness.Parse(req, rest)
	must(t, err)
	var code int16
	switch r := resp.(type) {
	case *kmsg.ProduceResponse:
		code = r.Topics[0].Partitions[0].ErrorCode
	case *kmsg.FetchResponse:
		code = r.Topics[0].Partitions[0].ErrorCode
	}
	must(t, kerr.ErrorForCode(code))
	return resp
}

// peakOf watches the gateway's memory until the returned function is called, which
// gives the most that was seen.
func peakOf(t *testing.T, g *harness.Gateway) func() int {
	quit := make(chan struct{})
	most := 0
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			if r, err := g.Resources(); err == nil {
				most = max(most, r.RSS)
			}
			select {
			case <-quit:
				return
			case <-time.After(50 * time.Millisecond):
			}
		}
	})
	peak := sync.OnceValue(func() int { close(quit); wg.Wait(); return most })
	t.Cleanup(func() { peak() })
	return peak
}
