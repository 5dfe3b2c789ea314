package tlsconf

import "regexp/syntax"

// beginsAtStart tells whether every match begins with ^.
func beginsAtStart(re *syntax.Regexp) bool {
	switch re.Op {
	case syntax.OpBeginText:
		return true
	case syntax.OpCapture, syntax.OpPlus:
		return beginsAtStart(re.Sub[0])
	case syntax.OpRepeat:
		return re.Min > 0 && beginsAtStart(re.Sub[0])
	case syntax.OpConcat:
		return beginsAtStart(re.Sub[0])
	case syntax.OpAlternate:
		for _, sub := range re.Sub {
			if !beginsAtStart(sub) {
				return false
			}
		}
		return true
	}
	return false
}

func mentionsStart(re *syntax.Regexp) bool {
	found := re.Op == syntax.OpBeginText
	for _, sub := range re.Sub {
		found = found || mentionsStart(sub)
	}
	return found
}

// loopsOverNothing tells whether something repeats that may match nothing: what
// its groups hold afterwards is where engines differ.
func loopsOverNothing(re *syntax.Regexp) bool {
	switch re.Op {
	case syntax.OpStar, syntax.OpPlus:
		if mayBeEmpty(re.Sub[0]) {
			return true
		}
	case syntax.OpRepeat:
		if (re.Max < 0 || re.Max > 1) && mayBeEmpty(re.Sub[0]) {
			return true
		}
	}
	for _, sub := range re.Sub {
		if loopsOverNothing(sub) {
			return true
		}
	}
	return false
}

func mayBeEmpty(re *syntax.Regexp) bool {
	switch re.Op {
	case syntax.OpEmptyMatch, syntax.OpBeginText, syntax.OpEndText, syntax.OpStar, syntax.OpQuest:
		return true
	case syntax.OpCapture, syntax.OpPlus:
		return mayBeEmpty(re.Sub[0])
	case syntax.OpRepeat:
		return re.Min == 0 || mayBeEmpty(re.Sub[0])
	case syntax.OpConcat:
		for _, sub := range re.Sub {
			if !mayBeEmpty(sub) {
				return false
			}
		}
		return true
	case syntax.OpAlternate:
		for _, sub := range re.Sub {
			if mayBeEmpty(sub) {
				return true
			}
		}
	}
	return false
}
