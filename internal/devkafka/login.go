package devkafka

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/xdg-go/scram"
	"go.uber.org/zap"
)

// errSessionOver ends a connection whose session's end lay before the request that was
// read. Kafka says nothing then; it just closes.
var errSessionOver = errors.New("the session is over")

// handshake is SaslHandshake: the beginning of a login, or of one again (KIP-368).
func (c *conn) handshake(now time.Time, r request) ([]byte, event, error) {
	req := kmsg.NewPtrSASLHandshakeRequest()
	if err := r.decode(req); err != nil {
		return nil, otherRequest, err
	}
	answer := kmsg.NewPtrSASLHandshakeResponse()
	answer.SetVersion(r.Version)
	switch c.state {
	case fresh, versioned:
		c.again = false
	case ready:
		if !c.session.mayReauthenticate(now) {
			if c.session.over(now) {
				return nil, otherRequest, errSessionOver
			}
			answer.ErrorCode = kerr.IllegalSaslState.Code
			return answerFrame(r.CorrelationID, answer), handshakeUntimely, nil
		}
		c.again, c.session.again = true, now
	default:
		return nil, otherRequest, nil
	}

	answer.SupportedMechanisms = mechanisms()
	if !slices.Contains(answer.SupportedMechanisms, req.Mechanism) {
		if c.again {
			return nil, mechanismUnknown, nil // without a word, other than at first
		}
		answer.ErrorCode = kerr.UnsupportedSaslMechanism.Code
		return answerFrame(r.CorrelationID, answer), mechanismUnknown, nil
	}
	if c.again && req.Mechanism != c.session.mechanism {
		return answerFrame(r.CorrelationID, answer), mechanismChanged, nil
	}
	start := c.node.started()
	var err error
	c.conversation, err = newConversation(req.Mechanism, func(id string) (listed, scram.StoredCredentials, bool) {
		return c.cluster.tokens.credential(time.Now(), c.node.id, start, req.Mechanism, id)
	})
	return answerFrame(r.CorrelationID, answer), mechanismAgreed, err
}

// authenticate is SaslAuthenticate: one message of the conversation.
func (c *conn) authenticate(now time.Time, r request) ([]byte, event, error) {
	req := kmsg.NewPtrSASLAuthenticateRequest()
	if err := r.decode(req); err != nil {
		return nil, otherRequest, err
	}
	answer := kmsg.NewPtrSASLAuthenticateResponse()
	answer.SetVersion(r.Version)
	refuse := func(code int16, text string, e event) ([]byte, event, error) {
		answer.ErrorCode, answer.ErrorMessage = code, &text
		return answerFrame(r.CorrelationID, answer), e, nil
	}
	switch c.state {
	case conversing:
	case ready:
		if c.session.over(now) {
			return nil, otherRequest, errSessionOver
		}
		return refuse(kerr.IllegalSaslState.Code, "SaslAuthenticate request received after successful authentication", authenticateUntimely)
	default:
		return nil, otherRequest, nil
	}

	say, done, err := c.conversation.step(req.SASLAuthBytes)
	if err != nil {
		return refuse(kerr.SaslAuthenticationFailed.Code, c.refusal(), unproved)
	}
	answer.SASLAuthBytes = say
	if !done {
		return answerFrame(r.CorrelationID, answer), firstAnswered, nil
	}
	owner := c.conversation.token.owner.name
	if c.again && owner != c.session.owner {
		return refuse(kerr.SaslAuthenticationFailed.Code,
			fmt.Sprintf("Cannot change principals during re-authentication from User.%s: User.%s", c.session.owner, owner), unproved)
	}
	if !c.again {
		if err := c.become(owner); err != nil {
			return nil, otherRequest, err
		}
	}
	now = time.Now() // the session counts from here
	worth := c.conversation.lifetime(now, c.cluster.cfg.MaxReauth)
	c.session.mechanism, c.session.owner = c.conversation.mechanism, owner
	c.session.begin(now, worth)
	answer.SessionLifetimeMillis = worth.Milliseconds()
	c.tell(worth)
	return answerFrame(r.CorrelationID, answer), proved, nil
}

// refusal is all that Kafka tells a client whose login it refuses.
func (c *conn) refusal() string {
	during := "authentication"
	if c.again {
		during = "re-authentication"
	}
	return "Authentication failed during " + during + " due to invalid credentials with SASL mechanism " + c.conversation.mechanism
}

// tell reports the login that has just succeeded.
func (c *conn) tell(worth time.Duration) {
	l := Login{
		Node: c.node.id, Principal: c.principal, TokenID: c.conversation.token.id, Mechanism: c.conversation.mechanism,
		Lifetime: worth, Reauthentication: c.again,
	}
	c.cluster.cfg.Logger.Debug("token login", zap.Int32("node", l.Node), zap.String("principal", l.Principal),
		zap.String("token", l.TokenID), zap.Duration("lifetime", worth), zap.Bool("again", l.Reauthentication))
	c.cluster.cfg.Logins(l)
}
