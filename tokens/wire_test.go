package tokens

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// scripted is a cluster of three control listeners that speak just enough Kafka: it
// answers as the test wants it, and keeps what was asked.
type scripted struct {
	t         *testing.T
	listeners []net.Listener
	group     sync.WaitGroup

	hung atomic.Int32 // the broker that answers nothing from now on; 0: none

	mu    sync.Mutex
	asked []asking
	conns map[net.Conn]int32
	// answer gives the answer to a token request, or nil to close the connection.
	// It may block; ctx ends with the test.
	answer func(ctx context.Context, node int32, req kmsg.Request) kmsg.Response
}

type asking struct {
	node int32
	conn net.Conn
	req  kmsg.Request
}

func newScripted(t *testing.T, answer func(context.Context, int32, kmsg.Request) kmsg.Response) *scripted {
	t.Helper()
	s := &scripted{t: t, conns: make(map[net.Conn]int32), answer: answer}
	ctx, cancel := context.WithCancel(context.Background())
	for node := int32(1); node <= 3; node++ {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		s.listeners = append(s.listeners, l)
		s.group.Go(func() { s.accept(ctx, l, node) })
	}
	t.Cleanup(func() {
		cancel()
		for _, l := range s.listeners {
			_ = l.Close()
		}
		s.cut(0)
		s.group.Wait()
	})
	return s
}

// issuer is the real one, closed at the end of the test.
func (s *scripted) issuer() *kadmIssuer {
	s.t.Helper()
	var seeds []string
	for _, l := range s.listeners {
		seeds = append(seeds, l.Addr().String())
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(seeds...), kgo.RequestRetries(0), kgo.DisableClientMetrics(),
		kgo.RetryTimeout(10*time.Second), kgo.RequestTimeoutOverhead(10*time.Second), kgo.ConnIdleTimeout(4*time.Minute))
	if err != nil {
		s.t.Fatal(err)
	}
	k := NewKadmIssuer(client).(*kadmIssuer)
	s.t.Cleanup(func() {
		_ = k.Close()
		client.Close()
	})
	return k
}

func (s *scripted) accept(ctx context.Context, l net.Listener, node int32) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		s.conns[conn] = node
		s.mu.Unlock()
		s.group.Go(func() {
			defer func() {
				_ = conn.Close()
				s.mu.Lock()
				delete(s.conns, conn)
				s.mu.Unlock()
			}()
			_ = s.serve(ctx, conn, node)
		})
	}
}

// cut closes the connections of one broker, or of all with 0.
func (s *scripted) cut(node int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for conn, n := range s.conns {
		if node == 0 || n == node {
			_ = conn.Close()
		}
	}
}

func (s *scripted) serve(ctx context.Context, conn net.Conn, node int32) error {
	in := bufio.NewReader(conn)
	for {
		var size [4]byte
		if _, err := io.ReadFull(in, size[:]); err != nil {
			return err
		}
		frame := make([]byte, binary.BigEndian.Uint32(size[:]))
		if _, err := io.ReadFull(in, frame); err != nil {
			return err
		}
		key, version := int16(binary.BigEndian.Uint16(frame)), int16(binary.BigEndian.Uint16(frame[2:]))
		req := kmsg.RequestForKey(key)
		if req == nil {
			return errors.New("unknown key")
		}
		req.SetVersion(version)
		body := frame[8:]
		if n := int16(binary.BigEndian.Uint16(body)); n > 0 {
			body = body[n:]
		}
		body = body[2:]
		if req.IsFlexible() {
			body = body[1:] // no tags
		}
		if err := req.ReadFrom(body); err != nil {
			return err
		}
		resp := s.respond(ctx, node, conn, req)
		if resp == nil {
			return nil
		}
		resp.SetVersion(version)
		out := append([]byte{0, 0, 0, 0}, frame[4:8]...)
		if resp.IsFlexible() && key != int16(kmsg.ApiVersions) {
			out = append(out, 0)
		}
		out = resp.AppendTo(out)
		binary.BigEndian.PutUint32(out, uint32(len(out)-4))
		if _, err := conn.Write(out); err != nil {
			return err
		}
	}
}

func (s *scripted) respond(ctx context.Context, node int32, conn net.Conn, req kmsg.Request) kmsg.Response {
	if s.hung.Load() == node {
		<-ctx.Done()
		return nil
	}
	switch r := req.(type) {
	case *kmsg.ApiVersionsRequest:
		resp := r.ResponseKind().(*kmsg.ApiVersionsResponse)
		for _, key := range []kmsg.Key{kmsg.Metadata, kmsg.ApiVersions, kmsg.CreateDelegationToken, kmsg.ExpireDelegationToken, kmsg.DescribeDelegationToken} {
			k := kmsg.NewApiVersionsResponseApiKey()
			k.ApiKey, k.MaxVersion = int16(key), kmsg.RequestForKey(int16(key)).MaxVersion()
			resp.ApiKeys = append(resp.ApiKeys, k)
		}
		return resp
	case *kmsg.MetadataRequest:
		resp := r.ResponseKind().(*kmsg.MetadataResponse)
		for i, l := range s.listeners {
			host, port, _ := net.SplitHostPort(l.Addr().String())
			p, _ := strconv.ParseInt(port, 10, 32)
			b := kmsg.NewMetadataResponseBroker()
			b.NodeID, b.Host, b.Port = int32(i+1), host, int32(p)
			resp.Brokers = append(resp.Brokers, b)
		}
		return resp
	default:
		s.mu.Lock()
		s.asked = append(s.asked, asking{node, conn, req})
		s.mu.Unlock()
		return s.answer(ctx, node, req)
	}
}

// all is what was asked so far.
func (s *scripted) all() []asking {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

// count is how many requests of a kind were read.
func (s *scripted) count(key kmsg.Key) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, q := range s.asked {
		if q.req.Key() == int16(key) {
			n++
		}
	}
	return n
}

// good answers every token request well, as one broker that knows one token "t".
func good(_ context.Context, _ int32, req kmsg.Request) kmsg.Response {
	switch r := req.(type) {
	case *kmsg.CreateDelegationTokenRequest:
		resp := r.ResponseKind().(*kmsg.CreateDelegationTokenResponse)
		resp.PrincipalType, resp.PrincipalName, resp.TokenRequesterPrincipalName = "User", gatewayName, gatewayName
		if r.OwnerPrincipalName != nil {
			resp.PrincipalName = *r.OwnerPrincipalName
		}
		resp.TokenID, resp.HMAC, resp.IssueTimestamp, resp.ExpiryTimestamp = "t", []byte("secret"), 1000, 61_000
		return resp
	case *kmsg.DescribeDelegationTokenRequest:
		resp := r.ResponseKind().(*kmsg.DescribeDelegationTokenResponse)
		d := kmsg.NewDescribeDelegationTokenResponseTokenDetail()
		d.PrincipalType, d.PrincipalName, d.TokenRequesterPrincipalType, d.TokenRequesterPrincipalName = "User", "alice", "User", gatewayName
		d.TokenID, d.HMAC, d.IssueTimestamp, d.ExpiryTimestamp = "t", []byte("secret"), 1000, 61_000
		for _, name := range []string{gatewayName, testMarker} {
			renewer := kmsg.NewDescribeDelegationTokenResponseTokenDetailRenewer()
			renewer.PrincipalType, renewer.PrincipalName = "User", name
			d.Renewers = append(d.Renewers, renewer)
		}
		resp.TokenDetails = append(resp.TokenDetails, d)
		return resp
	case *kmsg.ExpireDelegationTokenRequest:
		return r.ResponseKind()
	}
	panic(fmt.Sprintf("%T", req))
}
