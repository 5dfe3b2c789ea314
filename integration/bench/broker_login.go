package main

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/xdg-go/scram"
)

// The one user that logs in with a password, as the direct side does.
const (
	userName = "client"
	password = "as direct clients log in"
)

const (
	mechanism  = "SCRAM-SHA-512"
	iterations = 4096
	// sessionLife is what a login is worth where renewals are not the matter, and tokenLife a
	// token: longer than any run.
	sessionLife = 8 * time.Hour
	tokenLife   = 24 * time.Hour
)

// token is a delegation token (KIP-48).
type token struct {
	detail kmsg.DescribeDelegationTokenResponseTokenDetail
	stored scram.StoredCredentials
}

// tokenList is what tokens there are.
type tokenList struct {
	mu  sync.Mutex
	all []token
}

// logins verify who logs in.
type logins struct {
	server *scram.Server
}

func newLogins(tokens *tokenList) (*logins, error) {
	user, err := credentials(userName, password)
	if err != nil {
		return nil, err
	}
	server, err := scram.SHA512.NewServer(func(name string) (scram.StoredCredentials, error) {
		if name == userName {
			return user, nil
		}
		tokens.mu.Lock()
		defer tokens.mu.Unlock()
		for _, t := range tokens.all {
			if t.detail.TokenID == name {
				return t.stored, nil
			}
		}
		return scram.StoredCredentials{}, fmt.Errorf("nobody is called %q", name)
	})
	return &logins{server}, err
}

func credentials(name, password string) (scram.StoredCredentials, error) {
	client, err := scram.SHA512.NewClientUnprepped(name, password, "")
	if err != nil {
		return scram.StoredCredentials{}, err
	}
	return client.GetStoredCredentialsWithError(scram.KeyFactors{Salt: "salt of " + name, Iters: iterations})
}

// login is a connection's SCRAM conversation, nil before and after it.
type login struct{ *scram.ServerConversation }

// authenticate answers what has to do with logins and tokens.
func (s *serving) authenticate(req kmsg.Request, resp kmsg.Response) error {
	switch resp := resp.(type) {
	case *kmsg.SASLHandshakeResponse:
		resp.SupportedMechanisms = []string{mechanism}
		s.login = login{s.broker.logins.server.NewConversation()}
	case *kmsg.SASLAuthenticateResponse:
		if s.login.ServerConversation == nil {
			return errors.New("SaslAuthenticate before SaslHandshake")
		}
		say, err := s.login.Step(string(req.(*kmsg.SASLAuthenticateRequest).SASLAuthBytes))
		if err != nil {
			return fmt.Errorf("a login that fails: %w", err)
		}
		resp.SASLAuthBytes = []byte(say)
		if s.login.Valid() {
			resp.SessionLifetimeMillis = s.broker.listens.SessionLife.Milliseconds()
			s.login = login{}
			s.number = s.broker.worked.Add(1)
			s.before = nil // its answers have another number
		}
	case *kmsg.CreateDelegationTokenResponse:
		return s.broker.tokens.create(s.asker, req.(*kmsg.CreateDelegationTokenRequest), resp)
	case *kmsg.DescribeDelegationTokenResponse:
		s.broker.tokens.describe(req.(*kmsg.DescribeDelegationTokenRequest), resp)
	case *kmsg.ExpireDelegationTokenResponse:
		resp.ExpiryTimestamp = time.Now().UnixMilli()
		s.broker.tokens.expire(req.(*kmsg.ExpireDelegationTokenRequest).HMAC)
	default:
		return fmt.Errorf("no answer to %s", kmsg.NameForKey(req.Key()))
	}
	return nil
}

func (l *tokenList) create(asker string, req *kmsg.CreateDelegationTokenRequest, resp *kmsg.CreateDelegationTokenResponse) error {
	id, mac := make([]byte, 16), make([]byte, 64)
	_, _ = rand.Read(id) // never fails
	_, _ = rand.Read(mac)
	t := token{detail: kmsg.NewDescribeDelegationTokenResponseTokenDetail()}
	d := &t.detail
	d.PrincipalType, d.PrincipalName = "User", asker
	if req.OwnerPrincipalName != nil && *req.OwnerPrincipalName != "" {
		d.PrincipalName = *req.OwnerPrincipalName
	}
	d.TokenRequesterPrincipalType, d.TokenRequesterPrincipalName = "User", asker
	now := time.Now()
	d.IssueTimestamp, d.ExpiryTimestamp, d.MaxTimestamp = now.UnixMilli(), now.Add(tokenLife).UnixMilli(), now.Add(tokenLife).UnixMilli()
	d.TokenID, d.HMAC = hex.EncodeToString(id), mac
	for _, r := range req.Renewers {
		renewer := kmsg.NewDescribeDelegationTokenResponseTokenDetailRenewer()
		renewer.PrincipalType, renewer.PrincipalName = r.PrincipalType, r.PrincipalName
		d.Renewers = append(d.Renewers, renewer)
	}
	var err error
	if t.stored, err = credentials(d.TokenID, base64.StdEncoding.EncodeToString(mac)); err != nil {
		return err
	}
	resp.PrincipalType, resp.PrincipalName = d.PrincipalType, d.PrincipalName
	resp.TokenRequesterPrincipalType, resp.TokenRequesterPrincipalName = d.TokenRequesterPrincipalType, d.TokenRequesterPrincipalName
	resp.IssueTimestamp, resp.ExpiryTimestamp, resp.MaxTimestamp = d.IssueTimestamp, d.ExpiryTimestamp, d.MaxTimestamp
	resp.TokenID, resp.HMAC = d.TokenID, d.HMAC
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, t)
	return nil
}

// describe lists the tokens of which one of those asked for is owner or renewer.
func (l *tokenList) describe(req *kmsg.DescribeDelegationTokenRequest, resp *kmsg.DescribeDelegationTokenResponse) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, t := range l.all {
		if req.Owners == nil || slices.ContainsFunc(req.Owners, func(o kmsg.DescribeDelegationTokenRequestOwner) bool {
			return o.PrincipalName == t.detail.PrincipalName || slices.ContainsFunc(t.detail.Renewers, func(r kmsg.DescribeDelegationTokenResponseTokenDetailRenewer) bool {
				return r.PrincipalName == o.PrincipalName
			})
		}) {
			resp.TokenDetails = append(resp.TokenDetails, t.detail)
		}
	}
}

func (l *tokenList) expire(mac []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = slices.DeleteFunc(l.all, func(t token) bool { return bytes.Equal(t.detail.HMAC, mac) })
}
