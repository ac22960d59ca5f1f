package query

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/value"

	"github.com/rwsink/rwsink/chunkenc"
)

var (
	staleNaN = math.Float64frombits(value.StaleNaN)
	negZero  = math.Copysign(0, -1)
	oddNaN   = math.Float64frombits(0xfff8_dead_beef_0001)
)

// counts is a histogram under way: absolute counts by bucket index.
type counts struct {
	schema   int32
	bounds   []float64
	pos, neg map[int32]int64
	zero     uint64
	sum      float64
}

func newCounts(rng *rand.Rand) *counts {
	c := &counts{schema: int32(rng.IntN(13) - 4), pos: map[int32]int64{}, neg: map[int32]int64{}}
	if rng.IntN(4) == 0 {
		c.schema = histogram.CustomBucketsSchema
		for b := range 2 + rng.IntN(5) {
			c.bounds = append(c.bounds, float64(b*10)+rng.Float64())
		}
	}
	return c
}

// observe adds to some buckets.
func (c *counts) observe(rng *rand.Rand) {
	for range rng.IntN(6) {
		n := 1 + rng.Int64N(50)
		if c.bounds != nil {
			c.pos[int32(rng.IntN(len(c.bounds)+1))] += n
			continue
		}
		switch rng.IntN(5) {
		case 0:
			c.zero += uint64(n)
		case 1:
			c.neg[int32(rng.IntN(20)-10)] += n
		default:
			c.pos[int32(rng.IntN(30)-15)] += n
		}
	}
	c.sum += rng.Float64() * 10
}

// buckets returns spans and absolute counts.
func buckets(m map[int32]int64) (spans []histogram.Span, abs []int64) {
	var idx []int32
	for i := range m {
		idx = append(idx, i)
	}
	slices.Sort(idx)
	next := int32(0)
	for k, i := range idx {
		if k == 0 || i != next {
			spans = append(spans, histogram.Span{Offset: i - next})
		}
		spans[len(spans)-1].Length++
		abs = append(abs, m[i])
		next = i + 1
	}
	return spans, abs
}

func deltas(abs []int64) (out []int64) {
	prev := int64(0)
	for _, a := range abs {
		out = append(out, a-prev)
		prev = a
	}
	return out
}

func floats(abs []int64) (out []float64) {
	for _, a := range abs {
		out = append(out, float64(a)+0.25)
	}
	return out
}

func (c *counts) int() *histogram.Histogram {
	h := &histogram.Histogram{Schema: c.schema, Sum: c.sum, ZeroCount: c.zero, CustomValues: c.bounds}
	if c.bounds == nil {
		h.ZeroThreshold = 1e-128
	}
	ps, pa := buckets(c.pos)
	ns, na := buckets(c.neg)
	h.PositiveSpans, h.PositiveBuckets = ps, deltas(pa)
	h.NegativeSpans, h.NegativeBuckets = ns, deltas(na)
	h.Count = c.zero
	for _, a := range append(pa, na...) {
		h.Count += uint64(a)
	}
	return h
}

func (c *counts) float() *histogram.FloatHistogram {
	h := &histogram.FloatHistogram{Schema: c.schema, Sum: c.sum, ZeroCount: float64(c.zero), CustomValues: c.bounds}
	if c.bounds == nil {
		h.ZeroThreshold = 1e-128
	}
	ps, pa := buckets(c.pos)
	ns, na := buckets(c.neg)
	h.PositiveSpans, h.PositiveBuckets = ps, floats(pa)
	h.NegativeSpans, h.NegativeBuckets = ns, floats(na)
	h.Count = h.ZeroCount
	for _, a := range append(h.PositiveBuckets, h.NegativeBuckets...) {
		h.Count += a
	}
	return h
}

// randFloat returns a value of any sort.
func randFloat(rng *rand.Rand) float64 {
	odd := []float64{0, negZero, staleNaN, oddNaN, math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat64, 5e-324, 1}
	switch rng.IntN(4) {
	case 0:
		return odd[rng.IntN(len(odd))]
	case 1:
		return math.Float64frombits(rng.Uint64())
	default:
		return float64(rng.IntN(1000))
	}
}

// step returns a gap between two samples, now and then a wild one.
func step(rng *rand.Rand) int64 {
	switch rng.IntN(20) {
	case 0:
		return 1
	case 1:
		return 1 + rng.Int64N(1<<40)
	case 2:
		return 1 + rng.Int64N(1<<20)
	default:
		return 15_000
	}
}

// randRun returns a run of n samples of one kind that begins after t. gauge says
// whether its histograms are gauges.
func randRun(rng *rand.Rand, kind chunkenc.Kind, gauge bool, t int64, n int) (chunkenc.Samples, int64) {
	s := chunkenc.Samples{Kind: kind}
	c := newCounts(rng)
	for range n {
		t += step(rng)
		s.T = append(s.T, t)
		hint := histogram.UnknownCounterReset
		if gauge {
			hint = histogram.GaugeType
		}
		switch rng.IntN(25) {
		case 0:
			c = newCounts(rng)
		case 1:
			clear(c.pos)
		case 2:
			if !gauge {
				hint = histogram.CounterReset
			}
		}
		c.observe(rng)
		stale := rng.IntN(25) == 0
		switch kind {
		case chunkenc.KindFloat:
			s.V = append(s.V, randFloat(rng))
		case chunkenc.KindHistogram:
			h := c.int()
			if stale {
				h = &histogram.Histogram{Sum: staleNaN}
			}
			h.CounterResetHint = hint
			s.H = append(s.H, h)
		default:
			h := c.float()
			if stale {
				h = &histogram.FloatHistogram{Sum: staleNaN}
			}
			h.CounterResetHint = hint
			s.FH = append(s.FH, h)
		}
	}
	return s, t
}

// randRuns returns a series of several runs; neighbours may have the same kind.
func randRuns(rng *rand.Rand, most int) (out runs) {
	t := rng.Int64N(2_000_000_000_000) - 100_000
	gauge := rng.IntN(4) == 0
	for range 1 + rng.IntN(6) {
		var s chunkenc.Samples
		s, t = randRun(rng, chunkenc.Kind(rng.IntN(3)), gauge, t, 1+rng.IntN(most))
		out = append(out, s)
	}
	return out
}

// clone returns a deep copy: encoders may change histograms.
func (r runs) clone() (out runs) {
	for i := range r {
		out.add(&r[i])
		last := &out[len(out)-1]
		for k, h := range last.H {
			last.H[k] = h.Copy()
		}
		for k, h := range last.FH {
			last.FH[k] = h.Copy()
		}
	}
	return out
}

// point is a sample of any kind.
type point struct {
	t  int64
	v  float64
	h  *histogram.Histogram
	fh *histogram.FloatHistogram
}

func (r runs) points() (out []point) {
	for _, s := range r {
		for i, t := range s.T {
			p := point{t: t}
			switch s.Kind {
			case chunkenc.KindFloat:
				p.v = s.V[i]
			case chunkenc.KindHistogram:
				p.h = s.H[i]
			default:
				p.fh = s.FH[i]
			}
			out = append(out, p)
		}
	}
	return out
}

// runOf returns a run of one sample.
func runOf(p point) chunkenc.Samples {
	s := chunkenc.Samples{T: []int64{p.t}}
	switch {
	case p.h != nil:
		s.Kind, s.H = chunkenc.KindHistogram, []*histogram.Histogram{p.h}
	case p.fh != nil:
		s.Kind, s.FH = chunkenc.KindFloatHistogram, []*histogram.FloatHistogram{p.fh}
	default:
		s.V = []float64{p.v}
	}
	return s
}

// samePoint compares all bits of floats, and histograms but for hints and empty buckets.
func samePoint(a, b point) bool {
	switch {
	case a.t != b.t || (a.h == nil) != (b.h == nil) || (a.fh == nil) != (b.fh == nil):
		return false
	case a.h != nil:
		if value.IsStaleNaN(a.h.Sum) {
			return value.IsStaleNaN(b.h.Sum)
		}
		return a.h.Copy().Compact(0).Equals(b.h.Copy().Compact(0))
	case a.fh != nil:
		if value.IsStaleNaN(a.fh.Sum) {
			return value.IsStaleNaN(b.fh.Sum)
		}
		return a.fh.Copy().Compact(0).Equals(b.fh.Copy().Compact(0))
	}
	return math.Float64bits(a.v) == math.Float64bits(b.v)
}
