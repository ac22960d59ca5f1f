package receiver

import (
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/prompb"
)

var staleNaN = math.Float64frombits(0x7ff0000000000002)

// buildHistogram takes a message through decoding and validation.
func buildHistogram(t *testing.T, b []byte) (*histogram.Histogram, *histogram.FloatHistogram, error) {
	t.Helper()
	var raw rawHistogram
	if err := raw.decode(b, 0, true); err != nil {
		t.Fatal(err)
	}
	return raw.build()
}

func spans(pairs ...int) []prompb.BucketSpan {
	var out []prompb.BucketSpan
	for i := 0; i < len(pairs); i += 2 {
		out = append(out, prompb.BucketSpan{Offset: int32(pairs[i]), Length: uint32(pairs[i+1])})
	}
	return out
}

func countInt(n uint64) *prompb.Histogram_CountInt { return &prompb.Histogram_CountInt{CountInt: n} }

func countFloat(n float64) *prompb.Histogram_CountFloat {
	return &prompb.Histogram_CountFloat{CountFloat: n}
}

func TestHistogramRules(t *testing.T) {
	zero := func(n uint64) *prompb.Histogram_ZeroCountInt { return &prompb.Histogram_ZeroCountInt{ZeroCountInt: n} }
	tests := []struct {
		name string
		h    prompb.Histogram
		bad  string
	}{
		{"empty", prompb.Histogram{}, ""},
		{"integer", prompb.Histogram{Count: countInt(6), ZeroCount: zero(1), PositiveSpans: spans(0, 2), PositiveDeltas: []int64{2, 1}}, ""},
		{"float", prompb.Histogram{Count: countFloat(1.5), PositiveSpans: spans(0, 2), PositiveCounts: []float64{1, 0.5}}, ""},
		{"fewer buckets than spans need", prompb.Histogram{Count: countInt(4), PositiveSpans: spans(0, 5), PositiveDeltas: []int64{1, 0, 0, 0}}, "spans need 5 buckets, have 4"},
		{"more buckets than spans need", prompb.Histogram{Count: countInt(5), PositiveSpans: spans(0, 4), PositiveDeltas: []int64{1, 0, 0, 0, 0}}, "spans need 4 buckets, have 5"},
		{"negative offset of the first span", prompb.Histogram{Count: countInt(2), PositiveSpans: spans(-3, 2), PositiveDeltas: []int64{1, 0}}, ""},
		{"negative offset of the second span", prompb.Histogram{Count: countInt(4), PositiveSpans: spans(0, 2, -3, 2), PositiveDeltas: []int64{1, 0, 0, 0}}, "offset -3"},
		{"negative side likewise", prompb.Histogram{Count: countInt(4), NegativeSpans: spans(0, 2, -3, 2), NegativeDeltas: []int64{1, 0, 0, 0}}, "offset -3"},
		{"three spans of no length", prompb.Histogram{PositiveSpans: spans(0, 0, 0, 0, 1, 0)}, ""},
		{"a span of 2^32-1 buckets", prompb.Histogram{PositiveSpans: spans(0, math.MaxUint32)}, "out of range"},
		{"spans beyond the last bucket", prompb.Histogram{Count: countInt(2), PositiveSpans: spans(math.MaxInt32, 1, 0, 1), PositiveDeltas: []int64{1, 0}}, "out of range"},
		{"count below the buckets", prompb.Histogram{Count: countInt(1), PositiveSpans: spans(0, 1), PositiveDeltas: []int64{2}}, "Count field is 1"},
		{"count above the buckets", prompb.Histogram{Count: countInt(3), PositiveSpans: spans(0, 1), PositiveDeltas: []int64{2}}, "Count field is 3"},
		{"count above the buckets, sum NaN", prompb.Histogram{Count: countInt(3), Sum: math.NaN(), PositiveSpans: spans(0, 1), PositiveDeltas: []int64{2}}, ""},
		{"count below the buckets, sum NaN", prompb.Histogram{Count: countInt(1), Sum: math.NaN(), PositiveSpans: spans(0, 1), PositiveDeltas: []int64{2}}, "Count field is 1"},
		{"count above the buckets, sum +Inf", prompb.Histogram{Count: countInt(3), Sum: math.Inf(1), PositiveSpans: spans(0, 1), PositiveDeltas: []int64{2}}, "Count field is 3"},
		{"stale", prompb.Histogram{Sum: staleNaN}, ""},
		{"no count", prompb.Histogram{Sum: 0, Schema: 3}, ""},
		{"no count but buckets", prompb.Histogram{PositiveSpans: spans(0, 1), PositiveDeltas: []int64{2}}, "Count field is 0"},
		{"a delta to a negative bucket", prompb.Histogram{Count: countInt(0), PositiveSpans: spans(0, 2), PositiveDeltas: []int64{1, -2}}, "observation count of -1"},
		{"a delta past 64 bits", prompb.Histogram{Count: countInt(0), PositiveSpans: spans(0, 2), PositiveDeltas: []int64{math.MaxInt64, 1}}, "observation count of -"},
		{"a negative float bucket", prompb.Histogram{Count: countFloat(0), PositiveSpans: spans(0, 1), PositiveCounts: []float64{-1}}, "observation count of -1"},
		{"a negative float count", prompb.Histogram{Count: countFloat(-1)}, "negative"},
		{"a negative float zero count", prompb.Histogram{Count: countFloat(1), ZeroCount: &prompb.Histogram_ZeroCountFloat{ZeroCountFloat: -1}}, "zero bucket"},
		{"schema -4", prompb.Histogram{Schema: -4}, ""},
		{"schema -5", prompb.Histogram{Schema: -5}, "schema -5"},
		{"schema -9", prompb.Histogram{Schema: -9}, "schema -9"},
		{"schema 8", prompb.Histogram{Schema: 8}, ""},
		{"schema 9", prompb.Histogram{Schema: 9}, ""},
		{"schema 52", prompb.Histogram{Schema: 52}, ""},
		{"schema 53", prompb.Histogram{Schema: 53}, "schema 53"},
		{"schema 127", prompb.Histogram{Schema: 127}, "schema 127"},
		{"smallest schema", prompb.Histogram{Schema: math.MinInt32}, "schema -2147483648"},
		{"zero threshold NaN", prompb.Histogram{ZeroThreshold: math.NaN()}, "zero threshold NaN"},
		{"zero threshold negative", prompb.Histogram{ZeroThreshold: -1}, "zero threshold -1"},
		{"zero threshold infinite", prompb.Histogram{ZeroThreshold: math.Inf(1)}, "zero threshold +Inf"},
		{"bounds on an exponential schema", prompb.Histogram{CustomValues: []float64{1}}, "custom bounds"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) { wantHistogram(t, &test.h, test.bad) })
	}
}

func TestCustomBucketRules(t *testing.T) {
	const custom = histogram.CustomBucketsSchema
	with := func(bounds []float64, f func(h *prompb.Histogram)) prompb.Histogram {
		h := prompb.Histogram{Schema: custom, Count: countInt(2), CustomValues: bounds, PositiveSpans: spans(0, 2), PositiveDeltas: []int64{1, 0}}
		if f != nil {
			f(&h)
		}
		return h
	}
	tests := []struct {
		name string
		h    prompb.Histogram
		bad  string
	}{
		{"valid", with([]float64{1, 2}, nil), ""},
		{"last bucket up to +Inf", with([]float64{1}, nil), ""},
		{"float", with([]float64{1}, func(h *prompb.Histogram) {
			h.Count, h.PositiveDeltas, h.PositiveCounts = countFloat(2), nil, []float64{1, 1}
		}), ""},
		{"no bounds", with(nil, nil), "only 0 custom bounds"},
		{"no bounds, all up to +Inf", with(nil, func(h *prompb.Histogram) { h.PositiveSpans, h.PositiveDeltas = spans(0, 1), []int64{2} }), ""},
		{"no bounds and nothing else", prompb.Histogram{Schema: custom}, ""},
		{"too few bounds", with([]float64{1}, func(h *prompb.Histogram) { h.PositiveSpans = spans(1, 2) }), "only 1 custom bounds"},
		{"unsorted", with([]float64{2, 1}, nil), "increasing"},
		{"equal", with([]float64{1, 1}, nil), "increasing"},
		{"NaN", with([]float64{math.NaN()}, nil), "NaN"},
		{"+Inf given", with([]float64{1, math.Inf(1)}, nil), "+Inf"},
		{"zero count", with([]float64{1}, func(h *prompb.Histogram) {
			h.ZeroCount, h.Count = &prompb.Histogram_ZeroCountInt{ZeroCountInt: 1}, countInt(3)
		}), "zero count"},
		{"zero threshold", with([]float64{1}, func(h *prompb.Histogram) { h.ZeroThreshold = 1 }), "zero threshold"},
		{"negative spans", with([]float64{1}, func(h *prompb.Histogram) { h.NegativeSpans = spans(0, 0) }), "negative spans"},
		{"negative buckets", with([]float64{1}, func(h *prompb.Histogram) { h.NegativeDeltas = []int64{1} }), "negative buckets"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) { wantHistogram(t, &test.h, test.bad) })
	}
}

// TestCustomBucketsWithoutBounds: in 1.0 the bounds may have been left out.
func TestCustomBucketsWithoutBounds(t *testing.T) {
	h := prompb.Histogram{Schema: histogram.CustomBucketsSchema, Count: countInt(2), PositiveSpans: spans(0, 1), PositiveDeltas: []int64{2}}
	var raw rawHistogram
	if err := raw.decode(mustMarshal(&h), 0, false); err != nil {
		t.Fatal(err)
	}
	if _, _, err := raw.build(); err == nil || !strings.Contains(err.Error(), "without bounds") {
		t.Errorf("1.0: %v", err)
	}
}

// TestStaleIsEmpty: of a stale marker only the sum and the hint count.
func TestStaleIsEmpty(t *testing.T) {
	h, _, err := buildHistogram(t, mustMarshal(&prompb.Histogram{
		Sum: staleNaN, Schema: 3, Count: countInt(2), PositiveSpans: spans(0, 1), PositiveDeltas: []int64{2}, ResetHint: prompb.Histogram_GAUGE,
	}))
	want := &histogram.Histogram{Sum: staleNaN, CounterResetHint: histogram.GaugeType}
	if err != nil || math.Float64bits(h.Sum) != math.Float64bits(want.Sum) || !h.Equals(want) || h.CounterResetHint != want.CounterResetHint {
		t.Errorf("%v, %v", h, err)
	}
}

func wantHistogram(t *testing.T, h *prompb.Histogram, bad string) {
	t.Helper()
	ih, fh, err := buildHistogram(t, mustMarshal(h))
	switch {
	case bad == "" && err != nil:
		t.Fatalf("refused: %v", err)
	case bad != "" && (err == nil || !strings.Contains(err.Error(), bad)):
		t.Fatalf("got error %v, want one with %q", err, bad)
	case bad != "":
		return
	case (fh != nil) != h.IsFloatHistogram() || (ih != nil) == (fh != nil):
		t.Fatalf("got integer %v and float %v", ih != nil, fh != nil)
	}
	if h.IsFloatHistogram() {
		if want := h.ToFloatHistogram(); want.Schema <= 8 && !fh.Equals(want) {
			t.Errorf("got %v, want %v", fh, want)
		}
		return
	}
	if want := h.ToIntHistogram(); want.Schema <= 8 && !ih.Equals(want) {
		t.Errorf("got %v, want %v", ih, want)
	}
	if math.Float64bits(ih.Sum) != math.Float64bits(h.Sum) {
		t.Errorf("sum: got bits %x, want %x", math.Float64bits(ih.Sum), math.Float64bits(h.Sum))
	}
}

// TestHistogramFields sets the fields in forms that generated encoders do not write.
func TestHistogramFields(t *testing.T) {
	one := join(fieldVarint(1, 1), fieldBytes(11, fieldVarint(2, 1)), fieldBytes(12, packed(2)))
	tests := []struct {
		name string
		b    []byte
		bad  string
	}{
		{"packed", one, ""},
		{"single deltas", join(fieldVarint(1, 1), fieldBytes(11, fieldVarint(2, 1)), fieldVarint(12, 2)), ""},
		{"single counts", join(fieldDouble(2, 1), fieldBytes(11, fieldVarint(2, 1)), fieldDouble(13, 1)), ""},
		{"the last count wins", join(fieldDouble(2, 7), one), ""},
		{"hint that is none", join(one, fieldVarint(14, 1<<40)), ""},
		{"schema beyond 32 bits", join(one, fieldVarint(4, 1<<33)), "schema 4294967296"},
		{"offset beyond 32 bits", join(one, fieldBytes(8, fieldVarint(1, 1<<33))), "beyond 32 bits"},
		{"length beyond 32 bits", join(one, fieldBytes(8, fieldVarint(2, 1<<32))), "beyond 32 bits"},
		{"unknown fields", join(one, fieldString(99, "x"), fieldVarint(18, 3)), ""},
		{"deltas of a float histogram", join(fieldDouble(2, 1), fieldBytes(11, fieldVarint(2, 1)), fieldVarint(12, 2)), "spans need 1 buckets, have 0"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			h, fh, err := buildHistogram(t, test.b)
			if (err == nil) != (test.bad == "") || err != nil && !strings.Contains(err.Error(), test.bad) {
				t.Fatalf("got error %v, want %q", err, test.bad)
			}
			if h != nil && (h.Count != 1 || h.PositiveBuckets[0] != 1 || h.CounterResetHint != 0) || fh != nil && fh.PositiveBuckets[0] != 1 {
				t.Errorf("got %v %v", h, fh)
			}
		})
	}
}

func TestHistogramTooLarge(t *testing.T) {
	many := make([]uint64, maxBuckets+1)
	for name, b := range map[string][]byte{
		"deltas": fieldBytes(12, packed(many...)),
		"counts": fieldBytes(13, make([]byte, 8*(maxBuckets+1))),
		"bounds": fieldBytes(16, make([]byte, 8*(maxBuckets+1))),
		"spans":  []byte(strings.Repeat(string(fieldBytes(8)), maxBuckets+1)),
	} {
		if _, _, err := buildHistogram(t, b); err == nil || !strings.Contains(err.Error(), "more than 65536") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// TestReducedResolution compares schemas above 8 with a histogram of the same
// observations at schema 8.
func TestReducedResolution(t *testing.T) {
	r := newRand(t, 41)
	for range few(500) {
		schema := 9 + int32(r.IntN(44))
		shift := uint(schema - 8)
		want := map[int64]uint64{}
		var h prompb.Histogram
		h.Schema = schema
		idx, count, last, next := int64(r.IntN(2000)-1000), uint64(0), int64(0), int64(0)
		for i := range 1 + r.IntN(20) {
			offset := idx - next
			n := int64(r.IntN(5))
			h.PositiveSpans = append(h.PositiveSpans, prompb.BucketSpan{Offset: int32(offset), Length: 1})
			h.PositiveDeltas = append(h.PositiveDeltas, n-last)
			// Index i holds (base^(i-1), base^i], so it goes into ceil(i / 2^shift).
			want[-(-idx >> shift)] += uint64(n)
			count, last, next = count+uint64(n), n, idx+1
			idx += 1 + r.Int64N(1<<min(shift, 20))
			_ = i
		}
		h.Count = countInt(count)
		got, _, err := buildHistogram(t, mustMarshal(&h))
		if err != nil {
			t.Fatalf("schema %d: %v", schema, err)
		}
		if got.Schema != 8 || got.Validate() != nil {
			t.Fatalf("schema %d: got schema %d, %v", schema, got.Schema, got.Validate())
		}
		have := map[int64]uint64{}
		for it := got.PositiveBucketIterator(); it.Next(); {
			if b := it.At(); b.Count > 0 {
				have[int64(b.Index)] = b.Count
			}
		}
		for k, n := range want {
			if n == 0 {
				delete(want, k)
			}
		}
		if !reflect.DeepEqual(have, want) {
			t.Fatalf("schema %d, %v:\ngot  %v\nwant %v", schema, h, have, want)
		}
	}
}
