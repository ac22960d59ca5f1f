package ooo

import (
	"math"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/value"

	"github.com/rwsink/rwsink/chunkenc"
)

// Stats count what a merge resolved. Of all samples that went in, each one came
// out, or is a duplicate, or is overwritten.
type Stats struct {
	// Duplicates were equal, start timestamp included, to what already stood at their timestamp.
	Duplicates int
	// Overwritten lost their timestamp to another sample: to a later one, or,
	// for a stale marker, to a number that stood there before.
	Overwritten int
}

// resolve puts next, the later arrival, against cur at the same timestamp: the
// last number wins, without one the last stale marker. It says whether next won.
func (st *Stats) resolve(cur, next sample) bool {
	if equal(cur, next) && cur.st == next.st {
		st.Duplicates++
		return false
	}
	st.Overwritten++
	return !next.stale() || cur.stale()
}

// resolveBits is resolve for floats without start timestamps; it returns the winner.
func (st *Stats) resolveBits(cur, next uint64) uint64 {
	if cur == next {
		st.Duplicates++
		return cur
	}
	st.Overwritten++
	if next == value.StaleNaN {
		return cur
	}
	return next
}

// Stale says whether the i-th sample of a run is a stale marker.
func Stale(run *chunkenc.Samples, i int) bool { return sampleOf(run, i).stale() }

// Same says whether the i-th sample of a and the j-th of b are one, as a merge
// counts duplicates: in value, histograms apart from reset hint and empty buckets,
// and in start timestamp.
func Same(a *chunkenc.Samples, i int, b *chunkenc.Samples, j int) bool {
	x, y := sampleOf(a, i), sampleOf(b, j)
	return equal(x, y) && x.st == y.st
}

// sampleOf returns the i-th sample of a run.
func sampleOf(run *chunkenc.Samples, i int) sample {
	var s sample
	switch run.Kind {
	case chunkenc.KindFloat:
		s.bits = math.Float64bits(run.V[i])
	case chunkenc.KindHistogram:
		s.h = run.H[i]
	case chunkenc.KindFloatHistogram:
		s.fh = run.FH[i]
	}
	if len(run.ST) > 0 {
		s.st = run.ST[i]
	}
	return s
}

// stale says whether s is a stale marker. An ordinary NaN is a number.
func (s sample) stale() bool {
	switch {
	case s.h != nil:
		return value.IsStaleNaN(s.h.Sum)
	case s.fh != nil:
		return value.IsStaleNaN(s.fh.Sum)
	default:
		return s.bits == value.StaleNaN
	}
}

// equal says whether a and b hold the same value, start timestamps aside.
func equal(a, b sample) bool {
	switch {
	case a.h != nil && b.h != nil:
		return equalInt(a.h, b.h)
	case a.fh != nil && b.fh != nil:
		return equalFloat(a.fh, b.fh)
	case a.h != nil || a.fh != nil || b.h != nil || b.fh != nil:
		return false
	default:
		return a.bits == b.bits
	}
}

// equalInt says whether a and b differ at most in reset hint and empty buckets.
// Of a stale marker only the sum counts: a chunk keeps nothing else of it.
func equalInt(a, b *histogram.Histogram) bool {
	if a == b || value.IsStaleNaN(a.Sum) && value.IsStaleNaN(b.Sum) {
		return true
	}
	return a.Schema == b.Schema && a.Count == b.Count && sameBits(a.Sum, b.Sum) &&
		a.ZeroThreshold == b.ZeroThreshold && a.ZeroCount == b.ZeroCount &&
		(!a.UsesCustomBuckets() || histogram.CustomBucketBoundsMatch(a.CustomValues, b.CustomValues)) &&
		sameBuckets(a.PositiveSpans, b.PositiveSpans, a.PositiveBuckets, b.PositiveBuckets, true) &&
		sameBuckets(a.NegativeSpans, b.NegativeSpans, a.NegativeBuckets, b.NegativeBuckets, true)
}

// equalFloat is equalInt for float histograms; counts are compared by bits.
func equalFloat(a, b *histogram.FloatHistogram) bool {
	if a == b || value.IsStaleNaN(a.Sum) && value.IsStaleNaN(b.Sum) {
		return true
	}
	return a.Schema == b.Schema && sameBits(a.Count, b.Count) && sameBits(a.Sum, b.Sum) &&
		a.ZeroThreshold == b.ZeroThreshold && sameBits(a.ZeroCount, b.ZeroCount) &&
		(!a.UsesCustomBuckets() || histogram.CustomBucketBoundsMatch(a.CustomValues, b.CustomValues)) &&
		sameBuckets(a.PositiveSpans, b.PositiveSpans, a.PositiveBuckets, b.PositiveBuckets, false) &&
		sameBuckets(a.NegativeSpans, b.NegativeSpans, a.NegativeBuckets, b.NegativeBuckets, false)
}

func sameBits(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) }

// sameBuckets compares the buckets that are not empty. With delta, each bucket
// is the difference from the one before it.
func sameBuckets[T int64 | float64](as, bs []histogram.Span, a, b []T, delta bool) bool {
	x := walk[T]{spans: as, buckets: a, delta: delta}
	y := walk[T]{spans: bs, buckets: b, delta: delta}
	for {
		okX, okY := x.next(), y.next()
		if !okX || !okY {
			return okX == okY
		}
		if x.index != y.index || x.count != y.count && !sameNaN(float64(x.count), float64(y.count)) {
			return false
		}
	}
}

func sameNaN(a, b float64) bool { return math.IsNaN(a) && sameBits(a, b) }

// walk steps through the buckets that are not empty. It stops at the shorter of
// spans and buckets, so that no layout makes it fail.
type walk[T int64 | float64] struct {
	spans   []histogram.Span
	buckets []T
	delta   bool
	used    uint32 // buckets of spans[0] that lie behind
	at      int32  // index of the next bucket, once the offset of spans[0] is added
	index   int32  // of the bucket found
	count   T
}

func (w *walk[T]) next() bool {
	for len(w.spans) > 0 && len(w.buckets) > 0 {
		if w.used == 0 {
			w.at += w.spans[0].Offset
		}
		if w.used == w.spans[0].Length {
			w.spans, w.used = w.spans[1:], 0
			continue
		}
		if w.delta {
			w.count += w.buckets[0]
		} else {
			w.count = w.buckets[0]
		}
		w.index = w.at
		w.buckets = w.buckets[1:]
		w.used++
		w.at++
		if w.count != 0 {
			return true
		}
	}
	return false
}
