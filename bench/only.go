package bench

import (
	"fmt"
	"regexp"
	"strings"
)

// chosen are those of all whose name the expression only matches. One that matches none
// is an error with the names that there are; what says what they are names of.
func chosen[T any](only, what string, all []T, name func(T) string) ([]T, error) {
	re, err := regexp.Compile(only)
	if err != nil {
		return nil, fmt.Errorf("--only: %w", err)
	}
	var out []T
	var names []string
	for _, x := range all {
		n := name(x)
		if re.MatchString(n) {
			out = append(out, x)
		}
		if len(names) == 0 || names[len(names)-1] != n {
			names = append(names, n)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("--only=%s matches no %s, there are %s", only, what, strings.Join(names, ", "))
	}
	return out, nil
}
