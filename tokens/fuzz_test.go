package tokens

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// What is made of the bytes of a DescribeDelegationToken answer: nothing is taken for
// ours, or adopted, that does not say so in so many words.
func FuzzDescribedTokens(f *testing.F) {
	for version := int16(0); version <= 3; version++ {
		resp := good(context.Background(), 1, describe("alice"))
		resp.SetVersion(version)
		f.Add(resp.AppendTo(nil), version)
		f.Add([]byte{0, 0, 0xff, 0xff, 0xff, 0xff, 0x7f}, version)
	}
	f.Fuzz(func(t *testing.T, answer []byte, version int16) {
		var resp kmsg.DescribeDelegationTokenResponse
		resp.SetVersion(max(version, 0) % 4)
		if resp.ReadFrom(answer) != nil {
			return
		}
		s := New(Config{Issuer: newFakeKafka(), Instance: "gw-1"})
		own := gatewayName
		s.own.Store(&own)
		now := time.Now()
		s.clock.learn(reading{issue: time.UnixMilli(2000), asked: now, answered: now})
		all := marked(resp.TokenDetails, "", testMarker)
		for _, is := range marked(resp.TokenDetails, "alice", testMarker) {
			if is.Owner != "alice" {
				t.Errorf("a token of %q for alice", is.Owner)
			}
		}
		for _, is := range all {
			if !strings.Contains(fmt.Sprint(is.Renewers), testMarker) {
				t.Errorf("%v does not name the marker", is)
			}
			if !ours(is, own, testMarker) {
				continue
			}
			if is.Requester != own || is.ID == "" || is.HMAC.IsEmpty() || resp.Version < 3 {
				t.Errorf("taken for ours: %v of version %d", is, resp.Version)
			}
			if tok := s.adoptable(is, time.Time{}, nil); tok != nil && (tok.Owner != is.Owner || tok.Left() <= 0 || !tok.usableAt(time.Now())) {
				t.Errorf("adopted %v with %v left", tok, tok.Left())
			}
			_ = s.leftover(is, nil)
		}
	})
}

// What is made of the bytes of a CreateDelegationToken answer: a token only for the
// very owner that was asked for (rule 3), with a life that can be worked with.
func FuzzCreatedToken(f *testing.F) {
	for version := int16(0); version <= 3; version++ {
		owner := "alice"
		resp := good(context.Background(), 1, &kmsg.CreateDelegationTokenRequest{OwnerPrincipalName: &owner})
		resp.SetVersion(version)
		f.Add(resp.AppendTo(nil), version)
	}
	f.Fuzz(func(t *testing.T, answer []byte, version int16) {
		var resp kmsg.CreateDelegationTokenResponse
		resp.SetVersion(max(version, 0) % 4)
		if resp.ReadFrom(answer) != nil {
			return
		}
		s := New(Config{Issuer: newFakeKafka(), Instance: "gw-1"})
		own := gatewayName
		s.own.Store(&own)
		e := newEntry(s, "alice")
		is := created(&resp, []string{own, s.marker})
		p, err := e.verify(is)
		if err == nil && (is.Owner != "alice" || is.OwnerType != "User" || is.ID == "" || is.HMAC.IsEmpty() || p.replace <= 0 || p.usable <= p.replace) {
			t.Errorf("%v passes with %+v", is, p)
		}
	})
}
