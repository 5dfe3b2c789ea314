package main

import (
	"cmp"
	"context"
	"crypto/hmac"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"doorkeeper/connections"
	"doorkeeper/internal/pause"
	"doorkeeper/tokens"
)

// checkTokenError is what an error code of the token APIs means for the gateway, and
// what to change. gateway is its own principal, "" while that is not known.
func checkTokenError(code int16, owner, gateway string) (finding, cure string) {
	err := kerr.ErrorForCode(code)
	finding = fmt.Sprintf("error %d: %v", code, err)
	if known := kerr.TypedErrorForCode(code); known != nil {
		finding = fmt.Sprintf("error %d, %s", code, known.Message)
	}
	cure = tokens.Cure(code, owner, gateway)
	switch code {
	case 64: // DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
		finding += " (the gateway is ANONYMOUS there, or has logged in with a token)"
	case 65: // DELEGATION_TOKEN_AUTHORIZATION_FAILED
		finding += fmt.Sprintf(": User:%s lacks CREATE_TOKENS on User:%s", gateway, owner)
		cure += " (or for all whose names begin so, or for everybody: doorkeeper grants prints the commands)"
	}
	return finding, cmp.Or(cure, "the log of the active controller says more")
}

const stepKeyMissing = "it has no delegation.token.secret.key (error 61)"

// checkKeys asks every broker on its control listener for the token: one without a
// secret key says so, one with another key gives another HMAC, since every broker
// computes that itself from the token's id.
func (c *checker) checkKeys(ctx context.Context) []checkResult {
	if len(c.controls) == 0 {
		return []checkResult{checkWaits(stepKey, "", stepControl)}
	}
	nodes := make([]*checkHop, 0, len(c.controls))
	for _, h := range c.controls {
		if h.node >= 0 && !h.fenced {
			nodes = append(nodes, h)
		}
	}
	if len(nodes) == 0 {
		return []checkResult{checkWaits(stepKey, "", stepControl)}
	}
	results := make([]checkResult, len(nodes))
	differ := make([]bool, len(nodes))
	checkEach(len(nodes), func(i int) {
		h := nodes[i]
		if h.conn == nil {
			results[i] = checkWaits(stepKey, h.name(), stepControl+": "+h.name())
			return
		}
		results[i], differ[i] = c.checkKey(ctx, h)
	})
	all := len(nodes) > 1
	for i := range nodes {
		all = all && differ[i]
	}
	if all { // then it is the one that made the token
		for i := range results {
			results[i].Finding = "its delegation.token.secret.key is not that of the active controller, and no broker's is: the controller has another one than the brokers"
		}
	}
	return results
}

// checkKey asks one broker until it knows the token, for checkKnown. differs says that
// it has another key.
func (c *checker) checkKey(ctx context.Context, h *checkHop) (_ checkResult, differs bool) {
	token := c.login()
	principal := c.mark
	if token != nil {
		principal = token.owner
	}
	ctx, cancel := context.WithTimeout(ctx, checkKnown)
	defer cancel()
	for wait := 20 * time.Millisecond; ; wait = min(2*wait, 500*time.Millisecond) {
		answer, err := checkAsk[*kmsg.DescribeDelegationTokenResponse](ctx, h.conn, describeFor(principal))
		switch {
		case err != nil:
			return checkBad(stepKey, h.name(), checkFailed, err.Error(), "the broker's own log says why"), false
		case answer.ErrorCode == 61:
			return checkBad(stepKey, h.name(), checkFailed, stepKeyMissing,
				"set delegation.token.secret.key in the server.properties of this node, to the same value as on all others, and restart it"), false
		case answer.ErrorCode != 0:
			finding, cure := checkTokenError(answer.ErrorCode, principal, c.gateway)
			return checkBad(stepKey, h.name(), checkFailed, finding, cure), false
		case token == nil:
			return checkBad(stepKey, h.name(), checkNotRun, "it has a key; whether that is the same as elsewhere waits for "+stepRights, ""), false
		case token.life < checkShortest:
			return checkBad(stepKey, h.name(), checkNotRun, "it has a key; whether that is the same as elsewhere waits for "+stepLifetime+": the token is gone before it could be compared", ""), false
		}
		for _, d := range answer.TokenDetails {
			if d.TokenID != token.id {
				continue
			}
			if !hmac.Equal(d.HMAC, []byte(token.hmac.Reveal())) {
				return checkBad(stepKey, h.name(), checkFailed, "its delegation.token.secret.key is not that of the active controller: it computes another secret for the same token",
					"set the same delegation.token.secret.key on every broker and every controller, and restart this node"), true
			}
			return checkPassed(stepKey, h.name(), "the token is known there, with the same secret"), false
		}
		if !pause.For(ctx, wait+rand.N(wait)) {
			return checkBad(stepKey, h.name(), checkFailed, fmt.Sprintf("it did not know the token after %s", checkKnown),
				"the broker lags behind the controller: its log says why; or its control listener knows the gateway by another name (ssl.principal.mapping.rules)"), false
		}
	}
}

// keyFailed tells whether a node's key was found to be missing or another.
func (c *checker) keyFailed(node int32) bool {
	for _, h := range c.controls {
		if h.node == node && c.sheet.has(stepKey, oneLine(h.name()), checkFailed) {
			return true
		}
	}
	return false
}

// Delegation tokens came to KRaft with metadata.version 3.6-IV2, which is level 14
// (KIP-900 and KIP-373).
const (
	metadataFeature  = "metadata.version"
	metadataLevel    = 14
	checkFeatureCure = "delegation tokens need KRaft with metadata.version 3.6-IV2, which is level 14, or later: kafka-features.sh --bootstrap-server <broker> --command-config <admin.properties> upgrade --feature metadata.version=14"
)

// checkMetadata reads the finalized features, which are those of the whole cluster.
func (c *checker) checkMetadata(context.Context) []checkResult {
	conn := anyConn(c.controls)
	if conn == nil {
		conn = anyPeerConn(c.controls)
	}
	if conn == nil {
		return []checkResult{checkWaits(stepMetadata, "", stepControl)}
	}
	return []checkResult{judgeMetadata(conn.Versions())}
}

func anyPeerConn(hops []*checkHop) *connections.KafkaConnection {
	for _, h := range hops {
		if h.conn != nil {
			return h.conn // its answer to ApiVersions outlives it
		}
	}
	return nil
}

func judgeMetadata(versions *kmsg.ApiVersionsResponse) checkResult {
	const target = "the cluster"
	for _, f := range versions.FinalizedFeatures {
		switch {
		case f.Name != metadataFeature:
		case f.MaxVersionLevel < metadataLevel:
			return checkBad(stepMetadata, target, checkFailed, fmt.Sprintf("metadata.version is at level %d", f.MaxVersionLevel), checkFeatureCure)
		default:
			return checkPassed(stepMetadata, target, "metadata.version is at level %d; %d (3.6-IV2) is the least", f.MaxVersionLevel, metadataLevel)
		}
	}
	return checkBad(stepMetadata, target, checkFailed, "it has no metadata.version: this is no KRaft cluster", checkFeatureCure)
}
