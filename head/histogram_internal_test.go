package head

import (
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/value"
)

// TestCheckHistogram takes histograms of either kind through the same rules, and
// finds slices that others share as they were.
func TestCheckHistogram(t *testing.T) {
	stale := math.Float64frombits(value.StaleNaN)
	one := []histogram.Span{{Offset: 1, Length: 1}}
	split := []histogram.Span{{Offset: 1, Length: 0}, {Offset: 2, Length: 1}, {Offset: 7, Length: 0}}
	for name, c := range map[string]struct {
		h    histogram.Histogram
		want histogram.Histogram
		bad  string
	}{
		"as it is": {
			h:    histogram.Histogram{Schema: 8, Count: 2, PositiveSpans: one, PositiveBuckets: []int64{2}},
			want: histogram.Histogram{Schema: 8, Count: 2, PositiveSpans: one, PositiveBuckets: []int64{2}},
		},
		"schema 9": {
			h:    histogram.Histogram{Schema: 9, Count: 3, PositiveSpans: []histogram.Span{{Offset: 1, Length: 2}}, PositiveBuckets: []int64{1, 1}},
			want: histogram.Histogram{Schema: 8, Count: 3, PositiveSpans: one, PositiveBuckets: []int64{3}},
		},
		"schema 52":                  {h: histogram.Histogram{Schema: 52}, want: histogram.Histogram{Schema: 8}},
		"schema 53":                  {h: histogram.Histogram{Schema: 53}, bad: "schema 53, want -4 to 52, or -53"},
		"schema -5":                  {h: histogram.Histogram{Schema: -5}, bad: "schema -5, want -4 to 52"},
		"unsound at schema 9":        {h: histogram.Histogram{Schema: 9, Count: 1, PositiveSpans: one}, bad: "spans need 1 buckets"},
		"zero threshold":             {h: histogram.Histogram{ZeroThreshold: math.Inf(1)}, bad: "zero threshold +Inf"},
		"bounds of no custom bucket": {h: histogram.Histogram{CustomValues: []float64{1}}, bad: "custom bounds"},
		"stale": {
			h:    histogram.Histogram{Schema: 9, Sum: stale, CounterResetHint: histogram.GaugeType, Count: 2, PositiveSpans: one, PositiveBuckets: []int64{2}},
			want: histogram.Histogram{Sum: stale, CounterResetHint: histogram.GaugeType},
		},
		"stale and unsound": {h: histogram.Histogram{Sum: stale, PositiveSpans: one}, bad: "spans need 1 buckets"},
		"empty spans": {
			h:    histogram.Histogram{Count: 2, NegativeSpans: split, NegativeBuckets: []int64{2}},
			want: histogram.Histogram{Count: 2, NegativeSpans: []histogram.Span{{Offset: 3, Length: 1}}, NegativeBuckets: []int64{2}},
		},
	} {
		h := c.h
		fh := &histogram.FloatHistogram{
			Schema: h.Schema, ZeroThreshold: h.ZeroThreshold, Count: float64(h.Count), Sum: h.Sum, CounterResetHint: h.CounterResetHint,
			PositiveSpans: h.PositiveSpans, NegativeSpans: h.NegativeSpans, CustomValues: h.CustomValues,
			PositiveBuckets: counts(h.PositiveBuckets), NegativeBuckets: counts(h.NegativeBuckets),
		}
		before := h.Copy()
		err, floatErr := CheckHistogram(&h), CheckFloatHistogram(fh)
		for _, err := range []error{err, floatErr} {
			if (err == nil) != (c.bad == "") || err != nil && !strings.Contains(err.Error(), c.bad) {
				t.Errorf("%s: %v, want %q", name, err, c.bad)
			}
		}
		if !slices.Equal(c.h.PositiveSpans, before.PositiveSpans) || !slices.Equal(c.h.PositiveBuckets, before.PositiveBuckets) || !slices.Equal(c.h.NegativeSpans, before.NegativeSpans) {
			t.Errorf("%s: shared slices were changed: %v, before %v", name, c.h, before)
		}
		if c.bad != "" {
			continue
		}
		if !h.Equals(&c.want) || h.CounterResetHint != c.want.CounterResetHint || len(h.NegativeSpans) != len(c.want.NegativeSpans) {
			t.Errorf("%s: %#v, want %#v", name, h, c.want)
		}
		if want := c.want.ToFloat(nil); !fh.Equals(want) || fh.CounterResetHint != want.CounterResetHint || len(fh.NegativeSpans) != len(want.NegativeSpans) {
			t.Errorf("%s: %#v, want %#v", name, fh, want)
		}
	}
}

// counts are the counts of buckets, of which deltas are given.
func counts(deltas []int64) (out []float64) {
	n := int64(0)
	for _, d := range deltas {
		n += d
		out = append(out, float64(n))
	}
	return out
}

// TestJoinedSpansSaySame checks that spans of length 0 leave without moving a bucket.
func TestJoinedSpansSaySame(t *testing.T) {
	indexes := func(spans []histogram.Span) (out []int64) {
		idx := int64(0)
		for _, s := range spans {
			idx += int64(s.Offset)
			for range s.Length {
				out = append(out, idx)
				idx++
			}
		}
		return out
	}
	check := func(spans []histogram.Span) {
		t.Helper()
		want := indexes(spans)
		got := joinSpans(append([]histogram.Span(nil), spans...))
		if !reflect.DeepEqual(indexes(got), want) {
			t.Fatalf("%v became %v", spans, got)
		}
		for i, s := range got {
			if s.Length == 0 && (i == len(got)-1 || s.Offset < math.MaxInt32/2) {
				t.Fatalf("%v became %v, with a span of no length", spans, got)
			}
		}
	}
	r := rand.New(rand.NewPCG(42, 0))
	for range 2000 {
		var spans []histogram.Span
		for range r.IntN(8) {
			spans = append(spans, histogram.Span{Offset: int32(r.IntN(5)), Length: uint32(r.IntN(3))})
		}
		check(spans)
	}
	check([]histogram.Span{{Offset: math.MinInt32 + 1, Length: 1}, {Offset: math.MaxInt32, Length: 0}, {Offset: math.MaxInt32 - 1, Length: 1}})
}
