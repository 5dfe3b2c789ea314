package devkafka_test

// This file shows that the gateway's own parts take the cluster for a real one: its token
// source over the control listener, its broker connections over the token listener.

import (
	"encoding/base64"
	"io"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"doorkeeper/connections"
	"doorkeeper/internal/devkafka"
	"doorkeeper/internal/secret"
	"doorkeeper/internal/wire"
	"doorkeeper/tokens"
)

func TestTheGatewaysPartsWorkHere(t *testing.T) {
	logins := make(chan devkafka.Login, 10)
	s := newSite().start(t, devkafka.Config{
		Logins:      func(l devkafka.Login) { logins <- l },
		Propagation: func(node int32) time.Duration { return time.Duration(node) * 50 * time.Millisecond },
	})
	ctx := t.Context()
	if err := allowed(t, s.client(t, "admin"), onUser("User:alice", kmsg.ACLPermissionTypeAllow)); err != nil {
		t.Fatal(err)
	}
	issuer := tokens.NewKadmIssuer(s.client(t, "maker"))
	if c, ok := issuer.(io.Closer); ok {
		defer func() { _ = c.Close() }()
	}
	want := tokens.Creation{Owner: "alice", Renewers: []string{"maker", "doorkeeper-test"}, Lifetime: time.Hour}
	issued, err := issuer.Create(ctx, want)
	if err != nil {
		t.Fatal(err)
	}
	if issued.Owner != "alice" || issued.Requester != "maker" || issued.Expiry.Sub(issued.Issue) != time.Hour {
		t.Errorf("owner %s, requester %s, life %v", issued.Owner, issued.Requester, issued.Expiry.Sub(issued.Issue))
	}
	if _, err := issuer.Create(ctx, tokens.Creation{Owner: "bob"}); err == nil {
		t.Error("a token for an owner that is not granted")
	}

	dialer := connections.NewDialer(connections.Config{TLS: s.as("nobody"), Buffers: wire.NewBuffers(), Mechanism: connections.ScramSHA512})
	credential := &connections.Credential{
		Username: issued.ID, Password: secret.New(base64.StdEncoding.EncodeToString([]byte(issued.HMAC.Reveal()))), Derived: new(secret.Memo),
	}
	for i, id := range s.Nodes() {
		for known := false; !known; {
			if known, err = issuer.Known(ctx, id, "alice", issued.ID); err != nil {
				t.Fatal(err)
			}
		}
		host, port, _ := net.SplitHostPort(s.TokenAddresses()[i])
		number, _ := strconv.ParseInt(port, 10, 32)
		c, err := dialer.Open(ctx, connections.Target{Node: id, Host: host, Port: int32(number)}, connections.ScramOverMtls, credential, connections.ClientInfo{})
		if err != nil {
			t.Fatal(err)
		}
		if l := <-logins; l.Node != id || l.Principal != "alice" || l.TokenID != issued.ID || l.Mechanism != "SCRAM-SHA-512" || l.Reauthentication || l.Lifetime <= 0 {
			t.Errorf("%+v", l)
		}
		resp, err := c.Request(ctx, kmsg.NewPtrMetadataRequest())
		if err != nil {
			t.Fatal(err)
		}
		if n := len(resp.(*kmsg.MetadataResponse).Brokers); n != 3 {
			t.Errorf("node %d lists %d brokers", id, n)
		}
		_ = c.Close()
	}
	found, err := issuer.(tokens.Finder).Find(ctx, "alice", "doorkeeper-test")
	if err != nil || len(found) != 1 || found[0].ID != issued.ID {
		t.Errorf("found %d tokens: %v", len(found), err)
	}
	if err := issuer.Expire(ctx, issued.HMAC); err != nil {
		t.Fatal(err)
	}
	if err := issuer.Expire(ctx, issued.HMAC); err != nil { // gone is no error
		t.Fatal(err)
	}
}
