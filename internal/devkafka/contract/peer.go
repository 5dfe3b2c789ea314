package contract

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// patience is after how long a silent broker fails a row. Nothing is judged by it.
const patience = time.Minute

// peer is one connection. Its methods fail the test where they cannot do what they say.
type peer struct {
	t      *testing.T
	conn   *tls.Conn
	format *kmsg.RequestFormatter
	sent   int32
	due    []int32 // correlation ids of requests that are not answered
}

// toTokens connects to a token listener, showing no certificate.
func (s Subject) toTokens(t *testing.T, b Broker) *peer {
	t.Helper()
	return dial(t, b.Token, withoutCertificate(s.TLS(s.Admin)))
}

// toControl connects to a control listener as somebody.
func (s Subject) toControl(t *testing.T, b Broker, principal string) *peer {
	t.Helper()
	return dial(t, b.Control, s.TLS(principal))
}

func withoutCertificate(c *tls.Config) *tls.Config {
	c.Certificates, c.GetClientCertificate = nil, nil
	return c
}

func dial(t *testing.T, address string, c *tls.Config) *peer {
	t.Helper()
	conn, err := tls.DialWithDialer(&net.Dialer{Timeout: patience}, "tcp", address, c)
	if err != nil {
		t.Fatalf("dial %s: %v", address, err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return &peer{t: t, conn: conn, format: kmsg.NewRequestFormatter(kmsg.FormatterClientID("contract"))}
}

func (p *peer) close() { _ = p.conn.Close() }

// send writes requests, each at the version that it is set to, in one write.
func (p *peer) send(requests ...kmsg.Request) {
	p.t.Helper()
	var b []byte
	for _, req := range requests {
		p.sent++
		p.due = append(p.due, p.sent)
		b = append(b, p.format.AppendRequest(nil, req, p.sent)...)
	}
	p.write(b)
}

func (p *peer) write(b []byte) {
	p.t.Helper()
	if err := p.conn.SetDeadline(time.Now().Add(patience)); err != nil {
		p.t.Fatal(err)
	}
	if _, err := p.conn.Write(b); err != nil {
		p.t.Fatalf("write: %v", err)
	}
}

// receive reads the answer to the oldest request that has none.
func (p *peer) receive(req kmsg.Request) kmsg.Response {
	p.t.Helper()
	resp, err := p.tryReceive(req)
	if err != nil {
		p.t.Fatalf("no answer to %s v%d: %v", kmsg.NameForKey(req.Key()), req.GetVersion(), err)
	}
	return resp
}

func (p *peer) tryReceive(req kmsg.Request) (kmsg.Response, error) {
	body, err := p.frame()
	if err != nil {
		return nil, err
	}
	return decode(req, req.GetVersion(), body)
}

// decode reads an answer of a version. That to ApiVersions never has a flexible header
// (KIP-511).
func decode(req kmsg.Request, version int16, body []byte) (kmsg.Response, error) {
	resp := req.ResponseKind()
	resp.SetVersion(version)
	if resp.IsFlexible() && req.Key() != 18 {
		b := kbin.Reader{Src: body}
		kmsg.SkipTags(&b)
		body = b.Src
	}
	return resp, resp.ReadFrom(body)
}

// frame reads what follows the correlation id, which must be the one that is due.
func (p *peer) frame() ([]byte, error) {
	if err := p.conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return nil, err
	}
	var head [8]byte
	if _, err := io.ReadFull(p.conn, head[:]); err != nil {
		return nil, err
	}
	size := int64(binary.BigEndian.Uint32(head[:]))
	if size < 4 || size > 64<<20 {
		return nil, fmt.Errorf("an answer of %d bytes", size)
	}
	var body bytes.Buffer
	if _, err := io.CopyN(&body, p.conn, size-4); err != nil {
		return nil, err
	}
	if len(p.due) == 0 {
		return nil, errors.New("an answer to nothing")
	}
	due := p.due[0]
	p.due = p.due[1:]
	if id := binary.BigEndian.Uint32(head[4:]); id != uint32(due) { //nolint:gosec // G115: the same 32 bits
		return nil, fmt.Errorf("an answer to request %d where %d is due", id, due)
	}
	return body.Bytes(), nil
}

// ask sends a request and reads its answer; nothing else may be unanswered.
func ask[R kmsg.Response](p *peer, req kmsg.Request) R {
	p.t.Helper()
	p.send(req)
	return take[R](p, req)
}

// take reads the answer to the oldest request.
func take[R kmsg.Response](p *peer, req kmsg.Request) R {
	p.t.Helper()
	resp, ok := p.receive(req).(R)
	if !ok {
		p.t.Fatalf("the answer to %s is a %T", kmsg.NameForKey(req.Key()), resp)
	}
	return resp
}

// isClosed demands that the broker closes without another word.
func (p *peer) isClosed(after string) {
	p.t.Helper()
	if err := p.conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		p.t.Fatal(err)
	}
	var b [64]byte
	n, err := p.conn.Read(b[:])
	switch {
	case n > 0:
		p.t.Fatalf("after %s the broker says %x", after, b[:n])
	case errors.Is(err, os.ErrDeadlineExceeded):
		p.t.Fatalf("after %s the broker does not close", after)
	case err == nil:
		p.t.Fatalf("after %s: nothing was read", after)
	}
}

// works demands that the connection serves requests.
func (p *peer) works(when string) {
	p.t.Helper()
	p.send(metadata())
	if _, err := p.tryReceive(metadata()); err != nil {
		p.t.Fatalf("%s the connection does not serve: %v", when, err)
	}
}

// metadata asks for the brokers and the given topics.
func metadata(topics ...string) *kmsg.MetadataRequest {
	req := kmsg.NewPtrMetadataRequest()
	req.Version = 9
	req.Topics = []kmsg.MetadataRequestTopic{}
	for _, name := range topics {
		topic := kmsg.NewMetadataRequestTopic()
		topic.Topic = kmsg.StringPtr(name)
		req.Topics = append(req.Topics, topic)
	}
	return req
}

// apiVersions is a good ApiVersions request.
func apiVersions() *kmsg.ApiVersionsRequest {
	req := kmsg.NewPtrApiVersionsRequest()
	req.Version, req.ClientSoftwareName, req.ClientSoftwareVersion = 3, "contract", "1"
	return req
}

// until repeats f every 100 ms until it says true; the row fails when patience ends.
func until(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); pause(t, 100*time.Millisecond) {
		if f() {
			return
		}
	}
	t.Fatalf("never: %s", what)
}

// pause waits, unless the test ends.
func pause(t *testing.T, d time.Duration) {
	select {
	case <-time.After(d):
	case <-t.Context().Done():
	}
}
