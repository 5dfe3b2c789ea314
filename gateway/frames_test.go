package gateway

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/semaphore"

	"doorkeeper/internal/certtest"
	"doorkeeper/internal/frugal"
	"doorkeeper/internal/wire"
)

// judged is what the request loop makes of a frame of which so many bytes are at hand.
func judged(g *Gateway, payload []byte, atHand int) (frame, error) {
	s := &session{g: g, started: true}
	f := frame{bytes: append(make([]byte, wire.LengthSize), payload[:atHand]...), size: len(payload)}
	err := s.inspect(&f)
	return f, err
}

// However a frame comes in pieces, it is judged once and for all: more is asked for
// until there is enough, and with more than enough the judgement is the same. Whatever
// is taken for a request has the header that kmsg would have written before it.
func FuzzFrame(f *testing.F) {
	g := &Gateway{policy: newPolicy()}
	for _, r := range g.policy {
		if r.action != actionRefuse {
			f.Add(encode(kmsg.RequestForKey(int16(r.key)), r.max, 1)[wire.LengthSize:], uint16(3))
			f.Add(raw(kmsg.RequestForKey(int16(r.key)), r.max, 1, nil, []byte{1, 7, 2, 'h', 'i'})[wire.LengthSize:], uint16(11))
		}
	}
	f.Fuzz(func(t *testing.T, payload []byte, cut uint16) {
		if len(payload) < wire.MinRequest {
			return // refused by its length
		}
		whole, errWhole := judged(g, payload, len(payload))
		frugal.Check(t, len(payload), func() { _, _ = judged(g, payload, len(payload)) })
		part, errPart := judged(g, payload, min(len(payload), int(cut)))
		switch {
		case errors.Is(errPart, wire.ErrShort):
		case (errPart == nil) != (errWhole == nil), part.inspection != whole.inspection, part.header.Size != whole.header.Size:
			t.Fatalf("with %d of %d bytes %+v, %v; with all %+v, %v", cut, len(payload), part.inspection, errPart, whole.inspection, errWhole)
		}
		if errWhole != nil || whole.header.Version > whole.rule.max {
			return
		}
		if again, err := wire.ParseHeader(payload[:whole.header.Size], whole.rule.flexibleAt(whole.header.Version)); err != nil || again.Size != whole.header.Size {
			t.Fatalf("the header alone: %+v, %v", again, err)
		}
	})
}

// Whatever a client writes, in whatever TLS records, the reader hands on the very bytes,
// frame by frame, up to the first that is none, is refused or does not end; and it holds
// no more than four times what came of a frame, and nothing between frames.
func FuzzFrameReader(f *testing.F) {
	ca := certtest.NewCA("edge")
	edge := ca.Issue(certtest.Server("127.0.0.1")).TLS
	server := &tls.Config{Certificates: []tls.Certificate{edge}, MinVersion: tls.VersionTLS13}
	client := &tls.Config{RootCAs: certtest.Pool(ca), ServerName: "127.0.0.1", MinVersion: tls.VersionTLS13}
	g := &Gateway{policy: newPolicy(), requests: semaphore.NewWeighted(requestBudget)}
	g.cfg.Buffers, g.cfg.Limits.Frame, g.cfg.Timeouts.Stall = wire.NewBuffers(), 1<<20, time.Minute

	var all []byte
	for _, r := range g.policy {
		if r.action != actionRefuse {
			all = append(all, encode(kmsg.RequestForKey(int16(r.key)), r.max, 1)...)
		}
	}
	f.Add(all, uint16(0))
	f.Add(all, uint16(7))
	f.Add(append(encode(fetchOf(400), 17, 1), all[:100]...), uint16(600))
	f.Add([]byte(nil), uint16(42))
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"), uint16(1))
	f.Add(append(bytes.Clone(all[:60]), 0x7f, 0xff, 0xff, 0xff, 0, 3), uint16(30))
	f.Fuzz(func(t *testing.T, stream []byte, cut uint16) {
		if len(stream) > 256<<10 {
			return
		}
		ours, theirs := net.Pipe()
		var writing sync.WaitGroup
		defer writing.Wait()
		defer func() { _ = ours.Close(); _ = theirs.Close() }()
		writing.Go(func() {
			c := tls.Client(theirs, client)
			if err := c.Handshake(); err != nil {
				t.Error(err)
				return
			}
			for left := stream; len(left) > 0; {
				n := min(len(left), int(cut)+1)
				if _, err := c.Write(left[:n]); err != nil {
					return
				}
				left = left[n:]
			}
			_ = c.CloseWrite()
		})
		s := &session{g: g, started: true, client: wire.Server(ours, server, g.cfg.Buffers)}
		if err := s.client.Handshake(t.Context()); err != nil {
			t.Fatal(err)
		}
		want := framesIn(g, stream)
		for i := 0; ; i++ {
			got, err := s.oneFrame(t)
			if s.held != 0 || s.big != nil {
				t.Fatalf("%d bytes are held behind frame %d", s.held, i)
			}
			switch {
			case err != nil && i < len(want):
				t.Fatalf("frame %d of %d, %x: %v", i, len(want), want[i], err)
			case err == nil && (i == len(want) || !bytes.Equal(got, want[i])):
				t.Fatalf("frame %d of %d is %x", i, len(want), got)
			case err != nil:
				return
			}
		}
	})
}

// oneFrame reads a request to its end, as the request loop does.
func (s *session) oneFrame(t *testing.T) ([]byte, error) {
	head, err := s.nextFrame()
	if err != nil {
		return nil, err
	}
	size, err := wire.RequestLength(head, s.g.cfg.Limits.Frame)
	if err != nil {
		return nil, err
	}
	f := frame{bytes: append(s.small[:0], head[:]...), size: size}
	defer s.letGo()
	s.begin()
	if err := s.classify(&f); err != nil {
		return nil, err
	}
	if f.refuse != "" {
		return nil, errors.New(f.refuse)
	}
	if s.held > 4*int64(len(f.bytes)) {
		t.Errorf("%d bytes are held for %d", s.held, len(f.bytes))
	}
	got := bytes.Clone(f.bytes)
	for left := f.size - len(f.payload()); left > 0; {
		piece, err := s.piece(left)
		if err != nil {
			return nil, err
		}
		got, left = append(got, piece...), left-len(piece)
	}
	return got, nil
}

// framesIn are the whole requests at the beginning of what a client writes.
func framesIn(g *Gateway, stream []byte) (all [][]byte) {
	for len(stream) > wire.LengthSize {
		size := int32(binary.BigEndian.Uint32(stream))
		if size < wire.MinRequest || int64(size) > g.cfg.Limits.Frame || int(size) > len(stream)-wire.LengthSize {
			return all
		}
		end := wire.LengthSize + int(size)
		if f, err := judged(g, stream[wire.LengthSize:end], int(size)); err != nil || f.refuse != "" {
			return all
		}
		all, stream = append(all, stream[:end]), stream[end:]
	}
	return all
}

// fetchOf is a Fetch of so many topics, which has to be held whole from version 15 on.
func fetchOf(topics int) *kmsg.FetchRequest {
	r := kmsg.NewPtrFetchRequest()
	r.Topics = make([]kmsg.FetchRequestTopic, topics)
	return r
}
