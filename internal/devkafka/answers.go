package devkafka

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"doorkeeper/internal/wire"
)

// errProduce ends a connection after a produce without acknowledgement that failed: the
// client has no other signal.
var errProduce = errors.New("a produce with acks=0 failed")

// controllerTime bounds what is asked of the controller, none of which waits for long.
const controllerTime = time.Minute

// versions is ApiVersions: kfake's answer, with what this package adds. A version above
// ours gets error 35 in the shape of version 0 (KIP-511), and the connection goes on.
func (c *conn) versions(r request) ([]byte, event, error) {
	if r.strange {
		answer := kmsg.NewPtrApiVersionsResponse()
		answer.ErrorCode = kerr.UnsupportedVersion.Code
		ours := c.cluster.served[keyVersions]
		answer.ApiKeys = []kmsg.ApiVersionsResponseApiKey{{ApiKey: keyVersions, MinVersion: ours.lowest, MaxVersion: ours.highest}}
		return answerFrame(r.CorrelationID, answer), versionsRefused, nil
	}
	_, resp, err := c.ask(r)
	if err != nil {
		return nil, otherRequest, err
	}
	answer, ok := resp.(*kmsg.ApiVersionsResponse)
	if !ok {
		return nil, otherRequest, errors.New("kfake answers ApiVersions with something else")
	}
	if answer.ErrorCode != 0 {
		return answerFrame(r.CorrelationID, answer), versionsRefused, nil
	}
	answer.ApiKeys = answer.ApiKeys[:0]
	for key, v := range c.cluster.served {
		answer.ApiKeys = append(answer.ApiKeys, kmsg.ApiVersionsResponseApiKey{ApiKey: key, MinVersion: v.lowest, MaxVersion: v.highest})
	}
	slices.SortFunc(answer.ApiKeys, func(a, b kmsg.ApiVersionsResponseApiKey) int { return cmp.Compare(a.ApiKey, b.ApiKey) })
	return answerFrame(r.CorrelationID, answer), versionsAnswered, nil
}

// ask sends a request on and decodes the answer.
func (c *conn) ask(r request) ([]byte, kmsg.Response, error) {
	frame, err := c.behind.ask(r.raw)
	if err != nil {
		return nil, nil, fmt.Errorf("kfake closed the connection on key %d: %w", r.Key, err)
	}
	resp, err := r.decodeAnswer(frame)
	return frame, resp, err
}

// forward sends a request on and returns the answer's frame: as it came, where nothing
// has to be looked at.
func (c *conn) forward(r request) ([]byte, error) {
	if forController(r.Key) {
		return c.askController(r)
	}
	shows := !c.withTokens && showsAddresses(r.Key)
	if !shows && c.cluster.cfg.Decisions == nil {
		return c.behind.ask(r.raw)
	}
	frame, answer, err := c.ask(r)
	if err != nil {
		return nil, err
	}
	c.decide(r.Key, answer)
	if !shows {
		return frame, nil
	}
	c.showControl(answer)
	return answerFrame(r.CorrelationID, answer), nil
}

// forController tells whether brokers hand a request on to the controller: kfake's want
// it sent there.
func forController(key int16) bool {
	switch key {
	case keyCreateTopics, keyDeleteTopics, keyCreatePartitions, keyAlterScram:
		return true
	}
	return false
}

// askController hands a request on, in the client's name.
func (c *conn) askController(r request) ([]byte, error) {
	there, ended, err := c.cluster.nets.of(c.cluster.controller()).dial(c.done, c.tls.RemoteAddr())
	if err != nil {
		return nil, fmt.Errorf("the controller cannot be reached: %w", err)
	}
	b := &behind{there, ended}
	defer b.await()
	defer func() { _ = b.close() }()
	if err := there.SetDeadline(time.Now().Add(controllerTime)); err != nil {
		return nil, err
	}
	if err := b.become(c.principal); err != nil {
		return nil, err
	}
	frame, err := b.ask(r.raw)
	if err != nil {
		return nil, fmt.Errorf("the controller, on key %d: %w", r.Key, err)
	}
	if c.cluster.cfg.Decisions != nil {
		resp, err := r.decodeAnswer(frame)
		if err != nil {
			return nil, err
		}
		c.decide(r.Key, resp)
	}
	return frame, nil
}

// produce is forward for Produce. One that wants no acknowledgement is sent on as one
// that does, to learn how it went.
func (c *conn) produce(r request) ([]byte, error) {
	body := kbin.Reader{Src: r.raw[wire.LengthSize+r.Size:]}
	switch {
	case r.Version >= 9:
		body.CompactNullableString() // transactional id
	case r.Version >= 3:
		body.NullableString()
	}
	at := len(r.raw) - len(body.Src)
	if body.Int16() != 0 || !body.Ok() {
		return c.forward(r)
	}
	binary.BigEndian.PutUint16(r.raw[at:], 1)
	_, resp, err := c.ask(r)
	if err != nil {
		return nil, err
	}
	c.decide(r.Key, resp)
	answer, ok := resp.(*kmsg.ProduceResponse)
	if !ok {
		return nil, errProduce
	}
	for _, t := range answer.Topics {
		for _, p := range t.Partitions {
			if p.ErrorCode != 0 {
				return nil, fmt.Errorf("%w: %w", errProduce, kerr.ErrorForCode(p.ErrorCode))
			}
		}
	}
	return nil, nil
}

// showsAddresses tells whether answers to a key name brokers' addresses.
func showsAddresses(key int16) bool {
	switch key {
	case keyProduce, keyFetch, keyMetadata, keyCoordinator, keyCluster, keyShareFetch:
		return true
	}
	return false
}

// showControl puts the control listeners in the place of the token listeners, which
// kfake knows: brokers show the addresses of the listener that was asked.
func (c *conn) showControl(answer kmsg.Response) {
	show := func(node int32, host *string, port *int32) {
		if n := c.cluster.node(node); n != nil {
			*host, *port = split(n.control)
		}
	}
	switch a := answer.(type) {
	case *kmsg.MetadataResponse:
		for i := range a.Brokers {
			show(a.Brokers[i].NodeID, &a.Brokers[i].Host, &a.Brokers[i].Port)
		}
	case *kmsg.FindCoordinatorResponse:
		if a.ErrorCode == 0 {
			show(a.NodeID, &a.Host, &a.Port)
		}
		for i := range a.Coordinators {
			show(a.Coordinators[i].NodeID, &a.Coordinators[i].Host, &a.Coordinators[i].Port)
		}
	case *kmsg.DescribeClusterResponse:
		for i := range a.Brokers {
			show(a.Brokers[i].NodeID, &a.Brokers[i].Host, &a.Brokers[i].Port)
		}
	case *kmsg.ProduceResponse:
		for i := range a.Brokers {
			show(a.Brokers[i].NodeID, &a.Brokers[i].Host, &a.Brokers[i].Port)
		}
	case *kmsg.FetchResponse:
		for i := range a.Brokers {
			show(a.Brokers[i].NodeID, &a.Brokers[i].Host, &a.Brokers[i].Port)
		}
	case *kmsg.ShareFetchResponse:
		for i := range a.NodeEndpoints {
			show(a.NodeEndpoints[i].NodeID, &a.NodeEndpoints[i].Host, &a.NodeEndpoints[i].Port)
		}
	}
}

func split(address string) (host string, port int32) {
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return "", 0
	}
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return "", 0
	}
	return host, int32(n)
}

// decide reports the first refusal in an answer.
func (c *conn) decide(key int16, answer kmsg.Response) {
	if c.cluster.cfg.Decisions == nil {
		return
	}
	if code := refusal(reflect.ValueOf(answer)); code != 0 {
		c.cluster.cfg.Logger.Debug("refused", zap.Int32("node", c.node.id), zap.String("principal", c.principal),
			zap.Int16("key", key), zap.Int16("code", code))
		c.cluster.cfg.Decisions(Decision{Node: c.node.id, Principal: c.principal, Key: key, Code: code})
	}
}

// refusal finds the first error code that comes from an authorizer, in the order of the
// fields.
func refusal(v reflect.Value) int16 {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			return refusal(v.Elem())
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() != reflect.Struct {
			return 0
		}
		for i := range v.Len() {
			if code := refusal(v.Index(i)); code != 0 {
				return code
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Field(i)
			if v.Type().Field(i).Name == "ErrorCode" && f.Kind() == reflect.Int16 {
				switch code := int16(f.Int()); code { //nolint:gosec // G115: it is an int16
				case kerr.TopicAuthorizationFailed.Code, kerr.GroupAuthorizationFailed.Code, kerr.ClusterAuthorizationFailed.Code,
					kerr.TransactionalIDAuthorizationFailed.Code, kerr.DelegationTokenAuthorizationFailed.Code:
					return code
				}
				continue
			}
			if code := refusal(f); code != 0 {
				return code
			}
		}
	}
	return 0
}
