package conformance

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// rightsCases: ACLs, quotas, passwords.
func rightsCases() []Case {
	return []Case{
		{
			Key: kmsg.DescribeACLs, Name: "of a topic", Shared: true,
			Request: func(s *Side, _ int16) kmsg.Request { return describeACLs(s.Shared("acl")) },
		},
		{
			Key: kmsg.DescribeACLs, Name: "without the right to", As: Poor, Shared: true, Want: Failure, Codes: []int16{clusterDenied},
			Request: func(s *Side, _ int16) kmsg.Request { return describeACLs(s.Shared("acl")) },
		},
		{
			Key: kmsg.CreateACLs, Name: "one",
			Request: func(s *Side, v int16) kmsg.Request { return createACL(s.Own(fmt.Sprintf("acl-v%d", v))) },
		},
		{
			Key: kmsg.CreateACLs, Name: "without the right to", As: Poor, Want: Failure, Codes: []int16{clusterDenied},
			Request: func(s *Side, _ int16) kmsg.Request { return createACL(s.Own("denied")) },
		},
		{
			Key: kmsg.DeleteACLs, Name: "one",
			Request: func(s *Side, v int16) kmsg.Request {
				name := s.Own(fmt.Sprintf("acl-gone-v%d", v))
				s.ok(createACL(name))
				until(s, s.via.node, func() kmsg.Request { return describeACLs(name) }, func(r *kmsg.DescribeACLsResponse) bool {
					return len(r.Resources) == 1
				})
				return deleteACL(name)
			},
		},
		{
			Key: kmsg.DeleteACLs, Name: "without the right to", As: Poor, Want: Failure, Codes: []int16{clusterDenied},
			Request: func(s *Side, _ int16) kmsg.Request { return deleteACL(s.Own("denied")) },
		},
		{
			Key: kmsg.DescribeClientQuotas, Name: "of a user", Shared: true,
			Request: func(s *Side, _ int16) kmsg.Request { return describeQuotas(s.Shared("user")) },
		},
		{
			Key: kmsg.DescribeClientQuotas, Name: "without the right to", As: Poor, Shared: true, Want: Failure, Codes: []int16{clusterDenied},
			Request: func(s *Side, _ int16) kmsg.Request { return describeQuotas(s.Shared("user")) },
		},
		{
			Key: kmsg.AlterClientQuotas, Name: "of a user",
			Request: func(s *Side, _ int16) kmsg.Request {
				return alterQuotas(s.Own("user"), "producer_byte_rate", 1_000_000)
			},
		},
		{
			Key: kmsg.AlterClientQuotas, Name: "by a name that is none", Want: Failure, Codes: []int16{invalidRequest},
			Request: func(s *Side, _ int16) kmsg.Request { return alterQuotas(s.Own("user"), "patience", 1) },
		},
		{
			Key: kmsg.DescribeUserSCRAMCredentials, Name: "of a user", Shared: true,
			Request: func(s *Side, _ int16) kmsg.Request { return describeSCRAM(s.Shared("user")) },
		},
		{
			Key: kmsg.DescribeUserSCRAMCredentials, Name: "of a user that is not there", Shared: true, Want: Failure, Codes: []int16{resourceNotFound},
			Request: func(s *Side, _ int16) kmsg.Request { return describeSCRAM(s.Shared("none")) },
		},
		{
			Key: kmsg.AlterUserSCRAMCredentials, Name: "of a user",
			Request: func(s *Side, _ int16) kmsg.Request { return alterSCRAM(s.Own("user")) },
		},
		{
			Key: kmsg.AlterUserSCRAMCredentials, Name: "without the right to", As: Poor, Want: Failure, Codes: []int16{clusterDenied},
			Request: func(s *Side, _ int16) kmsg.Request { return alterSCRAM(s.Own("denied")) },
		},
		{
			Key: kmsg.AlterUserSCRAMCredentials, Name: "takes away what is not there", Want: Failure, Codes: []int16{resourceNotFound},
			Request: func(s *Side, _ int16) kmsg.Request {
				d := kmsg.NewAlterUserSCRAMCredentialsRequestDeletion()
				d.Name, d.Mechanism = s.Own("none"), 1
				r := kmsg.NewPtrAlterUserSCRAMCredentialsRequest()
				r.Deletions = append(r.Deletions, d)
				return r
			},
		},
	}
}

const (
	reader   = "User:reader"
	fromHere = "192.0.2.7" // a host in an ACL: what an administrator wrote there
)

func describeACLs(topic string) *kmsg.DescribeACLsRequest {
	r := kmsg.NewPtrDescribeACLsRequest()
	r.ResourceType, r.ResourceName, r.ResourcePatternType = kmsg.ACLResourceTypeTopic, &topic, kmsg.ACLResourcePatternTypeLiteral
	r.Operation, r.PermissionType = kmsg.ACLOperationAny, kmsg.ACLPermissionTypeAny
	return r
}

func createACL(topic string) *kmsg.CreateACLsRequest {
	c := kmsg.NewCreateACLsRequestCreation()
	c.ResourceType, c.ResourceName, c.ResourcePatternType = kmsg.ACLResourceTypeTopic, topic, kmsg.ACLResourcePatternTypeLiteral
	c.Principal, c.Host, c.Operation, c.PermissionType = reader, fromHere, kmsg.ACLOperationRead, kmsg.ACLPermissionTypeAllow
	r := kmsg.NewPtrCreateACLsRequest()
	r.Creations = append(r.Creations, c)
	return r
}

func deleteACL(topic string) *kmsg.DeleteACLsRequest {
	f := kmsg.NewDeleteACLsRequestFilter()
	f.ResourceType, f.ResourceName, f.ResourcePatternType = kmsg.ACLResourceTypeTopic, &topic, kmsg.ACLResourcePatternTypeLiteral
	f.Operation, f.PermissionType = kmsg.ACLOperationAny, kmsg.ACLPermissionTypeAny
	r := kmsg.NewPtrDeleteACLsRequest()
	r.Filters = append(r.Filters, f)
	return r
}

func describeQuotas(user string) *kmsg.DescribeClientQuotasRequest {
	c := kmsg.NewDescribeClientQuotasRequestComponent()
	c.EntityType, c.Match = "user", &user
	r := kmsg.NewPtrDescribeClientQuotasRequest()
	r.Components = append(r.Components, c)
	return r
}

func alterQuotas(user, key string, value float64) *kmsg.AlterClientQuotasRequest {
	of := kmsg.NewAlterClientQuotasRequestEntryEntity()
	of.Type, of.Name = "user", &user
	op := kmsg.NewAlterClientQuotasRequestEntryOp()
	op.Key, op.Value = key, value
	e := kmsg.NewAlterClientQuotasRequestEntry()
	e.Entity, e.Ops = append(e.Entity, of), append(e.Ops, op)
	r := kmsg.NewPtrAlterClientQuotasRequest()
	r.Entries = append(r.Entries, e)
	return r
}

func describeSCRAM(user string) *kmsg.DescribeUserSCRAMCredentialsRequest {
	u := kmsg.NewDescribeUserSCRAMCredentialsRequestUser()
	u.Name = user
	r := kmsg.NewPtrDescribeUserSCRAMCredentialsRequest()
	r.Users = append(r.Users, u)
	return r
}

func alterSCRAM(user string) *kmsg.AlterUserSCRAMCredentialsRequest {
	u := kmsg.NewAlterUserSCRAMCredentialsRequestUpsertion()
	u.Name, u.Mechanism, u.Iterations = user, 1, 4096
	u.Salt, u.SaltedPassword = []byte("a salt"), make([]byte, 32)
	r := kmsg.NewPtrAlterUserSCRAMCredentialsRequest()
	r.Upsertions = append(r.Upsertions, u)
	return r
}
