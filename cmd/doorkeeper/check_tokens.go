package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"doorkeeper/connections"
	"doorkeeper/internal/pause"
	"doorkeeper/internal/secret"
	"doorkeeper/tlsconf"
)

// checkToken is a delegation token that the check has made. It is expired at the end.
type checkToken struct {
	id, owner string
	hmac      secret.Text   // raw
	asked     time.Time     // before the request
	life      time.Duration // by the controller's clock alone
	longest   time.Duration // that it could be renewed to

	derived *secret.Memo
}

// credential logs in with the token.
func (t *checkToken) credential() *connections.Credential {
	return &connections.Credential{Username: t.id, Password: secret.New(base64.StdEncoding.EncodeToString([]byte(t.hmac.Reveal()))), Derived: t.derived}
}

// left is the life that is left.
func (t *checkToken) left() time.Duration { return t.life - time.Since(t.asked) }

// keyCreateToken's version that can name an owner (KIP-373). An older broker would
// make the token for whoever asks.
const (
	keyCreateToken     = 38
	createOwnerVersion = 3
)

// sample is the owner whose token is to prove the gateway's rights, and where its name
// comes from; "" if there is none.
func (c *checker) sample() (owner, from string) {
	if c.flags.Owner != "" {
		return strings.TrimPrefix(c.flags.Owner, "User:"), "--owner"
	}
	if allow := c.config.Identity.Allow; len(allow) > 0 && c.spoilt("identity.allow") == "" {
		return allow[0], "identity.allow[0]"
	}
	return "", ""
}

// checkRights makes the gateway's own token, which tells its name, and the sample
// owner's, which needs CREATE_TOKENS on that owner.
func (c *checker) checkRights(ctx context.Context) []checkResult {
	const ownTarget = "the gateway's own token"
	owner, from := c.sample()
	ownerTarget := "a token for a client"
	if owner != "" {
		ownerTarget = "a token for User:" + owner
	}
	conn := anyConn(c.controls)
	switch wait := c.spoilt("tokens", "instance"); {
	case wait != "":
		return []checkResult{checkWaits(stepRights, ownTarget, wait), checkWaits(stepRights, ownerTarget, wait)}
	case conn == nil:
		return []checkResult{checkWaits(stepRights, ownTarget, stepControl), checkWaits(stepRights, ownerTarget, stepControl)}
	}
	// The marker is no client's name: it shows people where the token comes from, and
	// leads back to it if the answer to its creation is lost.
	own, result := c.create(ctx, conn, ownTarget, "", []string{c.mark})
	results := []checkResult{result}
	if own == nil {
		return append(results, checkWaits(stepRights, ownerTarget, stepRights+": "+ownTarget))
	}
	c.gateway = own.owner
	if r, more := moreThanNeeded(ctx, conn, "User:"+c.gateway); more {
		results = append(results, r)
	}
	identity, _ := c.identity()
	var refusal *tlsconf.Refusal
	switch err := tlsconf.CheckOwner(identity, c.gateway, owner); {
	case owner == "":
		return append(results, checkBad(stepRights, ownerTarget, checkWarning, "not proved: there is no owner to try it with, so the logins below are the gateway's own",
			"give the name of a principal that clients have: doorkeeper check --config "+c.flags.Config+" --owner NAME"))
	case errors.As(err, &refusal):
		return append(results, checkBad(stepRights, ownerTarget, checkFailed, fmt.Sprintf("%s (from %s) can be no client's name: %s", quote(owner), from, refusal.Reason),
			"give the name of a principal that clients have by --owner NAME; if this one should be one: "+refusal.Cure))
	case err != nil:
		return append(results, checkWaits(stepRights, ownerTarget, stepConfiguration+": identity"))
	}
	_, result = c.create(ctx, conn, ownerTarget, owner, []string{c.gateway, c.mark})
	return append(results, result)
}

// moreThanNeeded tells of rights on the cluster itself, of which the gateway needs none.
func moreThanNeeded(ctx context.Context, conn *connections.KafkaConnection, target string) (checkResult, bool) {
	ctx, cancel := context.WithTimeout(ctx, checkRequest)
	defer cancel()
	excess, err := excessRights(ctx, conn)
	if err != nil || len(excess) == 0 {
		return checkResult{}, false // nothing leans on it
	}
	return checkBad(stepRights, target, checkWarning, "it may do more than it needs on the cluster itself: "+strings.Join(excess, ", "), excessCure), true
}

// create makes a token for owner, the gateway itself if that is empty. An interruption
// does not end it: the answer is needed for expiring what was made.
func (c *checker) create(ctx context.Context, conn *connections.KafkaConnection, target, owner string, renewers []string) (*checkToken, checkResult) {
	if version := highest(conn.Versions(), keyCreateToken); version < createOwnerVersion {
		return nil, checkBad(stepRights, target, checkFailed, fmt.Sprintf("the broker's newest CreateDelegationToken is version %d, and %d is the first that can name an owner (KIP-373)", version, createOwnerVersion),
			"Kafka 3.6 or newer is needed")
	}
	request := kmsg.NewPtrCreateDelegationTokenRequest()
	if owner != "" {
		request.OwnerPrincipalType, request.OwnerPrincipalName = kmsg.StringPtr("User"), &owner
	}
	for _, name := range renewers {
		r := kmsg.NewCreateDelegationTokenRequestRenewer()
		r.PrincipalType, r.PrincipalName = "User", name
		request.Renewers = append(request.Renewers, r)
	}
	request.MaxLifetimeMillis = c.config.Tokens.Lifetime.span().Milliseconds()
	asked := time.Now()
	answer, err := checkAsk[*kmsg.CreateDelegationTokenResponse](context.WithoutCancel(ctx), conn, request)
	if err != nil {
		c.lost = true
		return nil, checkBad(stepRights, target, checkFailed, err.Error(), "the broker's own log says why; try again")
	}
	if answer.ErrorCode != 0 {
		finding, cure := checkTokenError(answer.ErrorCode, owner, c.gateway)
		return nil, checkBad(stepRights, target, checkFailed, finding, cure)
	}
	issue := time.UnixMilli(answer.IssueTimestamp)
	t := &checkToken{
		id: answer.TokenID, owner: answer.PrincipalName, hmac: secret.New(string(answer.HMAC)), asked: asked,
		life: time.UnixMilli(answer.ExpiryTimestamp).Sub(issue), longest: time.UnixMilli(answer.MaxTimestamp).Sub(issue),
		derived: new(secret.Memo),
	}
	c.made = append(c.made, t)
	if owner == "" {
		return t, checkPassed(stepRights, target, "made; the gateway is User:%s", t.owner)
	}
	if t.owner != owner {
		return t, checkBad(stepRights, target, checkFailed, fmt.Sprintf("Kafka made it for %s", quote(t.owner)), "the gateway would not use it; check principal.builder.class on the brokers")
	}
	return t, checkPassed(stepRights, target, "made: the gateway may stand for it")
}

// highest is the newest version of an API that the broker offers, -1 for none.
func highest(versions *kmsg.ApiVersionsResponse, key int16) int16 {
	for _, k := range versions.ApiKeys {
		if k.ApiKey == key {
			return k.MaxVersion
		}
	}
	return -1
}

// login is the token that the logins are made with: the sample owner's, or else the
// gateway's own; nil if there is none.
func (c *checker) login() *checkToken {
	if len(c.made) == 0 {
		return nil
	}
	return c.made[len(c.made)-1]
}

// describeFor asks for the tokens that a principal owns or may renew. Never without
// one: that would pull every secret that the gateway may see.
func describeFor(principal string) *kmsg.DescribeDelegationTokenRequest {
	request := kmsg.NewPtrDescribeDelegationTokenRequest()
	o := kmsg.NewDescribeDelegationTokenRequestOwner()
	o.PrincipalType, o.PrincipalName = "User", principal
	request.Owners = append(request.Owners, o)
	return request
}

// clean expires every token that was made, whatever has happened since, within
// checkClean.
func (c *checker) clean(ctx context.Context) {
	if len(c.made) == 0 && !c.lost {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, checkClean)
	defer cancel()
	conn, err := c.cleaner(ctx)
	if err == nil && c.lost {
		err = c.findLost(ctx, conn)
	}
	expired := 0
	for _, t := range c.made {
		if err == nil {
			err = expireToken(ctx, conn, t)
		}
		if err == nil {
			expired++
		}
	}
	if err != nil {
		c.sheet.add(checkBad(stepCleaning, "", checkWarning, fmt.Sprintf("%d of %s could not be expired: %v", len(c.made)-expired, countOf(len(c.made), "token", "tokens"), err),
			fmt.Sprintf("they end by themselves after tokens.lifetime (%s) at most; their renewer is User:%s", c.config.Tokens.Lifetime, c.mark)))
		return
	}
	c.sheet.add(checkPassed(stepCleaning, "", "%s made and expired again", countOf(expired, "token was", "tokens were")))
}

// cleaner is a connection for expiring: one at hand, or else a new one.
func (c *checker) cleaner(ctx context.Context) (*connections.KafkaConnection, error) {
	if conn := anyConn(c.controls); conn != nil {
		return conn, nil
	}
	err := errors.New("no control connection")
	for _, h := range slices.Clone(c.controls) {
		again := &checkHop{node: h.node, address: h.address}
		c.visitControl(ctx, again)
		c.controls = append(c.controls, again)
		if again.conn != nil {
			return again.conn, nil
		}
		err = errors.New(again.result.Finding)
	}
	return nil, err
}

// findLost adds the tokens whose creation got no answer, by the marker that they name.
func (c *checker) findLost(ctx context.Context, conn *connections.KafkaConnection) error {
	pause.For(ctx, 500*time.Millisecond) // for the broker to learn of them
	answer, err := checkAsk[*kmsg.DescribeDelegationTokenResponse](ctx, conn, describeFor(c.mark))
	if err != nil {
		return err
	}
	for _, d := range answer.TokenDetails {
		if !slices.ContainsFunc(c.made, func(t *checkToken) bool { return t.id == d.TokenID }) {
			c.made = append(c.made, &checkToken{id: d.TokenID, owner: d.PrincipalName, hmac: secret.New(string(d.HMAC))})
		}
	}
	return kerr.ErrorForCode(answer.ErrorCode)
}

func expireToken(ctx context.Context, conn *connections.KafkaConnection, t *checkToken) error {
	request := kmsg.NewPtrExpireDelegationTokenRequest()
	request.HMAC = []byte(t.hmac.Reveal())
	request.ExpiryPeriodMillis = -1 // at once: with 0 it would log in until the brokers sweep it
	answer, err := checkAsk[*kmsg.ExpireDelegationTokenResponse](ctx, conn, request)
	if err != nil {
		return err
	}
	err = kerr.ErrorForCode(answer.ErrorCode)
	if errors.Is(err, kerr.DelegationTokenNotFound) || errors.Is(err, kerr.DelegationTokenExpired) {
		return nil
	}
	return err
}
