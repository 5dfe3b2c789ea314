package tokens

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"doorkeeper/internal/secret"
)

// nodesFor is how long a list of brokers is good for asking.
const nodesFor = time.Second

// nodesWait is how long a newer list is waited for where there is an older one.
const nodesWait = 500 * time.Millisecond

// ownerVersion is the version of CreateDelegationToken that can name an owner
// (KIP-373). An older broker would make the token for whoever asks.
const ownerVersion = 3

const principalUser = "User"

// kadmIssuer asks Kafka through one kgo client on the control listener.
//
// Token requests go to one chosen broker by kgo's Broker.Request, which never
// retries, whatever options the client was made with. kadm's own calls leave the
// choice and the retries to the client, so kadm serves for the list of brokers.
type kadmIssuer struct {
	client *kgo.Client
	admin  *kadm.Client
	turn   atomic.Int64           // moved on when a broker fails to answer
	self   atomic.Pointer[string] // own principal, for the text of refusals

	mu    sync.Mutex
	nodes []int32
	read  time.Time
}

// NewKadmIssuer makes an Issuer and Finder of a client on the control listener.
// The caller keeps the client and closes it after Source.Run has returned.
func NewKadmIssuer(client *kgo.Client) Issuer {
	return &kadmIssuer{client: client, admin: kadm.NewClient(client)}
}

// Create implements Issuer.
func (k *kadmIssuer) Create(ctx context.Context, c Creation) (Issued, error) {
	req := kmsg.NewPtrCreateDelegationTokenRequest()
	if c.Owner != "" {
		req.OwnerPrincipalType = kmsg.StringPtr(principalUser)
		req.OwnerPrincipalName = kmsg.StringPtr(c.Owner)
	}
	for _, name := range c.Renewers {
		r := kmsg.NewCreateDelegationTokenRequestRenewer()
		r.PrincipalType, r.PrincipalName = principalUser, name
		req.Renewers = append(req.Renewers, r)
	}
	req.MaxLifetimeMillis = -1
	if c.Lifetime > 0 {
		req.MaxLifetimeMillis = max(c.Lifetime.Milliseconds(), 1)
	}

	answer, err := k.anyBroker(ctx, PhaseCreate, req, c.Owner, false)
	if err != nil {
		return Issued{}, err
	}
	resp, ok := answer.(*kmsg.CreateDelegationTokenResponse)
	if !ok {
		return Issued{}, wrongKind(PhaseCreate, c.Owner)
	}
	if err := k.refusal(PhaseCreate, resp.ErrorCode, c.Owner); err != nil {
		return Issued{}, err
	}
	if c.Owner == "" {
		k.self.Store(&resp.PrincipalName)
	}
	is := Issued{
		ID:        resp.TokenID,
		OwnerType: resp.PrincipalType,
		Owner:     resp.PrincipalName,
		Renewers:  c.Renewers,
		HMAC:      secret.New(string(resp.HMAC)),
		Issue:     time.UnixMilli(resp.IssueTimestamp),
		Expiry:    time.UnixMilli(resp.ExpiryTimestamp),
	}
	if resp.Version >= ownerVersion {
		is.Requester = resp.TokenRequesterPrincipalName
	}
	return is, nil
}

// Known implements Issuer.
func (k *kadmIssuer) Known(ctx context.Context, node int32, owner, tokenID string) (bool, error) {
	answer, err := k.client.Broker(int(node)).Request(ctx, describe(owner))
	if err != nil {
		return false, k.transport(PhaseReady, err, owner)
	}
	details, err := k.described(PhaseReady, answer, owner)
	if err != nil {
		return false, err
	}
	for i := range details {
		if details[i].TokenID == tokenID {
			return true, nil
		}
	}
	return false, nil
}

// Find implements Finder. Kafka filters by owner, and adds what that principal
// may renew; for the own token that would be everything, so it goes by the
// marker, which nobody but this instance's tokens names.
func (k *kadmIssuer) Find(ctx context.Context, owner, renewer string) ([]Issued, error) {
	principal := owner
	if owner == "" {
		principal = renewer
	}
	answer, err := k.anyBroker(ctx, PhaseFind, describe(principal), owner, true)
	if err != nil {
		return nil, err
	}
	details, err := k.described(PhaseFind, answer, owner)
	if err != nil {
		return nil, err
	}
	var found []Issued
	for i := range details {
		d := &details[i]
		is := Issued{
			ID: d.TokenID, OwnerType: d.PrincipalType, Owner: d.PrincipalName,
			Requester: d.TokenRequesterPrincipalName, HMAC: secret.New(string(d.HMAC)),
			Issue: time.UnixMilli(d.IssueTimestamp), Expiry: time.UnixMilli(d.ExpiryTimestamp),
		}
		marked := false
		for _, r := range d.Renewers {
			if r.PrincipalType == principalUser {
				is.Renewers = append(is.Renewers, r.PrincipalName)
				marked = marked || r.PrincipalName == renewer
			}
		}
		if marked && (is.Owner == owner || owner == "" && is.Owner == is.Requester) {
			found = append(found, is)
		}
	}
	return found, nil
}

// Nodes implements Issuer.
func (k *kadmIssuer) Nodes(ctx context.Context) ([]int32, error) {
	k.mu.Lock()
	nodes, fresh := k.nodes, time.Since(k.read) < nodesFor
	k.mu.Unlock()
	if len(nodes) == 0 {
		return k.readNodes(ctx)
	}
	if !fresh {
		// The list of before serves where a broker hangs on the question.
		bounded, cancel := context.WithTimeout(ctx, nodesWait)
		defer cancel()
		if newer, err := k.readNodes(bounded); err == nil {
			return newer, nil
		}
	}
	return nodes, nil
}

// readNodes has the client read the list of brokers anew.
func (k *kadmIssuer) readNodes(ctx context.Context) ([]int32, error) {
	meta, err := k.admin.BrokerMetadata(ctx)
	if err != nil {
		return nil, k.transport(PhaseNodes, err, "")
	}
	nodes := meta.Brokers.NodeIDs()
	k.mu.Lock()
	k.nodes, k.read = nodes, time.Now()
	k.mu.Unlock()
	return nodes, nil
}

// Expire implements Issuer.
func (k *kadmIssuer) Expire(ctx context.Context, hmac secret.Text) error {
	req := kmsg.NewPtrExpireDelegationTokenRequest()
	req.HMAC = []byte(hmac.Reveal())
	req.ExpiryPeriodMillis = -1
	answer, err := k.anyBroker(ctx, PhaseExpire, req, "", true)
	if err != nil {
		return err
	}
	resp, ok := answer.(*kmsg.ExpireDelegationTokenResponse)
	if !ok {
		return wrongKind(PhaseExpire, "")
	}
	if resp.ErrorCode == codeTokenNotFound || resp.ErrorCode == codeTokenExpired {
		return nil
	}
	return k.refusal(PhaseExpire, resp.ErrorCode, "")
}

// describe asks for the tokens of one principal. Never without a principal: that
// would pull every secret that the gateway may see.
func describe(principal string) *kmsg.DescribeDelegationTokenRequest {
	req := kmsg.NewPtrDescribeDelegationTokenRequest()
	o := kmsg.NewDescribeDelegationTokenRequestOwner()
	o.PrincipalType, o.PrincipalName = principalUser, principal
	req.Owners = append(req.Owners, o)
	return req
}

func (k *kadmIssuer) described(p Phase, answer kmsg.Response, owner string) ([]kmsg.DescribeDelegationTokenResponseTokenDetail, error) {
	resp, ok := answer.(*kmsg.DescribeDelegationTokenResponse)
	if !ok {
		return nil, wrongKind(p, owner)
	}
	if err := k.refusal(p, resp.ErrorCode, owner); err != nil {
		return nil, err
	}
	return resp.TokenDetails, nil
}

// anyBroker sends req to one broker. Another is tried where the first cannot have
// seen the request, or where sending it twice does no harm.
func (k *kadmIssuer) anyBroker(ctx context.Context, p Phase, req kmsg.Request, owner string, repeatable bool) (kmsg.Response, error) {
	brokers, err := k.brokers(ctx)
	if err != nil {
		return nil, err
	}
	var failure *Error
	for range brokers {
		b := brokers[k.turn.Load()%int64(len(brokers))]
		resp, err := b.Request(ctx, req)
		if err == nil {
			return resp, nil
		}
		k.turn.Add(1)
		failure = k.transport(p, err, owner)
		if k.lacksTokens(ctx, b) {
			return nil, &Error{
				Phase: p, Reason: ReasonUnsupported, Owner: owner, Node: NoNode, Retry: true, Err: err,
				Cure: "the peer offers no delegation tokens at all, as no broker does and another gateway does: kafka.control.bootstrap must name the brokers' control listener",
			}
		}
		if ctx.Err() != nil || !failure.Retry || failure.Lost && !repeatable {
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

// lacksTokens tells of a peer that failed whether its ApiVersions answer leaves the
// token requests out.
func (k *kadmIssuer) lacksTokens(ctx context.Context, b *kgo.Broker) bool {
	bounded, cancel := context.WithTimeout(ctx, nodesWait)
	defer cancel()
	req := kmsg.NewPtrApiVersionsRequest()
	req.ClientSoftwareName, req.ClientSoftwareVersion = "doorkeeper", "1" // brokers refuse empty ones (KIP-511)
	answer, err := b.Request(bounded, req)
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

// brokers are those known to the client, read at first use.
func (k *kadmIssuer) brokers(ctx context.Context) ([]*kgo.Broker, error) {
	if known := k.client.DiscoveredBrokers(); len(known) > 0 {
		return known, nil
	}
	if _, err := k.readNodes(ctx); err != nil {
		return nil, err
	}
	if known := k.client.DiscoveredBrokers(); len(known) > 0 {
		return known, nil
	}
	return nil, &Error{Phase: PhaseNodes, Reason: ReasonUnreachable, Node: NoNode, Retry: true, Err: errors.New("the list of brokers is empty")}
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
