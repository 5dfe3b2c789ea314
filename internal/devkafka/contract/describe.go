package contract

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// make3 makes tokens of two owners with a marker as renewer, and one without.
func (s Subject) make3(t *testing.T, b Broker, prefix string) (one, two, unmarked token) {
	t.Helper()
	p := s.toControl(t, b, maker)
	one = issued(ask[*kmsg.CreateDelegationTokenResponse](p, create(prefix+"-1", time.Hour, maker, prefix+"-marker")))
	two = issued(ask[*kmsg.CreateDelegationTokenResponse](p, create(prefix+"-2", time.Hour, maker, prefix+"-marker")))
	unmarked = issued(ask[*kmsg.CreateDelegationTokenResponse](p, create(prefix+"-1", time.Hour, maker)))
	until(t, "the broker lists all of them", func() bool { return len(p.lists(prefix+"-1", prefix+"-2")) == 3 })
	return one, two, unmarked
}

func ids(tokens ...token) []string {
	var out []string
	for _, k := range tokens {
		out = append(out, k.id)
	}
	slices.Sort(out)
	return out
}

func describeByOwners(t *testing.T, s Subject) {
	one, two, unmarked := s.make3(t, s.Brokers[0], "by-owner")
	p := s.toControl(t, s.Brokers[0], maker)
	for _, c := range []struct {
		owners []string
		want   []string
	}{
		{[]string{"by-owner-1"}, ids(one, unmarked)},
		{[]string{"by-owner-2"}, ids(two)},
		{[]string{"by-owner-1", "by-owner-2"}, ids(one, two, unmarked)},
		{[]string{"by-owner-marker"}, ids(one, two)}, // what it may renew
		{[]string{"by-owner-nobody"}, nil},
	} {
		if got := p.lists(c.owners...); !slices.Equal(got, c.want) {
			t.Errorf("owners %v: %v, not %v", c.owners, got, c.want)
		}
	}
	req := describe("by-owner-1")
	req.Owners[0].PrincipalType = ""
	if n := len(ask[*kmsg.DescribeDelegationTokenResponse](p, req).TokenDetails); n != 0 {
		t.Errorf("an owner of no type: %d tokens", n)
	}
	req = describe()
	req.Owners = []kmsg.DescribeDelegationTokenRequestOwner{}
	if resp := ask[*kmsg.DescribeDelegationTokenResponse](p, req); resp.ErrorCode != 0 || len(resp.TokenDetails) != 0 {
		t.Errorf("an empty list of owners: error %d, %d tokens", resp.ErrorCode, len(resp.TokenDetails))
	}
}

func describeOwnOnly(t *testing.T, s Subject) {
	one, two, unmarked := s.make3(t, s.Brokers[0], "own-only")
	for _, c := range []struct {
		who    string
		owners []string
		want   []string
	}{
		{"own-only-1", nil, ids(one, unmarked)},                    // as owner
		{"own-only-marker", nil, ids(one, two)},                    // as renewer
		{maker, []string{"own-only-1"}, ids(one, unmarked)},        // as renewer and requester
		{"own-only-2", []string{"own-only-1"}, nil},                // another's
		{"own-only-stranger", nil, nil},                            // nobody's
		{s.Admin, []string{"own-only-marker"}, ids(one, two)},      // a super user sees all
		{"own-only-2", []string{"own-only-marker"}, ids(two)},      // of what the marker may renew, one's own
		{"own-only-marker", []string{"own-only-1"}, ids(one)},      // of what the owner has, what it may renew
		{"own-only-1", []string{"own-only-1"}, ids(one, unmarked)}, // as owner, asked by name
	} {
		if got := s.toControl(t, s.Brokers[0], c.who).lists(c.owners...); !slices.Equal(got, c.want) {
			t.Errorf("%s asks for %v: %v, not %v", c.who, c.owners, got, c.want)
		}
	}
}

func describeByGrant(t *testing.T, s Subject) {
	one, _, unmarked := s.make3(t, s.Brokers[0], "opened")
	p := s.toControl(t, s.Brokers[0], "reader")
	if got := p.lists("opened-1"); len(got) != 0 {
		t.Errorf("without the grant: %v", got)
	}
	s.grant(t, s.Brokers, allow("reader", kmsg.ACLResourceTypeUser, "User:opened-1", false, kmsg.ACLOperationDescribeTokens))
	if got := p.lists("opened-1", "opened-2"); !slices.Equal(got, ids(one, unmarked)) {
		t.Errorf("with the grant: %v", got)
	}
}

func describeIsWhole(t *testing.T, s Subject) {
	k := s.token(t, s.Brokers[0], "whole", time.Hour)
	for _, b := range s.Brokers {
		p := s.toControl(t, b, "whole")
		var d []kmsg.DescribeDelegationTokenResponseTokenDetail
		until(t, "the broker lists the token", func() bool {
			d = ask[*kmsg.DescribeDelegationTokenResponse](p, describe("whole")).TokenDetails
			return len(d) == 1
		})
		if d[0].TokenID != k.id || !bytes.Equal(d[0].HMAC, k.hmac) || d[0].PrincipalType != "User" || d[0].PrincipalName != "whole" ||
			d[0].TokenRequesterPrincipalName != maker || len(d[0].Renewers) != 1 || d[0].Renewers[0].PrincipalName != maker ||
			d[0].IssueTimestamp != k.issue.UnixMilli() || d[0].ExpiryTimestamp != k.expiry.UnixMilli() || d[0].MaxTimestamp != k.max.UnixMilli() {
			d[0].HMAC = nil
			t.Errorf("node %d: %+v", b.Node, d[0])
		}
	}
}

// propagation: every broker comes to know a token and then takes it; one that does not
// know it yet neither lists nor takes it, whatever the others do.
func propagation(t *testing.T, s Subject) {
	k := s.token(t, s.Brokers[0], "spread", time.Hour)
	for _, b := range s.Brokers {
		p := s.toControl(t, b, maker)
		until(t, "the broker lists the token", func() bool { return slices.Contains(p.lists("spread"), k.id) })
		s.awaitLogin(t, b, sha256, k)
	}
	if s.HoldBack == nil {
		return
	}
	late := s.Brokers[1]
	for by := 2 * time.Second; ; by *= 2 {
		undo := s.HoldBack(late.Node, by)
		k := s.token(t, s.Brokers[0], "held-back", time.Hour)
		undo()
		s.awaitLogin(t, s.Brokers[0], sha512, k)
		listed := slices.Contains(s.toControl(t, late, maker).lists("held-back"), k.id)
		in := s.toTokens(t, late).login(sha512, k)
		if time.Since(k.made) > by {
			continue // this machine was too slow to see it
		}
		if listed || in.code != credentials {
			t.Errorf("a broker that does not know the token lists it: %t; login: error %d", listed, in.code)
		}
		s.awaitLogin(t, late, sha512, k)
		if !slices.Contains(s.toControl(t, late, maker).lists("held-back"), k.id) {
			t.Error("a broker takes a token that it does not list")
		}
		return
	}
}
