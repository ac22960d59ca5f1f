package chunkenc_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/prometheus/prometheus/model/histogram"

	"github.com/rwsink/rwsink/chunkenc"
)

// histograms makes n histograms of one series: growing counts over a layout that
// widens, with resets, gauges, stale markers and schema changes now and then.
func histograms(r *rand.Rand, n int, kind chunkenc.Kind) *chunkenc.Samples {
	s := floats(r, n)
	s.V, s.Kind = nil, kind
	g := histGen{r: r, schema: int32(r.IntN(13) - 4)}
	if r.IntN(3) == 0 {
		g.schema = histogram.CustomBucketsSchema
	}
	g.reset()
	for range n {
		h := g.next()
		if kind == chunkenc.KindHistogram {
			s.H = append(s.H, h)
		} else {
			fh := h.ToFloat(nil)
			if h.Sum == h.Sum && r.IntN(2) == 0 { // counts that are no integers
				for i := range fh.PositiveBuckets {
					fh.PositiveBuckets[i] += 0.25
				}
			}
			s.FH = append(s.FH, fh)
		}
	}
	return s
}

type histGen struct {
	r      *rand.Rand
	schema int32
	counts []int64 // of positive buckets
	gauge  bool
	sum    float64
	bounds []float64
}

func (g *histGen) reset() {
	g.counts = make([]int64, 4+g.r.IntN(30))
	g.bounds = nil
	if g.schema == histogram.CustomBucketsSchema {
		at := g.r.NormFloat64()
		for range len(g.counts) - 1 {
			at += 0.001 * float64(1+g.r.IntN(2000))
			g.bounds = append(g.bounds, at)
		}
	}
}

func (g *histGen) next() *histogram.Histogram {
	hint := histogram.CounterResetHint(histogram.UnknownCounterReset)
	switch g.r.IntN(40) {
	case 0:
		g.reset()
	case 1:
		g.reset()
		hint = histogram.CounterReset
	case 2:
		g.gauge = !g.gauge
	case 3:
		if g.schema > -4 && g.schema != histogram.CustomBucketsSchema {
			g.schema--
		}
	case 4:
		h := &histogram.Histogram{Sum: staleNaN}
		if g.gauge && g.r.IntN(2) == 0 {
			h.CounterResetHint = histogram.GaugeType
		}
		return h
	case 5:
		hint = histogram.NotCounterReset
	}
	for range g.r.IntN(6) {
		g.counts[g.r.IntN(len(g.counts))] += g.r.Int64N(20)
	}
	if g.gauge {
		hint = histogram.GaugeType
		i := g.r.IntN(len(g.counts))
		g.counts[i] /= 2
	}
	g.sum += g.r.Float64()
	h := &histogram.Histogram{CounterResetHint: hint, Schema: g.schema, Sum: g.sum, CustomValues: g.bounds}
	h.PositiveSpans, h.PositiveBuckets = g.spans()
	if g.schema != histogram.CustomBucketsSchema {
		h.ZeroThreshold, h.ZeroCount = 0.001, 7
		h.NegativeSpans, h.NegativeBuckets = g.spans()
	}
	var at int64
	for _, d := range h.PositiveBuckets {
		at += d
		h.Count += uint64(at)
	}
	h.Count = h.Count*2 + h.ZeroCount
	if g.r.IntN(50) == 0 {
		h.Sum = nastyFloats[g.r.IntN(len(nastyFloats))]
		if math.Float64bits(h.Sum) == math.Float64bits(staleNaN) {
			return &histogram.Histogram{Sum: h.Sum}
		}
	}
	return h
}

// spans gives the layout of the counts that are not 0, with an empty span or an
// empty bucket here and there.
func (g *histGen) spans() (spans []histogram.Span, deltas []int64) {
	var last int64
	gap := int32(0)
	open := false
	for _, c := range g.counts {
		if c == 0 && g.r.IntN(10) > 0 {
			gap++
			open = false
			continue
		}
		if !open {
			if gap > 1 && g.r.IntN(30) == 0 {
				spans = append(spans, histogram.Span{Offset: 1})
				gap--
			}
			spans = append(spans, histogram.Span{Offset: gap})
			gap, open = 0, true
		}
		spans[len(spans)-1].Length++
		deltas = append(deltas, c-last)
		last = c
	}
	return spans, deltas
}

func TestHistogramsRoundTrip(t *testing.T) {
	for _, kind := range []chunkenc.Kind{chunkenc.KindHistogram, chunkenc.KindFloatHistogram} {
		r := rand.New(rand.NewPCG(13, uint64(kind)))
		var e chunkenc.Encoder
		for range few(300) {
			s := histograms(r, 1+r.IntN(300), kind)
			before := &chunkenc.Samples{Kind: kind, T: s.T, ST: s.ST}
			for _, h := range s.H {
				before.H = append(before.H, h.Copy())
			}
			for _, h := range s.FH {
				before.FH = append(before.FH, h.Copy())
			}
			chunks := e.SealShared(nil, s, e.Times(s.T))
			checkUntouched(t, s, before)
			got := decodeAll(t, chunks)
			checkEqual(t, got, s)
			checkOwned(t, got)
		}
	}
}

// checkUntouched wants the histograms as they were, to the last empty bucket.
func checkUntouched(t *testing.T, s, before *chunkenc.Samples) {
	t.Helper()
	for i, h := range before.H {
		if s.H[i].CounterResetHint != h.CounterResetHint || !slices.Equal(s.H[i].PositiveBuckets, h.PositiveBuckets) || !slices.Equal(s.H[i].PositiveSpans, h.PositiveSpans) {
			t.Fatalf("sealing changed histogram %d", i)
		}
	}
	for i, h := range before.FH {
		if s.FH[i].CounterResetHint != h.CounterResetHint || !slices.Equal(s.FH[i].PositiveBuckets, h.PositiveBuckets) || !slices.Equal(s.FH[i].PositiveSpans, h.PositiveSpans) {
			t.Fatalf("sealing changed histogram %d", i)
		}
	}
}

// checkOwned writes to every decoded object and wants its neighbours unchanged.
func checkOwned(t *testing.T, s *chunkenc.Samples) {
	t.Helper()
	for i := 1; i < len(s.H); i++ {
		prev := s.H[i-1].Copy()
		for j := range s.H[i].PositiveBuckets {
			s.H[i].PositiveBuckets[j] = -77
		}
		for j := range s.H[i].PositiveSpans {
			s.H[i].PositiveSpans[j].Offset = 9999
		}
		if !prev.Equals(s.H[i-1]) {
			t.Fatalf("histogram %d shares memory with %d", i, i-1)
		}
	}
	for i := 1; i < len(s.FH); i++ {
		prev := s.FH[i-1].Copy()
		for j := range s.FH[i].PositiveBuckets {
			s.FH[i].PositiveBuckets[j] = -77
		}
		if !prev.Equals(s.FH[i-1]) {
			t.Fatalf("histogram %d shares memory with %d", i, i-1)
		}
	}
}

func TestHistogramCuts(t *testing.T) {
	h := func(count uint64, hint histogram.CounterResetHint) *histogram.Histogram {
		return &histogram.Histogram{
			CounterResetHint: hint, Schema: 1, ZeroThreshold: 1e-3, Count: count, Sum: float64(count),
			PositiveSpans: []histogram.Span{{Offset: 1, Length: 1}}, PositiveBuckets: []int64{int64(count)},
		}
	}
	stale := func(hint histogram.CounterResetHint) *histogram.Histogram {
		return &histogram.Histogram{CounterResetHint: hint, Sum: staleNaN}
	}
	nhcb := func(count uint64, bounds ...float64) *histogram.Histogram {
		return &histogram.Histogram{
			Schema: histogram.CustomBucketsSchema, Count: count, Sum: 3, CustomValues: bounds,
			PositiveSpans: []histogram.Span{{Length: 2}}, PositiveBuckets: []int64{int64(count), -int64(count)},
		}
	}
	schema := func(h *histogram.Histogram, schema int32) *histogram.Histogram { h.Schema = schema; return h }
	const unknown, gauge, reset, not = histogram.UnknownCounterReset, histogram.GaugeType, histogram.CounterReset, histogram.NotCounterReset
	for _, tc := range []struct {
		name string
		in   []*histogram.Histogram
		lens []uint16
	}{
		{"grows", []*histogram.Histogram{h(1, unknown), h(2, not), h(9, unknown)}, []uint16{3}},
		{"drops", []*histogram.Histogram{h(5, unknown), h(2, unknown), h(3, unknown)}, []uint16{1, 2}},
		{"drops and lies", []*histogram.Histogram{h(5, not), h(2, not), h(1, not)}, []uint16{1, 1, 1}},
		{"says reset while it grows", []*histogram.Histogram{h(1, unknown), h(2, reset), h(3, reset)}, []uint16{1, 1, 1}},
		{"gauge", []*histogram.Histogram{h(5, gauge), h(2, gauge), h(3, gauge)}, []uint16{3}},
		{"gauge to counter that drops", []*histogram.Histogram{h(5, gauge), h(2, unknown), h(9, gauge)}, []uint16{1, 1, 1}},
		{"stale then real", []*histogram.Histogram{h(5, unknown), stale(unknown), stale(unknown), h(6, unknown)}, []uint16{3, 1}},
		{"stale first", []*histogram.Histogram{stale(unknown), h(6, unknown)}, []uint16{1, 1}},
		{"gauge stale", []*histogram.Histogram{h(5, gauge), stale(gauge), stale(unknown), h(6, gauge)}, []uint16{2, 1, 1}},
		{"stale says reset", []*histogram.Histogram{h(5, unknown), stale(reset)}, []uint16{1, 1}},
		{"schema", []*histogram.Histogram{h(5, unknown), schema(h(6, unknown), 2), h(7, unknown)}, []uint16{1, 1, 1}},
		{"bounds", []*histogram.Histogram{nhcb(1, 1, 2.5), nhcb(2, 1, 2.5), nhcb(3, 1, math.Pi)}, []uint16{2, 1}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := &chunkenc.Samples{Kind: chunkenc.KindHistogram, H: tc.in}
			fs := &chunkenc.Samples{Kind: chunkenc.KindFloatHistogram}
			for i, h := range tc.in {
				s.T = append(s.T, int64(i))
				fs.T, fs.FH = s.T, append(fs.FH, h.ToFloat(nil))
			}
			for _, s := range []*chunkenc.Samples{s, fs} {
				var e chunkenc.Encoder
				chunks := e.Seal(nil, s)
				var lens []uint16
				for _, c := range chunks {
					lens = append(lens, c.N)
				}
				if len(lens) != len(tc.lens) {
					t.Fatalf("got chunks of %v, want %v", lens, tc.lens)
				}
				for i := range lens {
					if lens[i] != tc.lens[i] {
						t.Fatalf("got chunks of %v, want %v", lens, tc.lens)
					}
				}
				checkEqual(t, decodeAll(t, chunks), s)
			}
		})
	}
}

func TestHistogramsBadInput(t *testing.T) {
	r := rand.New(rand.NewPCG(15, 16))
	var e chunkenc.Encoder
	for i := range 2 * few(6) {
		for _, c := range e.Seal(nil, histograms(r, 1+r.IntN(20), 1+chunkenc.Kind(i%2))) {
			checkDamage(t, &c)
		}
	}
}

func TestHistogramsMaxSamples(t *testing.T) {
	var e chunkenc.Encoder
	s := &chunkenc.Samples{Kind: chunkenc.KindHistogram}
	for i := range chunkenc.MaxSamples + 3 {
		s.T = append(s.T, int64(i))
		s.H = append(s.H, &histogram.Histogram{Count: uint64(i), Sum: 1})
	}
	chunks := e.Seal(nil, s)
	if len(chunks) != 2 || chunks[1].N != 3 {
		t.Fatalf("got %d chunks", len(chunks))
	}
	checkEqual(t, decodeAll(t, chunks), s)
}
