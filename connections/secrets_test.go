package connections

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"doorkeeper/internal/secret"
)

// S14: what can be printed of a credential, a connection and every error of every way
// to fail holds no password, no derived key and no proof, in any encoding.
func TestNothingPrintableHoldsASecret(t *testing.T) {
	password := "planted+password/with=signs&und ümlaut=="
	var proof string
	echoProof := func(v *visit, r request) bool {
		_, proof, _ = strings.Cut(string(message(r)), ",p=")
		return v.refuse(r, 58, "your proof was "+proof)
	}
	scripts := map[string]script{
		"works":              {},
		"wrong password":     {lookup: func(string) (string, bool) { return "another", true }},
		"unknown":            {lookup: func(string) (string, bool) { return "", false }},
		"quotes the proof":   {final: echoProof},
		"wrong signature":    {final: sayFinal("v=c2FsdHNhbHRzYWx0")(nil).final},
		"closes":             {final: hangUp},
		"refuses the second": {first: errorCode(58)},
	}
	for name, s := range scripts {
		t.Run(name, func(t *testing.T) {
			if s.lookup == nil {
				s.lookup = func(string) (string, bool) { return password, true }
			}
			l := newLab()
			h := l.listen(t, s)
			credential := &Credential{Username: "id", Password: secret.New(password), Derived: new(secret.Memo)}
			c, err := NewDialer(l.config(nil)).Open(t.Context(), h.target, ScramOverMtls, credential, ClientInfo{})
			shown := []any{credential, *credential, err}
			if err == nil {
				defer func() { _ = c.Close() }()
				shown = append(shown, c)
			} else {
				shown = append(shown, *asError(t, err))
			}
			planted := []string{password, proof}
			// The derived keys, as the memo holds them.
			for _, salt := range []string{"salt-of-the-broker-aWQ="} {
				key, _ := credential.Derived.Get("SCRAM-SHA-512 4096 "+salt, func() (secret.Text, error) { return secret.Text{}, nil })
				if key.IsEmpty() && name == "works" {
					t.Error("the derived key was not found: the test looks for the wrong one")
				}
				planted = append(planted, key.Reveal())
			}
			for _, x := range shown {
				for _, text := range everyForm(x) {
					for _, p := range planted {
						for _, encoded := range everyEncoding(p) {
							if strings.Contains(text, encoded) {
								t.Errorf("%T shows %q in %q", x, encoded, text)
							}
						}
					}
				}
			}
		})
	}
}

func everyForm(x any) []string {
	var out []string
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t"} {
		out = append(out, fmt.Sprintf(verb, x))
	}
	if b, err := json.Marshal(x); err == nil {
		out = append(out, string(b))
	}
	return out
}

func everyEncoding(s string) []string {
	if s == "" {
		return nil
	}
	b := []byte(s)
	quoted, _ := json.Marshal(s)
	return []string{
		s, hex.EncodeToString(b), strings.ToUpper(hex.EncodeToString(b)), base64.StdEncoding.EncodeToString(b),
		base64.RawURLEncoding.EncodeToString(b), url.QueryEscape(s), strings.Trim(string(quoted), `"`), strings.Trim(fmt.Sprintf("%q", s), `"`),
	}
}

func TestConnectionPrintsBrokerAndState(t *testing.T) {
	l := newLab()
	h := l.listen(t, script{})
	c := open(t, NewDialer(l.config(nil)), h.target)
	if got, want := fmt.Sprintf("%+v", c), fmt.Sprintf("KafkaConnection{ScramOverMtls 7 (%s) Open}", h.target.address()); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := (Target{Node: -1, Host: "::1", Port: 9}).String(); got != "[::1]:9" {
		t.Error(got)
	}
}

// Every fault and phase has a name of its own, and every error a text that says where.
func TestFaultsAndPhasesHaveNames(t *testing.T) {
	seen := map[string]bool{}
	for f := Unreachable; f <= Hostile; f++ {
		if s := f.String(); seen[s] || strings.HasPrefix(s, "fault ") {
			t.Errorf("fault %d is called %s", f, s)
		} else {
			seen[s] = true
		}
	}
	for p := PhaseDial; p <= PhaseRelay; p++ {
		if s := p.String(); seen[s] || strings.HasPrefix(s, "phase ") {
			t.Errorf("phase %d is called %s", p, s)
		} else {
			seen[s] = true
		}
	}
	e := Target{Node: 3, Host: "b3", Port: 9094}.fault(PhaseMechanism, refuse(NoMechanism, "do this", "no such thing"), nil)
	if got, want := e.Error(), "broker 3 (b3:9094): mechanism: no such thing; do this"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
