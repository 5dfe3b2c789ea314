package devkafka

import (
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// tokenAPI answers the four token requests (KIP-48, KIP-373). Those who came with a
// token may ask for none of them.
func (c *conn) tokenAPI(now time.Time, r request) (kmsg.Response, error) {
	by := user(c.principal)
	var refusal *kerr.Error
	if c.withTokens {
		refusal = kerr.DelegationTokenRequestNotAllowed
	}
	var answer kmsg.Response
	var err error
	switch r.Key {
	case keyCreateToken:
		req := kmsg.NewPtrCreateDelegationTokenRequest()
		if err = r.decode(req); err == nil {
			answer = c.createToken(now, by, refusal, req)
		}
	case keyRenewToken:
		req := kmsg.NewPtrRenewDelegationTokenRequest()
		if err = r.decode(req); err == nil {
			a := kmsg.NewPtrRenewDelegationTokenResponse()
			a.ExpiryTimestamp, a.ErrorCode = moved(refusal, func() (time.Time, *kerr.Error) {
				return c.cluster.tokens.renew(now, by, req.HMAC, millis(req.RenewTimeMillis))
			})
			answer = a
		}
	case keyExpireToken:
		req := kmsg.NewPtrExpireDelegationTokenRequest()
		if err = r.decode(req); err == nil {
			a := kmsg.NewPtrExpireDelegationTokenResponse()
			a.ExpiryTimestamp, a.ErrorCode = moved(refusal, func() (time.Time, *kerr.Error) {
				return c.cluster.tokens.expire(now, by, req.HMAC, millis(req.ExpiryPeriodMillis))
			})
			answer = a
		}
	default:
		req := kmsg.NewPtrDescribeDelegationTokenRequest()
		if err = r.decode(req); err == nil {
			answer = c.describeTokens(now, by, refusal, req)
		}
	}
	if err != nil {
		return nil, err
	}
	answer.SetVersion(r.Version)
	return answer, nil
}

// moved is the answer to a request that moves a token's expiry.
func moved(refusal *kerr.Error, move func() (time.Time, *kerr.Error)) (expiry int64, code int16) {
	var at time.Time
	if refusal == nil {
		at, refusal = move()
	}
	if refusal != nil {
		return -1, refusal.Code
	}
	return at.UnixMilli(), 0
}

// millis is a period of a request, cut to what a time can be moved by.
func millis(n int64) time.Duration {
	const most = int64(100 * 365 * 24 * time.Hour / time.Millisecond)
	return time.Duration(max(min(n, most), -1)) * time.Millisecond
}

func (c *conn) createToken(now time.Time, by principal, refusal *kerr.Error, req *kmsg.CreateDelegationTokenRequest) kmsg.Response {
	owner := by
	if req.OwnerPrincipalName != nil && *req.OwnerPrincipalName != "" {
		owner = principal{name: *req.OwnerPrincipalName}
		if req.OwnerPrincipalType != nil {
			owner.kind = *req.OwnerPrincipalType
		}
	}
	answer := kmsg.NewPtrCreateDelegationTokenResponse()
	answer.PrincipalType, answer.PrincipalName = owner.kind, owner.name
	answer.TokenRequesterPrincipalType, answer.TokenRequesterPrincipalName = by.kind, by.name
	var renewers []principal
	for _, r := range req.Renewers {
		renewers = append(renewers, principal{r.PrincipalType, r.PrincipalName})
	}
	notUser := func(p principal) bool { return p.kind != "User" }
	var made listed
	switch {
	case refusal != nil:
	case owner != by && !c.cluster.acls.allowed(by, c.host, kmsg.ACLResourceTypeUser, owner.String(), kmsg.ACLOperationCreateTokens):
		refusal = kerr.DelegationTokenAuthorizationFailed
	case notUser(owner) || slices.ContainsFunc(renewers, notUser):
		refusal = kerr.InvalidPrincipalType
	default:
		made, refusal = c.cluster.tokens.create(now, owner, by, renewers, millis(req.MaxLifetimeMillis))
	}
	if refusal != nil {
		answer.ErrorCode = refusal.Code
		return answer
	}
	answer.TokenID, answer.HMAC = made.id, made.hmac
	answer.IssueTimestamp, answer.MaxTimestamp = made.issued.UnixMilli(), made.max.UnixMilli()
	answer.ExpiryTimestamp = made.expiry.UnixMilli()
	return answer
}

// describeTokens lists, as this node knows them, the tokens that one may see: those of
// which one is owner, requester or renewer, and those that ACLs open. An owner list
// narrows it to tokens of which a principal named there is one of the three.
func (c *conn) describeTokens(now time.Time, by principal, refusal *kerr.Error, req *kmsg.DescribeDelegationTokenRequest) kmsg.Response {
	answer := kmsg.NewPtrDescribeDelegationTokenResponse()
	if refusal == nil && c.cluster.cfg.NoSecretKey {
		refusal = kerr.DelegationTokenAuthDisabled
	}
	if refusal != nil {
		answer.ErrorCode = refusal.Code
		return answer
	}
	allowed := func(t *token) bool {
		return t.ownedOrRenewable(by) ||
			c.cluster.acls.allowed(by, c.host, kmsg.ACLResourceTypeDelegationToken, t.id, kmsg.ACLOperationDescribe) ||
			c.cluster.acls.allowed(by, c.host, kmsg.ACLResourceTypeUser, t.owner.String(), kmsg.ACLOperationDescribeTokens)
	}
	wanted := func(t *token) bool {
		return req.Owners == nil || slices.ContainsFunc(req.Owners, func(o kmsg.DescribeDelegationTokenRequestOwner) bool {
			return t.ownedOrRenewable(principal{o.PrincipalType, o.PrincipalName})
		})
	}
	for _, t := range c.cluster.tokens.list(now, c.node.id, func(t *token) bool { return wanted(t) && allowed(t) }) {
		d := kmsg.NewDescribeDelegationTokenResponseTokenDetail()
		d.TokenID, d.HMAC = t.id, t.hmac
		d.PrincipalType, d.PrincipalName = t.owner.kind, t.owner.name
		d.TokenRequesterPrincipalType, d.TokenRequesterPrincipalName = t.requester.kind, t.requester.name
		d.IssueTimestamp, d.ExpiryTimestamp, d.MaxTimestamp = t.issued.UnixMilli(), t.expiry.UnixMilli(), t.max.UnixMilli()
		for _, r := range t.renewers {
			renewer := kmsg.NewDescribeDelegationTokenResponseTokenDetailRenewer()
			renewer.PrincipalType, renewer.PrincipalName = r.kind, r.name
			d.Renewers = append(d.Renewers, renewer)
		}
		answer.TokenDetails = append(answer.TokenDetails, d)
	}
	return answer
}
