package conformance

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// AnswerWithin bounds the wait for each answer: by far more than any should take.
const AnswerWithin = 30 * time.Second

const (
	clientID   = "conformance"
	lengthSize = 4
	maxAnswer  = 16 << 20
)

// leg is one connection, on which one request at a time is unanswered.
type leg struct {
	conn net.Conn
	next int32 // correlation id
}

// encode is a request's frame, its length in front.
func encode(request kmsg.Request, correlation int32) []byte {
	frame := kmsg.NewRequestFormatter(kmsg.FormatterClientID(clientID)).AppendRequest(nil, request, correlation)
	binary.BigEndian.PutUint32(frame, uint32(len(frame)-lengthSize)) // which kmsg leaves out for one message
	return frame
}

// exchange sends a frame and reads the answer. A connection that the other side closes is
// an answer too. An error means that neither came.
func (l *leg) exchange(frame []byte) (Answer, error) {
	if err := l.conn.SetDeadline(time.Now().Add(AnswerWithin)); err != nil {
		return Answer{}, err
	}
	if _, err := l.conn.Write(frame); err != nil {
		return closedBy(err)
	}
	return l.receive()
}

func (l *leg) receive() (Answer, error) {
	var length [lengthSize]byte
	if _, err := io.ReadFull(l.conn, length[:]); err != nil {
		return closedBy(err)
	}
	size := binary.BigEndian.Uint32(length[:])
	if size > maxAnswer {
		return Answer{}, fmt.Errorf("an answer of %d bytes", size)
	}
	frame := make([]byte, size)
	if _, err := io.ReadFull(l.conn, frame); err != nil {
		return Answer{}, fmt.Errorf("an answer of %d bytes breaks off: %w", size, err)
	}
	return Answer{Frame: frame}, nil
}

func closedBy(err error) (Answer, error) {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return Answer{}, fmt.Errorf("no answer within %v", AnswerWithin)
	}
	return Answer{Closed: true}, nil
}
