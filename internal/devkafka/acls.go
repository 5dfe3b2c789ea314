package devkafka

import (
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// maxACLs bounds how many entries are kept here.
const maxACLs = 10_000

// acl is one entry on a resource that kfake does not keep: a user (KIP-373) or a token.
type acl struct {
	kind            kmsg.ACLResourceType
	name            string
	pattern         kmsg.ACLResourcePatternType
	principal, host string
	operation       kmsg.ACLOperation
	permission      kmsg.ACLPermissionType
}

// ours tells whether kfake leaves entries on such resources to us.
func ours(kind kmsg.ACLResourceType) bool {
	return kind == kmsg.ACLResourceTypeUser || kind == kmsg.ACLResourceTypeDelegationToken
}

// acls are all such entries.
type acls struct {
	superUsers []principal

	mu      sync.Mutex
	entries []acl
}

func newACLs(superUsers []string) *acls {
	a := &acls{}
	for _, name := range superUsers {
		a.superUsers = append(a.superUsers, user(name))
	}
	return a
}

// allowed is the authorizer: a denial beats every permission, and without a permission
// nothing is allowed.
func (a *acls) allowed(by principal, host string, kind kmsg.ACLResourceType, name string, op kmsg.ACLOperation) bool {
	if slices.Contains(a.superUsers, by) {
		return true
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	allow := false
	for _, e := range a.entries {
		if e.kind != kind || !e.covers(name) ||
			e.principal != by.String() && e.principal != "User:*" ||
			e.host != host && e.host != "*" ||
			e.operation != op && e.operation != kmsg.ACLOperationAll {
			continue
		}
		if e.permission == kmsg.ACLPermissionTypeDeny {
			return false
		}
		allow = true
	}
	return allow
}

// covers tells whether the entry is about a resource of that name. "*" is the wildcard,
// also among users, where "User:*" is a name like any other.
func (e acl) covers(name string) bool {
	if e.pattern == kmsg.ACLResourcePatternTypePrefixed {
		return strings.HasPrefix(name, e.name)
	}
	return e.name == name || e.name == "*"
}

// aclAPI serves the ACL requests. kfake decides who may ask, and keeps the entries on
// everything but users and tokens.
func (c *conn) aclAPI(r request) (kmsg.Response, error) {
	req := kmsg.RequestForKey(r.Key)
	if err := r.decode(req); err != nil {
		return nil, err
	}
	_, resp, err := c.ask(r)
	if err != nil {
		return nil, err
	}
	a := c.cluster.acls
	switch answer := resp.(type) {
	case *kmsg.CreateACLsResponse:
		a.create(req.(*kmsg.CreateACLsRequest), answer) //nolint:forcetypeassert // of the same key
	case *kmsg.DescribeACLsResponse:
		a.describe(req.(*kmsg.DescribeACLsRequest), answer) //nolint:forcetypeassert // of the same key
	case *kmsg.DeleteACLsResponse:
		a.remove(req.(*kmsg.DeleteACLsRequest), answer) //nolint:forcetypeassert // of the same key
	default:
		return nil, errors.New("kfake answers an ACL request with something else")
	}
	return resp, nil
}

// create keeps what kfake allowed but did not take: entries of a resource type that it
// does not know come back as invalid, and with another error where one may not ask.
func (a *acls) create(req *kmsg.CreateACLsRequest, answer *kmsg.CreateACLsResponse) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range min(len(req.Creations), len(answer.Results)) {
		r, result := req.Creations[i], &answer.Results[i]
		valid := (r.ResourcePatternType == kmsg.ACLResourcePatternTypeLiteral || r.ResourcePatternType == kmsg.ACLResourcePatternTypePrefixed) &&
			r.Operation >= kmsg.ACLOperationAll && r.Operation <= kmsg.ACLOperationDescribeTokens &&
			(r.PermissionType == kmsg.ACLPermissionTypeAllow || r.PermissionType == kmsg.ACLPermissionTypeDeny)
		if !ours(r.ResourceType) || result.ErrorCode != kerr.InvalidRequest.Code || !valid || len(a.entries) >= maxACLs {
			continue
		}
		result.ErrorCode, result.ErrorMessage = 0, nil
		e := acl{r.ResourceType, r.ResourceName, r.ResourcePatternType, r.Principal, r.Host, r.Operation, r.PermissionType}
		if !slices.Contains(a.entries, e) {
			a.entries = append(a.entries, e)
		}
	}
}

// describe adds our entries to kfake's.
func (a *acls) describe(req *kmsg.DescribeACLsRequest, answer *kmsg.DescribeACLsResponse) {
	if answer.ErrorCode != 0 {
		return
	}
	f := filter{req.ResourceType, req.ResourceName, req.ResourcePatternType, req.Principal, req.Host, req.Operation, req.PermissionType}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, e := range a.entries {
		if !f.takes(e) {
			continue
		}
		entry := kmsg.NewDescribeACLsResponseResourceACL()
		entry.Principal, entry.Host, entry.Operation, entry.PermissionType = e.principal, e.host, e.operation, e.permission
		of := func(r kmsg.DescribeACLsResponseResource) bool {
			return r.ResourceType == e.kind && r.ResourceName == e.name && r.ResourcePatternType == e.pattern
		}
		i := slices.IndexFunc(answer.Resources, of)
		if i < 0 {
			resource := kmsg.NewDescribeACLsResponseResource()
			resource.ResourceType, resource.ResourceName, resource.ResourcePatternType = e.kind, e.name, e.pattern
			i = len(answer.Resources)
			answer.Resources = append(answer.Resources, resource)
		}
		answer.Resources[i].ACLs = append(answer.Resources[i].ACLs, entry)
	}
}

// remove deletes of ours what the filters take that kfake allowed.
func (a *acls) remove(req *kmsg.DeleteACLsRequest, answer *kmsg.DeleteACLsResponse) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range min(len(req.Filters), len(answer.Results)) {
		r, result := req.Filters[i], &answer.Results[i]
		if result.ErrorCode != 0 {
			continue
		}
		f := filter{r.ResourceType, r.ResourceName, r.ResourcePatternType, r.Principal, r.Host, r.Operation, r.PermissionType}
		a.entries = slices.DeleteFunc(a.entries, func(e acl) bool {
			if !f.takes(e) {
				return false
			}
			m := kmsg.NewDeleteACLsResponseResultMatchingACL()
			m.ResourceType, m.ResourceName, m.ResourcePatternType = e.kind, e.name, e.pattern
			m.Principal, m.Host, m.Operation, m.PermissionType = e.principal, e.host, e.operation, e.permission
			result.MatchingACLs = append(result.MatchingACLs, m)
			return true
		})
	}
}

// filter says which entries are meant; nil and ANY mean all.
type filter struct {
	kind            kmsg.ACLResourceType
	name            *string
	pattern         kmsg.ACLResourcePatternType
	principal, host *string
	operation       kmsg.ACLOperation
	permission      kmsg.ACLPermissionType
}

func (f filter) takes(e acl) bool {
	return (f.kind == kmsg.ACLResourceTypeAny || f.kind == e.kind) &&
		(f.principal == nil || *f.principal == e.principal) &&
		(f.host == nil || *f.host == e.host) &&
		(f.operation == kmsg.ACLOperationAny || f.operation == e.operation) &&
		(f.permission == kmsg.ACLPermissionTypeAny || f.permission == e.permission) &&
		f.takesName(e)
}

func (f filter) takesName(e acl) bool {
	switch f.pattern {
	case kmsg.ACLResourcePatternTypeMatch:
		return f.name == nil || e.covers(*f.name)
	case kmsg.ACLResourcePatternTypeAny:
	default:
		if f.pattern != e.pattern {
			return false
		}
	}
	return f.name == nil || *f.name == e.name
}
