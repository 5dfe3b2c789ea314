package tokens

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"doorkeeper/internal/secret"
)

const canary = "c4n\x00ry+/secret\xff-of-a-token"

// canaryForms are the encodings in which a leak would show.
func canaryForms() []string {
	b := []byte(canary)
	once := base64.StdEncoding.EncodeToString(b)
	quoted, _ := json.Marshal(canary)
	return []string{
		canary, "c4n", "secret\xff", once, strings.TrimRight(once, "="), base64.URLEncoding.EncodeToString(b),
		base64.StdEncoding.EncodeToString([]byte(once)), hex.EncodeToString(b), strings.ToUpper(hex.EncodeToString(b)),
		hex.EncodeToString([]byte(once)), url.QueryEscape(once), strings.Trim(string(quoted), `"`),
		fmt.Sprint(b), fmt.Sprint([]byte(once)), fmt.Sprintf("%#v", b),
	}
}

// S14, B51 (this package's part): no verb and no encoder shows a secret of a
// Token, an answer, a lease or an error.
func TestNothingPrintsASecret(t *testing.T) {
	issue := time.Unix(1_700_000_000, 0)
	is := Issued{ID: "token-id", OwnerType: "User", Owner: "alice", HMAC: secret.New(canary), Issue: issue, Expiry: issue.Add(time.Hour)}
	p, _ := plan(time.Hour, 0)
	tok := newToken(is, p, time.Now(), time.Now(), nil)
	if _, err := tok.Derived.Get("k", func() (secret.Text, error) { return secret.New(canary), nil }); err != nil {
		t.Fatal(err)
	}
	e := newEntry(New(Config{Issuer: newFakeKafka(), Instance: "gw"}), "alice")
	e.current.Store(tok)
	err := &Error{Phase: PhaseCreate, Owner: "alice", Err: fmt.Errorf("with %v and %+v", tok, is)}
	values := map[string]any{
		"token": tok, "token by value": reflect.ValueOf(tok).Elem().Interface(), "answer": is, "answer by pointer": &is,
		"lease": &Lease{entry: e}, "entry": e, "error": err, "wrapped": fmt.Errorf("x: %w", err), "joined": errors.Join(err, err),
		"slice": []*Token{tok}, "map": map[string]*Token{"a": tok}, "struct": struct{ T *Token }{tok},
		"retired": newRetired(tok), "view": view{token: tok},
		"left over": &retired{token: tok}, "list": e.source.List(), "shown": e.show(time.Now()),
	}
	forms := canaryForms()
	check := func(how, out string) {
		t.Helper()
		for _, f := range forms {
			if strings.Contains(out, f) {
				t.Errorf("%s shows the secret: %q", how, out)
				return
			}
		}
	}
	for name, v := range values {
		for _, verb := range "vTtbcdoOqxXUeEfFgGsSpw!" {
			for _, flags := range []string{"", "+", "#", "-", " ", "0", "+#", "20.3"} {
				check(fmt.Sprintf("%%%s%c of %s", flags, verb, name), fmt.Sprintf("%"+flags+string(verb), v))
			}
		}
		check("Sprint of "+name, fmt.Sprint(v))
		check("Sprintln of "+name, fmt.Sprintln(v))
		if out, err := json.Marshal(v); err == nil {
			check("json of "+name, string(out))
		}
		if out, err := xml.Marshal(v); err == nil {
			check("xml of "+name, string(out))
		}
		for kind, enc := range map[string]zapcore.Encoder{
			"json":    zapcore.NewJSONEncoder(zap.NewDevelopmentEncoderConfig()),
			"console": zapcore.NewConsoleEncoder(zap.NewDevelopmentEncoderConfig()),
		} {
			var out bytes.Buffer
			logger := zap.New(zapcore.NewCore(enc, zapcore.AddSync(&out), zap.DebugLevel))
			fields := []zap.Field{zap.Any("any", v), zap.Reflect("reflect", v)}
			if m, ok := v.(zapcore.ObjectMarshaler); ok {
				fields = append(fields, zap.Object("object", m), zap.Inline(m))
			}
			if m, ok := v.(fmt.Stringer); ok {
				fields = append(fields, zap.Stringer("stringer", m))
			}
			if m, ok := v.(error); ok {
				fields = append(fields, zap.Error(m))
			}
			logger.Info("x", fields...)
			logger.Sugar().Infow("x", "v", v)
			check("zap "+kind+" of "+name, out.String())
		}
		var out bytes.Buffer
		slog.New(slog.NewJSONHandler(&out, nil)).Info("x", "v", v)
		slog.New(slog.NewTextHandler(&out, nil)).Info("x", "v", v)
		check("slog of "+name, out.String())
	}
	for _, v := range []string{fmt.Sprintf("%v", tok), fmt.Sprintf("%#v", tok), fmt.Sprintf("%d", tok)} {
		if !strings.Contains(v, "token-id") || !strings.Contains(v, "alice") {
			t.Errorf("a token shows %q, not its id and owner", v)
		}
	}
	if tok.Password.Reveal() != base64.StdEncoding.EncodeToString([]byte(canary)) {
		t.Error("the password is not the base64 of the HMAC")
	}
}

// What a whole life of a token logs.
func TestLogsOfALifeShowNoSecret(t *testing.T) {
	var out bytes.Buffer
	withBed(t, func(k *fakeKafka, c *Config) {
		k.life = time.Minute
		k.onAnswer = func(is *Issued) { is.HMAC = secret.New(canary) }
		c.Logger = zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewDevelopmentEncoderConfig()), zapcore.Lock(zapcore.AddSync(&out)), zap.DebugLevel))
		c.ExpireOnStop = true
	}, func(b *bed) {
		l := b.acquire("alice")
		b.source.Invalidate(l.Token())
		b.sleep(time.Minute)
		b.kafka.set(func() { b.kafka.onCreate = func(int, Creation) error { return errors.New("no") }; b.kafka.failExp = 3 })
		b.sleep(3 * time.Minute)
		l.Release()
		b.stop()
	})
	logs := out.String()
	for _, f := range canaryForms() {
		if strings.Contains(logs, f) {
			t.Fatalf("a log line shows the secret: %s", logs)
		}
	}
	for _, want := range []string{"a token is created", "could not be replaced", "a token is expired", "current_token_serves_for"} {
		if !strings.Contains(logs, want) {
			t.Errorf("no line says %q", want)
		}
	}
}
