package tlsconf

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"
)

type goldenRule struct{ rules, source, want string }

// goldenRules were put to the class SslPrincipalMapper of kafka-clients 4.4.0 and
// 3.9.1; want is its answer, "none" its NoMatchingRule.
func goldenRules() []goldenRule {
	const alice = "CN=Alice,OU=ServiceUsers,O=Lab,C=DE"
	return []goldenRule{
		{"DEFAULT", alice, alice},
		{" DEFAULT ", alice, alice},
		{`RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/`, alice, "Alice"},
		{`RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L`, alice, "alice"},
		{`RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/U`, alice, "ALICE"},
		{`RULE:^CN=(.*?),OU=(.*?),O=(.*?),C=(.*?)$/$1@$2.$4/L`, alice, "alice@serviceusers.de"},
		{`RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/L`, alice, "alice"},
		{`RULE:^CN=(.*?),OU=Other.*$/$1/, RULE:^CN=(.*?),OU=ServiceUsers.*$/x-$1/,DEFAULT`, alice, "x-Alice"},
		{`RULE:^CN=(.*?),OU=Other.*$/$1/,DEFAULT`, alice, alice},
		{`RULE:^CN=(.*?),OU=Other.*$/$1/`, alice, "none"},
		{`DEFAULT,RULE:^CN=(.*?),.*$/$1/`, alice, alice},
		{`,, DEFAULT ,,`, alice, alice},
		{`RULE:CN=Alice/x/`, alice, "none"}, // the whole has to match
		{`RULE:CN=([^,]+),.*/$1/`, alice, "Alice"},
		{`RULE:.*/x/`, "ab", "xx"}, // .* matches the empty end as well
		{`RULE:^.*$/x/`, "ab", "x"},
		{`RULE:a|ab/x/`, "ab", "xb"},
		{`RULE:[a-c]+?/-/`, "abc", "---"},
		{`RULE:(a)?b/<$1>/`, "b", "<>"},
		{`RULE:^(a)?b$/$1-/`, "b", "-"},
		{`RULE:^(a)(b)$/$2$1/`, "ab", "ba"},
		{`RULE:^(a)b$/$12/`, "ab", "a2"},
		{`RULE:^(a)b$/$0$01/`, "ab", "aba"},
		{`RULE:^(a)b$/\$1/`, "ab", "$1"},
		{`RULE:^ab$/\$7/`, "ab", "$7"},
		{`RULE:^(a)b$/\\$1/`, "ab", `\a`},
		{`RULE:^a\/b$/c\/d/`, "a/b", "c/d"},
		{`RULE:^a,b$/c,d/L,DEFAULT`, "a,b", "c,d"},
		{`RULE:^(.*)$/$1/L`, "ÄÖ-Ж", "äö-ж"},
		{`RULE:^(.*)$/$1/U`, "äö-ж", "ÄÖ-Ж"},
		{`RULE:^(.*)$/$1/`, "$1/x\\", "$1/x\\"}, // nothing in a name is read as a reference
		{`RULE:^(.*)$//`, "ab", ""},
		{`RULE:^CN=(\w+)(?:,OU=[^,]+)*,O=Lab,C=DE$/$1/`, alice, "Alice"},
		{`RULE:^CN=([^,]{2,20}),.*$/$1/`, alice, "Alice"},
		{`RULE:^CN=😀(.)$/$1/`, "CN=😀😁", "😁"},
	}
}

func TestRulesGiveWhatKafkaGives(t *testing.T) {
	for _, c := range goldenRules() {
		t.Run(c.rules, func(t *testing.T) {
			rules, err := parseRules([]string{c.rules})
			if err != nil {
				t.Fatal(err)
			}
			got, text, err := applyRules(rules, c.source, nil)
			if c.want == "none" {
				checkFault(t, err, NoRule)
				return
			}
			if err != nil || got != c.want {
				t.Fatalf("got %q (%v), want %q", got, err, c.want)
			}
			if !strings.Contains(c.rules, text) {
				t.Errorf("the rule is said to be %q", text)
			}
		})
	}
}

func TestRulesRefusedAtLoad(t *testing.T) {
	for _, c := range []struct{ rule, says string }{
		{"", "is empty"},
		{" , ", "is empty"},
		{"default", "not of the form"},
		{"DEFAULT2", "not of the form"},
		{"RULE:", "not of the form"},
		{"RULE:a", "not of the form"},
		{"RULE:a/b", "not of the form"},
		{"RULE:a/b/l", "not of the form"},
		{"RULE:a/b/LU", "not of the form"},
		{"RULE:a/b/ L", "not of the form"},
		{`RULE:a\/b/c`, "not of the form"},
		{"RULE:a/b/c/L", "not of the form"},
		{"RULE:^CN=(.*)$/$1/\nDEFAULT", "not of the form"}, // Kafka drops what stands before the line end
		{"rule:a/b/", "not of the form"},
		{"RULE:a\xff/b/", "UTF-8"},
		{"RULE:/b/", "is empty"},
		{"RULE:a||b/x/", "empty alternative"},
		{"RULE:(|a)/x/", "empty alternative"},
		{"RULE:(?i)^cn=(.*)$/$1/", "sets flags"},
		{"RULE:(?i:a)/x/", "sets flags"},
		{"RULE:^(?=a)a$/x/", "looks ahead"},
		{"RULE:^(?!admin).*$/x/", "looks ahead"},
		{"RULE:^(?<=a)a$/x/", "looks ahead or behind"},
		{"RULE:^(?>a)$/x/", "atomic"},
		{"RULE:^(?<name>a)$/x/", "name"},
		{`RULE:^(a)\1$/x/`, "back"},
		{"RULE:^a++$/x/", "possessive"},
		{"RULE:^a*+$/x/", "possessive"},
		{"RULE:^a{2}{3}$/x/", "in a row"},
		{"RULE:^a**$/x/", "in a row"},
		{"RULE:*a/x/", "nothing in front"},
		{"RULE:a|*/x/", "nothing in front"},
		{"RULE:^*a/x/", "repeats ^ or $"},
		{"RULE:a{,3}/x/", "{n}"},
		{"RULE:a{x}/x/", "{n}"},
		{"RULE:a{1001}/x/", "{n}"},
		{"RULE:a{3,2}/x/", "wrong way round"},
		{"RULE:a{/x/", "{n}"},
		{`RULE:^\p{Lu}$/x/`, "property"},
		{`RULE:^\Qa\E$/x/`, "quotes"},
		{`RULE:\bCN=(.*)$/$1/`, `uses \b`},
		{`RULE:^a\Z/x/`, `uses \Z`},
		{`RULE:^\x41$/x/`, `uses \x`},
		{`RULE:^\u0041$/x/`, `uses \u`},
		{`RULE:^\h$/x/`, `uses \h`},
		{"RULE:^[a[bc]]$/x/", "[ in brackets"},
		{"RULE:^[a-z&&[^b]]$/x/", "&& in brackets"},
		{"RULE:^[[:alpha:]]$/x/", "[ in brackets"},
		{"RULE:^[]a]$/x/", "] directly behind"},
		{"RULE:^[a-c-e]$/x/", "- in brackets"},
		{`RULE:^[\w-z]$/x/`, "range"},
		{`RULE:^[a-\d]$/x/`, "range"},
		{"RULE:^[z-a]$/x/", "wrong way round"},
		{"RULE:^[a$/x/", "not closed"},
		{"RULE:^(a$/x/", "not closed"},
		{"RULE:^a)$/x/", ") too many"},
		{`RULE:^a$/x\/`, "not of the form"},
		{"RULE:^(a*)*$/$1/", "may match nothing"},
		{"RULE:^(a|b*)+$/x/", "may match nothing"},
		{"RULE:a^b/x/", "not at its beginning"},
		{"RULE:(^a|b)/x/", "not at its beginning"},
		{"RULE:^" + strings.Repeat("(", 60) + "a" + strings.Repeat(")", 60) + "$/x/", "deep"},
		{"RULE:^(?:a{1000}){1000}$/x/", "cannot be compiled"},
		{"RULE:" + strings.Repeat("a", maxPattern) + "/x/", "bytes"},
		{"RULE:^a\u202e$/x/", "no accepted name has"},
		{"RULE:^a\x00$/x/", "no accepted name has"},
		{"RULE:^a$/$1/", "refers to group 1"},
		{"RULE:^(a)$/$2/", "refers to group 2"}, // a literal "$2" in Kafka: one name for all
		{"RULE:^(a)$/$20/", "refers to group 20"},
		{`RULE:^(a)$/\$2/`, "breaks a broker"},
		{"RULE:^(a)$/$99999999999/", "too many digits"},
		{"RULE:^(a)$/$/", "no group's number"},
		{"RULE:^(a)$/$x/", "no group's number"},
		{"RULE:^(a)$/${1}/", "no group's number"},
		{"RULE:^(a)$/x\u200b/", "no accepted name has"},
		{"RULE:^(?:OU=([^,]+),)*CN=a$/$1/", "may match several parts"},
		{"RULE:^(a)+$/$1/", "may match several parts"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			_, err := parseRules([]string{"DEFAULT", c.rule})
			var bad *ConfigError
			if !errors.As(err, &bad) {
				t.Fatalf("taken, or no *ConfigError: %v", err)
			}
			if bad.Key != "identity.rules[1]" || !strings.Contains(bad.Problem, c.says) || bad.Cure == "" {
				t.Errorf("got %q, cure %q; it does not say %q", err, bad.Cure, c.says)
			}
		})
	}
}

func TestAllRuleProblemsAtOnce(t *testing.T) {
	_, err := parseRules([]string{"RULE:a/", "DEFAULT", `RULE:^\p{L}$/x/`})
	for _, key := range []string{"identity.rules[0]: ", "identity.rules[2]: "} {
		if err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%v does not name %s", err, key)
		}
	}
}

func TestNoRulesMeansDefault(t *testing.T) {
	rules, err := parseRules(nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, text, err := applyRules(rules, "CN=a", nil); got != "CN=a" || text != "DEFAULT" || err != nil {
		t.Errorf("got %q by %q, %v", got, text, err)
	}
}

// S8: case changes that Java versions disagree on, or that change the length.
func TestDoubtfulCaseIsRefused(t *testing.T) {
	for _, c := range []struct{ flag, source string }{
		{"U", "straße"}, {"L", "İstanbul"}, {"L", "ΟΔΟΣ"}, {"U", "ŉ"}, {"U", "ﬁ"}, {"U", "ა"}, {"L", "Ა"}, {"U", "ǰ"}, {"L", "𐐀"},
	} {
		rules, err := parseRules([]string{"RULE:^(.*)$/$1/" + c.flag})
		if err != nil {
			t.Fatal(err)
		}
		if got, _, err := applyRules(rules, c.source, nil); err == nil {
			t.Errorf("%s of %q gave %q", c.flag, c.source, got)
		} else {
			checkFault(t, err, Ambiguous)
		}
	}
}

func TestWorkAndResultAreBounded(t *testing.T) {
	long := strings.Repeat("a", MaxSource)
	for _, c := range []struct {
		rule string
		code RefusalCode
	}{
		{"RULE:.{100}/" + strings.Repeat("$0", 100) + "/", NoRule}, // 4096 is no multiple
		{"RULE:(?:.{64})+?/" + strings.Repeat("$0", 100) + "/", TooLong},
		{"RULE:(?:.)+?/x/", Ambiguous},
		{"RULE:.*?/x/", Ambiguous},
	} {
		rules, err := parseRules([]string{c.rule})
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = applyRules(rules, long, nil)
		checkFault(t, err, c.code)
	}
}

func FuzzRules(f *testing.F) {
	for _, rule := range []string{
		"DEFAULT", `RULE:^CN=(.*?),OU=(.*?)$/$1@$2/L,DEFAULT`, `RULE:(a)|b/$1/U`, "RULE:.*/x/", `RULE:^a\/b$/\$\\/`, "RULE:[^a-c\\]]{1,3}?/$0/",
		"RULE:((a|b)(?:c)?)+/x/", `RULE:\w\D\s/x/`, "RULE:a/b/,,DEFAULT",
	} {
		f.Add(rule, "CN=alice,OU=apps")
		f.Add(rule, "ab😀")
	}
	f.Fuzz(func(t *testing.T, entry, source string) {
		rules, err := parseRules([]string{entry})
		if err != nil {
			var bad *ConfigError
			if !errors.As(err, &bad) || bad.Cure == "" {
				t.Fatalf("no *ConfigError with a cure: %v", err)
			}
			return
		}
		for _, r := range rules { // each rule alone is itself
			again, err := parseEntry(r.text)
			if err != nil || len(again) != 1 || again[0].text != r.text {
				t.Fatalf("%q became %v, %v", r.text, again, err)
			}
		}
		if len(source) > MaxSource || checkCharacters("", source) != nil {
			return // never reaches the rules
		}
		owner, text, err := applyRules(rules, source, nil)
		var fault *nameFault
		switch {
		case err != nil && !errors.As(err, &fault):
			t.Fatalf("not a *nameFault: %v", err)
		case err == nil && !utf8.ValidString(owner):
			t.Fatalf("%q made %q of %q", text, owner, source)
		case err == nil && text == "DEFAULT" && owner != source:
			t.Fatalf("DEFAULT made %q of %q", owner, source)
		}
	})
}
