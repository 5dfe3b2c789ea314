//go:build integration

package harness

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"doorkeeper/internal/certtest"
)

// Token is a delegation token of an owner's.
type Token struct{ ID, Password string }

// TokenFor has the cluster make a token for the owner, as the gateway does, and returns
// when every node lets it log in; ctx ends the wait.
func (c *Cluster) TokenFor(ctx context.Context, owner string) (Token, error) {
	kind := "User"
	req := kmsg.NewPtrCreateDelegationTokenRequest()
	req.OwnerPrincipalType, req.OwnerPrincipalName, req.MaxLifetimeMillis = &kind, &owner, -1
	resp, err := req.RequestWith(ctx, c.Admin.Kafka)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if err != nil {
		return Token{}, fmt.Errorf("create a token for %s: %w", owner, err)
	}
	t := Token{ID: resp.TokenID, Password: base64.StdEncoding.EncodeToString(resp.HMAC)}
	for _, n := range c.Nodes {
		err = errors.Join(err, until(ctx, func() error {
			leg, err := n.DialWith(ctx, t)
			if err != nil {
				return err
			}
			return leg.Close()
		}))
	}
	return t, err
}

// DialWith connects to the token listener and logs in; ctx bounds the dial, half a minute
// each step of the login. The caller closes the connection.
func (n *Node) DialWith(ctx context.Context, t Token) (*Raw, error) {
	leg, err := DialRaw(ctx, n.TokenListener(), &tls.Config{RootCAs: certtest.Pool(n.cluster.site.pki.Brokers)})
	if err != nil {
		return nil, err
	}
	if err := leg.logIn(ctx, t); err != nil {
		return nil, errors.Join(err, leg.Close())
	}
	return leg, leg.SetDeadline(time.Time{})
}

func (r *Raw) logIn(ctx context.Context, t Token) error {
	shake := kmsg.NewPtrSASLHandshakeRequest()
	shake.Version, shake.Mechanism = 1, "SCRAM-SHA-512"
	said, err := r.Request(shake)
	if err == nil {
		err = kerr.ErrorForCode(said.(*kmsg.SASLHandshakeResponse).ErrorCode)
	}
	if err != nil {
		return err
	}
	auth := scram.Auth{User: t.ID, Pass: t.Password, IsToken: true}
	session, message, err := auth.AsSha512Mechanism().Authenticate(ctx, r.RemoteAddr().String())
	for done := false; err == nil && !done; {
		prove := kmsg.NewPtrSASLAuthenticateRequest()
		prove.Version, prove.SASLAuthBytes = 2, message
		said, err = r.Request(prove)
		if err != nil {
			break
		}
		answer := said.(*kmsg.SASLAuthenticateResponse)
		if err = kerr.ErrorForCode(answer.ErrorCode); err == nil {
			done, message, err = session.Challenge(answer.SASLAuthBytes)
		}
	}
	return err
}
