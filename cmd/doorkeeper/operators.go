package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"slices"
	"time"

	"doorkeeper/admin"
	"doorkeeper/gateway"
	"doorkeeper/tlsconf"
	"doorkeeper/tokens"
)

// operators is the part of the configuration that decides about operators.
func (c *Config) operators(from tlsconf.From) tlsconf.OperatorConfig {
	return tlsconf.OperatorConfig{
		Certificate: c.Admin.TLS.Certificate, Key: c.Admin.TLS.Key, ClientCA: c.Admin.TLS.ClientCA,
		From: from, Rules: c.Identity.Rules, Allow: c.Admin.Allow,
	}
}

// operatorDesk is what the admin pages show of tokens and sessions, and do to them.
type operatorDesk struct {
	instance string
	tokens   *tokens.Source
	gateway  *gateway.Gateway
}

// serve completes the configuration of the admin pages; operators may be nil.
func (d *operatorDesk) serve(operators *tlsconf.Operators, c admin.Config) admin.Config {
	c.Tokens = &admin.Tokens{Instance: d.instance, List: d.list, Expire: d.expire}
	if operators == nil {
		return c
	}
	c.TLS = operators.ServerConfig()
	if c.TLS.ClientCAs != nil {
		c.Tokens.Who = func(cs tls.ConnectionState) (string, error) { return operators.Name(cs, time.Now()) }
	}
	return c
}

// list joins what tokens and gateway know of owners. An owner may have sessions and no
// token: its clients have asked for nothing yet.
func (d *operatorDesk) list() []admin.Owner {
	sessions := d.gateway.Sessions()
	views := d.tokens.List()
	owners := make([]admin.Owner, 0, len(views))
	for _, v := range views {
		o := admin.Owner{
			Name: v.Owner, Own: v.Own, State: v.State.String(), Held: v.Held,
			Failure: v.Failure, RetryIn: v.RetryIn.Seconds(),
		}
		if v.TokenID != "" {
			o.Token = &admin.Token{ID: v.TokenID, Adopted: v.Adopted, Age: v.Age.Seconds(), Left: v.Left.Seconds(), Ready: v.Ready}
			if o.Token.Ready == nil {
				o.Token.Ready = []int32{}
			}
		}
		if !v.Own { // no client's session bears that name
			o.Sessions = sessions[v.Owner]
			delete(sessions, v.Owner)
		}
		owners = append(owners, o)
	}
	for name, n := range sessions {
		owners = append(owners, admin.Owner{Name: name, State: tokens.Absent.String(), Sessions: n})
	}
	slices.SortFunc(owners, func(a, b admin.Owner) int { return cmp.Compare(a.Name, b.Name) })
	return owners
}

// expire implements admin.Tokens.Expire.
func (d *operatorDesk) expire(ctx context.Context, owner string) (admin.Expired, error) {
	done, err := d.gateway.ExpireOwner(ctx, owner)
	if err != nil {
		return admin.Expired{}, operatorProblem(err)
	}
	return admin.Expired{Owner: owner, Token: done.Token, Sessions: done.Sessions, Ending: done.Ending}, nil
}

// operatorProblem says what an operator should make of an expiry that failed.
func operatorProblem(err error) error {
	var e *tokens.Error
	if !errors.As(err, &e) {
		return err
	}
	bare := *e
	bare.Retry, bare.Cure = false, "" // nobody tries it again but the operator
	p := &admin.Problem{Code: admin.ProblemKafka, Text: bare.Error(), Cure: e.Cure}
	const stays = "no session was ended"
	switch {
	case e.Reason == tokens.ReasonNotHeld:
		p.Code, p.Text = admin.ProblemUnknownOwner, "this gateway has neither a token nor a session of that owner"
		p.Cure = "doorkeeper tokens list shows whom it knows; another gateway may have some"
	case e.Reason == tokens.ReasonStopped:
		p.Code, p.Text = admin.ProblemStopping, "the gateway stops"
	case e.Lost:
		p.Code = admin.ProblemTimeout
		p.Cure = "whether the token is expired is not known, and " + stays + ": ask again"
	case e.Reason == tokens.ReasonTimeout:
		p.Code = admin.ProblemTimeout
		p.Cure = "nothing was expired, and " + stays + ": ask again"
	case p.Cure == "":
		p.Cure = "the token is still good, and " + stays
	default:
		p.Cure = "the token is still good, and " + stays + ": " + p.Cure
	}
	return p
}
