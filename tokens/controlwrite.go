package tokens

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// write makes a creation or an expiry. Another broker is tried where the first
// cannot have seen the request, or where making it twice does no harm, as with an
// expiry.
func (k *kadmIssuer) write(ctx context.Context, p Phase, req kmsg.Request, owner string) (kmsg.Response, error) {
	nodes, err := k.ids(ctx)
	if err != nil {
		return nil, err
	}
	tried := make(map[int32]bool)
	var failure *Error
	for {
		w, ok, err := k.lanes.take(nodes, tried)
		if err != nil {
			return nil, k.transport(p, err, owner)
		}
		if !ok {
			break
		}
		tried[w.node] = true
		resp, failed := k.over(ctx, w, p, req, owner)
		w.release(failed == nil)
		if failed == nil {
			return resp, nil
		}
		failure = failed
		k.lanes.blame(w.node)
		if failure.Reason == ReasonUnreachable && k.lacksTokens(ctx, w) {
			return nil, &Error{
				Phase: p, Reason: ReasonUnsupported, Owner: owner, Node: NoNode, Retry: true, Err: failure,
				Cure: "the peer offers no delegation tokens at all, as no broker does and another gateway does: kafka.control.bootstrap must name the brokers' control listener",
			}
		}
		if ctx.Err() != nil || !failure.Retry || failure.Lost && p == PhaseCreate {
			return nil, failure
		}
	}
	if !failure.Lost {
		// None could be reached: they may have moved.
		bounded, cancel := context.WithTimeout(ctx, nodesWait)
		defer cancel()
		_, _ = k.readNodes(bounded)
	}
	return nil, failure
}

// over makes a write on one way. A creation is made once, on a connection that was
// alive a moment ago; an expiry is made again on a new connection if the old one
// has died.
func (k *kadmIssuer) over(ctx context.Context, w way, p Phase, req kmsg.Request, owner string) (kmsg.Response, *Error) {
	if p == PhaseCreate {
		if w.idle {
			if err := w.prove(ctx); err != nil {
				failure := k.transport(p, err, owner)
				failure.Lost = false // it was not sent
				return nil, failure
			}
		}
		resp, err := w.send(ctx, req)
		if err != nil {
			return nil, k.transport(p, err, owner)
		}
		return resp, nil
	}
	ctx, cancel := context.WithTimeout(ctx, expireWait)
	defer cancel()
	resp, err := w.send(ctx, req)
	if err != nil && ctx.Err() == nil {
		resp, err = w.send(ctx, req)
	}
	if err != nil {
		return nil, k.transport(p, err, owner)
	}
	return resp, nil
}

// lacksTokens tells of a peer that failed whether its ApiVersions answer leaves the
// token requests out.
func (k *kadmIssuer) lacksTokens(ctx context.Context, w way) bool {
	bounded, cancel := context.WithTimeout(ctx, nodesWait)
	defer cancel()
	answer, err := w.send(bounded, apiVersions())
	versions, ok := answer.(*kmsg.ApiVersionsResponse)
	if err != nil || !ok || versions.ErrorCode != 0 {
		return false
	}
	for _, key := range versions.ApiKeys {
		if key.ApiKey == int16(kmsg.CreateDelegationToken) {
			return false
		}
	}
	return true
}

// refusal makes the error of an answer's error code; nil for 0.
func (k *kadmIssuer) refusal(p Phase, code int16, owner string) error {
	if code == 0 {
		return nil
	}
	return brokerError(p, code, kerr.ErrorForCode(code), owner, k.selfName())
}

func (k *kadmIssuer) selfName() string {
	if s := k.self.Load(); s != nil {
		return *s
	}
	return ""
}

// transport makes the error of a request that got no answer. A refused SASL
// login of the control connection comes as Kafka's error 58.
func (k *kadmIssuer) transport(p Phase, err error, owner string) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	if code, ok := errors.AsType[*kerr.Error](err); ok {
		return brokerError(p, code.Code, err, owner, k.selfName())
	}
	return transportError(p, err, owner, p == PhaseCreate || p == PhaseExpire)
}

func wrongKind(p Phase, owner string) *Error {
	return &Error{Phase: p, Reason: ReasonWrongAnswer, Owner: owner, Node: NoNode, Lost: true, Err: errors.New("the answer is of another kind than the request")}
}
