package checker

import (
	"encoding/binary"
	"io"
	"net"
	"sync"
	"testing"
)

// trick is what a meddler does to one connection: each function gets a whole frame, with
// its length in front, and returns what goes on in its place. Calls are one at a time.
type trick interface {
	request(f frame) []frame
	answer(f frame) []frame
}

// frame is a request or an answer with its length in front.
type frame []byte

const produceKey = 0

func (f frame) key() int16               { return int16(binary.BigEndian.Uint16(f[4:])) }
func (f frame) requestID() int32         { return int32(binary.BigEndian.Uint32(f[8:])) }
func (f frame) answeredID() int32        { return int32(binary.BigEndian.Uint32(f[4:])) }
func (f frame) asRequest(id int32) frame { return f.with(8, id) }
func (f frame) asAnswer(id int32) frame  { return f.with(4, id) }

func (f frame) with(at int, id int32) frame {
	out := append(frame(nil), f...)
	binary.BigEndian.PutUint32(out[at:], uint32(id))
	return out
}

// meddler is a relay that knows where Kafka's frames begin and end.
type meddler struct {
	ln     net.Listener
	target string
	trick  func() trick // for each connection
	wg     sync.WaitGroup

	mu    sync.Mutex
	conns []net.Conn
}

// newMeddler listens, and ends with the test.
func newMeddler(t *testing.T, target string, tricks func() trick) *meddler {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m := &meddler{ln: ln, target: target, trick: tricks}
	m.wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			m.wg.Go(func() { m.serve(c) })
		}
	})
	t.Cleanup(func() {
		_ = ln.Close()
		m.mu.Lock()
		for _, c := range m.conns {
			_ = c.Close()
		}
		m.mu.Unlock()
		m.wg.Wait()
	})
	return m
}

func (m *meddler) serve(client net.Conn) {
	broker, err := net.Dial("tcp", m.target)
	if err != nil {
		_ = client.Close()
		return
	}
	m.mu.Lock()
	m.conns = append(m.conns, client, broker)
	m.mu.Unlock()
	var mu sync.Mutex
	own := m.trick()
	pump := func(to, from net.Conn, meddle func(frame) []frame) {
		defer func() { _ = client.Close(); _ = broker.Close() }()
		for {
			f, err := readFrame(from)
			if err != nil {
				return
			}
			mu.Lock()
			out := meddle(f)
			mu.Unlock()
			for _, f := range out {
				if _, err := to.Write(f); err != nil {
					return
				}
			}
		}
	}
	m.wg.Go(func() { pump(client, broker, own.answer) })
	pump(broker, client, own.request)
}

func readFrame(r io.Reader) (frame, error) {
	f := make(frame, 4)
	if _, err := io.ReadFull(r, f); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(f)
	if n > 64<<20 {
		return nil, io.ErrUnexpectedEOF
	}
	f = append(f, make([]byte, n)...)
	_, err := io.ReadFull(r, f[4:])
	return f, err
}
