package tokens

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
)

// F12, B68: each refusal says what to change.
func TestRefusalsNameTheirCure(t *testing.T) {
	for code, c := range map[int16]struct {
		reason Reason
		retry  bool
		cure   string
	}{
		35: {ReasonUnsupported, false, "metadata.version 3.6-IV2 or later"},
		58: {ReasonLoginRefused, false, "kafka.control.sasl"},
		61: {ReasonDisabled, false, "set delegation.token.secret.key on every broker and controller"},
		63: {ReasonOwnerMismatch, false, "ssl.principal.mapping.rules"},
		64: {ReasonRequestNotAllowed, false, "give it a certificate (kafka.control.tls) or a SCRAM user"},
		65: {ReasonNotAuthorized, false, "--operation CreateTokens --user-principal 'User:CN=alice, O=\"Lab\"'"},
		66: {ReasonExpired, false, "delegation.token.max.lifetime.ms"},
		67: {ReasonPrincipalType, false, "principal.builder.class"},
		7:  {ReasonBroker, true, ""},
		41: {ReasonBroker, true, ""},
		-1: {ReasonBroker, true, ""},
	} {
		e := brokerError(PhaseCreate, code, fmt.Errorf("code %d", code), `CN=alice, O="Lab"`, "gw")
		if e.Reason != c.reason || e.Retry != c.retry || !strings.Contains(e.Cure, c.cure) || (c.cure == "") != (e.Cure == "") {
			t.Errorf("%d: %+v", code, e)
		}
		if e.Lost != (code == 7 || code == -1) {
			t.Errorf("%d: Lost = %v", code, e.Lost)
		}
		text := e.Error()
		if !strings.Contains(text, `"CN=alice, O=\"Lab\""`) || !strings.Contains(text, "create a token") || strings.Contains(text, "will be retried") != c.retry {
			t.Errorf("%d: %s", code, text)
		}
	}
	if e := brokerError(PhaseCreate, 65, nil, "alice", ""); !strings.Contains(e.Cure, "'User:<the gateway's principal>'") && !strings.Contains(e.Cure, "<the gateway") {
		t.Errorf("without an own name: %s", e.Cure)
	}
}

func TestTransportErrorsNameTheirCure(t *testing.T) {
	dial := &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	for name, c := range map[string]struct {
		err    error
		reason Reason
		lost   bool
		cure   string
	}{
		"refused":     {dial, ReasonUnreachable, false, "kafka.control.bootstrap"},
		"timeout":     {context.DeadlineExceeded, ReasonTimeout, true, ""},
		"eof":         {io.EOF, ReasonUnreachable, true, "kafka.control.tls"},
		"reset":       {syscall.ECONNRESET, ReasonUnreachable, true, ""},
		"plaintext":   {tls.RecordHeaderError{Msg: "x"}, ReasonTLS, false, "does not speak TLS"},
		"unknown CA":  {&tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}, ReasonTLS, false, "kafka.control.tls.ca"},
		"wrong host":  {&tls.CertificateVerificationError{Err: x509.HostnameError{Certificate: &x509.Certificate{}, Host: "h"}}, ReasonTLS, false, "another name"},
		"our own":     {&net.OpError{Op: "remote error", Err: errors.New("tls: certificate required")}, ReasonTLS, false, "refused the gateway's certificate"},
		"wrapped EOF": {fmt.Errorf("x: %w", io.EOF), ReasonUnreachable, true, "kafka.control.sasl"},
	} {
		e := transportError(PhaseCreate, c.err, "alice", true)
		if e.Reason != c.reason || e.Lost != c.lost || !strings.Contains(e.Cure, c.cure) || !e.Retry || !errors.Is(e, c.err) {
			t.Errorf("%s: %+v", name, e)
		}
	}
}

func TestControlCharactersInOwnersAreEscaped(t *testing.T) {
	e := &Error{Owner: "a\nb\x1b[2J", Node: 3, Err: errors.New("x")}
	if s := e.Error(); strings.ContainsAny(s, "\n\x1b") || !strings.Contains(s, "broker 3") {
		t.Errorf("%q", s)
	}
}
