package connections

import (
	"bytes"
	"context"
	"fmt"
	"io"

	"github.com/twmb/franz-go/pkg/kmsg"

	"doorkeeper/internal/wire"
)

// maxOwnAnswer bounds the answers to the gateway's own requests, in bytes: a
// description of a cluster of thousands of brokers has less than 1 MiB.
const maxOwnAnswer = 16 << 20

// Request asks the broker something on the gateway's own behalf and returns its
// answer. The request's version is set to the highest that both the broker and kmsg
// know. It uses both sides of the connection: nobody else may, and one Request at a
// time. It waits until ctx ends, which leaves the connection dead, since an answer is
// outstanding then; with a ctx that has ended nothing is sent, and the connection lives.
// Errors in the answer itself are the caller's matter.
func (c *KafkaConnection) Request(ctx context.Context, r kmsg.Request) (kmsg.Response, error) {
	if err := ctx.Err(); err != nil {
		return nil, c.Target().fault(PhaseRelay, fmt.Errorf("%s: %w", kmsg.NameForKey(r.Key()), err), err)
	}
	version, err := c.commonVersion(r)
	if err != nil {
		return nil, c.fault(PhaseRelay, err)
	}
	r.SetVersion(version)

	stop := context.AfterFunc(ctx, c.Abort)
	defer stop()
	response, err := c.exchange(r)
	if err != nil {
		if cause := ctx.Err(); cause != nil {
			err = fmt.Errorf("%s: %w", kmsg.NameForKey(r.Key()), cause) // in place of what our Abort brought about
			return nil, c.Target().fault(PhaseRelay, err, cause)
		}
		return nil, err
	}
	return response, nil
}

func (c *KafkaConnection) commonVersion(r kmsg.Request) (int16, error) {
	for _, k := range c.Versions().ApiKeys {
		if k.ApiKey != r.Key() {
			continue
		}
		if version := min(k.MaxVersion, r.MaxVersion()); version >= k.MinVersion && version >= 0 {
			return version, nil
		}
	}
	return 0, refuse(Unsupported, "the broker's version does not fit this gateway's", "the broker has no common version of %s", kmsg.NameForKey(r.Key()))
}

// ownCorrelationID serves all own requests: there is one at a time.
const ownCorrelationID = 1 << 20

func (c *KafkaConnection) exchange(r kmsg.Request) (kmsg.Response, error) {
	if err := c.Begin(Request{Answered: true}); err != nil {
		return nil, err
	}
	_, err := c.Write(frame(r, ownCorrelationID, c.client.ID))
	if err == nil {
		err = c.End()
	}
	if err == nil {
		err = c.Flush()
	}
	if err != nil {
		return nil, err
	}

	answer, err := c.NextAnswer()
	if err != nil {
		return nil, err
	}
	if answer.CorrelationID != ownCorrelationID {
		return nil, c.fail(hostile("correlation id %d where %d is due", answer.CorrelationID, ownCorrelationID), true)
	}
	if answer.Size > maxOwnAnswer {
		return nil, c.fail(hostile("an answer of %d bytes to %s", answer.Size, kmsg.NameForKey(r.Key())), true)
	}
	var body bytes.Buffer // grows with the bytes that come
	if _, err := io.CopyN(&body, readOnly{c}, int64(answer.Size)); err != nil {
		return nil, err
	}
	c.Answered()
	response, err := decode(r, body.Bytes())
	if err != nil {
		return nil, c.fail(hostile("the answer to %s: %w", kmsg.NameForKey(r.Key()), err), true)
	}
	return response, nil
}

// readOnly keeps io.CopyN from finding anything but Read.
type readOnly struct{ io.Reader }

func decode(r kmsg.Request, body []byte) (kmsg.Response, error) {
	const keyApiVersions = 18 // its answer's header is never flexible (KIP-511)
	if r.IsFlexible() && r.Key() != keyApiVersions {
		tags, err := wire.ResponseHeaderTags(body)
		if err != nil {
			return nil, fmt.Errorf("header: %w", err)
		}
		body = body[tags:]
	}
	response := r.ResponseKind()
	if err := response.ReadFrom(body); err != nil {
		return nil, fmt.Errorf("body: %w", err)
	}
	return response, nil
}
