package tlsconf

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// class reads behind an opening bracket. Java's brackets nest and intersect,
// RE2's do not: what looks like it is refused.
func (t *translator) class() error {
	t.out.WriteByte('[')
	if t.take("^") {
		t.out.WriteByte('^')
	}
	for first := true; ; first = false {
		if t.rest == "" {
			return t.fault("has a [ that is not closed", `a literal bracket is written \[`)
		}
		if t.take("]") {
			if first {
				return t.fault("has a ] directly behind a [", `a literal bracket is written \]`)
			}
			t.out.WriteByte(']')
			return nil
		}
		if err := t.member(first); err != nil {
			return err
		}
	}
}

// member reads one character, class or range between brackets.
func (t *translator) member(first bool) error {
	dash := strings.HasPrefix(t.rest, "-")
	low, class, err := t.single()
	if err != nil {
		return err
	}
	if class != "" {
		t.out.WriteString(class)
		if strings.HasPrefix(t.rest, "-") && !strings.HasPrefix(t.rest, "-]") {
			return t.fault("has a range in brackets that begins with a class", `a literal - is written \-`)
		}
		return nil
	}
	if dash && !first && !strings.HasPrefix(t.rest, "]") {
		return t.fault("has a - in brackets that is neither first nor last nor in a range", `a literal - is written \-`)
	}
	t.classRune(low)
	if dash || !strings.HasPrefix(t.rest, "-") || strings.HasPrefix(t.rest, "-]") {
		if dash && strings.HasPrefix(t.rest, "-") && !strings.HasPrefix(t.rest, "-]") {
			return t.fault("has a range in brackets that begins with -", `a literal - is written \-`)
		}
		return nil
	}
	t.take("-")
	high, class, err := t.single()
	if err != nil {
		return err
	}
	if class != "" {
		return t.fault("has a range in brackets that ends with a class", `a literal - is written \-`)
	}
	if high < low {
		return t.fault(fmt.Sprintf("has the range %c-%c in brackets, which is the wrong way round", low, high), `a literal - is written \-`)
	}
	t.out.WriteByte('-')
	t.classRune(high)
	return nil
}

// single reads one character between brackets, or a class such as \d.
func (t *translator) single() (rune, string, error) {
	if t.rest == "" {
		return 0, "", t.fault("has a [ that is not closed", `a literal bracket is written \[`)
	}
	switch {
	case strings.HasPrefix(t.rest, "["):
		return 0, "", t.fault("has a [ in brackets, which Java takes for a class of its own", `a literal bracket is written \[`)
	case strings.HasPrefix(t.rest, "&&"):
		return 0, "", t.fault("has && in brackets, which Java takes for an intersection", `a literal & is written \&`)
	}
	r := t.next()
	if r == '\\' {
		return t.escape()
	}
	return r, "", t.literal(r)
}

func (t *translator) classRune(r rune) {
	if r < utf8.RuneSelf && !unicode.IsLetter(r) && !unicode.IsDigit(r) {
		t.out.WriteByte('\\')
	}
	t.out.WriteRune(r)
}
