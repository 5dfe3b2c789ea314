package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"doorkeeper/internal/secret"
)

// hostile is what a certificate's subject or a client id could hold to forge a log
// line or to take hold of a terminal.
const hostile = "alice\n2026-01-01 ERROR forged\r\x1b[31m\x00\x7f\u0085\u009b\u202e\u2066\u2028\u200b\U000e0041\ufeff\t\xff\"\\"

// TestHostileTextCannotForgeLines is S15: in message, logger name, field and error,
// in both formats, and in loggers made by With.
func TestHostileTextCannotForgeLines(t *testing.T) {
	for _, format := range []Format{formatConsole, formatJSON} {
		t.Run(string(format), func(t *testing.T) {
			var out bytes.Buffer
			log := newLogger(Log{Level: Level(zapcore.DebugLevel), Format: format}, &out)
			log.Named(hostile).With(zap.String("client_id", hostile)).
				Warn(hostile, zap.String(hostile, hostile), zap.Error(errors.New(hostile)), zap.Any("any", map[string]string{hostile: hostile}))
			line, ok := strings.CutSuffix(out.String(), "\n")
			if !ok || strings.ContainsFunc(line, func(r rune) bool {
				return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Zl, r) || r == unicode.ReplacementChar
			}) {
				t.Errorf("not one clean line: %q", out.String())
			}
			if !strings.Contains(line, `alice\n2026-01-01 ERROR forged`) && !strings.Contains(line, `alice\u000a2026-01-01 ERROR forged`) {
				t.Errorf("the text itself is lost: %s", line)
			}
		})
	}
}

func TestEscapedJSONMeansTheSame(t *testing.T) {
	var out bytes.Buffer
	text := strings.ReplaceAll(hostile, "\xff", "\ufffd")
	newLogger(Log{Format: formatJSON}, &out).Info(text, zap.String("owner", text))
	var got struct{ Msg, Owner string }
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if got.Msg != text || got.Owner != text {
		t.Errorf("got %q", got)
	}
}

func TestOrdinaryLinesAreLeftAlone(t *testing.T) {
	var out bytes.Buffer
	log := newLogger(Log{Format: formatConsole}, &out)
	log.Info("session ended", zap.String("owner", "CN=Jürgen 日本"), zap.String("reason", "shutdown"))
	if line := out.String(); !strings.HasSuffix(line, "  INFO  session ended  {\"owner\": \"CN=Jürgen 日本\", \"reason\": \"shutdown\"}\n") {
		t.Errorf("got %q", line)
	}
}

func TestLevelIsKept(t *testing.T) {
	var out bytes.Buffer
	log := newLogger(Log{Level: Level(zapcore.WarnLevel), Format: formatJSON}, &out)
	log.Info("quiet")
	log.Warn("loud")
	if got := out.String(); strings.Contains(got, "quiet") || !strings.Contains(got, `"msg":"loud"`) {
		t.Errorf("got %s", got)
	}
}

// TestSecretsDoNotReachTheLog is S14's part of the logger.
func TestSecretsDoNotReachTheLog(t *testing.T) {
	s := secret.New("s3cret-hmac")
	for _, format := range []Format{formatConsole, formatJSON} {
		var out bytes.Buffer
		newLogger(Log{Format: format}, &out).Info("x", zap.Any("any", s), zap.Any("in", struct{ S secret.Text }{s}),
			zap.Stringer("s", s), zap.Object("o", s), zap.Reflect("r", &s), zap.Any("list", []secret.Text{s}))
		if got := out.String(); strings.Contains(got, "s3cret") || !strings.Contains(got, "redacted") {
			t.Errorf("%s: %s", format, got)
		}
	}
}
