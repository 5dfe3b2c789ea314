package conformance

import (
	"encoding/binary"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// connectionCases: ApiVersions, and what the gateway answers by itself.
func connectionCases() []Case {
	const here = "the gateway answers by key and version alone"
	return []Case{
		{
			Key: kmsg.ApiVersions, Name: "what is offered", Shared: true,
			Request: func(*Side, int16) kmsg.Request { return apiVersions("conformance", "1") },
		},
		{
			Key: kmsg.ApiVersions, Name: "of this node of this cluster", From: 5, Shared: true,
			Request: func(s *Side, _ int16) kmsg.Request {
				r := apiVersions("conformance", "1")
				r.ClusterID, r.NodeID = &s.ClusterID, 1
				return r
			},
		},
		{
			Key: kmsg.ApiVersions, Name: "of another node than the one asked", From: 5, Shared: true, Want: Either,
			Request: func(s *Side, _ int16) kmsg.Request {
				r := apiVersions("conformance", "1")
				r.ClusterID, r.NodeID = &s.ClusterID, 2
				return r
			},
		},
		{
			Key: kmsg.ApiVersions, Name: "software without a name", From: 3, Shared: true, Want: Failure, Codes: []int16{invalidRequest},
			Request: func(*Side, int16) kmsg.Request { return apiVersions("", "") },
		},
		{
			Key: kmsg.ApiVersions, Name: "a version that nobody knows", From: 3, Shared: true, Want: Failure, Codes: []int16{unsupported},
			Request: func(*Side, int16) kmsg.Request { return apiVersions("conformance", "1") },
			Patch:   func(frame []byte) { atVersion(frame, 99) },
		},
		// A listener that knows clients by their certificates has nothing to log in to.
		{
			Key: kmsg.SASLHandshake, Name: "behind a certificate", Via: ViaCertificate, Want: Failure, Codes: []int16{illegalSaslState}, Shared: true,
			Request: func(*Side, int16) kmsg.Request {
				r := kmsg.NewPtrSASLHandshakeRequest()
				r.Mechanism = "SCRAM-SHA-512"
				return r
			},
		},
		{
			Key: kmsg.SASLAuthenticate, Name: "behind a certificate", Via: ViaCertificate, Want: Failure, Codes: []int16{illegalSaslState}, Shared: true,
			Request: func(*Side, int16) kmsg.Request {
				r := kmsg.NewPtrSASLAuthenticateRequest()
				r.SASLAuthBytes = []byte("n,,n=admin,r=nonce")
				return r
			},
			Masks: []Mask{{Field: "ErrorMessage", Alike: someText, Why: "the gateway says it in its own words", Here: true}},
		},
		{
			Key: kmsg.CreateDelegationToken, Name: "with a token", Want: Failure, Codes: []int16{tokensNotAllowed}, Shared: true,
			Request: func(*Side, int16) kmsg.Request {
				r := kmsg.NewPtrCreateDelegationTokenRequest()
				r.MaxLifetimeMillis = -1
				return r
			},
			Masks: []Mask{
				{Field: "PrincipalType", Why: here, Here: true}, {Field: "PrincipalName", Why: here, Here: true},
				{Field: "TokenRequesterPrincipalType", Why: here, Here: true}, {Field: "TokenRequesterPrincipalName", Why: here, Here: true},
			},
		},
		{
			Key: kmsg.RenewDelegationToken, Name: "with a token", Want: Failure, Codes: []int16{tokensNotAllowed}, Shared: true,
			Request: func(*Side, int16) kmsg.Request {
				r := kmsg.NewPtrRenewDelegationTokenRequest()
				r.HMAC, r.RenewTimeMillis = make([]byte, 64), -1
				return r
			},
		},
		{
			Key: kmsg.ExpireDelegationToken, Name: "with a token", Want: Failure, Codes: []int16{tokensNotAllowed}, Shared: true,
			Request: func(*Side, int16) kmsg.Request {
				r := kmsg.NewPtrExpireDelegationTokenRequest()
				r.HMAC, r.ExpiryPeriodMillis = make([]byte, 64), -1
				return r
			},
		},
		{
			Key: kmsg.DescribeDelegationToken, Name: "with a token", Want: Failure, Codes: []int16{tokensNotAllowed}, Shared: true,
			Request: func(*Side, int16) kmsg.Request { return kmsg.NewPtrDescribeDelegationTokenRequest() },
		},
	}
}

func apiVersions(software, version string) *kmsg.ApiVersionsRequest {
	r := kmsg.NewPtrApiVersionsRequest()
	r.ClientSoftwareName, r.ClientSoftwareVersion = software, version
	return r
}

// atVersion puts another version into the header of a frame.
func atVersion(frame []byte, version int16) {
	binary.BigEndian.PutUint16(frame[lengthSize+2:], uint16(version))
}
