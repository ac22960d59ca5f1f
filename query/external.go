package query

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/rwsink/rwsink/store"
)

// External are labels that every series carries unless it has a label of that
// name itself. The zero value adds nothing. Immutable.
//
//  1. Selector turns matchers on final labels into matchers on stored ones.
//  2. The store selects with those.
//  3. Apply gives each series its final labels, drops what step 1 could not
//     express, sorts by the final labels and joins the series that became equal.
type External struct{ labels labels.Labels }

// NewExternal returns the external labels ls; a label with an empty value is none.
func NewExternal(ls labels.Labels) External { return External{ls.WithoutEmpty()} }

// Labels returns them, sorted by name.
func (e External) Labels() labels.Labels { return e.labels }

// Series is one series of an answer.
type Series struct {
	Labels labels.Labels // final
	// Parts are what the store holds of it: one series, more where external
	// labels make several equal. At equal timestamps the earlier part wins.
	Parts []*store.Series
}

// Selector returns the matchers with which the store finds what ms match on final
// labels: exactly that, but for the matchers that it returns as rest, which
// must hold on the final labels too. No matchers stay none.
func (e External) Selector(ms []*labels.Matcher) (selector, rest []*labels.Matcher, err error) {
	if e.labels.IsEmpty() || len(ms) == 0 {
		return ms, nil, nil
	}
	for _, m := range ms {
		value := e.labels.Get(m.Name)
		stored, exact := []*labels.Matcher{m}, true
		if value != "" {
			if stored, exact, err = storedMatchers(m, value); err != nil {
				return nil, nil, err
			}
		}
		selector = append(selector, stored...)
		if !exact {
			rest = append(rest, m)
		}
	}
	return selector, rest, nil
}

// storedMatchers returns matchers that hold on a series as stored when m holds
// once a missing label m.Name is given value. They select too much if not exact.
func storedMatchers(m *labels.Matcher, value string) (stored []*labels.Matcher, exact bool, err error) {
	missing, virtual := m.Matches(""), m.Matches(value)
	if missing == virtual {
		return []*labels.Matcher{m}, true, nil
	}
	if missing { // a series without the label is out, whatever the matcher says of absence
		has, err := labels.NewMatcher(labels.MatchNotEqual, m.Name, "")
		return []*labels.Matcher{has, m}, true, err
	}
	// A series without the label is in, too.
	pattern := ".*"
	switch m.Type {
	case labels.MatchEqual:
		pattern, exact = "|"+regexp.QuoteMeta(m.Value), true
	case labels.MatchRegexp:
		pattern, exact = "|(?:"+m.Value+")", true
	case labels.MatchNotEqual: // of an empty value: holds for all
		exact = true
	}
	either, err := labels.NewMatcher(labels.MatchRegexp, m.Name, pattern)
	if err != nil {
		return nil, false, fmt.Errorf("matcher %s with its external label: %w", m, err)
	}
	return []*labels.Matcher{either}, exact, nil
}

// Apply returns the series of in with their final labels, those on which rest
// holds, sorted by labels.Compare, no label set twice. in is sorted, and the
// result refers to it.
func (e External) Apply(in []store.Series, rest []*labels.Matcher) []Series {
	refs := make([]*store.Series, len(in))
	out := make([]Series, 0, len(in))
	for i := range in {
		refs[i] = &in[i]
		s := Series{Labels: e.final(in[i].Labels), Parts: refs[i : i+1 : i+1]}
		if matchesAll(rest, s.Labels) {
			out = append(out, s)
		}
	}
	if e.labels.IsEmpty() {
		return out
	}
	slices.SortFunc(out, func(a, b Series) int {
		if c := labels.Compare(a.Labels, b.Labels); c != 0 {
			return c
		}
		x, y := a.Parts[0].Labels, b.Parts[0].Labels
		return cmp.Or(cmp.Compare(e.carried(y), e.carried(x)), labels.Compare(x, y))
	})
	return joinEqual(out)
}

// joinEqual joins neighbours with the same labels, in place.
func joinEqual(in []Series) []Series {
	out := in[:0]
	for _, s := range in {
		if n := len(out); n > 0 && labels.Equal(out[n-1].Labels, s.Labels) {
			out[n-1].Parts = append(out[n-1].Parts, s.Parts...)
			continue
		}
		out = append(out, s)
	}
	return out
}

// final returns ls with the external labels that it lacks.
func (e External) final(ls labels.Labels) labels.Labels {
	if e.carried(ls) == e.labels.Len() {
		return ls
	}
	b := labels.NewBuilder(ls)
	e.labels.Range(func(l labels.Label) {
		if !ls.Has(l.Name) {
			b.Set(l.Name, l.Value)
		}
	})
	return b.Labels()
}

// carried counts the external labels that ls has itself: where series become
// equal, the one that carries most wins.
func (e External) carried(ls labels.Labels) (n int) {
	e.labels.Range(func(l labels.Label) {
		if ls.Has(l.Name) {
			n++
		}
	})
	return n
}

func matchesAll(ms []*labels.Matcher, ls labels.Labels) bool {
	for _, m := range ms {
		if !m.Matches(ls.Get(m.Name)) {
			return false
		}
	}
	return true
}
