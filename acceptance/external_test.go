package acceptance

import (
	"fmt"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
)

// external returns what a reader must see of r when the labels of add are put on
// every series that lacks them: sorted again, equal sets merged, and where two
// series became one the one that carries more of the labels itself wins at equal times.
func external(r result, add ...string) result {
	merged := newModel()
	for own := len(add) / 2; own >= 0; own-- {
		for _, rs := range r {
			carries := 0
			b := labels.NewBuilder(rs.labels)
			for i := 0; i < len(add); i += 2 {
				if rs.labels.Has(add[i]) {
					carries++
				} else {
					b.Set(add[i], add[i+1])
				}
			}
			if carries != own {
				continue
			}
			var kv []string
			b.Labels().Range(func(l labels.Label) { kv = append(kv, l.Name, l.Value) })
			for _, p := range rs.points {
				if tr := merged.tracks[key(canonical(kv))]; tr == nil || !tr.has(p.t) {
					merged.put(kv, p)
				}
			}
		}
	}
	return merged.all()
}

// External labels are part of the order of a stream, and no label set is sent twice.
func TestExternalLabelsAreSortedIn(t *testing.T) {
	t.Parallel()
	for _, add := range [][]string{{"region", "foo"}, {"A", "foo"}, {"zzz", "foo"}, {"__a__", "x", "region", "foo"}} {
		t.Run(fmt.Sprint(add), func(t *testing.T) {
			t.Parallel()
			var flags []string
			for i := 0; i < len(add); i += 2 {
				flags = append(flags, "--external-label="+add[i]+"="+add[i+1])
			}
			s, m := start(t, flags...), newModel()
			n := nowMs() - hour
			for i, kv := range [][]string{
				{"region", "bar", "z", "1"}, {"region", "foo", "z", "1"}, {"z", "1"}, {"a", "1"}, {"zz", "1"}, {"A", "bar"}, {"A", "foo"},
				{"zzz", "bar"}, {"zzz", "foo", "a", "1"}, {"regio", "x"}, {"regiona", "x"}, {"__a__", "y"}, {},
			} {
				e := series("m", kv...)
				for k := range int64(200) { // some times are shared, some are not
					e = e.at(n+k*int64(1+i%3)*second, float64(i))
				}
				s.store(t, m, version(1+i%2), e, series("l", kv...).at(n, float64(i)))
			}
			want := external(m.all(), add...)
			for _, again := range []func(testing.TB){func(testing.TB) {}, s.restart, s.crash} {
				again(t)
				for _, mode := range modes {
					if d := diff(s.readAll(t, mode), want); d != "" {
						t.Errorf("%v:\n%s", mode, d)
					}
				}
			}
		})
	}
}

// All four matchers see an external label as if it were stored on the series that lack it.
func TestMatchersSeeExternalLabels(t *testing.T) {
	t.Parallel()
	s, m := start(t, "--external-label=region=foo"), newModel()
	n := nowMs() - hour
	for i, kv := range [][]string{{"i", "none"}, {"i", "bar", "region", "bar"}, {"i", "own", "region", "foo"}, {"i", "other", "zone", "foo"}, {"i", "both", "region", "bar", "zone", "x"}} {
		s.store(t, m, version(1+i%2), series("m", kv...).at(n, float64(i)))
	}
	want := external(m.all(), "region", "foo")
	for _, ms := range [][]*prompb.LabelMatcher{
		{eq("region", "foo")}, {eq("region", "bar")}, {neq("region", "foo")}, {neq("region", "bar")}, {re("region", "foo.|x")}, {re("region", "fo.|x")}, {nre("region", "foo.")}, {nre("region", "fo.")},
		{eq("region", "")}, {neq("region", "")}, {re("region", ".*")}, {re("region", ".+")}, {re("region", "")}, {nre("region", "")}, {nre("region", ".*")}, {re("region", "foo|")}, {re("region", "bar|")}, {nre("region", "bar|")},
		{eq("region", "foo"), eq("zone", "foo")}, {neq("region", "bar"), neq("zone", "foo")}, {eq("region", "foo"), eq("region", "foo")}, {eq("region", "foo"), eq("region", "bar")}, {eq("region", "foo"), neq("region", "bar"), re("region", "f.*")},
		{eq("zone", "")}, {neq("zone", "")}, {eq("zone", "foo")}, {nre("zone", "foo|x")}, {re("zone", "|x")}, {eq("nothing", "")}, {neq("nothing", "")}, {eq("__name__", "m")}, {re("__name__", "m|x"), nre("i", "own|both")},
	} {
		for _, named := range []bool{true, false} {
			ms := ms
			if named {
				ms = append([]*prompb.LabelMatcher{eq("__name__", "m")}, ms...)
			}
			var expect result
			for _, rs := range want {
				if matches(t, rs.labels, ms) {
					expect = append(expect, rs)
				}
			}
			if d := diff(s.readBoth(t, query(n, n, ms...)), expect); d != "" {
				t.Errorf("%v:\n%s", ms, d)
			}
		}
	}
}

// matches says whether a label set matches by Prometheus's own matchers.
func matches(t testing.TB, ls labels.Labels, ms []*prompb.LabelMatcher) bool {
	t.Helper()
	for _, p := range ms {
		typ := map[prompb.LabelMatcher_Type]labels.MatchType{
			prompb.LabelMatcher_EQ: labels.MatchEqual, prompb.LabelMatcher_NEQ: labels.MatchNotEqual,
			prompb.LabelMatcher_RE: labels.MatchRegexp, prompb.LabelMatcher_NRE: labels.MatchNotRegexp,
		}[p.Type]
		lm, err := labels.NewMatcher(typ, p.Name, p.Value)
		if err != nil {
			t.Fatal(err)
		}
		if !lm.Matches(ls.Get(p.Name)) {
			return false
		}
	}
	return true
}
