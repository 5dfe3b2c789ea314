package tlsconf

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// part is a piece of a replacement: literal text, or a group's match.
type part struct {
	text  string
	group int // -1: text
}

// parseReplacement reads a replacement of Java's: $n is a group, a backslash
// takes the next character literally. Kafka puts a step in front that makes $n
// literal where there is no group n; whoever writes that has miscounted, and
// would give one name to many clients, so it is refused here.
func parseReplacement(source string, p *pattern) ([]part, error) {
	fault := func(problem, cure string) error {
		return &ruleFault{"has a replacement that " + problem, cure}
	}
	var parts []part
	var text strings.Builder
	flush := func() {
		if text.Len() > 0 {
			parts = append(parts, part{text.String(), -1})
			text.Reset()
		}
	}
	for rest := source; rest != ""; {
		r, width := utf8.DecodeRuneInString(rest)
		rest = rest[width:]
		switch {
		case r == '\\':
			lit, width := utf8.DecodeRuneInString(rest)
			if width == 0 {
				return nil, fault("ends with a single backslash", `a literal backslash is written \\`)
			}
			// Kafka's step does not see the backslash: it would put another one
			// in front, and the broker would fail at each connection.
			if n := number(rest[width:]); lit == '$' && p.groups > 0 && (tooLarge(n, p.groups) || len(n) > maxDigits) {
				return nil, fault(fmt.Sprintf(`has \$%s, which breaks a broker with the same rule`, n), "do without that text")
			}
			rest = rest[width:]
			text.WriteRune(lit)
		case r != '$':
			text.WriteRune(r)
		default:
			n := number(rest)
			switch {
			case n == "":
				return nil, fault("has a $ that no group's number follows", `a literal $ is written \$`)
			case len(n) > maxDigits:
				return nil, fault("has a group's number of too many digits", `a literal $ is written \$`)
			case p.groups == 0 && n[0] != '0', tooLarge(n, p.groups):
				return nil, fault(fmt.Sprintf("refers to group %s, but its pattern has %d", n, p.groups), "count the opening parentheses of the pattern that do not begin with (?:")
			}
			group, digits := javaGroup(n, p.groups)
			if p.repeated[group] {
				return nil, fault(fmt.Sprintf("refers to group %d, which may match several parts of a name", group), "put the parentheses around the part that is meant, without a repetition around or behind them")
			}
			flush()
			parts = append(parts, part{"", group})
			rest = rest[digits:]
		}
	}
	flush()
	for _, part := range parts {
		if checkCharacters("", part.text) != nil {
			return nil, fault("holds a character that no accepted name has", "take it out")
		}
	}
	return parts, nil
}

// maxDigits keeps numbers within what Kafka parses as an int.
const maxDigits = 9

func number(s string) string {
	end := strings.IndexFunc(s, func(r rune) bool { return r < '0' || r > '9' })
	if end < 0 {
		return s
	}
	return s[:end]
}

// tooLarge is Kafka's step: digits are dropped from the end while the number is
// larger than that of the groups and has more than one; numbers that begin with 0
// are left alone.
func tooLarge(n string, groups int) bool {
	if n == "" || n[0] == '0' || len(n) > maxDigits {
		return false
	}
	value := 0
	for _, c := range []byte(n) {
		value = value*10 + int(c-'0')
	}
	for value > groups && value >= 10 {
		value /= 10
	}
	return value > groups
}

// javaGroup is Java's own reading: as many digits as still name a group.
func javaGroup(n string, groups int) (group, digits int) {
	group, digits = int(n[0]-'0'), 1
	for digits < len(n) {
		longer := group*10 + int(n[digits]-'0')
		if longer > groups {
			break
		}
		group = longer
		digits++
	}
	return group, digits
}

// expand writes the replacement for the match m of source. A group that took no
// part in the match is written as nothing.
func expand(out *strings.Builder, parts []part, source string, m []int) {
	for _, p := range parts {
		if p.group < 0 {
			out.WriteString(p.text)
		} else if start, end := m[2*p.group], m[2*p.group+1]; start >= 0 {
			out.WriteString(source[start:end])
		}
	}
}

// caseFlag is what stands behind a rule's last slash.
type caseFlag int

const (
	asIs caseFlag = iota
	lower
	upper
)

// apply changes the case as String.toLowerCase and toUpperCase do for English.
// Java maps some characters to several or by their neighbours, and knows more
// pairs with each version: where that may matter, the name is refused.
func (f caseFlag) apply(s string) (string, error) {
	var change func(rune) rune
	switch f {
	case lower:
		change = unicode.ToLower
	case upper:
		change = unicode.ToUpper
	default:
		return s, nil
	}
	for _, r := range s {
		if !simpleCase(r) {
			return "", ambiguous("the case of %s (%U) in %s changes differently from program to program", clip(string(r)), r, clip(s))
		}
	}
	return strings.Map(change, s), nil
}

// simpleCase tells whether r has one counterpart of the other case, the same in
// every version, or none at all.
func simpleCase(r rune) bool {
	switch {
	case r < utf8.RuneSelf:
		return true
	case r <= 0x17f: // Latin-1 and Extended-A
		// ß, İ, ŉ
		return r != 0xdf && r != 0x130 && r != 0x149
	case r >= 0x386 && r <= 0x3ce: // Greek
		// ΐ, Σ (final or not), ΰ
		return r != 0x390 && r != 0x3a3 && r != 0x3b0
	case r >= 0x400 && r <= 0x481, r >= 0x48a && r <= 0x4ff: // Cyrillic
		return true
	}
	return unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Hebrew, unicode.Arabic, unicode.Thai) &&
		unicode.IsLetter(r)
}
