package query

import (
	"fmt"
	"regexp/syntax"

	"github.com/prometheus/prometheus/model/labels"
)

// regexBudget bounds what the regular expressions of one request may cost. A short
// text can compile to a huge program: a repetition multiplies what it repeats, a
// class such as \pL stands for a thousand ranges.
type regexBudget struct {
	bytes int // of text
	units int // of program, about a hundred bytes of memory each
}

const (
	maxRegexBytes = 512 << 10
	maxRegexUnits = 1 << 20
	// operatorUnits is what an operator costs beside its operands.
	operatorUnits = 16
)

// compile returns the matcher, its cost taken from the budget before anything is compiled.
func (b *regexBudget) compile(typ labels.MatchType, name, expr string) (*labels.Matcher, error) {
	if b.bytes -= len(expr); b.bytes < 0 {
		return nil, fmt.Errorf("regular expressions of more than %d bytes", maxRegexBytes)
	}
	tree, err := syntax.Parse(expr, syntax.Perl|syntax.DotNL)
	if err != nil {
		return nil, badRegex(name, expr, err.Error())
	}
	if b.units -= units(tree); b.units < 0 {
		return nil, badRegex(name, expr, "costs too much, with those before it")
	}
	m, err := labels.NewMatcher(typ, name, expr)
	if err != nil {
		return nil, badRegex(name, expr, err.Error())
	}
	return m, nil
}

func badRegex(name, expr, why string) error {
	return fmt.Errorf("bad regular expression %q for label %q: %s", clip(expr), clip(name), clip(why))
}

// units estimates the size of the program that re compiles to, up to a little
// more than maxRegexUnits. The parser bounds the depth of re.
func units(re *syntax.Regexp) int {
	n := operatorUnits
	switch re.Op {
	case syntax.OpLiteral, syntax.OpCharClass:
		return 1 + len(re.Rune)
	case syntax.OpConcat, syntax.OpAlternate:
		n = 1
	}
	for _, sub := range re.Sub {
		if n += units(sub); n > maxRegexUnits {
			return n
		}
	}
	if re.Op == syntax.OpRepeat {
		n *= max(re.Min, re.Max, 1)
	}
	return n
}
