package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// listeners say where the broker listens and with what: the token listener (Data), where
// clients log in, and the control listener, which takes certificates of the same CA.
type listeners struct {
	Host                 string
	Data, Control        int
	Certificate, Key, CA string
	SessionLife          time.Duration // what a login is worth
}

func (l listeners) data() string    { return net.JoinHostPort(l.Host, strconv.Itoa(l.Data)) }
func (l listeners) control() string { return net.JoinHostPort(l.Host, strconv.Itoa(l.Control)) }

// brokerReady is what the broker says when it listens.
const brokerReady = "ready\n"

// frameMost bounds a request, in bytes.
const frameMost = 64 << 20

// broker is the one broker of a cluster.
type broker struct {
	listens listeners
	logins  *logins
	tokens  *tokenList
	worked  atomic.Int64 // logins
}

// runBroker is the broker's process: in has its listeners as a line of JSON, and its end
// is the process's.
func runBroker(ctx context.Context, in io.Reader, out io.Writer) error {
	lines := bufio.NewReader(in)
	line, err := lines.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("read the listeners: %w", err)
	}
	b := &broker{tokens: &tokenList{}}
	if err := json.Unmarshal(line, &b.listens); err != nil {
		return err
	}
	if b.logins, err = newLogins(b.tokens); err != nil {
		return err
	}
	pair, err := tls.LoadX509KeyPair(b.listens.Certificate, b.listens.Key)
	if err != nil {
		return err
	}
	ca, err := os.ReadFile(b.listens.CA)
	if err != nil {
		return err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	data := &tls.Config{Certificates: []tls.Certificate{pair}}
	control := &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert}

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var running sync.WaitGroup
	defer running.Wait()
	for _, l := range []struct {
		address string
		tls     *tls.Config
		port    int
	}{{b.listens.data(), data, b.listens.Data}, {b.listens.control(), control, b.listens.Control}} {
		listener, err := net.Listen("tcp", l.address)
		if err != nil {
			return err
		}
		defer context.AfterFunc(ctx, func() { _ = listener.Close() })()
		running.Go(func() { cancel(b.accept(ctx, tls.NewListener(listener, l.tls), l.port)) })
	}
	if _, err := io.WriteString(out, brokerReady); err != nil {
		return err
	}
	go func() {
		_, _ = lines.ReadByte()
		cancel(nil)
	}()
	<-ctx.Done()
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// accept serves connections until ctx ends, and waits for them.
func (b *broker) accept(ctx context.Context, l net.Listener, port int) error {
	var running sync.WaitGroup
	defer running.Wait()
	for {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		running.Go(func() {
			defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
			defer func() { _ = conn.Close() }()
			served := serving{broker: b, conn: conn.(*tls.Conn), port: port}
			if err := served.run(ctx); ctx.Err() == nil && !errors.Is(err, io.EOF) {
				fmt.Fprintf(os.Stderr, "connection of %s to port %d: %v\n", conn.RemoteAddr(), port, err)
			}
		})
	}
}

// serving is one connection.
type serving struct {
	broker *broker
	conn   *tls.Conn
	port   int    // of the listener
	asker  string // who it is, by its certificate; on the token listener empty
	login  login
	number int64 // of the login that it is on, over all connections

	request []byte // the last frame's payload
	before  []byte // the one before, and its whole answer
	answer  []byte
}

// correlation is where a request has its correlation id: behind key and version.
const correlation = 4

// run answers requests one after the other, as Kafka does, until the connection ends: its
// error says how, io.EOF for the peer's own end.
func (s *serving) run(ctx context.Context) error {
	if err := s.conn.HandshakeContext(ctx); err != nil {
		return err
	}
	if peers := s.conn.ConnectionState().PeerCertificates; len(peers) > 0 {
		s.asker = peers[0].Subject.String()
	}
	for {
		if err := s.read(); err != nil {
			return err
		}
		if !s.again() {
			answer, err := s.respond()
			if err != nil {
				return err
			}
			s.answer, s.before = answer, append(s.before[:0], s.request...)
		}
		copy(s.answer[4:8], s.request[correlation:])
		if _, err := s.conn.Write(s.answer); err != nil {
			return err
		}
	}
}

func (s *serving) read() error {
	var head [4]byte
	if _, err := io.ReadFull(s.conn, head[:]); err != nil {
		return err
	}
	n := int(binary.BigEndian.Uint32(head[:]))
	if n < 10 || n > frameMost {
		return fmt.Errorf("a request of %d bytes", n)
	}
	if cap(s.request) < n {
		s.request = make([]byte, n)
	}
	s.request = s.request[:n]
	_, err := io.ReadFull(s.conn, s.request)
	return err
}

// again tells whether the request is the last one but for its correlation id. Logins and
// tokens are never the same twice, since they carry nonces and times.
func (s *serving) again() bool {
	return len(s.request) == len(s.before) && bytes.Equal(s.request[:correlation], s.before[:correlation]) &&
		bytes.Equal(s.request[correlation+4:], s.before[correlation+4:]) && repeats(s.request)
}
