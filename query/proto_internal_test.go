package query

import (
	"bytes"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"

	"github.com/rwsink/rwsink/chunkenc"
)

func TestSamplesKeepEveryBit(t *testing.T) {
	values := []float64{0, negZero, 1, -1, staleNaN, oddNaN, math.NaN(), math.Inf(1), math.Inf(-1), 5e-324, math.MaxFloat64}
	times := []int64{math.MinInt64, math.MinInt64 + 1, -1, 0, 1, 127, 128, 16383, 16384, 1_700_000_000_000, math.MaxInt64 - 1, math.MaxInt64}
	in := chunkenc.Samples{T: times}
	for _, v := range values {
		in.V = in.V[:0]
		for range times {
			in.V = append(in.V, v)
		}
		body := appendSamples([]byte(nil), &in)
		var ts prompb.TimeSeries
		if err := ts.Unmarshal(body); err != nil {
			t.Fatalf("value %x: %v", math.Float64bits(v), err)
		}
		if len(ts.Samples) != len(times) {
			t.Fatalf("value %x: %d samples, want %d", math.Float64bits(v), len(ts.Samples), len(times))
		}
		for i, s := range ts.Samples {
			if s.Timestamp != times[i] || math.Float64bits(s.Value) != math.Float64bits(v) {
				t.Fatalf("sample %d is (%d, %x), want (%d, %x)", i, s.Timestamp, math.Float64bits(s.Value), times[i], math.Float64bits(v))
			}
		}
		if math.Float64bits(v) == math.Float64bits(negZero) {
			continue // which the generated encoder drops
		}
		want, err := ts.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(body, want) {
			t.Fatalf("value %x: bytes differ from the generated encoder's", math.Float64bits(v))
		}
	}
}

func TestLabelsAsGenerated(t *testing.T) {
	for _, ls := range []labels.Labels{
		labels.EmptyLabels(),
		labels.FromStrings("__name__", "up"),
		labels.FromStrings("__name__", "m", "a", strings.Repeat("x", 200), strings.Repeat("n", 20_000), "v", "z", "ü\x00"),
	} {
		want, err := (&prompb.TimeSeries{Labels: prompb.FromLabels(ls, nil)}).Marshal()
		if err != nil {
			t.Fatal(err)
		}
		if got := appendLabels(nil, ls); !bytes.Equal(got, want) {
			t.Errorf("%s: bytes differ from the generated encoder's", ls)
		}
	}
}

func TestHistogramsAsGenerated(t *testing.T) {
	const seed = 7
	rng := rand.New(rand.NewPCG(seed, seed))
	var enc histEncoder
	for round := range 300 {
		kind := chunkenc.KindHistogram + chunkenc.Kind(round%2)
		run, _ := randRun(rng, kind, round%5 == 0, rng.Int64N(3)-1, 20)
		var want prompb.TimeSeries
		for i, ts := range run.T {
			if kind == chunkenc.KindHistogram {
				want.Histograms = append(want.Histograms, prompb.FromIntHistogram(ts, run.H[i]))
			} else {
				want.Histograms = append(want.Histograms, prompb.FromFloatHistogram(ts, run.FH[i]))
			}
		}
		bytesWant, err := want.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		if got := enc.append(nil, &run); !bytes.Equal(got, bytesWant) {
			t.Fatalf("seed %d, round %d: bytes differ from the generated encoder's", seed, round)
		}
	}
}

func TestHistogramFieldsOfZeroBits(t *testing.T) {
	var enc histEncoder
	for _, sum := range []float64{0, negZero, staleNaN, oddNaN} {
		for _, hint := range []histogram.CounterResetHint{histogram.UnknownCounterReset, histogram.CounterReset, histogram.NotCounterReset, histogram.GaugeType} {
			run := chunkenc.Samples{
				Kind: chunkenc.KindFloatHistogram,
				T:    []int64{0},
				FH: []*histogram.FloatHistogram{{
					CounterResetHint: hint, Sum: sum, Count: negZero, ZeroCount: 0,
					PositiveSpans: []histogram.Span{{}}, NegativeSpans: []histogram.Span{{Offset: math.MinInt32, Length: math.MaxUint32}},
				}},
			}
			var ts prompb.TimeSeries
			if err := ts.Unmarshal(enc.append(nil, &run)); err != nil {
				t.Fatal(err)
			}
			h := ts.Histograms[0]
			wantHint := hint
			if hint == histogram.NotCounterReset {
				wantHint = histogram.UnknownCounterReset
			}
			switch {
			case math.Float64bits(h.Sum) != math.Float64bits(sum):
				t.Errorf("sum is %x, want %x", math.Float64bits(h.Sum), math.Float64bits(sum))
			case math.Float64bits(h.GetCountFloat()) != math.Float64bits(negZero):
				t.Errorf("count is %x, want -0", math.Float64bits(h.GetCountFloat()))
			case !h.IsFloatHistogram():
				t.Error("a float histogram reads as an integer one")
			case h.ResetHint != prompb.Histogram_ResetHint(wantHint):
				t.Errorf("hint is %v, want %v", h.ResetHint, wantHint)
			case len(h.PositiveSpans) != 1 || h.NegativeSpans[0].Offset != math.MinInt32 || h.NegativeSpans[0].Length != math.MaxUint32:
				t.Errorf("spans are %v %v", h.PositiveSpans, h.NegativeSpans)
			}
		}
	}
}

func TestSamplesDoNotAllocate(t *testing.T) {
	run := chunkenc.Samples{T: make([]int64, 240), V: make([]float64, 240)}
	for i := range run.T {
		run.T[i], run.V[i] = int64(1_700_000_000_000+15_000*i), float64(i)
	}
	buf := make([]byte, 0, 240*maxSampleSize)
	if n := testing.AllocsPerRun(100, func() { buf = appendSamples(buf[:0], &run) }); n != 0 {
		t.Errorf("%v allocations for 240 samples", n)
	}
}
