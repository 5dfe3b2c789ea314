package tlsconf

import (
	"bufio"
	"bytes"
	"context"
	"encoding/asn1"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"strings"
	"testing"
	"time"

	"doorkeeper/internal/certtest"
)

// askJava runs testdata/Oracle.java over the questions, one line each. It needs
// javac and java in PATH, which the project's tests require anyway. The bound is
// for a Java that backtracks for ever.
func askJava(t *testing.T, questions []string) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	dir := t.TempDir()
	if out, err := exec.CommandContext(ctx, "javac", "-d", dir, "testdata/Oracle.java").CombinedOutput(); err != nil {
		t.Fatalf("javac (a JDK of version 17 or later is required): %v\n%s", err, out)
	}
	java := exec.CommandContext(ctx, "java", "-Xshare:auto", "-XX:+UseSerialGC", "-cp", dir, "Oracle")
	var stderr bytes.Buffer
	java.Stdin, java.Stderr = strings.NewReader(strings.Join(questions, "\n")+"\n"), &stderr
	out, err := java.Output()
	if err != nil {
		t.Fatalf("java: %v\n%s", err, stderr.String())
	}
	var answers []string
	lines := bufio.NewScanner(bytes.NewReader(out))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		answers = append(answers, lines.Text())
	}
	if len(answers) != len(questions) {
		t.Fatalf("%d answers to %d questions; %s", len(answers), len(questions), stderr.String())
	}
	return answers
}

// decodeAnswer returns Java's string; ok is false where there was none.
func decodeAnswer(t *testing.T, answer string) (s string, ok bool) {
	t.Helper()
	word, found := strings.CutPrefix(answer, "ok ")
	if answer == "ok " || !found {
		return "", found
	}
	b, err := base64.StdEncoding.DecodeString(word)
	if err != nil {
		t.Fatal(err)
	}
	return string(b), true
}

// S8: of 10,000 generated names each comes out exactly as Java prints it, or is
// refused; and those that a sane authority issues are not refused.
func TestNamesAgreeWithJava(t *testing.T) {
	rnd := rand.New(rand.NewPCG(17, 2253))
	var names [][]byte
	for range 10_000 {
		names = append(names, randomName(rnd))
	}
	for _, g := range goldenNames() {
		names = append(names, g.der)
	}
	for r := rune(0); r < 0x3000; r++ {
		names = append(names, certtest.Name(certtest.RDN{certtest.CN("a" + string(r) + "b")}))
	}
	questions := make([]string, len(names))
	for i, n := range names {
		questions[i] = "name " + hex.EncodeToString(n)
	}
	equal, refused, plain := 0, 0, 0
	for i, answer := range askJava(t, questions) {
		got, err := renderDN(names[i])
		if err != nil {
			refused++
			continue
		}
		want, ok := decodeAnswer(t, answer)
		if !ok || got != want {
			t.Errorf("%x\n go   %q\n java %q (%s)", names[i], got, want, answer)
			continue
		}
		equal++
		if !strings.Contains(got, "=#") {
			plain++
		}
	}
	t.Logf("%d equal (%d of them without hexadecimal), %d refused", equal, plain, refused)
	if equal < 5000 || plain < 3000 {
		t.Errorf("only %d equal, %d plain: the test compares too little", equal, plain)
	}
}

func randomName(rnd *rand.Rand) []byte {
	oids := []asn1.ObjectIdentifier{
		{2, 5, 4, 3}, {2, 5, 4, 3}, {2, 5, 4, 10}, {2, 5, 4, 11}, {2, 5, 4, 6}, {2, 5, 4, 7}, {2, 5, 4, 8}, {2, 5, 4, 9},
		{0, 9, 2342, 19200300, 100, 1, 1}, {0, 9, 2342, 19200300, 100, 1, 25},
		{1, 2, 840, 113549, 1, 9, 1}, {2, 5, 4, 5}, {2, 5, 4, 4}, {2, 5, 4, 42}, {2, 5, 4, 12}, {2, 5, 4, 46}, {2, 5, 4, 17},
		{1, 3, 6, 1, 4, 1, 42, 2, 11, 2, 1}, {2, 999, 1}, {1, 2, 2147483647},
	}
	tags := []int{12, 12, 12, 12, 19, 19, 19, 22, 22, 20, 30, 28, 18, 27, 26, 4, 2, 1}
	var rdns []certtest.RDN
	for range rnd.IntN(6) {
		var rdn certtest.RDN
		for range 1 + rnd.IntN(8)/6 {
			tag := tags[rnd.IntN(len(tags))]
			value := []byte(randomText(rnd))
			if tag == 30 {
				value = certtest.BMP(nil, string(value)).Value
			}
			if rnd.IntN(40) == 0 {
				value = append(value, byte(rnd.IntN(256)))
			}
			rdn = append(rdn, certtest.Attribute{OID: oids[rnd.IntN(len(oids))], Tag: tag, Value: value})
		}
		rdns = append(rdns, rdn)
	}
	name := certtest.Name(rdns...)
	if rnd.IntN(50) == 0 && len(name) > 0 { // a bit of damage
		name[rnd.IntN(len(name))] ^= 1 << rnd.IntN(8)
	}
	return name
}

func randomText(rnd *rand.Rand) string {
	alphabets := []string{
		"abcXYZ019", "abc xyz", ` ,=+<>#;"\`, "a-b.c/d:e'f(g)?", "äöüßéЖдλ中文", "_@*!&%$|~^[]{}`", "\x00\r\n\t\x7f", "\u202e\u200b\ufeff", "😀𝒜",
	}
	var b strings.Builder
	for range rnd.IntN(12) {
		alphabet := []rune(alphabets[min(rnd.IntN(len(alphabets)), rnd.IntN(len(alphabets)))])
		b.WriteRune(alphabet[rnd.IntN(len(alphabet))])
	}
	return b.String()
}

// S8: rules: what a rule that is taken makes of a name is what Java makes of it.
// Patterns, replacements and names are generated from pieces that occur in rules,
// odd ones included.
func TestRulesAgreeWithJava(t *testing.T) {
	rnd := rand.New(rand.NewPCG(17, 2254))
	type trial struct {
		rule   rule
		source string
	}
	var trials []trial
	var questions []string
	word := func(s string) string {
		if s == "" {
			return "="
		}
		return base64.StdEncoding.EncodeToString([]byte(s))
	}
	add := func(pattern, replacement, flag, source string) {
		rules, err := parseEntry("RULE:" + pattern + "/" + replacement + "/" + flag)
		if err != nil || len(rules) != 1 {
			return
		}
		trials = append(trials, trial{rules[0], source})
		if flag == "" {
			flag = "-"
		}
		questions = append(questions, fmt.Sprintf("rule %s %s %s %s", word(pattern), word(replacement), flag, word(source)))
	}
	generated := 0
	for len(trials) < 30_000 {
		generated++
		pattern, sample := randomPattern(rnd, 0)
		if len(sample) > 20 { // Java takes exponential time over some patterns
			continue
		}
		replacement := ""
		for range 1 + rnd.IntN(3) {
			replacement += []string{"$1", "$1", "$2", "$0", "x", "@", `\$`, `\\`, "$12", "$01", "é", "A"}[rnd.IntN(12)]
		}
		for range 3 {
			add(pattern, replacement, []string{"", "", "L", "U"}[rnd.IntN(4)], vary(rnd, sample))
		}
	}
	for r := rune(0x80); r < 0x3000; r++ { // every letter's case, both ways
		if checkCharacters("", string(r)) == nil {
			add("^(.*)$", "$1", "L", "a"+string(r))
			add("^(.*)$", "$1", "U", string(r)+"a")
		}
	}
	matched, refused := 0, 0
	for i, answer := range askJava(t, questions) {
		got, hit, err := trials[i].rule.apply(trials[i].source)
		if err != nil {
			refused++
			continue
		}
		want, ok := decodeAnswer(t, answer)
		if ok != hit || got != want || strings.HasPrefix(answer, "error") {
			t.Errorf("%s on %q\n go   %q %v\n java %q %v (%s)", trials[i].rule.text, trials[i].source, got, hit, want, ok, answer)
		}
		if hit {
			matched++
		}
	}
	t.Logf("%d rules generated for %d trials: %d matched, %d refused", generated, len(trials), matched, refused)
	if matched < 10_000 {
		t.Errorf("only %d trials matched: the test compares too little", matched)
	}
}

// randomPattern returns a pattern and, most of the time, a text that it matches.
func randomPattern(rnd *rand.Rand, depth int) (pattern, sample string) {
	atoms := [][2]string{
		{"a", "a"}, {"b", "b"}, {"CN=", "CN="}, {",", ","}, {"OU=", "OU="}, {".", "x"}, {".*", "ab,c"}, {".*?", "ab"}, {".+", "c,"},
		{"[^,]+", "xa"}, {"[^,]*", ""}, {"[a-c]", "b"}, {"[a-z0-9.]*", "b1."}, {`\d`, "1"}, {`\w+`, "ab_1"}, {`\.`, "."}, {`\s`, " "},
		{`[\w-]`, "-"}, {"é", "é"}, {"[^ab]", "é"}, {`\\`, `\`}, {"=", "="}, {`[\]\-]`, "]"}, {"[,.]", "."}, {"x?", "x"}, {"😀", "😀"},
		{`\/`, "/"}, {"[-a]", "-"}, {"[a-]", "a"}, {"}", "}"}, {"]", "]"}, {`[+*?(]`, "("}, {"&", "&"}, {"[^^]", "$"}, {`\W`, ","}, {`[^\w]`, "é"},
	}
	quantifiers := []struct {
		text  string
		times int
	}{{"", 1}, {"", 1}, {"", 1}, {"?", 1}, {"?", 0}, {"*", 2}, {"*", 0}, {"+", 2}, {"{2}", 2}, {"{1,2}", 2}, {"{0,1}", 1}, {"??", 1}, {"*?", 1}, {"+?", 2}, {"{1,}", 3}}
	var p, s strings.Builder
	if depth == 0 && rnd.IntN(2) == 0 {
		p.WriteByte('^')
	}
	for range 1 + rnd.IntN(4) {
		q := quantifiers[0]
		switch n := rnd.IntN(12); {
		case n < 4 && depth < 3:
			inner, text := randomPattern(rnd, depth+1)
			q = quantifiers[rnd.IntN(len(quantifiers))]
			p.WriteString([]string{"(", "(", "(", "(?:"}[n] + inner + ")" + q.text)
			s.WriteString(strings.Repeat(text, q.times))
		case n == 4 && rnd.IntN(2) == 0:
			p.WriteString("|")
			if rnd.IntN(2) == 0 {
				s.Reset() // the sample goes on with the right side
			}
		default:
			atom := atoms[rnd.IntN(len(atoms))]
			if rnd.IntN(4) == 0 {
				q = quantifiers[rnd.IntN(len(quantifiers))]
			}
			p.WriteString(atom[0] + q.text)
			s.WriteString(strings.Repeat(atom[1], q.times))
		}
	}
	if depth == 0 && rnd.IntN(2) == 0 {
		p.WriteByte('$')
	}
	return p.String(), s.String()
}

// vary changes a sample a little, or not.
func vary(rnd *rand.Rand, sample string) string {
	runes := []rune(sample)
	for range rnd.IntN(3) {
		pieces := []rune("abx,.=é1😀-/")
		at := rnd.IntN(len(runes) + 1)
		runes = append(runes[:at:at], append([]rune{pieces[rnd.IntN(len(pieces))]}, runes[at:]...)...)
	}
	return string(runes)
}
