package secret

import (
	"bytes"
	"encoding/base64"
	"encoding/gob"
	"encoding/hex"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.yaml.in/yaml/v3"
)

const planted = "s3cr3t-HMAC+/=value"

// holder is how secrets travel: in fields, behind pointers, in slices and maps.
type holder struct {
	Text  Text
	Ptr   *Text
	List  []Text
	Map   map[string]Text
	Memo  *Memo
	inner Text
}

// S14, B51: no verb and no encoder shows a secret, in any encoding of it.
func TestNothingPrintsASecret(t *testing.T) {
	text := New(planted)
	memo := new(Memo)
	if _, err := memo.Get("k", func() (Text, error) { return text, nil }); err != nil {
		t.Fatal(err)
	}
	h := holder{Text: text, Ptr: &text, List: []Text{text}, Map: map[string]Text{"k": text}, Memo: memo, inner: text}

	var out bytes.Buffer
	for verb := '!'; verb <= '~'; verb++ {
		for _, flags := range []string{"", "+", "#", "-", " ", "0", "20", ".3", "+#"} {
			for _, v := range []any{text, &text, h, &h, memo, []any{text, h}} {
				fmt.Fprintf(&out, "%"+flags+string(verb)+"\n", v)
			}
		}
	}
	fmt.Fprintln(&out, text, h, errors.New(text.String()))

	encode := func(name string, f func(v any) ([]byte, error)) {
		for _, v := range []any{text, &text, h.List, h.Map, struct{ T Text }{text}} {
			b, err := f(v)
			if err != nil {
				continue // an encoder that refuses prints nothing
			}
			fmt.Fprintf(&out, "%s: %s\n", name, b)
		}
	}
	encode("json", json.Marshal)
	encode("xml", xml.Marshal)
	encode("yaml", yaml.Marshal)
	encode("gob", func(v any) ([]byte, error) {
		var b bytes.Buffer
		err := gob.NewEncoder(&b).Encode(v)
		return b.Bytes(), err
	})
	for _, enc := range []zapcore.Encoder{
		zapcore.NewJSONEncoder(zap.NewDevelopmentEncoderConfig()),
		zapcore.NewConsoleEncoder(zap.NewDevelopmentEncoderConfig()),
	} {
		log := zap.New(zapcore.NewCore(enc, zapcore.AddSync(&out), zap.DebugLevel))
		log.Info("m", zap.Any("any", text), zap.Any("holder", h), zap.Reflect("reflect", h), zap.Object("object", text),
			zap.Stringer("stringer", text), zap.Any("memo", memo), zap.Inline(text))
		log.Sugar().Infow("m", "v", h, "t", text)
	}
	slog.New(slog.NewJSONHandler(&out, nil)).Info("m", "text", text, "holder", h, "memo", memo)
	slog.New(slog.NewTextHandler(&out, nil)).Info("m", "text", text, "holder", h, "memo", memo)

	jsonForm, _ := json.Marshal(planted)
	for name, form := range map[string]string{
		"raw":        planted,
		"hex":        hex.EncodeToString([]byte(planted)),
		"upper hex":  strings.ToUpper(hex.EncodeToString([]byte(planted))),
		"spaced hex": fmt.Sprintf("% x", planted),
		"base64":     base64.StdEncoding.EncodeToString([]byte(planted)),
		"base64url":  base64.URLEncoding.EncodeToString([]byte(planted)),
		"url":        url.QueryEscape(planted),
		"json":       strings.Trim(string(jsonForm), `"`),
		"decimal":    strings.Trim(fmt.Sprint([]byte(planted)), "[]"),
	} {
		if at := strings.Index(out.String(), form); at >= 0 {
			t.Errorf("%s form shows: %.120s", name, out.String()[max(0, at-60):])
		}
	}
	if !strings.Contains(out.String(), "[redacted]") {
		t.Error("nothing says that something was left out")
	}
}

func TestText(t *testing.T) {
	var zero Text
	if !zero.IsEmpty() || zero.Reveal() != "" || !New("").IsEmpty() || New("x").IsEmpty() {
		t.Error("emptiness")
	}
	if New("x").Reveal() != "x" || !New("x").Equal(New("x")) || New("x").Equal(New("y")) || New("x").Equal(zero) {
		t.Error("contents")
	}
}

func TestMemoDerivesOnce(t *testing.T) {
	var m Memo
	var derived atomic.Int32
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() {
			v, err := m.Get("salt", func() (Text, error) {
				derived.Add(1)
				return New("key"), nil
			})
			if err != nil || v.Reveal() != "key" {
				t.Errorf("got %v, %v", v.Reveal(), err)
			}
		})
	}
	wg.Wait()
	if derived.Load() != 1 {
		t.Fatalf("derived %d times", derived.Load())
	}
}

// S10: a broker that draws a new salt for every login cannot fill the memory.
func TestMemoIsBounded(t *testing.T) {
	var m Memo
	for i := range 10 * memoLimit {
		_, _ = m.Get(fmt.Sprint(i), func() (Text, error) { return New("v"), nil })
	}
	if m.Len() != memoLimit {
		t.Fatalf("%d values", m.Len())
	}
	again := false
	_, _ = m.Get(fmt.Sprint(10*memoLimit-1), func() (Text, error) { again = true; return New("v"), nil })
	if again {
		t.Error("the newest value was dropped")
	}
}
