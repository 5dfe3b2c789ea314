package secret

import (
	"crypto/subtle"
	"fmt"
	"log/slog"

	"go.uber.org/zap/zapcore"
)

// redacted is what every formatter and encoder shows in a secret's place.
const redacted = "[redacted]"

// Text is a secret string. Its zero value is empty. It is safe for concurrent
// use, since it never changes.
//
// The contents lie behind a pointer, so that reflection-based encoders that
// ignore methods on unexported fields still have nothing to print.
type Text struct {
	p *string
}

// New takes s under cover.
func New(s string) Text { return Text{p: &s} }

// Reveal returns the contents. The caller must not log, wrap or store them.
func (t Text) Reveal() string {
	if t.p == nil {
		return ""
	}
	return *t.p
}

// IsEmpty tells whether there is anything to reveal.
func (t Text) IsEmpty() bool { return t.p == nil || *t.p == "" }

// Equal compares in a time that depends on the lengths alone.
func (t Text) Equal(o Text) bool {
	return subtle.ConstantTimeCompare([]byte(t.Reveal()), []byte(o.Reveal())) == 1
}

// Format implements fmt.Formatter: every verb, known or not, shows the same.
func (Text) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(redacted)) }

// String implements fmt.Stringer.
func (Text) String() string { return redacted }

// GoString implements fmt.GoStringer.
func (Text) GoString() string { return redacted }

// MarshalText implements encoding.TextMarshaler, which covers JSON, YAML and XML.
func (Text) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// MarshalJSON implements json.Marshaler.
func (Text) MarshalJSON() ([]byte, error) { return []byte(`"` + redacted + `"`), nil }

// MarshalYAML keeps YAML encoders from walking the struct.
func (Text) MarshalYAML() (any, error) { return redacted, nil }

// GobEncode implements gob.GobEncoder.
func (Text) GobEncode() ([]byte, error) { return []byte(redacted), nil }

// MarshalBinary implements encoding.BinaryMarshaler.
func (Text) MarshalBinary() ([]byte, error) { return []byte(redacted), nil }

// LogValue implements slog.LogValuer.
func (Text) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalLogObject implements zapcore.ObjectMarshaler.
func (Text) MarshalLogObject(enc zapcore.ObjectEncoder) error {
	enc.AddString("secret", redacted)
	return nil
}
