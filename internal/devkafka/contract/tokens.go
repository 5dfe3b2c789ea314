package contract

import (
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func namesOwnerAndRequester(t *testing.T, s Subject) {
	resp := ask[*kmsg.CreateDelegationTokenResponse](s.toControl(t, s.Brokers[0], maker), create("named-owner", time.Hour, maker))
	if resp.ErrorCode != 0 || resp.PrincipalType != "User" || resp.PrincipalName != "named-owner" ||
		resp.TokenRequesterPrincipalType != "User" || resp.TokenRequesterPrincipalName != maker {
		t.Errorf("error %d, owner %s:%s, requester %s:%s", resp.ErrorCode, resp.PrincipalType, resp.PrincipalName,
			resp.TokenRequesterPrincipalType, resp.TokenRequesterPrincipalName)
	}
	k := issued(resp)
	if k.id == "" || len(k.hmac) != 64 || k.max.Sub(k.issue) != time.Hour || k.expiry != k.max {
		t.Errorf("id %q, HMAC of %d bytes, expiry after %v, at most %v", k.id, len(k.hmac), k.expiry.Sub(k.issue), k.max.Sub(k.issue))
	}
}

func ownToken(t *testing.T, s Subject) {
	resp := ask[*kmsg.CreateDelegationTokenResponse](s.toControl(t, s.Brokers[0], "self"), create("", 0))
	if resp.ErrorCode != 0 || resp.PrincipalName != "self" || resp.TokenRequesterPrincipalName != "self" {
		t.Errorf("error %d, owner %q, requester %q", resp.ErrorCode, resp.PrincipalName, resp.TokenRequesterPrincipalName)
	}
}

func lifeIsCut(t *testing.T, s Subject) {
	const day = 24 * time.Hour // delegation.token.expiry.time.ms
	for _, life := range []time.Duration{0, 365 * day} {
		resp := ask[*kmsg.CreateDelegationTokenResponse](s.toControl(t, s.Brokers[0], maker), create("cut", life, maker))
		k := issued(resp)
		if resp.ErrorCode != 0 || k.max.Sub(k.issue) != 7*day || k.expiry.Sub(k.issue) != day {
			t.Errorf("asked for %v: error %d, expiry after %v, at most %v", life, resp.ErrorCode, k.expiry.Sub(k.issue), k.max.Sub(k.issue))
		}
	}
}

func renewersAreUsers(t *testing.T, s Subject) {
	req := create("renewers", time.Hour, maker)
	req.Renewers[0].PrincipalType = "Group"
	if code := ask[*kmsg.CreateDelegationTokenResponse](s.toControl(t, s.Brokers[0], maker), req).ErrorCode; code != principalType {
		t.Errorf("a group as renewer: error %d", code)
	}
}

// creationNeedsGrant also shows that the resource's name is the whole principal, that
// "*" and prefixes are taken, and that "User:*" is no wildcard.
func creationNeedsGrant(t *testing.T, s Subject) {
	expect := func(requester, owner string, want int16) {
		t.Helper()
		for _, b := range s.Brokers[:2] {
			p := s.toControl(t, b, requester)
			if code := ask[*kmsg.CreateDelegationTokenResponse](p, create(owner, time.Hour)).ErrorCode; code != want {
				t.Errorf("%s for %s at node %d: error %d, not %d", requester, owner, b.Node, code, want)
			}
		}
	}
	expect("fenced", "grantee", notAuthorized)
	s.grant(t, s.Brokers, creates("fenced", "User:grantee", false))
	expect("fenced", "grantee", 0)
	expect("fenced", "grantee2", notAuthorized)
	s.grant(t, s.Brokers, creates("fenced", "User:app-", true))
	expect("fenced", "app-1", 0)
	expect("fenced", "ap", notAuthorized)
	s.grant(t, s.Brokers, creates("starred", "User:*", false))
	expect("starred", "grantee", notAuthorized)
	expect(maker, "anybody", 0) // has "*"
	expect(s.Admin, "anybody", 0)
}

func onlyOwnerOrRenewerExpires(t *testing.T, s Subject) {
	b := s.Brokers[0]
	p := s.toControl(t, b, s.Admin)
	requested := issued(ask[*kmsg.CreateDelegationTokenResponse](p, create("expirer", time.Hour, "somebody"))) // by the admin
	if code := s.expireAs(t, b, s.Admin, requested, removeNow); code != ownerMismatch {
		t.Errorf("requester and super user: error %d", code)
	}
	if code := s.expireAs(t, b, "stranger", requested, removeNow); code != ownerMismatch {
		t.Errorf("a stranger: error %d", code)
	}
	if code := ask[*kmsg.RenewDelegationTokenResponse](s.toControl(t, b, "stranger"), renew(requested, time.Hour)).ErrorCode; code != ownerMismatch {
		t.Errorf("a stranger renews: error %d", code)
	}
	if code := s.expireAs(t, b, "somebody", requested, removeNow); code != 0 {
		t.Errorf("a renewer: error %d", code)
	}
	if code := s.expireAs(t, b, "expirer", s.token(t, b, "expirer", time.Hour), removeNow); code != 0 {
		t.Errorf("the owner: error %d", code)
	}
}

func removedAtOnce(t *testing.T, s Subject) {
	k := s.token(t, s.Brokers[0], "removed", time.Hour)
	p, _ := s.awaitLogin(t, s.Brokers[0], sha512, k)
	p.close()
	if code := s.expireAs(t, s.Brokers[1], maker, k, removeNow); code != 0 {
		t.Fatalf("error %d", code)
	}
	for _, b := range s.Brokers {
		p := s.toControl(t, b, maker)
		until(t, "a removed token is not listed", func() bool { return !slices.Contains(p.lists("removed"), k.id) })
	}
	until(t, "a login with a removed token is refused", func() bool {
		p := s.toTokens(t, s.Brokers[0])
		defer p.close()
		return p.login(sha512, k).code == credentials
	})
}

// expiredUntilSwept is the state in which a token has no life left and still logs in: its
// session is over as soon as it begins.
func expiredUntilSwept(t *testing.T, s Subject) {
	b := s.Brokers[0]
	control := s.toControl(t, b, maker)
	for tries := 0; ; tries++ {
		k := s.token(t, b, "unswept", time.Hour)
		p, _ := s.awaitLogin(t, b, sha512, k)
		if code := s.expireAs(t, b, maker, k, 0); code != 0 {
			t.Fatalf("expire with period 0: error %d", code)
		}
		// Until the broker has heard, the token has its old life; the controller as well.
		var in loggedIn
		until(t, "the broker hears of the expiry", func() bool {
			p.close()
			p = s.toTokens(t, b)
			in = p.login(sha512, k)
			return in.code != 0 || in.lifetime == 0
		})
		var again int16
		until(t, "an expired token is not expired again", func() bool {
			again = ask[*kmsg.ExpireDelegationTokenResponse](control, expire(k, 0)).ErrorCode
			return again != 0
		})
		renewed := ask[*kmsg.RenewDelegationTokenResponse](control, renew(k, time.Hour)).ErrorCode
		if in.code != 0 || again == tokenNotFound || renewed == tokenNotFound {
			if tries == 20 {
				t.Fatal("always a sweep comes first")
			}
			continue
		}
		if again != tokenExpired || renewed != tokenExpired {
			t.Errorf("an expired token is expired: error %d; renewed: error %d", again, renewed)
		}
		p.send(metadata())
		p.isClosed("a request in a session of no time")

		until(t, "the sweep", func() bool { return !slices.Contains(control.lists("unswept"), k.id) })
		if in := s.toTokens(t, b).login(sha512, k); in.code != credentials {
			t.Errorf("a swept token: error %d", in.code)
		}
		return
	}
}

// expiredIsRemoved: a period below 0 works on an expired token too.
func expiredIsRemoved(t *testing.T, s Subject) {
	b := s.Brokers[0]
	k := s.token(t, b, "expired-removed", time.Hour)
	for _, period := range []time.Duration{0, removeNow} {
		// A sweep may be first.
		if code := s.expireAs(t, b, maker, k, period); code != 0 && (period == 0 || code != tokenNotFound) {
			t.Fatalf("period %v: error %d", period, code)
		}
	}
	p := s.toControl(t, b, maker)
	until(t, "the token is gone", func() bool { return len(p.lists("expired-removed")) == 0 })
}

func renewal(t *testing.T, s Subject) {
	b := s.Brokers[0]
	k := s.token(t, b, "renewed", time.Hour)
	p := s.toControl(t, b, maker)
	for _, step := range []struct {
		period time.Duration
		want   func(expiry time.Time) bool
	}{
		{time.Minute, func(expiry time.Time) bool { return expiry.Before(k.max) }},
		{100 * time.Hour, func(expiry time.Time) bool { return expiry.Equal(k.max) }},
	} {
		expiry := p.renews(k, step.period)
		if !step.want(expiry) {
			t.Errorf("for %v: expiry after %v of at most %v", step.period, expiry.Sub(k.issue), k.max.Sub(k.issue))
		}
		until(t, "the broker knows the new expiry", func() bool {
			d := ask[*kmsg.DescribeDelegationTokenResponse](p, describe("renewed")).TokenDetails
			return len(d) == 1 && d[0].ExpiryTimestamp == expiry.UnixMilli() && d[0].MaxTimestamp == k.max.UnixMilli()
		})
	}
}

func unknownToken(t *testing.T, s Subject) {
	p := s.toControl(t, s.Brokers[0], maker)
	none := token{hmac: make([]byte, 64)}
	if code := ask[*kmsg.ExpireDelegationTokenResponse](p, expire(none, removeNow)).ErrorCode; code != tokenNotFound {
		t.Errorf("expire: error %d", code)
	}
	if code := ask[*kmsg.RenewDelegationTokenResponse](p, renew(none, time.Hour)).ErrorCode; code != tokenNotFound {
		t.Errorf("renew: error %d", code)
	}
}

func noSecretKey(t *testing.T, s Subject) {
	p := s.toControl(t, s.Keyless, s.Admin)
	none := token{hmac: make([]byte, 64)}
	codes := []int16{
		ask[*kmsg.CreateDelegationTokenResponse](p, create("keyless", time.Hour)).ErrorCode,
		ask[*kmsg.RenewDelegationTokenResponse](p, renew(none, time.Hour)).ErrorCode,
		ask[*kmsg.ExpireDelegationTokenResponse](p, expire(none, removeNow)).ErrorCode,
		ask[*kmsg.DescribeDelegationTokenResponse](p, describe("keyless")).ErrorCode,
	}
	for i, code := range codes {
		if code != tokensDisabled {
			t.Errorf("request %d of the four: error %d", i, code)
		}
	}
}

func noTokenRequestsWithToken(t *testing.T, s Subject) {
	b := s.Brokers[0]
	k := s.token(t, b, "barred", time.Hour)
	p, _ := s.awaitLogin(t, b, sha512, k)
	codes := []int16{
		ask[*kmsg.CreateDelegationTokenResponse](p, create("", time.Hour)).ErrorCode,
		ask[*kmsg.RenewDelegationTokenResponse](p, renew(k, time.Hour)).ErrorCode,
		ask[*kmsg.ExpireDelegationTokenResponse](p, expire(k, removeNow)).ErrorCode,
		ask[*kmsg.DescribeDelegationTokenResponse](p, describe("barred")).ErrorCode,
	}
	for i, code := range codes {
		if code != notAllowedHere {
			t.Errorf("request %d of the four: error %d", i, code)
		}
	}
	p.works("after them")
}
