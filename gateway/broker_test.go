package gateway

import (
	"context"
	"crypto/sha512"
	"crypto/tls"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"net"
	"slices"
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
	"doorkeeper/tokens"
)

// The broker of these tests is scripted: it answers late, hangs or lies when told to,
// which a real one cannot be made to do at a given byte. Its SCRAM side is xdg-go's.
// What real brokers do with real clients is proved in integration/.

// asked is one request as the broker read it.
type asked struct {
	key, version int16
	correlation  int32
	clientID     string
	body         []byte
	token        string // that the connection logged in with
}

// broker is a scripted broker with node id 1.
type broker struct {
	listener net.Listener
	tls      *tls.Config
	issuer   *issuer
	lifetime time.Duration // of every session
	// again, if set, plays one step of a re-authentication (0: SaslHandshake, 1 and 2:
	// SaslAuthenticate) and tells whether it did; false ends the connection.
	again func(step int, conn net.Conn, a asked) (did, goOn bool)
	// answer gives the frame's bytes behind the correlation id, or nil for none.
	answer func(a asked) []byte
	// early, if set, is called with the token's id while a login is under way.
	early func(id string)
	// raw, if set, has the connection to itself after the login.
	raw func(conn net.Conn)

	mu       sync.Mutex
	requests []asked // behind the logins
	logins   int
	renewals int
	names    []string // of the tokens that logged in or renewed
	conns    map[net.Conn]struct{}
	wg       sync.WaitGroup
}

// issuer makes tokens in the controller's place.
type issuer struct {
	mu      sync.Mutex
	secrets map[string]string // password by token id
	creates map[string]int    // by owner
	fail    error
	hang    bool
	life    time.Duration // of tokens; 0: an hour
	expired []string      // ids; the broker still takes them, as one that has not heard of it
	refuse  error         // of expiries
	asked   func()        // called while Kafka is asked for one
}

func (i *issuer) Create(ctx context.Context, c tokens.Creation) (tokens.Issued, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.hang {
		i.mu.Unlock()
		<-ctx.Done()
		i.mu.Lock()
		return tokens.Issued{}, ctx.Err()
	}
	if i.fail != nil && c.Owner != "" {
		return tokens.Issued{}, i.fail
	}
	owner := c.Owner
	if owner == "" {
		owner = "gateway"
	}
	i.creates[owner]++
	id := fmt.Sprintf("token-%d-of-%s", i.creates[owner], owner)
	hmac := []byte("hmac of " + id)
	i.secrets[id] = base64.StdEncoding.EncodeToString(hmac)
	now, life := time.Now(), time.Hour
	if i.life > 0 {
		life = i.life
	}
	return tokens.Issued{ID: id, OwnerType: "User", Owner: owner, Requester: "gateway", Renewers: c.Renewers,
		HMAC: secret.New(string(hmac)), Issue: now, Expiry: now.Add(life)}, nil
}

func (i *issuer) Known(context.Context, int32, string, string) (bool, error) { return true, nil }
func (i *issuer) Nodes(context.Context) ([]int32, error)                     { return []int32{1}, nil }

func (i *issuer) Expire(_ context.Context, hmac secret.Text) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if asked := i.asked; asked != nil {
		i.mu.Unlock()
		asked()
		i.mu.Lock()
	}
	if i.refuse == nil {
		i.expired = append(i.expired, strings.TrimPrefix(hmac.Reveal(), "hmac of "))
	}
	return i.refuse
}

// gone are the ids of the tokens that were expired, in order.
func (i *issuer) gone() []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Clone(i.expired)
}

func (i *issuer) password(id string) (string, bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	p, ok := i.secrets[id]
	return p, ok
}

func newBroker(t testing.TB, ca *certtest.CA) *broker {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &broker{
		listener: l, tls: ca.Issue(certtest.Server("127.0.0.1")).ServerConfig(), lifetime: time.Hour,
		issuer: &issuer{secrets: make(map[string]string), creates: make(map[string]int)},
		conns:  make(map[net.Conn]struct{}),
	}
	b.answer = b.sensible
	b.wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			b.mu.Lock()
			b.conns[conn] = struct{}{}
			b.mu.Unlock()
			b.wg.Go(func() {
				defer func() { _ = conn.Close() }()
				b.serve(tls.Server(conn, b.tls))
			})
		}
	})
	t.Cleanup(b.close)
	return b
}

func (b *broker) close() {
	_ = b.listener.Close()
	b.cut()
	b.wg.Wait()
}

// cut breaks all connections.
func (b *broker) cut() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for c := range b.conns {
		_ = c.Close()
	}
}

func (b *broker) port() int32 {
	return int32(b.listener.Addr().(*net.TCPAddr).Port)
}

// seen returns the requests that came behind logins.
func (b *broker) seen() []asked {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]asked(nil), b.requests...)
}

func (b *broker) serve(conn net.Conn) {
	token, ok := b.login(conn)
	if !ok {
		return
	}
	b.mu.Lock()
	b.logins++
	raw := b.raw
	b.mu.Unlock()
	if raw != nil {
		raw(conn)
		return
	}
	for {
		a, err := readAsked(conn)
		if err != nil {
			return
		}
		if a.key == 17 {
			if !b.renew(conn, a) {
				return
			}
			continue
		}
		a.token = token
		b.mu.Lock()
		b.requests = append(b.requests, a)
		answer := b.answer
		b.mu.Unlock()
		if body := answer(a); body != nil {
			if writeAnswer(conn, a.correlation, body) != nil {
				return
			}
		}
	}
}

// script sets how requests behind logins are answered.
func (b *broker) script(answer func(asked) []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.answer = answer
}

func readAsked(r io.Reader) (asked, error) {
	var head [wire.LengthSize]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return asked{}, err
	}
	frame := make([]byte, binary.BigEndian.Uint32(head[:]))
	if _, err := io.ReadFull(r, frame); err != nil {
		return asked{}, err
	}
	h, err := wire.Peek(frame)
	if err != nil {
		return asked{}, err
	}
	request := kmsg.RequestForKey(h.Key)
	request.SetVersion(h.Version)
	if h, err = wire.ParseHeader(frame, request.IsFlexible()); err != nil {
		return asked{}, err
	}
	return asked{key: h.Key, version: h.Version, correlation: h.CorrelationID, clientID: string(h.ClientID), body: frame[h.Size:]}, nil
}

func writeAnswer(w io.Writer, correlation int32, body []byte) error {
	frame := binary.BigEndian.AppendUint32(nil, uint32(len(body)+4))
	frame = binary.BigEndian.AppendUint32(frame, uint32(correlation))
	_, err := w.Write(append(frame, body...))
	return err
}

// response encodes an answer from behind the correlation id.
func response(a asked, r kmsg.Response) []byte {
	r.SetVersion(a.version)
	var b []byte
	if r.IsFlexible() && a.key != 18 {
		b = append(b, 0)
	}
	return r.AppendTo(b)
}

// sensible answers as an ordinary broker of a cluster of one would.
func (b *broker) sensible(a asked) []byte {
	r := kmsg.ResponseForKey(a.key)
	switch r := r.(type) {
	case *kmsg.ApiVersionsResponse:
		for key := int16(0); key <= 94; key++ {
			if request := kmsg.RequestForKey(key); request != nil {
				r.ApiKeys = append(r.ApiKeys, kmsg.ApiVersionsResponseApiKey{ApiKey: key, MaxVersion: request.MaxVersion()})
			}
		}
	case *kmsg.MetadataResponse:
		node := kmsg.NewMetadataResponseBroker()
		node.NodeID, node.Host, node.Port = 1, "127.0.0.1", b.port()
		r.Brokers = append(r.Brokers, node)
	case *kmsg.DescribeClusterResponse:
		node := kmsg.NewDescribeClusterResponseBroker()
		node.NodeID, node.Host, node.Port = 1, "127.0.0.1", b.port()
		r.Brokers = append(r.Brokers, node)
	case *kmsg.ProduceResponse:
		request := kmsg.NewPtrProduceRequest()
		request.SetVersion(a.version)
		if request.ReadFrom(a.body) == nil && request.Acks == 0 {
			return nil
		}
	}
	return response(a, r)
}

// login plays the broker's part of ApiVersions, SaslHandshake and SCRAM.
func (b *broker) login(conn net.Conn) (token string, ok bool) {
	conversation := b.conversation()
	ok = b.authenticate(conn, conversation, func(int, asked) (bool, bool) { return false, true })
	return conversation.Username(), ok
}

// renew plays its part of a re-authentication, whose SaslHandshake it has read: nothing
// else may come before that is over.
func (b *broker) renew(conn net.Conn, handshake asked) bool {
	b.mu.Lock()
	again := b.again
	b.mu.Unlock()
	step := -1
	odd := func(a asked) (bool, bool) {
		step++
		if again == nil {
			return false, true
		}
		return again(step, conn, a)
	}
	if did, goOn := odd(handshake); did && !goOn {
		return false
	} else if !did {
		r := kmsg.NewPtrSASLHandshakeResponse()
		r.SupportedMechanisms = []string{"SCRAM-SHA-256", "SCRAM-SHA-512"}
		if writeAnswer(conn, handshake.correlation, response(handshake, r)) != nil {
			return false
		}
	}
	ok := b.authenticate(conn, b.conversation(), func(_ int, a asked) (bool, bool) {
		if a.key != 36 {
			b.mu.Lock()
			b.requests = append(b.requests, asked{key: -1}) // a test looks for it
			b.mu.Unlock()
			return true, false
		}
		return odd(a)
	})
	if ok {
		b.mu.Lock()
		b.renewals++
		b.mu.Unlock()
	}
	return ok
}

func (b *broker) conversation() *scram.ServerConversation {
	var generator scram.HashGeneratorFcn = func() hash.Hash { return sha512.New() }
	server, err := generator.NewServer(func(id string) (scram.StoredCredentials, error) {
		password, ok := b.issuer.password(id)
		if !ok {
			return scram.StoredCredentials{}, errors.New("no such token")
		}
		b.mu.Lock()
		b.names = append(b.names, id)
		early := b.early
		b.mu.Unlock()
		if early != nil {
			early(id)
		}
		client, err := generator.NewClientUnprepped(id, password, "")
		if err != nil {
			return scram.StoredCredentials{}, err
		}
		return client.GetStoredCredentialsWithError(scram.KeyFactors{Salt: "salt of node 1", Iters: 4096})
	})
	if err != nil {
		panic(err)
	}
	return server.NewConversation()
}

// authenticate has the talk; odd may take a request out of its hands.
func (b *broker) authenticate(conn net.Conn, conversation *scram.ServerConversation, odd func(n int, a asked) (did, goOn bool)) bool {
	for n := 0; ; n++ {
		a, err := readAsked(conn)
		if err != nil {
			return false
		}
		if did, goOn := odd(n, a); did {
			if !goOn {
				return false
			}
			continue
		}
		r := kmsg.ResponseForKey(a.key)
		switch r := r.(type) {
		case *kmsg.ApiVersionsResponse:
			if writeAnswer(conn, a.correlation, b.sensible(a)) != nil {
				return false
			}
			continue
		case *kmsg.SASLHandshakeResponse:
			r.SupportedMechanisms = []string{"SCRAM-SHA-256", "SCRAM-SHA-512"}
		case *kmsg.SASLAuthenticateResponse:
			request := kmsg.NewPtrSASLAuthenticateRequest()
			request.SetVersion(a.version)
			if request.ReadFrom(a.body) != nil {
				return false
			}
			said, err := conversation.Step(string(request.SASLAuthBytes))
			if err != nil {
				r.ErrorCode, r.ErrorMessage = 58, kmsg.StringPtr("invalid credentials")
			}
			r.SASLAuthBytes = []byte(said)
			if conversation.Valid() {
				r.SessionLifetimeMillis = b.lifetime.Milliseconds()
			}
		}
		if writeAnswer(conn, a.correlation, response(a, r)) != nil {
			return false
		}
		if conversation.Valid() {
			return true
		}
		if conversation.Done() {
			return false
		}
	}
}

// observer counts.
type observer struct {
	accepted, started, ended, refused, panicked atomic.Int64
	mu                                          sync.Mutex
	reasons                                     map[string]int
}

func newObserver() *observer { return &observer{reasons: make(map[string]int)} }

func (o *observer) LegAccepted()    { o.accepted.Add(1) }
func (o *observer) SessionStarted() { o.started.Add(1) }
func (o *observer) Panicked()       { o.panicked.Add(1) }
func (o *observer) LegRefused(reason string) {
	o.note(reason)
	o.refused.Add(1)
}

func (o *observer) SessionEnded(reason string) {
	o.note(reason)
	o.ended.Add(1)
}

func (o *observer) note(reason string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.reasons[reason]++
}

func (o *observer) count(reason Reason) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.reasons[string(reason)]
}
