package main

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/xdg-go/scram"
)

// leg is one connection of a client, ready for requests.
type leg struct {
	conn   *tls.Conn
	answer []byte
}

// open dials a side, logs in where that is for the client to do, and asks for the
// versions, as every client does.
func (s side) open(ctx context.Context) (l *leg, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	dialer := tls.Dialer{Config: s.tls}
	conn, err := dialer.DialContext(ctx, "tcp", s.address)
	if err != nil {
		return nil, err
	}
	l = &leg{conn: conn.(*tls.Conn)}
	defer func() {
		if err != nil {
			_ = l.conn.Close()
		}
	}()
	deadline, _ := ctx.Deadline()
	if err := l.conn.SetDeadline(deadline); err != nil {
		return nil, err
	}
	if s.login {
		if err := l.login(); err != nil {
			return nil, fmt.Errorf("log in: %w", err)
		}
	}
	versions := kmsg.NewPtrApiVersionsRequest()
	versions.Version, versions.ClientSoftwareName, versions.ClientSoftwareVersion = 3, clientID, "1"
	if _, err := l.ask(versions); err != nil {
		return nil, err
	}
	return l, l.conn.SetDeadline(time.Time{})
}

func (l *leg) login() error {
	client, err := scram.SHA512.NewClientUnprepped(userName, password, "")
	if err != nil {
		return err
	}
	handshake := kmsg.NewPtrSASLHandshakeRequest()
	handshake.Version, handshake.Mechanism = 1, mechanism
	if _, err := l.ask(handshake); err != nil {
		return err
	}
	talk, said := client.NewConversation(), ""
	for !talk.Done() {
		say, err := talk.Step(said)
		if err != nil || talk.Done() {
			return err
		}
		authenticate := kmsg.NewPtrSASLAuthenticateRequest()
		authenticate.Version, authenticate.SASLAuthBytes = 2, []byte(say)
		resp, err := l.ask(authenticate)
		if err != nil {
			return err
		}
		said = string(resp.(*kmsg.SASLAuthenticateResponse).SASLAuthBytes)
	}
	return nil
}

// clientID is what requests name as their client.
const clientID = "bench"

// encode is a request's whole frame.
func encode(r kmsg.Request) []byte {
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID(clientID)).AppendRequest(nil, r, 0)
}

// ask makes one request and decodes its answer.
func (l *leg) ask(r kmsg.Request) (kmsg.Response, error) {
	if err := l.send(encode(r), 1); err != nil {
		return nil, err
	}
	if err := l.receive(1); err != nil {
		return nil, err
	}
	resp, body := r.ResponseKind(), l.answer[8:]
	resp.SetVersion(r.GetVersion())
	if resp.IsFlexible() && kmsg.Key(r.Key()) != kmsg.ApiVersions {
		body = body[1:]
	}
	return resp, resp.ReadFrom(body)
}

// send writes a frame with a correlation id.
func (l *leg) send(frame []byte, id uint32) error {
	binary.BigEndian.PutUint32(frame[4+correlation:], id)
	_, err := l.conn.Write(frame)
	return err
}

// receive reads an answer, which must have the correlation id, into l.answer.
func (l *leg) receive(id uint32) error {
	var head [4]byte
	if _, err := io.ReadFull(l.conn, head[:]); err != nil {
		return err
	}
	n := int(binary.BigEndian.Uint32(head[:]))
	if n < 4 || n > frameMost {
		return fmt.Errorf("an answer of %d bytes", n)
	}
	if cap(l.answer) < 4+n {
		l.answer = make([]byte, 4+n)
	}
	l.answer = append(l.answer[:0], head[:]...)[:4+n]
	if _, err := io.ReadFull(l.conn, l.answer[4:]); err != nil {
		return err
	}
	if got := binary.BigEndian.Uint32(l.answer[4:]); got != id {
		return fmt.Errorf("correlation id %d where %d is due", got, id)
	}
	return nil
}
