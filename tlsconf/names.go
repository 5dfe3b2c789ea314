package tlsconf

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Bounds of names, in bytes.
const (
	MaxSource = 4096 // the string that the rules are applied to
	MaxOwner  = 1024 // what comes out
)

const (
	typePrefix   = "User:"       // how Kafka writes the type of a principal
	markerPrefix = "doorkeeper-" // renewers that mark the tokens of an instance
)

// names are the two lists of the configuration.
type names struct {
	protected []string
	allow     []string
}

func newNames(protected, allow []string) (names, error) {
	var problems []error
	check := func(key string, list []string) {
		for i, name := range list {
			at := fmt.Sprintf("%s[%d]", key, i)
			switch {
			case strings.HasPrefix(name, typePrefix):
				problems = append(problems, &ConfigError{Key: at, Problem: "begins with " + typePrefix, Cure: "give the bare name: " + strings.TrimPrefix(name, typePrefix)})
			case checkCharacters("it", name) != nil:
				problems = append(problems, &ConfigError{Key: at, Problem: "is " + clip(name) + ", which no client can have", Err: checkCharacters("it", name), Cure: "take it out"})
			case slices.Index(list, name) < i:
				problems = append(problems, &ConfigError{Key: at, Problem: "repeats " + clip(name), Cure: "take one out"})
			}
		}
	}
	check("identity.protected", protected)
	check("identity.allow", allow)
	for i, name := range allow {
		at := fmt.Sprintf("identity.allow[%d]", i)
		if slices.Contains(protected, name) {
			problems = append(problems, &ConfigError{Key: at, Problem: "is " + clip(name) + ", which identity.protected holds too", Cure: "decide for one of them"})
		}
		if why := reserved(name); why != "" && !strings.HasPrefix(name, typePrefix) {
			problems = append(problems, &ConfigError{Key: at, Problem: "is " + clip(name) + ": " + why, Cure: "take it out"})
		}
	}
	return names{protected: slices.Clone(protected), allow: slices.Clone(allow)}, errors.Join(problems...)
}

// CheckOwner tells whether a client may have the name owner, whatever certificate it
// comes with: characters, protected and allowed names of cfg, which needs no files for
// it. gateway is the gateway's own name, "" while that is not known. The error is a
// *Refusal, or says what is wrong with cfg, each a *ConfigError.
func CheckOwner(cfg Config, gateway, owner string) error {
	s, err := newPolicy(cfg)
	if err != nil {
		return err
	}
	if err := s.names.checkOwner(owner, strings.TrimPrefix(gateway, typePrefix)); err != nil {
		return s.refuse(Identity{Owner: owner}, err)
	}
	return nil
}

// checkOwner is the last part of the policy: whether a client may have the name
// that the rules gave it. own is the gateway's, "" if unknown.
func (n names) checkOwner(owner, own string) error {
	if owner == "" {
		return &nameFault{Empty, "its name is empty"}
	}
	if len(owner) > MaxOwner {
		return &nameFault{TooLong, fmt.Sprintf("its name has %d bytes, %d are the most", len(owner), MaxOwner)}
	}
	if err := checkCharacters("its name", owner); err != nil {
		return err
	}
	if strings.HasPrefix(owner, " ") || strings.HasSuffix(owner, " ") {
		return &nameFault{BadCharacters, "its name " + clip(owner) + " begins or ends with a blank, so that it looks like another"}
	}
	if why := reserved(owner); why != "" {
		return &nameFault{Protected, "its name " + clip(owner) + " is " + why}
	}
	if own != "" && owner == own {
		return &nameFault{Protected, "its name " + clip(owner) + " is the gateway's own"}
	}
	if slices.Contains(n.protected, owner) {
		return &nameFault{Protected, "its name " + clip(owner) + " is in identity.protected"}
	}
	if len(n.allow) > 0 && !slices.Contains(n.allow, owner) {
		return &nameFault{NotAllowed, "its name " + clip(owner) + " is not in identity.allow"}
	}
	return nil
}

// reserved says why a name is protected whatever the configuration; "" if it is
// not. These names are compared without regard to case: nobody has a reason to be
// called almost like them.
func reserved(name string) string {
	foldedPrefix := func(prefix string) bool {
		return len(name) >= len(prefix) && strings.EqualFold(name[:len(prefix)], prefix)
	}
	switch {
	case name == "":
		return "empty"
	case strings.EqualFold(name, "ANONYMOUS"):
		return "what Kafka calls a client without a name"
	case name == "*":
		return "what Kafka's ACLs call everybody"
	case strings.EqualFold(name, "<default>"):
		return "what Kafka's quotas call everybody else"
	case foldedPrefix(typePrefix):
		return "written with a principal type in front"
	case foldedPrefix(markerPrefix):
		return "reserved for the gateway's marks on tokens"
	}
	return ""
}

// checkCharacters refuses whatever an operator would not see in a log line or an
// ACL listing: control and format characters (NUL, line ends, everything that
// turns the direction of text), blanks other than U+0020, code points without a
// meaning, and those that are drawn as nothing.
func checkCharacters(what, s string) error {
	if !utf8.ValidString(s) {
		return &nameFault{BadCharacters, what + " is not valid UTF-8"}
	}
	for _, r := range s {
		if r == utf8.RuneError || !unicode.IsPrint(r) || unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) {
			return &nameFault{BadCharacters, fmt.Sprintf("%s holds the character %U, which cannot be seen or misleads", what, r)}
		}
	}
	return nil
}
