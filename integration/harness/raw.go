//go:build integration

package harness

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Raw is one connection on which a test decides about every byte.
type Raw struct {
	*tls.Conn

	format *kmsg.RequestFormatter
	next   int32
}

// DialRaw connects and does the TLS handshake; ctx bounds both.
func DialRaw(ctx context.Context, address string, c *tls.Config) (*Raw, error) {
	d := tls.Dialer{NetDialer: &net.Dialer{Timeout: 10 * time.Second}, Config: c}
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return &Raw{Conn: conn.(*tls.Conn), format: kmsg.NewRequestFormatter(kmsg.FormatterClientID("raw"))}, nil
}

// As sets the client id of the requests from here on; before, it is "raw".
func (r *Raw) As(clientID string) {
	r.format = kmsg.NewRequestFormatter(kmsg.FormatterClientID(clientID))
}

// Frame is req at the version that it is set to, with its length in front.
func (r *Raw) Frame(req kmsg.Request, correlation int32) []byte {
	return r.format.AppendRequest(nil, req, correlation)
}

// Send writes req and returns its correlation id.
func (r *Raw) Send(req kmsg.Request) (int32, error) {
	r.next++
	_, err := r.Write(r.Frame(req, r.next))
	return r.next, err
}

// Receive reads one frame: its correlation id and what follows. The caller sets
// the deadline.
func (r *Raw) Receive() (correlation int32, rest []byte, err error) {
	var head [8]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	size := int32(binary.BigEndian.Uint32(head[:4]))
	if size < 4 || size > 256<<20 {
		return 0, nil, fmt.Errorf("answer of %d bytes", size)
	}
	rest = make([]byte, size-4)
	_, err = io.ReadFull(r, rest)
	return int32(binary.BigEndian.Uint32(head[4:])), rest, err
}

// Parse decodes what Receive gave as the answer to req.
func Parse(req kmsg.Request, rest []byte) (kmsg.Response, error) {
	resp := req.ResponseKind()
	resp.SetVersion(req.GetVersion())
	// The answer to ApiVersions never has a flexible header (KIP-511).
	if resp.IsFlexible() && req.Key() != 18 {
		b := kbin.Reader{Src: rest}
		kmsg.SkipTags(&b)
		rest = b.Src
	}
	return resp, resp.ReadFrom(rest)
}

// Request sends req and waits for its answer, half a minute at most. Nothing
// else may be unanswered on the connection.
func (r *Raw) Request(req kmsg.Request) (kmsg.Response, error) {
	if err := r.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		return nil, err
	}
	sent, err := r.Send(req)
	if err != nil {
		return nil, err
	}
	got, rest, err := r.Receive()
	if err != nil {
		return nil, err
	}
	if got != sent {
		return nil, fmt.Errorf("answer to request %d, not to %d", got, sent)
	}
	return Parse(req, rest)
}
