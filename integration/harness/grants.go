//go:build integration

package harness

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Grant is one ACL entry that allows something from anywhere.
type Grant struct {
	Principal string // without "User:"
	Type      kmsg.ACLResourceType
	Name      string
	Prefixed  bool
	Operation kmsg.ACLOperation
}

// Grant adds ACL entries. The brokers learn of them a moment later
// (AwaitGrants).
func (a *Admin) Grant(ctx context.Context, grants ...Grant) error {
	req := kmsg.NewPtrCreateACLsRequest()
	for _, g := range grants {
		c := kmsg.NewCreateACLsRequestCreation()
		c.ResourceType, c.ResourceName, c.ResourcePatternType = g.Type, g.Name, g.pattern()
		c.Principal, c.Host = "User:"+g.Principal, "*"
		c.Operation, c.PermissionType = g.Operation, kmsg.ACLPermissionTypeAllow
		req.Creations = append(req.Creations, c)
	}
	resp, err := req.RequestWith(ctx, a.Kafka)
	if err != nil {
		return err
	}
	var errs []error
	for _, r := range resp.Results {
		if err := kerr.ErrorForCode(r.ErrorCode); err != nil {
			errs = append(errs, fmt.Errorf("create ACL: %w: %s", err, deref(r.ErrorMessage)))
		}
	}
	return errors.Join(errors.Join(errs...), a.awaitACLs(ctx, grants, true))
}

// Revoke takes ACL entries away again.
func (a *Admin) Revoke(ctx context.Context, grants ...Grant) error {
	req := kmsg.NewPtrDeleteACLsRequest()
	for _, g := range grants {
		f := kmsg.NewDeleteACLsRequestFilter()
		name, principal, host := g.Name, "User:"+g.Principal, "*"
		f.ResourceType, f.ResourceName, f.ResourcePatternType = g.Type, &name, g.pattern()
		f.Principal, f.Host = &principal, &host
		f.Operation, f.PermissionType = g.Operation, kmsg.ACLPermissionTypeAllow
		req.Filters = append(req.Filters, f)
	}
	resp, err := req.RequestWith(ctx, a.Kafka)
	if err != nil {
		return err
	}
	var errs []error
	for _, r := range resp.Results {
		if err := kerr.ErrorForCode(r.ErrorCode); err != nil {
			errs = append(errs, fmt.Errorf("delete ACL: %w: %s", err, deref(r.ErrorMessage)))
		}
	}
	return errors.Join(errors.Join(errs...), a.awaitACLs(ctx, grants, false))
}

func (g Grant) pattern() kmsg.ACLResourcePatternType {
	if g.Prefixed {
		return kmsg.ACLResourcePatternTypePrefixed
	}
	return kmsg.ACLResourcePatternTypeLiteral
}

// GrantTokens lets principal create tokens for the owner, "*" meaning all.
func (a *Admin) GrantTokens(ctx context.Context, principal, owner string) error {
	return a.Grant(ctx, TokenGrant(principal, owner))
}

// TokenGrant is CREATE_TOKENS on the user resource of owner (KIP-373). The
// resource's name is the whole principal, but "*" stands for all of them.
func TokenGrant(principal, owner string) Grant {
	if owner != "*" {
		owner = "User:" + owner
	}
	return Grant{Principal: principal, Type: kmsg.ACLResourceTypeUser, Name: owner, Operation: kmsg.ACLOperationCreateTokens}
}

// AppGrants lets an application use topics, groups and transactional ids whose
// names begin with prefix, and nothing else.
func AppGrants(principal, prefix string) []Grant {
	grant := func(t kmsg.ACLResourceType, ops ...kmsg.ACLOperation) []Grant {
		var out []Grant
		for _, op := range ops {
			out = append(out, Grant{Principal: principal, Type: t, Name: prefix, Prefixed: true, Operation: op})
		}
		return out
	}
	out := grant(kmsg.ACLResourceTypeTopic, kmsg.ACLOperationRead, kmsg.ACLOperationWrite, kmsg.ACLOperationDescribe)
	out = append(out, grant(kmsg.ACLResourceTypeGroup, kmsg.ACLOperationRead, kmsg.ACLOperationDescribe)...)
	return append(out, grant(kmsg.ACLResourceTypeTransactionalId, kmsg.ACLOperationWrite, kmsg.ACLOperationDescribe)...)
}
