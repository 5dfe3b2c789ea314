package contract

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func offersTokenRequests(t *testing.T, s Subject) {
	b := s.Brokers[0]
	for where, p := range map[string]*peer{"token": s.toTokens(t, b), "control": s.toControl(t, b, maker)} {
		highest := map[int16]int16{}
		for _, k := range ask[*kmsg.ApiVersionsResponse](p, apiVersions()).ApiKeys {
			highest[k.ApiKey] = k.MaxVersion
		}
		for key, want := range map[int16]int16{17: 1, 36: 2, 38: 3, 39: 2, 40: 2, 41: 3} {
			if got, offered := highest[key]; !offered || got != want {
				t.Errorf("%s listener: key %d up to version %d (offered: %t), not %d", where, key, got, offered, want)
			}
		}
	}
}

// addresses: those who ask on a listener are told of that listener of all brokers.
func addresses(t *testing.T, s Subject) {
	s.grant(t, s.Brokers, allow("shown", kmsg.ACLResourceTypeGroup, "shown", false, kmsg.ACLOperationDescribe))
	for _, b := range s.Brokers {
		p, _ := s.awaitLogin(t, b, sha512, s.token(t, b, "shown", time.Hour))
		s.shows(p, b.Node, func(b Broker) string { return b.Token })
		s.shows(s.toControl(t, b, "shown"), b.Node, func(b Broker) string { return b.Control })
	}
}

func (s Subject) shows(p *peer, asked int32, listener func(Broker) string) {
	t := p.t
	t.Helper()
	var want []string
	of := map[int32]string{}
	for _, b := range s.Brokers {
		want = append(want, fmt.Sprintf("%d %s", b.Node, listener(b)))
		of[b.Node] = listener(b)
	}
	check := func(what string, got []string) {
		t.Helper()
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s of node %d shows %v, not %v", what, asked, got, want)
		}
	}
	address := func(host string, port int32) string { return net.JoinHostPort(host, strconv.Itoa(int(port))) }

	var got []string
	for _, b := range ask[*kmsg.MetadataResponse](p, metadata()).Brokers {
		got = append(got, fmt.Sprintf("%d %s", b.NodeID, address(b.Host, b.Port)))
	}
	check("Metadata", got)

	cluster := kmsg.NewPtrDescribeClusterRequest()
	got = nil
	for _, b := range ask[*kmsg.DescribeClusterResponse](p, cluster).Brokers {
		got = append(got, fmt.Sprintf("%d %s", b.NodeID, address(b.Host, b.Port)))
	}
	check("DescribeCluster", got)

	for _, version := range []int16{3, 4} {
		req := kmsg.NewPtrFindCoordinatorRequest()
		req.Version, req.CoordinatorKey, req.CoordinatorKeys = version, "shown", []string{"shown"}
		var node int32
		var at string
		until(t, "a coordinator is found", func() bool { // the first question of all makes the internal topic
			resp := ask[*kmsg.FindCoordinatorResponse](p, req)
			found := kmsg.FindCoordinatorResponseCoordinator{NodeID: resp.NodeID, Host: resp.Host, Port: resp.Port, ErrorCode: resp.ErrorCode}
			if version >= 4 {
				found = resp.Coordinators[0]
			}
			node, at = found.NodeID, address(found.Host, found.Port)
			if found.ErrorCode != 0 && found.ErrorCode != noCoordinator && found.ErrorCode != loadInProgress {
				t.Fatalf("FindCoordinator v%d: error %d", version, found.ErrorCode)
			}
			return found.ErrorCode == 0
		})
		if at != of[node] {
			t.Errorf("FindCoordinator v%d of node %d shows node %d at %s, not %s", version, asked, node, at, of[node])
		}
	}
}

func certificateDemanded(t *testing.T, s Subject) {
	// Under TLS 1.3 the client's side of the handshake is over before the refusal.
	p := dial(t, s.Brokers[0].Control, withoutCertificate(s.TLS(maker)))
	p.isClosed("a handshake without a certificate")
}

func noLoginOnControl(t *testing.T, s Subject) {
	p := s.toControl(t, s.Brokers[0], maker)
	if code := ask[*kmsg.SASLHandshakeResponse](p, handshake(sha512)).ErrorCode; code != saslState {
		t.Errorf("SaslHandshake: error %d", code)
	}
	if code := ask[*kmsg.SASLAuthenticateResponse](p, authenticate(2, []byte("n,,n=x,r=y"))).ErrorCode; code != saslState {
		t.Errorf("SaslAuthenticate: error %d", code)
	}
	p.works("after both")
}
