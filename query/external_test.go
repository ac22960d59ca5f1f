package query_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"pgregory.net/rapid"

	"github.com/rwsink/rwsink/query"
	"github.com/rwsink/rwsink/store"
)

// selectNaively is what a store does: a missing label is an empty one.
func selectNaively(stored []labels.Labels, ms []*labels.Matcher) (out []store.Series) {
	slices.SortFunc(stored, labels.Compare)
	for _, ls := range stored {
		if len(ms) > 0 && matches(ms, ls) {
			out = append(out, store.Series{Labels: ls})
		}
	}
	return out
}

func matches(ms []*labels.Matcher, ls labels.Labels) bool {
	for _, m := range ms {
		if !m.Matches(ls.Get(m.Name)) {
			return false
		}
	}
	return true
}

func ask(t rapid.TB, e query.External, stored []labels.Labels, ms []*labels.Matcher) []query.Series {
	t.Helper()
	selector, rest, err := e.Selector(ms)
	if err != nil {
		t.Fatalf("%v: %v", ms, err)
	}
	return e.Apply(selectNaively(stored, selector), rest)
}

func show(in []query.Series) (out []string) {
	for _, s := range in {
		line := s.Labels.String() + " <-"
		for _, p := range s.Parts {
			line += " " + p.Labels.String()
		}
		out = append(out, line)
	}
	return out
}

func TestExternalLabelsSortAndJoin(t *testing.T) {
	stored := []labels.Labels{
		labels.FromStrings("__name__", "m", "region", "bar", "z", "1"),
		labels.FromStrings("__name__", "m", "region", "foo", "z", "1"),
		labels.FromStrings("__name__", "m", "z", "1"),
		labels.FromStrings("__name__", "m", "a", "1"),
		labels.FromStrings("__name__", "m", "zz", "1"),
	}
	all := []*labels.Matcher{labels.MustNewMatcher(labels.MatchEqual, "__name__", "m")}
	for name, tc := range map[string]struct {
		external labels.Labels
		want     []string
	}{
		"none": {labels.EmptyLabels(), []string{
			`{__name__="m", a="1"} <- {__name__="m", a="1"}`,
			`{__name__="m", region="bar", z="1"} <- {__name__="m", region="bar", z="1"}`,
			`{__name__="m", region="foo", z="1"} <- {__name__="m", region="foo", z="1"}`,
			`{__name__="m", z="1"} <- {__name__="m", z="1"}`,
			`{__name__="m", zz="1"} <- {__name__="m", zz="1"}`,
		}},
		"empty value": {labels.FromStrings("region", ""), []string{
			`{__name__="m", a="1"} <- {__name__="m", a="1"}`,
			`{__name__="m", region="bar", z="1"} <- {__name__="m", region="bar", z="1"}`,
			`{__name__="m", region="foo", z="1"} <- {__name__="m", region="foo", z="1"}`,
			`{__name__="m", z="1"} <- {__name__="m", z="1"}`,
			`{__name__="m", zz="1"} <- {__name__="m", zz="1"}`,
		}},
		"in the middle": {labels.FromStrings("region", "foo"), []string{
			`{__name__="m", a="1", region="foo"} <- {__name__="m", a="1"}`,
			`{__name__="m", region="bar", z="1"} <- {__name__="m", region="bar", z="1"}`,
			`{__name__="m", region="foo", z="1"} <- {__name__="m", region="foo", z="1"} {__name__="m", z="1"}`,
			`{__name__="m", region="foo", zz="1"} <- {__name__="m", zz="1"}`,
		}},
		"first and last": {labels.FromStrings("A", "x", "zzz", "y"), []string{
			`{A="x", __name__="m", a="1", zzz="y"} <- {__name__="m", a="1"}`,
			`{A="x", __name__="m", region="bar", z="1", zzz="y"} <- {__name__="m", region="bar", z="1"}`,
			`{A="x", __name__="m", region="foo", z="1", zzz="y"} <- {__name__="m", region="foo", z="1"}`,
			`{A="x", __name__="m", z="1", zzz="y"} <- {__name__="m", z="1"}`,
			`{A="x", __name__="m", zz="1", zzz="y"} <- {__name__="m", zz="1"}`,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			got := show(ask(t, query.NewExternal(tc.external), stored, all))
			if !slices.Equal(got, tc.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tc.want, "\n"))
			}
		})
	}
}

func TestExternalLabelsInMatchers(t *testing.T) {
	stored := []labels.Labels{
		labels.FromStrings("__name__", "bare"),
		labels.FromStrings("__name__", "bar", "region", "bar"),
		labels.FromStrings("__name__", "foo", "region", "foo"),
	}
	e := query.NewExternal(labels.FromStrings("region", "foo"))
	for _, tc := range []struct {
		typ   labels.MatchType
		value string
		want  string // names of the series
	}{
		{labels.MatchEqual, "foo", "bare foo"},
		{labels.MatchEqual, "bar", "bar"},
		{labels.MatchEqual, "", ""},
		{labels.MatchEqual, "f.o", ""},
		{labels.MatchNotEqual, "foo", "bar"},
		{labels.MatchNotEqual, "bar", "bare foo"},
		{labels.MatchNotEqual, "", "bar bare foo"},
		{labels.MatchRegexp, "fo.|x", "bare foo"},
		{labels.MatchRegexp, "bar|", "bar"},
		{labels.MatchRegexp, "(?i)FOO", "bare foo"},
		{labels.MatchRegexp, "", ""},
		{labels.MatchRegexp, ".*", "bar bare foo"},
		{labels.MatchRegexp, ".+", "bar bare foo"},
		{labels.MatchNotRegexp, "fo.", "bar"},
		{labels.MatchNotRegexp, "fo.|", "bar"},
		{labels.MatchNotRegexp, "bar", "bare foo"},
		{labels.MatchNotRegexp, "bar|", "bare foo"},
		{labels.MatchNotRegexp, ".*", ""},
		{labels.MatchNotRegexp, "", "bar bare foo"},
	} {
		m := labels.MustNewMatcher(tc.typ, "region", tc.value)
		var got []string
		for _, s := range ask(t, e, stored, []*labels.Matcher{m}) {
			got = append(got, s.Labels.Get("__name__"))
		}
		if g := strings.Join(got, " "); g != tc.want {
			t.Errorf("%s: got %q, want %q", m, g, tc.want)
		}
	}
}

// TestExternalLabelsModel compares with a model that gives every series its final
// labels first and matches on those.
func TestExternalLabelsModel(t *testing.T) {
	names := []string{"a", "b", "c"}
	values := []string{"", "x", "y", "xy", "x.y", "\n"}
	patterns := []string{"", "x", "x.*", "x|y", "x|", ".*", ".+", "(?i)X", "[^x]", "x.y", "()|y", "(x|y)?"}
	rapid.Check(t, func(rt *rapid.T) {
		pick := func(from []string, what string) string { return rapid.SampledFrom(from).Draw(rt, what) }
		set := func(what string) labels.Labels {
			b := labels.NewBuilder(labels.EmptyLabels())
			for _, n := range names {
				b.Set(n, pick(values, what+" "+n))
			}
			return b.Labels()
		}
		external := set("external")
		seen := map[string]bool{}
		var stored []labels.Labels
		for range rapid.IntRange(0, 8).Draw(rt, "series") {
			if ls := set("stored"); !seen[ls.String()] {
				seen[ls.String()] = true
				stored = append(stored, ls)
			}
		}
		var ms []*labels.Matcher
		for range rapid.IntRange(1, 3).Draw(rt, "matchers") {
			typ := labels.MatchType(rapid.IntRange(0, 3).Draw(rt, "type"))
			value := pick(values, "value")
			if typ == labels.MatchRegexp || typ == labels.MatchNotRegexp {
				value = pick(patterns, "pattern")
			}
			ms = append(ms, labels.MustNewMatcher(typ, pick(names, "name"), value))
		}

		parts := map[string]map[string]bool{} // final labels -> stored labels
		for _, ls := range stored {
			b := labels.NewBuilder(external)
			ls.Range(func(l labels.Label) { b.Set(l.Name, l.Value) })
			final := b.Labels()
			if !matches(ms, final) {
				continue
			}
			if parts[final.String()] == nil {
				parts[final.String()] = map[string]bool{}
			}
			parts[final.String()][ls.String()] = true
		}

		got := ask(rt, query.NewExternal(external), stored, ms)
		if len(got) != len(parts) {
			rt.Fatalf("%d series, want %d", len(got), len(parts))
		}
		for i, s := range got {
			if i > 0 && labels.Compare(got[i-1].Labels, s.Labels) >= 0 {
				rt.Fatalf("%s follows %s", s.Labels, got[i-1].Labels)
			}
			want := parts[s.Labels.String()]
			if len(want) != len(s.Parts) {
				rt.Fatalf("%s has %d parts, want %d", s.Labels, len(s.Parts), len(want))
			}
			own := 1 << 30
			for _, p := range s.Parts {
				if !want[p.Labels.String()] {
					rt.Fatalf("%s is made of %s", s.Labels, p.Labels)
				}
				if p.Labels.Len() > own { // they differ in external labels only
					rt.Fatalf("%s: a part with fewer labels of its own comes first", s.Labels)
				}
				own = p.Labels.Len()
			}
		}
	})
}
