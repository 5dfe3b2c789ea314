package connections

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"doorkeeper/internal/wire"
)

// Bounds of the answers before the login is over, in bytes. A Kafka 4.4 broker's
// ApiVersions has less than 1 KiB.
const (
	maxVersionsAnswer = 256 << 10
	maxLoginAnswer    = 64 << 10
)

// The versions spoken here, all of them known to Kafka 2.5 and later: ApiVersions v3
// carries the client's software (KIP-511), SaslHandshake v1 puts SaslAuthenticate
// frames behind it (KIP-152), SaslAuthenticate v2 is flexible and v1 the first with
// a session lifetime (KIP-368).
const (
	versionsVersion     = 3
	handshakeVersion    = 1
	authenticateVersion = 2
)

// keyCreateToken is CreateDelegationToken. Brokers advertise it on every listener; a
// gateway takes it out.
const keyCreateToken = 38

// leg is one TCP connection to a broker, logged in, with what the login told.
type leg struct {
	target   Target
	stream   *wire.Stream
	versions *kmsg.ApiVersionsResponse
	clientID *string

	// The request side's own.
	writeDeadline time.Time // what the socket was told last
	newerAt       time.Time // when a newer credential is a reason to renew; zero: none is known

	// begin is when the answer that fixed the session end was asked for: the broker
	// counted from no earlier moment. lifetime is 0 for a session without an end.
	// Both are zero where there was no login. A re-authentication changes them, under
	// the connection's lock.
	begin    time.Time
	lifetime time.Duration
	took     time.Duration // from SaslHandshake to the verified end of the login
}

// login asks for the broker's versions and logs in, within ctx. Its errors are *Error.
//
// Every request waits for the answer to the one before, though a broker takes them all
// in one write: until a connection has logged in, Kafka's network thread does not look
// again at what it has already read and decrypted until its poll ends, which takes
// 300 ms where nothing else happens on that listener. Measured with Kafka 4.4 on
// loopback: 610 ms for a login with ApiVersions, SaslHandshake and the first
// SaslAuthenticate in one write, 310 ms with any two of them, 10 ms in turns.
func (d *Dialer) login(ctx context.Context, stream *wire.Stream, target Target, kind Kind, credential *Credential, client ClientInfo) (*leg, error) {
	// The deadline serves where ctx has one, the function where it is canceled.
	if deadline, ok := ctx.Deadline(); ok {
		_ = stream.SetReadDeadline(deadline)
		_ = stream.SetWriteDeadline(deadline)
	}
	stop := context.AfterFunc(ctx, func() { _ = stream.Abort() })
	defer stop()

	l := &login{rw: stream, flush: stream.Flush, client: client, mechanism: d.cfg.Mechanism, phase: PhaseVersions}
	if credential != nil {
		l.conversation = newConversation(d.cfg.Mechanism, credential, kind == ScramOverMtls, newNonce(), d.cfg.Observer)
	}
	out, err := l.run(kind)
	if err == nil && !stop() {
		err = ctx.Err()
	}
	if err != nil {
		return nil, target.fault(l.phase, err, contextError(ctx, err))
	}
	_ = stream.SetReadDeadline(time.Time{})
	_ = stream.SetWriteDeadline(time.Time{})
	out.target, out.stream = target, stream
	return out, nil
}

// contextError is ctx's error, also where the deadline that was taken from ctx hit a
// moment before ctx itself.
func contextError(ctx context.Context, err error) error {
	if fault, _ := ioFault(err); ctx.Err() == nil && fault == Timeout {
		return context.DeadlineExceeded
	}
	return ctx.Err()
}

// login is the talk with one broker.
type login struct {
	rw    io.ReadWriter
	flush func() error
	// carry, where it is set, is a round trip in place of rw and flush: it sends a frame
	// and returns what follows the correlation id of its answer.
	carry     func(frame []byte, correlationID, limit int32) ([]byte, error)
	client    ClientInfo
	mechanism Mechanism
	// conversation is nil where there is no login.
	conversation *conversation
	// again: this is a re-authentication of a connection that has logged in before.
	again bool

	phase Phase
	sent  int32 // requests, of which each has its number as correlation id
}

func (l *login) run(kind Kind) (*leg, error) {
	versions, err := l.versions()
	if err != nil {
		return nil, err
	}
	out := &leg{versions: versions, clientID: l.client.ID}
	if l.conversation == nil {
		return out, nil
	}

	began := time.Now()
	out.begin, out.lifetime, err = l.session(kind, versions)
	out.took = time.Since(began)
	return out, err
}

// session agrees on the mechanism and has the conversation: it begins the session of
// a login or of a re-authentication. What it returns is as in leg.
func (l *login) session(kind Kind, versions *kmsg.ApiVersionsResponse) (begin time.Time, lifetime time.Duration, err error) {
	l.phase = PhaseMechanism
	if err := l.handshake(versions); err != nil {
		return begin, 0, err
	}
	return l.prove(kind)
}

// prove has the conversation that the handshake has opened.
func (l *login) prove(kind Kind) (begin time.Time, lifetime time.Duration, err error) {
	l.phase = PhaseAuthenticate
	first, _, err := l.authenticate(l.conversation.first())
	if err != nil {
		return begin, 0, err
	}
	final, err := l.conversation.final(first)
	if err != nil {
		return begin, 0, err
	}
	begin = time.Now()
	last, millis, err := l.authenticate(final)
	if err != nil {
		return begin, 0, err
	}
	if err := l.conversation.verify(last); err != nil {
		return begin, 0, err
	}
	lifetime, err = sessionLifetime(kind, millis)
	return begin, lifetime, err
}

// software is a name or version as KIP-511 demands it.
func software(s string) string {
	alphanumeric := func(c byte) bool {
		return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
	}
	for i := range len(s) {
		inside := i > 0 && i < len(s)-1
		if !alphanumeric(s[i]) && (!inside || s[i] != '-' && s[i] != '.') {
			return "unknown"
		}
	}
	if s == "" {
		return "unknown"
	}
	return s
}

// frame encodes a request, length included.
func frame(r kmsg.Request, correlationID int32, clientID *string) []byte {
	var options []kmsg.RequestFormatterOpt
	if clientID != nil {
		options = append(options, kmsg.FormatterClientID(*clientID))
	}
	return kmsg.NewRequestFormatter(options...).AppendRequest(nil, r, correlationID)
}

// exchange writes a request and waits for its answer, of limit bytes at most. It
// returns what follows the answer's correlation id.
func (l *login) exchange(r kmsg.Request, limit int32) ([]byte, error) {
	l.sent++
	if l.carry != nil {
		return l.carry(frame(r, l.sent, l.client.ID), l.sent, limit)
	}
	if _, err := l.rw.Write(frame(r, l.sent, l.client.ID)); err != nil {
		return nil, err
	}
	if err := l.flush(); err != nil {
		return nil, err
	}
	return l.answer(limit)
}

// answer is exchange's second half.
func (l *login) answer(limit int32) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(l.rw, head[:]); err != nil {
		return nil, err
	}
	length := int32(binary.BigEndian.Uint32(head[:])) //nolint:gosec // G115: the protocol's length is signed
	if length < 4 || length > limit {
		return nil, hostile("an answer of %d bytes (%q): 4 to %d are taken here", length, head[:], limit)
	}
	// Memory follows the bytes that come.
	var buf bytes.Buffer
	if _, err := io.CopyN(&buf, l.rw, int64(length)); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	if id := int32(binary.BigEndian.Uint32(buf.Next(4))); id != l.sent { //nolint:gosec // G115: signed in the protocol
		return nil, hostile("correlation id %d where %d is due", id, l.sent)
	}
	return buf.Bytes(), nil
}

func (l *login) versions() (*kmsg.ApiVersionsResponse, error) {
	ask := kmsg.NewPtrApiVersionsRequest()
	ask.SetVersion(versionsVersion)
	ask.ClientSoftwareName = software(l.client.SoftwareName)
	ask.ClientSoftwareVersion = software(l.client.SoftwareVersion)
	body, err := l.exchange(ask, maxVersionsAnswer)
	if err != nil {
		return nil, err
	}
	// The header is never flexible (KIP-511), and an error 35 comes as version 0.
	versions := kmsg.NewPtrApiVersionsResponse()
	versions.SetVersion(versionsVersion)
	if len(body) >= 2 && body[0] == 0 && body[1] == 35 {
		return nil, refuse(Unsupported, "Kafka 3.6 or newer is needed", "the broker does not know ApiVersions v%d", versionsVersion)
	}
	if err := versions.ReadFrom(body); err != nil {
		return nil, hostile("the answer to ApiVersions cannot be decoded")
	}
	if err := kerr.ErrorForCode(versions.ErrorCode); err != nil {
		return nil, refuse(Unsupported, "", "ApiVersions: error %d: %w", versions.ErrorCode, err)
	}
	if len(versions.ApiKeys) == 0 {
		return nil, hostile("the answer to ApiVersions names no API")
	}
	return versions, nil
}

// proposal says which mechanism is wanted and returns what the broker says to it.
func (l *login) proposal() (*kmsg.SASLHandshakeResponse, error) {
	ask := kmsg.NewPtrSASLHandshakeRequest()
	ask.SetVersion(handshakeVersion)
	ask.Mechanism = l.mechanism.String()
	body, err := l.exchange(ask, maxLoginAnswer)
	if err != nil {
		return nil, err
	}
	answer := kmsg.NewPtrSASLHandshakeResponse()
	answer.SetVersion(handshakeVersion)
	if err := answer.ReadFrom(body); err != nil {
		return nil, hostile("the answer to SaslHandshake cannot be decoded")
	}
	return answer, nil
}

func (l *login) handshake(versions *kmsg.ApiVersionsResponse) error {
	answer, err := l.proposal()
	if err != nil {
		return err
	}
	switch err := kerr.ErrorForCode(answer.ErrorCode); {
	case err == nil:
		return nil
	case errors.Is(err, kerr.UnsupportedSaslMechanism):
		return refuse(NoMechanism, "sasl.enabled.mechanisms of that listener and tokens.mechanism must agree",
			"the broker does not offer %s, but %s", l.mechanism, mechanisms(answer.SupportedMechanisms))
	case errors.Is(err, kerr.IllegalSaslState) && l.again:
		return refuse(TooSoon, "", "the broker takes no re-authentication now: the last one began less than a second ago")
	case errors.Is(err, kerr.IllegalSaslState):
		if !offersTokens(versions) {
			return refuse(AnotherGateway, "kafka.bootstrap must name the brokers' own token listener (SASL_SSL)",
				"the peer is another gateway: it takes no SASL login and offers no delegation tokens")
		}
		return refuse(NoSasl, "kafka.bootstrap must name the token listener (SASL_SSL), not the one for client certificates (SSL)",
			"this listener of the broker takes no SASL login")
	default:
		return hostile("SaslHandshake: error %d: %w", answer.ErrorCode, err)
	}
}

// offersTokens tells a broker from another gateway, which offers no token APIs.
func offersTokens(versions *kmsg.ApiVersionsResponse) bool {
	return slices.ContainsFunc(versions.ApiKeys, func(k kmsg.ApiVersionsResponseApiKey) bool { return k.ApiKey == keyCreateToken })
}

// mechanisms lists what the broker offers, in bounded and printable form.
func mechanisms(names []string) string {
	if len(names) == 0 {
		return "nothing"
	}
	shown := names[:min(len(names), 16)]
	return clean(strings.Join(shown, ", "), 200)
}

// authenticate says one SCRAM message and returns the server's.
func (l *login) authenticate(message []byte) (theirs []byte, lifetimeMillis int64, err error) {
	ask := kmsg.NewPtrSASLAuthenticateRequest()
	ask.SetVersion(authenticateVersion)
	ask.SASLAuthBytes = message
	body, err := l.exchange(ask, maxLoginAnswer)
	if err != nil {
		return nil, 0, err
	}
	tags, err := wire.ResponseHeaderTags(body)
	if err != nil {
		return nil, 0, hostile("the header of an answer to SaslAuthenticate cannot be decoded")
	}
	answer := kmsg.NewPtrSASLAuthenticateResponse()
	answer.SetVersion(authenticateVersion)
	if err := answer.ReadFrom(body[tags:]); err != nil {
		return nil, 0, hostile("an answer to SaslAuthenticate cannot be decoded")
	}
	switch err := kerr.ErrorForCode(answer.ErrorCode); {
	case err == nil:
		return answer.SASLAuthBytes, answer.SessionLifetimeMillis, nil
	case errors.Is(err, kerr.SaslAuthenticationFailed):
		return nil, 0, refuse(CredentialRefused, credentialCure, "the broker refused the login: %s", l.said(answer.ErrorMessage))
	default:
		return nil, 0, hostile("SaslAuthenticate: error %d: %w: %s", answer.ErrorCode, err, l.said(answer.ErrorMessage))
	}
}

// said is the broker's own text, fit for a log. One that quotes our proof is no
// broker's.
func (l *login) said(message *string) string {
	switch {
	case message == nil || *message == "":
		return "(it gives no reason)"
	case l.conversation.proofText != "" && strings.Contains(*message, l.conversation.proofText):
		return "(a text that is withheld)"
	}
	return clean(*message, 200)
}

// clean quotes what could forge or flood a log line.
func clean(s string, limit int) string {
	cut := ""
	if len(s) > limit {
		s, cut = s[:limit], "…"
	}
	return fmt.Sprintf("%q%s", s, cut)
}
