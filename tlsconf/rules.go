package tlsconf

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// Bounds of identity.rules.
const (
	maxRules   = 1000
	maxPattern = 4096 // bytes of a rule
	// maxMatches bounds how often a rule's pattern is looked for in one name, and
	// with it the work that a long name can cause: a rule that is meant matches
	// once.
	maxMatches = 100
)

// rule is one mapping rule. DEFAULT has no pattern.
type rule struct {
	text        string // as configured
	pattern     *pattern
	replacement []part
	fold        caseFlag
}

// parseRules reads identity.rules. Each entry is what Kafka takes as
// ssl.principal.mapping.rules: one rule or several with commas between. No entry
// at all means DEFAULT, as in Kafka. Every problem is in the error, each a
// *ConfigError.
func parseRules(entries []string) ([]rule, error) {
	if len(entries) == 0 {
		entries = []string{"DEFAULT"}
	}
	var rules []rule
	var problems []error
	for i, entry := range entries {
		found, err := parseEntry(entry)
		var bad *ruleFault
		switch {
		case errors.As(err, &bad):
			problems = append(problems, &ConfigError{Key: fmt.Sprintf("identity.rules[%d]", i), Problem: bad.problem, Cure: bad.cure})
		case len(found) == 0:
			problems = append(problems, &ConfigError{Key: fmt.Sprintf("identity.rules[%d]", i), Problem: "is empty", Cure: "take it out, or write DEFAULT"})
		}
		rules = append(rules, found...)
	}
	if len(rules) > maxRules {
		problems = append(problems, &ConfigError{Key: "identity.rules", Problem: fmt.Sprintf("has %d rules, %d are the most", len(rules), maxRules), Cure: "leave fewer"})
	}
	return rules, errors.Join(problems...)
}

// ruleFault is why a rule cannot be taken.
type ruleFault struct{ problem, cure string }

func (f *ruleFault) Error() string { return f.problem }

// javaSpace is what \s means in Java, where Kafka splits and trims rules.
const javaSpace = " \t\n\v\f\r"

// parseEntry splits an entry as Kafka's SslPrincipalMapper does: rules separated
// by commas, blanks around them, empty ones ignored. A comma inside a rule's
// pattern or replacement separates nothing, since these end at their slashes.
func parseEntry(entry string) ([]rule, error) {
	if len(entry) > maxPattern {
		return nil, &ruleFault{fmt.Sprintf("has %d bytes, %d are the most", len(entry), maxPattern), "write shorter rules"}
	}
	if !utf8.ValidString(entry) {
		return nil, &ruleFault{"is not valid UTF-8", "save the configuration as UTF-8"}
	}
	var rules []rule
	for rest := strings.Trim(entry, javaSpace); rest != ""; {
		text, after, err := cutRule(rest)
		if err != nil {
			return nil, err
		}
		rest = after
		if text == "" {
			continue
		}
		r, err := parseRule(text)
		if err != nil {
			return nil, err
		}
		rules = append(rules, r)
	}
	return rules, nil
}

// cutRule takes the first rule off s, and the comma behind it.
func cutRule(s string) (text, rest string, err error) {
	s = strings.TrimLeft(s, javaSpace)
	end := 0
	if strings.HasPrefix(s, "RULE:") {
		_, _, end = splitRule(s)
		if end < 0 {
			return "", "", malformed(s)
		}
	}
	tail, rest, _ := strings.Cut(s[end:], ",")
	return s[:end] + strings.TrimRight(tail, javaSpace), strings.TrimLeft(rest, javaSpace), nil
}

func malformed(s string) error {
	return &ruleFault{
		fmt.Sprintf("%s is not of the form RULE:pattern/replacement/, RULE:pattern/replacement/L, RULE:pattern/replacement/U or DEFAULT", clip(s)),
		`write it so; a slash within pattern or replacement is written \/, a backslash \\`,
	}
}

// splitRule finds pattern and replacement of a rule. end is the index behind the
// second slash, -1 if there is none.
func splitRule(s string) (pattern, replacement string, end int) {
	start := len("RULE:")
	first := unescapedSlash(s, start)
	if first < 0 {
		return "", "", -1
	}
	second := unescapedSlash(s, first+1)
	if second < 0 {
		return "", "", -1
	}
	return s[start:first], s[first+1 : second], second + 1
}

func unescapedSlash(s string, from int) int {
	for i := from; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '/':
			return i
		}
	}
	return -1
}

func parseRule(text string) (rule, error) {
	if text == "DEFAULT" {
		return rule{text: text}, nil
	}
	if !strings.HasPrefix(text, "RULE:") {
		return rule{}, malformed(text)
	}
	source, replacement, end := splitRule(text)
	if end < 0 {
		return rule{}, malformed(text)
	}
	r := rule{text: text}
	switch text[end:] {
	case "":
	case "L":
		r.fold = lower
	case "U":
		r.fold = upper
	default:
		return rule{}, malformed(text)
	}
	var err error
	if r.pattern, err = compilePattern(source); err != nil {
		return rule{}, err
	}
	if r.replacement, err = parseReplacement(replacement, r.pattern); err != nil {
		return rule{}, err
	}
	return r, nil
}

// applyRules returns what the first rule that matches the whole of source makes
// of it, and that rule's text. tried is as in Snapshot.identify.
func applyRules(rules []rule, source string, tried func(r rule, owner string, matched bool)) (owner, text string, err error) {
	for _, r := range rules {
		owner, matched, err := r.apply(source)
		if tried != nil {
			tried(r, owner, matched)
		}
		if err != nil {
			return "", "", err
		}
		if matched {
			return owner, r.text, nil
		}
	}
	return "", "", &nameFault{NoRule, "no rule of identity.rules matches " + clip(source)}
}

// apply does what Kafka does: the pattern has to match the whole of source, and
// then every match in source is replaced. The two need not be the same: of "ab"
// the pattern a|ab matches the whole, but what is replaced is the "a"; and .*
// matches "ab" twice, the second time its empty end.
func (r rule) apply(source string) (owner string, matched bool, err error) {
	if r.pattern == nil {
		return source, true, nil
	}
	if !r.pattern.whole.MatchString(source) {
		return "", false, nil
	}
	owner, err = r.replaceAll(source)
	if err != nil {
		return "", true, err
	}
	owner, err = r.fold.apply(owner)
	return owner, true, err
}

// replaceAll is String.replaceAll of Java. regexp's own differs: it passes over an
// empty match directly behind another match.
func (r rule) replaceAll(source string) (string, error) {
	var out strings.Builder
	copied, matches := 0, 0
	for at := 0; at <= len(source); {
		m := r.pattern.find(source, at)
		if m == nil {
			break
		}
		if matches++; matches > maxMatches {
			return "", ambiguous("the rule %s matches more than %d times within the name", clip(r.text), maxMatches)
		}
		out.WriteString(source[copied:m[0]])
		expand(&out, r.replacement, source, m)
		copied = m[1]
		at = m[1]
		if m[0] == m[1] {
			_, width := utf8.DecodeRuneInString(source[at:])
			if width == utf8.UTFMax {
				// Java would look between the two halves of its UTF-16 form.
				return "", ambiguous("the rule %s matches nothing in front of the character %s", clip(r.text), clip(source[at:at+width]))
			}
			at += max(width, 1)
		}
		if out.Len() > MaxSource {
			return "", &nameFault{TooLong, fmt.Sprintf("the rule %s makes more than %d bytes of it", clip(r.text), MaxSource)}
		}
	}
	out.WriteString(source[copied:])
	return out.String(), nil
}

// find returns the leftmost match at or behind at, as regexp's
// FindStringSubmatchIndex. It relies on compilePattern: a pattern that looks at
// the text's beginning looks nowhere else first.
func (p *pattern) find(source string, at int) []int {
	if p.atStart && at > 0 {
		return nil
	}
	m := p.re.FindStringSubmatchIndex(source[at:])
	for i := range m {
		if m[i] >= 0 {
			m[i] += at
		}
	}
	return m
}

// pattern is a compiled pattern of a rule.
type pattern struct {
	re       *regexp.Regexp
	whole    *regexp.Regexp // the same, for the whole text only
	atStart  bool           // every match begins where the text does
	groups   int            // capturing ones
	repeated []bool         // by group number: may match several times in one match
}
