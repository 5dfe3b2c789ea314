package gateway

import (
	"encoding/binary"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// noTime is what brokers put into the timestamps of a token that they refuse.
const noTime = -1

// localAnswer makes the answer to a request that no broker sees. It depends on key
// and version alone.
func localAnswer(p pending) []byte {
	response := kmsg.ResponseForKey(p.key)
	response.SetVersion(p.version)
	switch r := response.(type) {
	case *kmsg.SASLHandshakeResponse:
		// What a broker's SSL listener says: there is nothing to log in to.
		r.ErrorCode = kerr.IllegalSaslState.Code
	case *kmsg.SASLAuthenticateResponse:
		r.ErrorCode = kerr.IllegalSaslState.Code
		r.ErrorMessage = kmsg.StringPtr("this listener authenticates by client certificate")
	case *kmsg.CreateDelegationTokenResponse:
		r.ErrorCode = kerr.DelegationTokenRequestNotAllowed.Code
		r.IssueTimestamp, r.ExpiryTimestamp, r.MaxTimestamp = noTime, noTime, noTime
	case *kmsg.RenewDelegationTokenResponse:
		r.ErrorCode, r.ExpiryTimestamp = kerr.DelegationTokenRequestNotAllowed.Code, noTime
	case *kmsg.ExpireDelegationTokenResponse:
		r.ErrorCode, r.ExpiryTimestamp = kerr.DelegationTokenRequestNotAllowed.Code, noTime
	case *kmsg.DescribeDelegationTokenResponse:
		r.ErrorCode = kerr.DelegationTokenRequestNotAllowed.Code
	}
	frame, begin := beginFrame(nil, p.correlationID)
	if p.rule.flexibleAt(p.version) {
		frame = append(frame, 0)
	}
	return endFrame(response.AppendTo(frame), begin)
}

// versionRange is the span of versions of one API.
type versionRange struct{ min, max int16 }

// tooNewVersions answers an ApiVersions request of a version above the gateway's,
// as a broker does (KIP-511): shaped as version 0, error 35, naming the versions
// that work. The client asks again on the same connection.
func tooNewVersions(correlationID int32, r versionRange) []byte {
	response := kmsg.NewPtrApiVersionsResponse()
	response.ErrorCode = kerr.UnsupportedVersion.Code
	response.ApiKeys = []kmsg.ApiVersionsResponseApiKey{{
		ApiKey: int16(kmsg.ApiVersions), MinVersion: r.min, MaxVersion: r.max,
	}}
	frame, begin := beginFrame(nil, correlationID)
	return endFrame(response.AppendTo(frame), begin)
}

// trimVersions takes what the table does not offer out of a broker's ApiVersions answer
// and lowers maxima; all else stays as the broker said it, byte for byte: minima,
// features, epochs, unknown tags. The header of this answer never carries tags.
func trimVersions(s *splice, version int16, table policy) {
	code := s.Int16()
	if code == kerr.UnsupportedVersion.Code {
		version = 0 // the broker knows only lower versions and answers in the oldest shape
	}
	flexible := version >= 3
	s.list(flexible, func() bool {
		key, lowest := s.Int16(), s.Int16()
		at := s.At()
		highest := s.Int16()
		if flexible {
			s.Tags()
		}
		served, ok := table.offered(key)
		if s.Err() != nil || !ok || served < lowest {
			return false
		}
		if served < highest {
			s.replace(at, at+2, binary.BigEndian.AppendUint16(nil, uint16(served))) //nolint:gosec // G115: not negative
		}
		return true
	})
}
