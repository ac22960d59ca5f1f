package acceptance

import (
	"math"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/value"
)

// Values whose bits matter.
var (
	staleNaN = math.Float64frombits(value.StaleNaN)
	plainNaN = math.Float64frombits(value.NormalNaN)
)

// intHistogram returns a valid integer histogram whose count grows with i, with
// buckets on both sides.
func intHistogram(i int) *histogram.Histogram {
	n := uint64(i)
	return &histogram.Histogram{
		Schema: 1, ZeroThreshold: 0.001, ZeroCount: 1 + n, Count: 10 + 5*n, Sum: 18.4 * float64(i+1),
		PositiveSpans: []histogram.Span{{Offset: 0, Length: 2}, {Offset: 1, Length: 2}}, PositiveBuckets: []int64{1 + int64(i), 1, -1, 0},
		NegativeSpans: []histogram.Span{{Offset: 2, Length: 1}}, NegativeBuckets: []int64{4},
	}
}

// floatHistogram is intHistogram in floats.
func floatHistogram(i int) *histogram.FloatHistogram { return intHistogram(i).ToFloat(nil) }

// customHistogram returns a valid integer histogram with bounds of its own.
func customHistogram(i int, bounds ...float64) *histogram.Histogram {
	n := len(bounds) + 1
	h := &histogram.Histogram{
		Schema: histogram.CustomBucketsSchema, Sum: float64(i), CustomValues: bounds,
		PositiveSpans: []histogram.Span{{Offset: 0, Length: uint32(n)}}, PositiveBuckets: make([]int64, n),
	}
	h.PositiveBuckets[0] = int64(i)
	h.Count = uint64(i * n)
	return h
}
