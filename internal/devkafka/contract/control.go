package contract

import (
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// token is what a creation gave.
type token struct {
	id                 string
	hmac               []byte
	made               time.Time // by our clock, before it was asked for
	issue, expiry, max time.Time // by the controller's
}

// token makes one for an owner, with maker as a renewer; a life of 0 is the longest. It
// returns when the broker lists it.
func (s Subject) token(t *testing.T, b Broker, owner string, life time.Duration) token {
	t.Helper()
	p := s.toControl(t, b, maker)
	defer p.close()
	made := time.Now()
	resp := ask[*kmsg.CreateDelegationTokenResponse](p, create(owner, life, maker))
	if resp.ErrorCode != 0 {
		t.Fatalf("a token for %s: error %d", owner, resp.ErrorCode)
	}
	k := issued(resp)
	k.made = made
	until(t, "the broker lists token "+k.id, func() bool {
		if life > 0 && time.Since(made) > life {
			return true // gone before it came: the caller takes a longer one
		}
		return slices.Contains(p.lists(owner), k.id)
	})
	return k
}

func issued(resp *kmsg.CreateDelegationTokenResponse) token {
	return token{
		id: resp.TokenID, hmac: resp.HMAC, issue: time.UnixMilli(resp.IssueTimestamp),
		expiry: time.UnixMilli(resp.ExpiryTimestamp), max: time.UnixMilli(resp.MaxTimestamp),
	}
}

// create asks for a token; owner "" is whoever asks.
func create(owner string, life time.Duration, renewers ...string) *kmsg.CreateDelegationTokenRequest {
	req := kmsg.NewPtrCreateDelegationTokenRequest()
	req.Version = 3
	if owner != "" {
		req.OwnerPrincipalType, req.OwnerPrincipalName = kmsg.StringPtr("User"), kmsg.StringPtr(owner)
	}
	for _, name := range renewers {
		r := kmsg.NewCreateDelegationTokenRequestRenewer()
		r.PrincipalType, r.PrincipalName = "User", name
		req.Renewers = append(req.Renewers, r)
	}
	req.MaxLifetimeMillis = -1
	if life > 0 {
		req.MaxLifetimeMillis = life.Milliseconds()
	}
	return req
}

// removeNow is the period with which a token is gone at once.
const removeNow = -time.Millisecond

func expire(k token, period time.Duration) *kmsg.ExpireDelegationTokenRequest {
	req := kmsg.NewPtrExpireDelegationTokenRequest()
	req.Version, req.HMAC, req.ExpiryPeriodMillis = 2, k.hmac, period.Milliseconds()
	return req
}

func renew(k token, period time.Duration) *kmsg.RenewDelegationTokenRequest {
	req := kmsg.NewPtrRenewDelegationTokenRequest()
	req.Version, req.HMAC, req.RenewTimeMillis = 2, k.hmac, period.Milliseconds()
	return req
}

// lag is how often a request is repeated that the controller answers with error 62: it
// may itself learn a moment later of a token that it has just made.
const lag = 20

// expireAs expires a token as somebody and returns the error.
func (s Subject) expireAs(t *testing.T, b Broker, as string, k token, period time.Duration) int16 {
	t.Helper()
	p := s.toControl(t, b, as)
	defer p.close()
	for tries := 0; ; tries++ {
		code := ask[*kmsg.ExpireDelegationTokenResponse](p, expire(k, period)).ErrorCode
		if code != tokenNotFound || tries == lag {
			return code
		}
		pause(t, 100*time.Millisecond)
	}
}

// renews renews a token and returns its new expiry.
func (p *peer) renews(k token, period time.Duration) time.Time {
	p.t.Helper()
	for tries := 0; ; tries++ {
		resp := ask[*kmsg.RenewDelegationTokenResponse](p, renew(k, period))
		switch {
		case resp.ErrorCode == 0:
			return time.UnixMilli(resp.ExpiryTimestamp)
		case resp.ErrorCode != tokenNotFound || tries == lag:
			p.t.Fatalf("renew for %v: error %d", period, resp.ErrorCode)
		}
		pause(p.t, 100*time.Millisecond)
	}
}

// describe asks for the tokens of some owners; with none, for everybody's.
func describe(owners ...string) *kmsg.DescribeDelegationTokenRequest {
	req := kmsg.NewPtrDescribeDelegationTokenRequest()
	req.Version = 3
	for _, name := range owners {
		o := kmsg.NewDescribeDelegationTokenRequestOwner()
		o.PrincipalType, o.PrincipalName = "User", name
		req.Owners = append(req.Owners, o)
	}
	return req
}

// lists are the ids of the tokens that the broker lists for some owners, in order.
func (p *peer) lists(owners ...string) []string {
	p.t.Helper()
	resp := ask[*kmsg.DescribeDelegationTokenResponse](p, describe(owners...))
	if resp.ErrorCode != 0 {
		p.t.Fatalf("the tokens of %v: error %d", owners, resp.ErrorCode)
	}
	var ids []string
	for _, d := range resp.TokenDetails {
		ids = append(ids, d.TokenID)
	}
	slices.Sort(ids)
	return ids
}

// creates is CREATE_TOKENS on a user resource (KIP-373), whose name is the whole
// principal, or "*" for all.
func creates(principal, resource string, prefixed bool) kmsg.CreateACLsRequestCreation {
	return allow(principal, kmsg.ACLResourceTypeUser, resource, prefixed, kmsg.ACLOperationCreateTokens)
}

func allow(principal string, kind kmsg.ACLResourceType, name string, prefixed bool, op kmsg.ACLOperation) kmsg.CreateACLsRequestCreation {
	c := kmsg.NewCreateACLsRequestCreation()
	c.ResourceType, c.ResourceName, c.ResourcePatternType = kind, name, kmsg.ACLResourcePatternTypeLiteral
	if prefixed {
		c.ResourcePatternType = kmsg.ACLResourcePatternTypePrefixed
	}
	c.Principal, c.Host, c.Operation, c.PermissionType = "User:"+principal, "*", op, kmsg.ACLPermissionTypeAllow
	return c
}

// grant adds an entry at the first broker and returns when all of them have it.
func (s Subject) grant(t *testing.T, brokers []Broker, entry kmsg.CreateACLsRequestCreation) {
	t.Helper()
	req := kmsg.NewPtrCreateACLsRequest()
	req.Version, req.Creations = 2, append(req.Creations, entry)
	p := s.toControl(t, brokers[0], s.Admin)
	defer p.close()
	for _, r := range ask[*kmsg.CreateACLsResponse](p, req).Results {
		if r.ErrorCode != 0 {
			t.Fatalf("a grant: error %d", r.ErrorCode)
		}
	}
	for _, b := range brokers {
		p := s.toControl(t, b, s.Admin)
		until(t, "a broker has the grant", func() bool {
			req := kmsg.NewPtrDescribeACLsRequest()
			req.Version, req.ResourceType, req.ResourceName, req.ResourcePatternType = 2, entry.ResourceType, &entry.ResourceName, entry.ResourcePatternType
			req.Principal, req.Operation, req.PermissionType = &entry.Principal, entry.Operation, entry.PermissionType
			return len(ask[*kmsg.DescribeACLsResponse](p, req).Resources) == 1
		})
		p.close()
	}
}

// topic makes a topic of one partition, by way of the broker at hand, and returns the
// broker that leads it.
func (s Subject) topic(t *testing.T, name string) Broker {
	t.Helper()
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version, req.TimeoutMillis = 5, 30_000
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, 1, 1
	req.Topics = append(req.Topics, topic)
	p := s.toControl(t, s.Brokers[0], s.Admin)
	defer p.close()
	if code := ask[*kmsg.CreateTopicsResponse](p, req).Topics[0].ErrorCode; code != 0 {
		t.Fatalf("topic %s: error %d", name, code)
	}
	var leader Broker
	for _, b := range s.Brokers {
		p := s.toControl(t, b, s.Admin)
		until(t, "a broker knows the topic's leader", func() bool {
			found := ask[*kmsg.MetadataResponse](p, metadata(name)).Topics[0]
			if found.ErrorCode != 0 || len(found.Partitions) != 1 || found.Partitions[0].ErrorCode != 0 {
				return false
			}
			i := slices.IndexFunc(s.Brokers, func(b Broker) bool { return b.Node == found.Partitions[0].Leader })
			if i >= 0 {
				leader = s.Brokers[i]
			}
			return i >= 0
		})
		p.close()
	}
	return leader
}
