package connections

import (
	"crypto/tls"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"hash"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/xdg-go/scram"

	"doorkeeper/internal/certtest"
	"doorkeeper/internal/secret"
	"doorkeeper/internal/wire"
)

// The broker of these tests is scripted: it does what no real one can be made to do.
// Where it behaves, its SCRAM side is xdg-go's, which shares no code with ours.

const (
	tokenID       = "Yw3Jc0x5Qz-6dV2n_sample"
	tokenPassword = "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0LXNlY3JldC1zZWNyZXQ="
)

func sampleCredential() *Credential {
	return &Credential{Username: tokenID, Password: secret.New(tokenPassword), Derived: new(secret.Memo)}
}

// counter is the Observer of the tests.
type counter struct {
	derived, atRisk atomic.Int64
	mu              sync.Mutex
	renewed         map[string]int // by result
	forced          map[string]int // by reason
}

func (c *counter) Renewed(_, result string, _, _ time.Duration, _ int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.renewed == nil {
		c.renewed = make(map[string]int)
	}
	c.renewed[result]++
}

func (c *counter) ForcedClose(reason string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.forced == nil {
		c.forced = make(map[string]int)
	}
	c.forced[reason]++
}

func (c *counter) renewals(result string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.renewed[result]
}

func (c *counter) closes(reason string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.forced[reason]
}

func (c *counter) KeyDerived(string) { c.derived.Add(1) }
func (c *counter) AtRisk()           { c.atRisk.Add(1) }

// request is what a broker read.
type request struct {
	key, version int16
	correlation  int32
	clientID     *string
	body         []byte
}

// visit is one connection as the broker saw it.
type visit struct {
	net.Conn // the TLS side
	plain    net.Conn
	mech     Mechanism
	scram    *scram.ServerConversation
	username string // that SCRAM named
	password string // that the broker expects
	lifetime int64

	mu       sync.Mutex
	requests []request
	proofs   int    // client-final messages that came
	late     int    // frames behind the login
	sni      string // the server name that was asked for
	done     chan struct{}
}

// step answers one request of a login; false ends the visit.
type step func(v *visit, r request) bool

// script is a broker's behaviour; nil steps behave well.
type script struct {
	tls                               *tls.Config // nil: a good certificate
	raw                               func(net.Conn)
	versions, handshake, first, final step
	after                             func(v *visit)
	lifetime                          int64 // ms; 0: an hour
	mech                              Mechanism
	lookup                            func(user string) (password string, ok bool) // nil: the sample
	iterations                        int
}

// lab is an authority, a broker's certificate and what listens.
type lab struct {
	ca     *certtest.CA
	broker *certtest.Issued
}

func newLab() *lab {
	ca := certtest.NewCA("broker-ca")
	return &lab{ca: ca, broker: ca.Issue(certtest.Server("broker.test"))}
}

// config of a dialer that trusts the lab.
func (l *lab) config(observer Observer) Config {
	return Config{
		TLS:         &tls.Config{RootCAs: certtest.Pool(l.ca), MinVersion: tls.VersionTLS12},
		Buffers:     wire.NewBuffers(),
		DialTimeout: time.Minute,
		Observer:    observer,
	}
}

// host is a listening broker.
type host struct {
	target Target
	ln     net.Listener
	script script
	visits chan *visit
	wg     sync.WaitGroup
	mu     sync.Mutex
	conns  []net.Conn
}

// listen starts a broker on loopback; it ends with the test.
func (l *lab) listen(t testing.TB, s script) *host {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if s.tls == nil {
		s.tls = l.broker.ServerConfig()
	}
	port := ln.Addr().(*net.TCPAddr).Port
	h := &host{target: Target{Node: 7, Host: "127.0.0.1", Port: int32(port)}, ln: ln, script: s, visits: make(chan *visit, 1000)}
	h.wg.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			h.mu.Lock()
			h.conns = append(h.conns, conn)
			h.mu.Unlock()
			h.wg.Go(func() { h.serve(conn) })
		}
	})
	t.Cleanup(h.close)
	return h
}

func (h *host) close() {
	_ = h.ln.Close()
	h.mu.Lock()
	for _, c := range h.conns {
		_ = c.Close()
	}
	h.mu.Unlock()
	h.wg.Wait()
}

// serve plays the script on one connection.
func (h *host) serve(conn net.Conn) {
	v := newVisit(conn, h.script)
	h.visits <- v
	v.play(conn, h.script)
}

func newVisit(conn net.Conn, s script) *visit {
	v := &visit{plain: conn, mech: s.mech, lifetime: s.lifetime, done: make(chan struct{})}
	if v.lifetime == 0 {
		v.lifetime = time.Hour.Milliseconds()
	}
	cfg := s.tls.Clone()
	cfg.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.sni = hello.ServerName
		return nil, nil
	}
	v.Conn = tls.Server(conn, cfg)
	v.scram = oracle(s, v)
	return v
}

// oracle is xdg-go's server, which knows the sample credential or what lookup says.
func oracle(s script, v *visit) *scram.ServerConversation {
	generator := func() hash.Hash { return s.mech.hash()() }
	server, err := scram.HashGeneratorFcn(generator).NewServer(func(user string) (scram.StoredCredentials, error) {
		v.username = user
		password, ok := tokenPassword, user == tokenID
		if s.lookup != nil {
			password, ok = s.lookup(user)
		}
		if !ok {
			return scram.StoredCredentials{}, errors.New("unknown")
		}
		v.password = password
		return stored(generator, user, password, s.iterations), nil
	})
	if err != nil {
		panic(err)
	}
	return server.NewConversation()
}

// stored computes what a server keeps, by xdg-go's client: another implementation
// than the one under test.
func stored(generator scram.HashGeneratorFcn, user, password string, iterations int) scram.StoredCredentials {
	if iterations == 0 {
		iterations = 4096
	}
	client, err := generator.NewClientUnprepped(user, password, "")
	if err != nil {
		panic(err)
	}
	salt := "salt-of-the-broker-" + base64.StdEncoding.EncodeToString([]byte(user))[:4]
	out, err := client.GetStoredCredentialsWithError(scram.KeyFactors{Salt: salt, Iters: iterations})
	if err != nil {
		panic(err)
	}
	return out
}

func (v *visit) play(conn net.Conn, s script) {
	defer close(v.done)
	defer func() { _ = conn.Close() }()
	if s.raw != nil {
		s.raw(conn)
		return
	}
	if err := v.Conn.(*tls.Conn).Handshake(); err != nil {
		_, _ = io.Copy(io.Discard, conn) // so that the peer can read the alert
		return
	}
	steps := []step{s.versions, s.handshake, s.first, s.final}
	good := []step{goodVersions, goodHandshake, goodFirst, goodFinal}
	for i, do := range steps {
		if do == nil {
			do = good[i]
		}
		r, err := v.read()
		if err != nil {
			return
		}
		if !do(v, r) {
			// Everything that still comes is recorded before the connection ends.
			for err == nil {
				_, err = v.read()
			}
			return
		}
	}
	if s.after != nil {
		s.after(v)
		return
	}
	for {
		if _, err := v.read(); err != nil {
			return
		}
		v.mu.Lock()
		v.late++
		v.mu.Unlock()
	}
}

// read takes the next request.
func (v *visit) read() (request, error) {
	var head [4]byte
	if _, err := io.ReadFull(v.Conn, head[:]); err != nil {
		return request{}, err
	}
	frame := make([]byte, binary.BigEndian.Uint32(head[:]))
	if _, err := io.ReadFull(v.Conn, frame); err != nil {
		return request{}, err
	}
	r := request{
		key:         int16(binary.BigEndian.Uint16(frame)),
		version:     int16(binary.BigEndian.Uint16(frame[2:])),
		correlation: int32(binary.BigEndian.Uint32(frame[4:])),
	}
	header, err := wire.ParseHeader(frame, flexible(r.key, r.version))
	if err != nil {
		return request{}, err
	}
	if header.ClientID != nil {
		r.clientID = kmsg.StringPtr(string(header.ClientID))
	}
	r.body = frame[header.Size:]
	v.mu.Lock()
	defer v.mu.Unlock()
	v.requests = append(v.requests, r)
	if r.key == 36 && strings.Contains(string(r.body), ",p=") {
		v.proofs++
	}
	return r, nil
}

func flexible(key, version int16) bool {
	r := kmsg.RequestForKey(key)
	r.SetVersion(version)
	return r.IsFlexible()
}

// reply writes an answer: header (flexible where need be) and body.
func (v *visit) reply(r request, response kmsg.Response) bool {
	response.SetVersion(r.version)
	var b []byte
	if response.IsFlexible() && r.key != 18 {
		b = append(b, 0)
	}
	return v.frame(r.correlation, response.AppendTo(b))
}

func (v *visit) frame(correlation int32, body []byte) bool {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(body)+4))
	b = binary.BigEndian.AppendUint32(b, uint32(correlation))
	return v.bytes(append(b, body...))
}

func (v *visit) bytes(b []byte) bool {
	_, err := v.Conn.Write(b)
	return err == nil
}

func versionsResponse(keys ...int16) *kmsg.ApiVersionsResponse {
	response := kmsg.NewPtrApiVersionsResponse()
	for _, k := range keys {
		response.ApiKeys = append(response.ApiKeys, kmsg.ApiVersionsResponseApiKey{ApiKey: k, MaxVersion: kmsg.RequestForKey(k).MaxVersion()})
	}
	return response
}

func goodVersions(v *visit, r request) bool {
	return v.reply(r, versionsResponse(0, 1, 3, 11, 17, 18, 36, 38, 60))
}

func goodHandshake(v *visit, r request) bool {
	response := kmsg.NewPtrSASLHandshakeResponse()
	response.SupportedMechanisms = []string{"SCRAM-SHA-256", "SCRAM-SHA-512"}
	return v.reply(r, response)
}

func goodFirst(v *visit, r request) bool {
	out, err := v.scram.Step(string(message(r)))
	if err != nil {
		return v.refuse(r, 58, "Authentication failed during authentication due to invalid credentials with SASL mechanism "+v.mech.String())
	}
	return v.say(r, out, 0)
}

func goodFinal(v *visit, r request) bool {
	out, err := v.scram.Step(string(message(r)))
	if err != nil {
		return v.refuse(r, 58, "Authentication failed")
	}
	return v.say(r, out, v.lifetime)
}

func message(r request) []byte {
	in := kmsg.NewPtrSASLAuthenticateRequest()
	in.SetVersion(r.version)
	if err := in.ReadFrom(r.body); err != nil {
		panic(err)
	}
	return in.SASLAuthBytes
}

func (v *visit) say(r request, message string, lifetime int64) bool {
	response := kmsg.NewPtrSASLAuthenticateResponse()
	response.SASLAuthBytes = []byte(message)
	response.SessionLifetimeMillis = lifetime
	return v.reply(r, response)
}

func (v *visit) refuse(r request, code int16, text string) bool {
	response := kmsg.NewPtrSASLAuthenticateResponse()
	response.ErrorCode = code
	response.ErrorMessage = &text
	v.reply(r, response)
	return false
}

// clientNonce of a client-first message.
func clientNonce(r request) string {
	_, rest, _ := strings.Cut(string(message(r)), ",r=")
	nonce, _, _ := strings.Cut(rest, ",")
	return nonce
}

// sayFirst answers client-first with a text, in which NONCE stands for the client's.
func sayFirst(text string) step {
	return func(v *visit, r request) bool {
		v.say(r, strings.ReplaceAll(text, "NONCE", clientNonce(r)), 0)
		return true
	}
}

// hang reads and never answers.
func hang(v *visit, _ request) bool {
	_, _ = io.Copy(io.Discard, v.Conn)
	return true
}

// hangUp ends the connection without an answer.
func hangUp(v *visit, _ request) bool {
	_ = v.Close()
	return false
}

// open logs in at a scripted broker and closes with the test.
func open(t testing.TB, d *Dialer, target Target) *KafkaConnection {
	t.Helper()
	c, err := d.Open(t.Context(), target, ScramOverMtls, sampleCredential(), ClientInfo{ID: kmsg.StringPtr("client")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// sendFrame writes a whole request of n bytes behind its header.
func sendFrame(c *KafkaConnection, r Request, key int16, correlation int32, n int) error {
	if err := c.Begin(r); err != nil {
		return err
	}
	if _, err := c.Write(rawRequest(key, correlation, n)); err != nil {
		return err
	}
	return c.End()
}

// rawRequest is a frame that has a header of version 1 and n bytes of body.
func rawRequest(key int16, correlation int32, n int) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(2+2+4+2+n))
	b = binary.BigEndian.AppendUint16(b, uint16(key))
	b = binary.BigEndian.AppendUint16(b, 0)
	b = binary.BigEndian.AppendUint32(b, uint32(correlation))
	b = binary.BigEndian.AppendUint16(b, 0xffff) // no client id
	return append(b, make([]byte, n)...)
}

// takeAnswer reads one answer whole.
func takeAnswer(c *KafkaConnection) (int32, []byte, error) {
	a, err := c.NextAnswer()
	if err != nil {
		return 0, nil, err
	}
	body := make([]byte, a.Size)
	if _, err := io.ReadFull(readOnly{c}, body); err != nil {
		return 0, nil, err
	}
	c.Answered()
	return a.CorrelationID, body, nil
}

// asError is err as *Error.
func asError(t testing.TB, err error) *Error {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("error is %T (%v), want *Error", err, err)
	}
	return e
}

func (h *host) visit(t testing.TB) *visit {
	t.Helper()
	select {
	case v := <-h.visits:
		return v
	case <-t.Context().Done():
		t.Fatal("nobody came")
		return nil
	}
}
