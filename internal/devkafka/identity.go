package devkafka

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// behind is a connection to one of kfake's nodes. It is used by one goroutine; another
// may close it.
type behind struct {
	conn  net.Conn
	ended <-chan struct{}
}

// ask writes a request and reads its answer, whole.
func (b *behind) ask(frame []byte) ([]byte, error) {
	if err := b.tell(frame); err != nil {
		return nil, err
	}
	return readAnswer(b.conn)
}

// tell writes a request that has no answer.
func (b *behind) tell(frame []byte) error {
	_, err := b.conn.Write(frame)
	return err
}

// close ends the connection. It does not wait for kfake: await does.
func (b *behind) close() error { return b.conn.Close() }

// await waits until kfake has let go of a closed connection.
func (b *behind) await() { <-b.ended }

// become tells kfake in whose name the connection goes on; the ACLs are that name's from
// here on. SASL PLAIN it is, since kfake takes any name that it does not know with no
// password at all: owners need not be registered. Names with a NUL cannot be said.
func (b *behind) become(name string) error {
	if name == "" || strings.ContainsRune(name, 0) {
		return fmt.Errorf("devkafka: a principal named %q cannot be served", name)
	}
	handshake := kmsg.NewPtrSASLHandshakeRequest()
	handshake.Version, handshake.Mechanism = 1, "PLAIN"
	authenticate := kmsg.NewPtrSASLAuthenticateRequest()
	authenticate.SASLAuthBytes = []byte("\x00" + name + "\x00")
	for _, req := range []kmsg.Request{handshake, authenticate} {
		resp, err := b.request(req)
		if err != nil {
			return fmt.Errorf("devkafka: kfake does not take the name %q: %w", name, err)
		}
		if code := errorCode(resp); code != 0 {
			return fmt.Errorf("devkafka: kfake does not take the name %q: %w", name, kerr.ErrorForCode(code))
		}
	}
	return nil
}

func errorCode(resp kmsg.Response) int16 {
	switch r := resp.(type) {
	case *kmsg.SASLHandshakeResponse:
		return r.ErrorCode
	case *kmsg.SASLAuthenticateResponse:
		return r.ErrorCode
	case *kmsg.ApiVersionsResponse:
		return r.ErrorCode
	}
	return 0
}

// request asks for something of this package's own.
func (b *behind) request(req kmsg.Request) (kmsg.Response, error) {
	frame := kmsg.NewRequestFormatter().AppendRequest(nil, req, 0)
	answer, err := b.ask(frame)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrClosedPipe) {
		err = errors.New("it closed the connection")
	}
	if err != nil {
		return nil, err
	}
	var r request
	r.Key, r.Version = req.Key(), req.GetVersion()
	return r.decodeAnswer(answer)
}

// askVersions asks kfake what it serves.
func askVersions(n *network) (versions, error) {
	conn, ended, err := n.dial(nil, n.shown) // kfake accepts, or has closed the network
	if err != nil {
		return nil, err
	}
	b := &behind{conn, ended}
	defer b.await()
	defer func() { _ = b.close() }()
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return nil, err
	}
	resp, err := b.request(kmsg.NewPtrApiVersionsRequest())
	if err != nil {
		return nil, err
	}
	v, ok := resp.(*kmsg.ApiVersionsResponse)
	if !ok || v.ErrorCode != 0 {
		return nil, fmt.Errorf("devkafka: kfake does not say what it serves: %w", kerr.ErrorForCode(errorCode(resp)))
	}
	return served(v.ApiKeys), nil
}
