//go:build integration

package integration

// This file proves that a broker which is killed, stopped or slow at any step of a renewal
// costs its client no more than a plain close, in time: a relay between the gateway and a
// real broker sees by the length of each TLS record which step goes out, and has the broker
// killed (SIGKILL), stopped (SIGSTOP, for some seconds) or late before it passes that on.
// The client has a fetch and more in flight all the while. DOORKEEPER_TROUBLE=full has each
// kind of trouble at each step: `make trouble`. trouble_renewal_test.go has the network's.

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"doorkeeper/integration/harness"
	"doorkeeper/internal/faultrelay"
)

const (
	stoppedFor = 3 * time.Second
	lateBy     = 300 * time.Millisecond // each piece, both ways
	// renewalBound is for the answer to any request: the gateway waits for half a minute
	// for an answer to one of its own.
	renewalBound = 30*time.Second + patience/2
)

// renewalRow is one kind of trouble at one step of one kind of renewal.
type renewalRow struct {
	kind, trouble, step string
}

func renewalRows() []renewalRow {
	if os.Getenv("DOORKEEPER_TROUBLE") != "full" {
		return []renewalRow{{"reauthenticate", "stopped", "client-first"}, {"swap", "killed", "draining"}}
	}
	var out []renewalRow
	for _, trouble := range []string{"late", "stopped", "killed"} {
		for _, step := range []string{"handshake", "client-first", "client-final"} {
			out = append(out, renewalRow{"reauthenticate", trouble, step})
		}
		for _, step := range []string{"dial", "versions", "handshake", "client-first", "client-final", "draining", "fence"} {
			out = append(out, renewalRow{"swap", trouble, step})
		}
	}
	return out
}

func TestAProcessInTroubleAtAStepOfARenewal(t *testing.T) {
	c := renewingCluster(t)
	gateways := map[string]*harness.Gateway{}
	for _, kind := range []string{"reauthenticate", "swap"} {
		gateways[kind] = gateway(t, c.Cluster, harness.GatewayConfig{Change: func(d harness.Document) {
			d.Set("connections.renewal", kind)
			d.Set("log.level", "debug")
		}})
	}
	for n, row := range renewalRows() {
		t.Run(strings.Join([]string{row.kind, row.trouble, row.step}, "/"), func(t *testing.T) {
			atRenewalStep(t, c, gateways[row.kind], row, n)
		})
	}
}

func atRenewalStep(t *testing.T, c *renewing, g *harness.Gateway, row renewalRow, n int) {
	ctx := within(t, 4*time.Minute)
	topic := topicFor(t, c.Cluster, "step")
	works(t, g, "step", topic)
	node := c.Node(1)
	healed := make(chan error, 1)
	// The client's id, which goes with all that the gateway sends for it, tells its legs
	// from others by their records' lengths.
	id := strings.Repeat("x", 200+n)
	w := &renewalWatch{row: row, id: len(id), legs: map[int]*watchedLeg{}, reached: make(chan struct{})}
	w.act = func() {
		switch row.trouble {
		case "killed":
			node.Kill()
			healed <- nil
		case "stopped":
			if err := node.Pause(); err != nil {
				healed <- err
				return
			}
			time.AfterFunc(stoppedFor, func() { healed <- node.Resume() })
		case "late":
			healed <- nil
		}
	}
	c.relay.Watch(w.see)
	defer c.relay.Watch(nil)

	raw, err := harness.DialRaw(ctx, g.NodeAddress(1), site.Client("step").ClientTLS())
	must(t, err)
	defer func() { _ = raw.Close() }()
	raw.As(id)
	answers, err := throughRenewal(ctx, raw, topic, row.step == "fence", w)
	t.Logf("%d answers, then %v; %s", answers, err, w)
	switch {
	case errors.Is(err, io.EOF) && answers > 0:
	case err != nil:
		t.Errorf("the client got %v: neither its answers nor a plain close", err)
	}
	select {
	case <-w.reached:
		if err := <-healed; err != nil {
			t.Error(err)
		}
	default:
		t.Error("no renewal came to that step: it proves nothing")
	}
	w.judge(t)
	c.relay.Watch(nil)
	if row.trouble == "killed" {
		must(t, node.Start())
	}
	must(t, c.Await(ctx))
	works(t, g, "step", topic)
	if row.trouble == "killed" {
		must(t, c.Admin.Balance(ctx))
	}
}

// throughRenewal keeps requests in flight until the trouble has come and a renewal's time
// is over, or the connection is. It returns how many answers came, each the one due.
func throughRenewal(ctx context.Context, raw *harness.Raw, topic string, silent bool, w *renewalWatch) (answers int, _ error) {
	round := []kmsg.Request{metadataRequest(9), fetch(topic, 0, 0, 1<<20, 1<<20, 300*time.Millisecond)}
	var rest time.Time // when to end
	for began := time.Now(); rest.IsZero() || time.Now().Before(rest); {
		if time.Since(began) > 2*renewalBound {
			return answers, errors.New("no renewal")
		}
		select {
		case <-w.reached:
			if rest.IsZero() {
				rest = time.Now().Add(stoppedFor + time.Second)
			}
		case <-ctx.Done():
			return answers, ctx.Err()
		default:
		}
		if err := raw.SetDeadline(time.Now().Add(renewalBound)); err != nil {
			return answers, err
		}
		var sent []int32
		for _, r := range round {
			id, err := raw.Send(r)
			if err != nil {
				return answers, closedUnder(err)
			}
			sent = append(sent, id)
		}
		if silent {
			record := &kgo.Record{Topic: topic, Partition: 0, Value: []byte("x")}
			if _, err := raw.Send(produceRequest(9, 0, [16]byte{}, record)); err != nil {
				return answers, closedUnder(err)
			}
		}
		for i, r := range round {
			got, body, err := raw.Receive()
			if err != nil {
				return answers, err
			}
			if got != sent[i] {
				return answers, fmt.Errorf("an answer to %d, %d is due", got, sent[i])
			}
			if _, err := harness.Parse(r, body); err != nil {
				return answers, fmt.Errorf("a foreign answer: %w", err)
			}
			answers++
		}
	}
	return answers, nil
}

// closedUnder is how a connection ended that could not be written to: a write tells of a
// reset where the client was still writing.
func closedUnder(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	return io.EOF
}

// watchedLeg is what is seen of one connection to the broker.
type watchedLeg struct {
	rest     []byte
	finished bool  // the TLS handshake
	requests []int // lengths of their records, less the client's id's
}

// renewalWatch finds the step in what passes, and whether two legs are ever in use.
type renewalWatch struct {
	row     renewalRow
	id      int
	act     func()
	reached chan struct{}

	mu     sync.Mutex
	legs   map[int]*watchedLeg
	mine   []int // the client's legs, as they logged in
	done   bool
	faults []string
}

func (w *renewalWatch) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []string
	for _, n := range w.mine {
		r := w.legs[n].requests
		out = append(out, fmt.Sprintf("leg %d: %d requests, %v ... %v", n, len(r), r[:min(len(r), 5)], r[max(0, len(r)-8):]))
	}
	return strings.Join(out, "; ")
}

// see is the relay's.
func (w *renewalWatch) see(n int, d faultrelay.Direction, b []byte) {
	w.mu.Lock()
	hit := w.noteLocked(n, d, b) && !w.done
	w.done = w.done || hit
	late := w.done && w.row.trouble == "late"
	if hit {
		w.act() // what passes on other connections waits too
		close(w.reached)
	}
	w.mu.Unlock()
	if late {
		time.Sleep(lateBy)
	}
}

// What the frames of a renewal have beside the client's id, in a record of TLS 1.3: its
// own 17 bytes, length and header, and the body.
const (
	fenceRecord     = 17 + 4 + 10
	handshakeRecord = 17 + 4 + 10 + 2 + len("SCRAM-SHA-512")
	alertRecord     = 19
)

// noteLocked tells whether this is the step.
func (w *renewalWatch) noteLocked(n int, d faultrelay.Direction, b []byte) (hit bool) {
	l := w.legs[n]
	if l == nil {
		l = &watchedLeg{}
		w.legs[n] = l
		if w.row.step == "dial" && len(w.mine) == 1 && w.aged() {
			return true
		}
	}
	if d == faultrelay.ToClient {
		return w.row.step == "draining" && len(w.mine) > 1 && w.mine[1] == n && len(l.requests) == 4
	}
	l.rest = append(l.rest, b...)
	for len(l.rest) >= 5 {
		length := int(binary.BigEndian.Uint16(l.rest[3:5]))
		if len(l.rest) < 5+length {
			break
		}
		kind := l.rest[0]
		l.rest = l.rest[5+length:]
		switch {
		case kind != 23:
		case !l.finished:
			l.finished = length == 17+4+32 || length == 17+4+48
		case length > alertRecord:
			hit = w.requestLocked(n, l, length-w.id) || hit
		}
	}
	return hit
}

// aged tells whether the only leg has served so long that a new one is probably its heir.
func (w *renewalWatch) aged() bool { return len(w.legs[w.mine[0]].requests) > 8 }

func (w *renewalWatch) requestLocked(n int, l *watchedLeg, length int) (hit bool) {
	if len(l.requests) == 0 && length > 0 {
		w.mine = append(w.mine, n)
	}
	l.requests = append(l.requests, length)
	at := -1
	for i, m := range w.mine {
		if m == n {
			at = i
		}
	}
	if at < 0 {
		return false
	}
	index := len(l.requests) - 1
	if at < len(w.mine)-1 && len(w.legs[w.mine[len(w.mine)-1]].requests) > 4 {
		w.faults = append(w.faults, fmt.Sprintf("leg %d was used while leg %d was in use", n, w.mine[len(w.mine)-1]))
	}
	steps := []string{"versions", "handshake", "client-first", "client-final"}
	if w.row.kind == "swap" {
		return at == 1 && index < len(steps) && steps[index] == w.row.step ||
			w.row.step == "fence" && index > 4 && length == fenceRecord
	}
	for i := 1; i < len(steps); i++ { // the talk is the login's, from its handshake on
		if begun := index - i + 1; begun > 4 && l.requests[begun] == handshakeRecord && steps[i] == w.row.step {
			if d := length - l.requests[i]; d < -4 || d > 4 { // brokers' nonces differ in length
				w.faults = append(w.faults, fmt.Sprintf("a %s of %d bytes; the login's had %d", steps[i], length, l.requests[i]))
			}
			return true
		}
	}
	return false
}

// judge looks at what legs there were.
func (w *renewalWatch) judge(t *testing.T) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, fault := range w.faults {
		t.Error(fault)
	}
	if w.row.kind == "reauthenticate" && len(w.mine) != 1 {
		t.Errorf("%d legs for one client", len(w.mine))
	}
	if len(w.mine) > 0 {
		if r := w.legs[w.mine[0]].requests; len(r) < 5 || r[1] != handshakeRecord {
			t.Errorf("the first login was not recognised: %v", r)
		}
	}
}
