package tlsconf

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode/utf8"
)

// maxDepth bounds how deep groups may be nested.
const maxDepth = 50

// compilePattern takes a pattern of Java's regular expressions and returns one
// that does the same. It knows the part of the language whose meaning is the same
// in Java and RE2, for texts that passed checkCharacters (so that ends of lines
// play no part); everything else is refused, with what to write instead.
//
// The translation spells everything out, so that nothing hangs on a default of
// either engine.
func compilePattern(source string) (*pattern, error) {
	t := &translator{rest: source, repeated: []bool{false}}
	if err := t.alternatives(0); err != nil {
		return nil, err
	}
	if t.rest != "" { // only a closing parenthesis ends alternatives early
		return nil, t.fault("has a ) too many", `a literal parenthesis is written \)`)
	}
	re2 := t.out.String()
	tree, err := syntax.Parse(re2, syntax.Perl)
	if err != nil {
		return nil, t.fault(fmt.Sprintf("cannot be compiled: %v", err), "simplify it")
	}
	p := &pattern{groups: len(t.repeated) - 1, repeated: t.repeated, atStart: beginsAtStart(tree)}
	if loopsOverNothing(tree) {
		return nil, t.fault("repeats something that may match nothing", "write the repetition once: (a*)* is (a*)")
	}
	if mentionsStart(tree) && !p.atStart {
		return nil, t.fault("has a ^ that is not at its beginning", "begin the pattern with ^, or leave it out")
	}
	if p.re, err = regexp.Compile(re2); err == nil {
		p.whole, err = regexp.Compile(`\A(?:` + re2 + `)\z`)
	}
	if err != nil {
		return nil, t.fault(fmt.Sprintf("cannot be compiled: %v", err), "simplify it")
	}
	return p, nil
}

// translator walks a pattern once, writing RE2 as it goes.
type translator struct {
	rest     string
	out      strings.Builder
	repeated []bool // by group; index 0 is the whole match
}

func (t *translator) fault(problem, cure string) error {
	return &ruleFault{"has a pattern that " + problem, cure}
}

// next takes the next character; 0 at the end, which is no character of a valid
// pattern.
func (t *translator) next() rune {
	r, width := utf8.DecodeRuneInString(t.rest)
	if width == 0 {
		return 0
	}
	t.rest = t.rest[width:]
	return r
}

func (t *translator) take(prefix string) bool {
	after, found := strings.CutPrefix(t.rest, prefix)
	if found {
		t.rest = after
	}
	return found
}

// alternatives reads up to the end or to the parenthesis that closes the group.
func (t *translator) alternatives(depth int) error {
	if depth > maxDepth {
		return t.fault(fmt.Sprintf("nests groups more than %d deep", maxDepth), "simplify it")
	}
	for {
		items := 0
		for t.rest != "" && t.rest[0] != '|' && t.rest[0] != ')' {
			if err := t.item(depth); err != nil {
				return err
			}
			items++
		}
		if items == 0 {
			return t.fault("is empty, or has an empty alternative", "write x? for x or nothing")
		}
		if !t.take("|") {
			return nil
		}
		t.out.WriteByte('|')
	}
}

// item reads one atom with its quantifier.
func (t *translator) item(depth int) error {
	groupsBefore := len(t.repeated)
	repeatable := true
	switch r := t.next(); r {
	case '^':
		t.out.WriteString(`\A`)
		repeatable = false
	case '$':
		t.out.WriteString(`\z`)
		repeatable = false
	case '.':
		t.out.WriteString(`(?s:.)`)
	case '[':
		if err := t.class(); err != nil {
			return err
		}
	case '(':
		if err := t.group(depth); err != nil {
			return err
		}
	case '\\':
		lit, class, err := t.escape()
		if err != nil {
			return err
		}
		if class != "" {
			t.out.WriteString(class)
		} else {
			t.out.WriteString(regexp.QuoteMeta(string(lit)))
		}
	case '*', '+', '?', '{':
		return t.fault(fmt.Sprintf("has a %c with nothing in front to repeat", r), fmt.Sprintf(`a literal %c is written \%c`, r, r))
	default:
		if err := t.literal(r); err != nil {
			return err
		}
		t.out.WriteString(regexp.QuoteMeta(string(r)))
	}
	return t.quantifier(repeatable, groupsBefore)
}

func (t *translator) literal(r rune) error {
	if checkCharacters("", string(r)) != nil {
		return t.fault(fmt.Sprintf("holds the character %U, which no accepted name has", r), "take it out")
	}
	return nil
}

// quantifier reads ?, *, + or {n,m} with a ? for reluctance, if there is one.
func (t *translator) quantifier(repeatable bool, groupsBefore int) error {
	many := false
	switch {
	case t.take("?"):
		t.out.WriteByte('?')
	case t.take("*"):
		t.out.WriteByte('*')
		many = true
	case t.take("+"):
		t.out.WriteByte('+')
		many = true
	case t.take("{"):
		body, rest, found := strings.Cut(t.rest, "}")
		low, high, ok := parseCount(body)
		if !found || !ok {
			return t.fault("has a { that begins no {n}, {n,} or {n,m} with n and m up to 1000", `a literal { is written \{`)
		}
		t.rest = rest
		t.out.WriteString("{" + body + "}")
		many = high < 0 || high > 1
		if high >= 0 && low > high {
			return t.fault("has a repetition {"+body+"} whose bounds are the wrong way round", "swap them")
		}
	default:
		return nil
	}
	if !repeatable {
		return t.fault("repeats ^ or $", `a literal one is written \^ or \$`)
	}
	if t.take("?") {
		t.out.WriteByte('?')
	}
	if t.rest != "" && strings.IndexByte("?*+{", t.rest[0]) >= 0 {
		return t.fault("has two repetitions in a row, which Java reads as possessive or not at all", "leave one, or put a group around the first")
	}
	if many {
		for i := groupsBefore; i < len(t.repeated); i++ {
			t.repeated[i] = true
		}
	}
	return nil
}

// parseCount reads n, "n," (high is -1) or "n,m".
func parseCount(s string) (low, high int, ok bool) {
	first, second, ranged := strings.Cut(s, ",")
	low, ok = parseNumber(first)
	switch {
	case !ok:
		return 0, 0, false
	case !ranged:
		return low, low, true
	case second == "":
		return low, -1, true
	}
	high, ok = parseNumber(second)
	return low, high, ok
}

func parseNumber(s string) (int, bool) {
	n := 0
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return 0, false
		}
		if n = n*10 + int(c-'0'); n > 1000 {
			return 0, false
		}
	}
	return n, s != ""
}

// group reads behind an opening parenthesis.
func (t *translator) group(depth int) error {
	switch {
	case t.take("?:"):
		t.out.WriteString("(?:")
	case strings.HasPrefix(t.rest, "?=") || strings.HasPrefix(t.rest, "?!") || strings.HasPrefix(t.rest, "?<=") || strings.HasPrefix(t.rest, "?<!"):
		return t.fault("looks ahead or behind, which this gateway does not do", "match the whole name and take the part that is meant into a group")
	case strings.HasPrefix(t.rest, "?>"):
		return t.fault("has an atomic group, which this gateway does not have", "write (?:...)")
	case strings.HasPrefix(t.rest, "?<"):
		return t.fault("has a group with a name", "leave the name out and refer to the group by its number")
	case strings.HasPrefix(t.rest, "?"):
		return t.fault("sets flags, which mean different things to different engines", "for one word in either case write [Cc][Nn]; for the result use the flags L and U")
	default:
		t.out.WriteByte('(')
		t.repeated = append(t.repeated, false)
	}
	if err := t.alternatives(depth + 1); err != nil {
		return err
	}
	if !t.take(")") {
		return t.fault("has a ( that is not closed", `a literal parenthesis is written \(`)
	}
	t.out.WriteByte(')')
	return nil
}

// escape reads behind a backslash: a literal character or a class such as \d.
func (t *translator) escape() (lit rune, class string, err error) {
	r := t.next()
	switch r {
	case 0:
		return 0, "", t.fault(`ends with a single backslash`, `a literal backslash is written \\`)
	case 'd', 'D', 'w', 'W', 's', 'S': // ASCII only in both
		return 0, `\` + string(r), nil
	case 'Q', 'E':
		return 0, "", t.fault(`quotes with \Q and \E`, "write a backslash before each character that is special")
	case 'p', 'P':
		return 0, "", t.fault(`uses a property (\`+string(r)+`), which depends on the version of Unicode`, "list the characters: [A-Za-z]")
	case 'b', 'B', 'A', 'G', 'Z', 'z':
		return 0, "", t.fault(`uses \`+string(r), "use ^ and $ for the ends of the name, and match what stands in between")
	}
	if r >= '0' && r <= '9' {
		return 0, "", t.fault("refers back to a group within the pattern", "match without it, or write one rule for each case")
	}
	if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
		return 0, "", t.fault(`uses \`+string(r), "write the character itself")
	}
	return r, "", t.literal(r)
}
