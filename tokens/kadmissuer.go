package tokens

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"doorkeeper/internal/secret"
)

const (
	// nodesFor is how long a list of brokers is good for asking.
	nodesFor = time.Second
	// nodesWait is how long a newer list is waited for where there is an older one.
	nodesWait = 500 * time.Millisecond
	// findWait and expireWait are how long one broker of several is waited for.
	findWait   = time.Second
	expireWait = 2 * time.Second

	// ownerVersion is the version of CreateDelegationToken that can name an owner
	// (KIP-373). An older broker would make the token for whoever asks.
	ownerVersion = 3

	principalUser = "User"
)

// kadmIssuer asks Kafka on the control listener.
//
// Token requests go to one chosen broker by kgo's Broker.Request, which never
// retries, whatever options the client was made with. kadm's own calls leave the
// choice and the retries to the client, so kadm serves for the list of brokers.
type kadmIssuer struct {
	lanes lanes
	self  atomic.Pointer[string] // own principal, for the text of refusals

	mu    sync.Mutex
	nodes []int32
	read  time.Time
}

// NewKadmIssuer makes an Issuer, Finder and Comparer of a client on the control
// listener. Where many creations or expiries are under way it makes up to 8 clients
// more with the same options, to have more connections; they end with Source.Run.
// The caller keeps its own client and closes it after Source.Run has returned.
func NewKadmIssuer(client *kgo.Client) Issuer {
	return &kadmIssuer{lanes: lanes{first: newLane(client), avoid: make(map[int32]time.Time)}}
}

// Close ends the clients that were made here. It implements io.Closer, for
// Source.Run.
func (k *kadmIssuer) Close() error {
	k.lanes.close()
	return nil
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

	answer, err := k.write(ctx, PhaseCreate, req, c.Owner)
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
	return created(resp, c.Renewers), nil
}

func created(resp *kmsg.CreateDelegationTokenResponse, renewers []string) Issued {
	is := Issued{
		ID:        resp.TokenID,
		OwnerType: resp.PrincipalType,
		Owner:     resp.PrincipalName,
		Renewers:  renewers,
		HMAC:      secret.New(string(resp.HMAC)),
		Issue:     time.UnixMilli(resp.IssueTimestamp),
		Expiry:    time.UnixMilli(resp.ExpiryTimestamp),
	}
	if resp.Version >= ownerVersion {
		is.Requester = resp.TokenRequesterPrincipalName
	}
	return is
}

// Known implements Issuer.
func (k *kadmIssuer) Known(ctx context.Context, node int32, owner, tokenID string) (bool, error) {
	return k.KnownAs(ctx, node, owner, tokenID, secret.Text{})
}

// KnownAs implements Comparer; without an hmac it is Known.
func (k *kadmIssuer) KnownAs(ctx context.Context, node int32, owner, tokenID string, hmac secret.Text) (bool, error) {
	answer, err := k.question(ctx, k.lanes.read(node), describe(owner))
	if err != nil {
		return false, k.transport(PhaseReady, err, owner)
	}
	details, err := k.described(PhaseReady, answer, owner)
	if err != nil {
		return false, err
	}
	for i := range details {
		switch {
		case details[i].TokenID != tokenID:
		case !hmac.IsEmpty() && !hmac.Equal(secret.New(string(details[i].HMAC))):
			return false, &Error{
				Phase: PhaseReady, Reason: ReasonKeyDiffers, Owner: owner, Node: node,
				Err:  errors.New("the broker computes another secret for the token"),
				Cure: "delegation.token.secret.key must be the same on every broker and controller: set it on this broker and restart it",
			}
		default:
			return true, nil
		}
	}
	return false, nil
}

// Find implements Finder. Kafka filters by owner, and adds what that principal may
// renew: by the marker, which nobody but this instance's tokens names, come those of
// every owner.
func (k *kadmIssuer) Find(ctx context.Context, owner, renewer string) ([]Issued, error) {
	principal := owner
	if owner == "" {
		principal = renewer
	}
	nodes, err := k.ids(ctx)
	if err != nil {
		return nil, err
	}
	var failure *Error
	nodes = k.lanes.order(nodes)
	for i, node := range nodes {
		bounded, cancel := context.WithTimeout(ctx, findWait)
		if i == len(nodes)-1 { // there is no other: ctx is the bound
			cancel()
			bounded, cancel = context.WithCancel(ctx)
		}
		answer, err := k.question(bounded, k.lanes.read(node), describe(principal))
		cancel()
		if err == nil {
			details, err := k.described(PhaseFind, answer, owner)
			if err != nil {
				return nil, err
			}
			return marked(details, owner, renewer), nil
		}
		failure = k.transport(PhaseFind, err, owner)
		if ctx.Err() != nil || !failure.Retry {
			break
		}
		k.lanes.blame(node)
	}
	return nil, failure
}

// marked are the tokens that name the renewer; of one owner, or of all.
func marked(details []kmsg.DescribeDelegationTokenResponseTokenDetail, owner, renewer string) []Issued {
	var found []Issued
	for i := range details {
		d := &details[i]
		is := Issued{
			ID: d.TokenID, OwnerType: d.PrincipalType, Owner: d.PrincipalName,
			Requester: d.TokenRequesterPrincipalName, HMAC: secret.New(string(d.HMAC)),
			Issue: time.UnixMilli(d.IssueTimestamp), Expiry: time.UnixMilli(d.ExpiryTimestamp),
		}
		named := false
		for _, r := range d.Renewers {
			if r.PrincipalType == principalUser {
				is.Renewers = append(is.Renewers, r.PrincipalName)
				named = named || r.PrincipalName == renewer
			}
		}
		if named && (owner == "" || is.Owner == owner) {
			found = append(found, is)
		}
	}
	return found
}

// question makes a request that does no harm when it is made twice: a connection
// that has died is opened anew.
func (k *kadmIssuer) question(ctx context.Context, w way, req kmsg.Request) (kmsg.Response, error) {
	resp, err := w.send(ctx, req)
	if err != nil && ctx.Err() == nil && k.transport(PhaseReady, err, "").Retry {
		resp, err = w.send(ctx, req)
	}
	w.release(err == nil)
	return resp, err
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
		k.mu.Lock()
		k.read = time.Now() // the next to ask need not wait as well
		k.mu.Unlock()
	}
	return nodes, nil
}

// readNodes has the client read the list of brokers anew.
func (k *kadmIssuer) readNodes(ctx context.Context) ([]int32, error) {
	nodes, err := k.lanes.discover(ctx, k.lanes.first)
	if err != nil {
		return nil, k.transport(PhaseNodes, err, "")
	}
	k.mu.Lock()
	k.nodes, k.read = nodes, time.Now()
	k.mu.Unlock()
	return nodes, nil
}

// ids are the brokers of the last list; it is read at first use.
func (k *kadmIssuer) ids(ctx context.Context) ([]int32, error) {
	k.mu.Lock()
	nodes := k.nodes
	k.mu.Unlock()
	if len(nodes) > 0 {
		return nodes, nil
	}
	nodes, err := k.readNodes(ctx)
	if err == nil && len(nodes) == 0 {
		err = &Error{Phase: PhaseNodes, Reason: ReasonUnreachable, Node: NoNode, Retry: true, Err: errors.New("the list of brokers is empty")}
	}
	return nodes, err
}

// Expire implements Issuer.
func (k *kadmIssuer) Expire(ctx context.Context, hmac secret.Text) error {
	req := kmsg.NewPtrExpireDelegationTokenRequest()
	req.HMAC = []byte(hmac.Reveal())
	req.ExpiryPeriodMillis = -1
	answer, err := k.write(ctx, PhaseExpire, req, "")
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
