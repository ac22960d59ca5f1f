package load

import (
	"fmt"
	"math"

	"github.com/prometheus/prometheus/model/histogram"
)

// Values is a model of values.
type Values uint8

const (
	Mixed      Values = iota // 40 % counters, 15 % gauges, 25 % decimals, 10 % constant, 10 % random
	Counters                 // integers that grow
	Gauges                   // small integers
	Decimals                 // two or three decimals
	Constant                 // one value a series
	Random                   // every bit of the mantissa
	Histograms               // native histograms of integers that grow
	numValues
)

var valuesNames = [...]string{"mixed", "counter", "gauge", "decimal", "constant", "random", "histogram"}

// ValuesNames are the names of the models, in their order.
func ValuesNames() []string { return valuesNames[:] }

func (v Values) String() string { return valuesNames[v] }

// ParseValues returns the model of a name.
func ParseValues(name string) (Values, error) {
	for v, n := range valuesNames {
		if n == name {
			return Values(v), nil
		}
	}
	return 0, fmt.Errorf("unknown model of values %q, want one of %v", name, valuesNames)
}

// mixed is the model of each family of a target, twenty families by twenty.
var mixed = [20]Values{
	Counters, Counters, Gauges, Decimals, Counters, Decimals, Constant, Counters, Random, Decimals,
	Counters, Gauges, Counters, Decimals, Counters, Constant, Gauges, Random, Counters, Decimals,
}

// model is that of series i.
func (s *Spec) model(i int) Values {
	if s.Values == Mixed {
		return mixed[family(i)%len(mixed)]
	}
	return s.Values
}

// Float is the value of sample k of series i, unless its model is Histograms.
func (s *Spec) Float(i, k int) float64 {
	shape := mix(s.Seed^saltShape, uint64(i), 0)
	u := unit(mix(s.Seed, uint64(i), uint64(k)))
	switch s.model(i) {
	case Counters:
		return float64(shape%1_000_000) + math.Floor(rate(shape)*(float64(k)+0.9*u))
	case Gauges:
		return float64(shape%500) + math.Floor(u*float64(1+shape>>32%64))
	case Decimals:
		unit := 100.0
		if shape&1 == 1 {
			unit = 1000
		}
		return math.Round((float64(shape%90)+u*float64(1+shape>>32%10))*unit) / unit
	case Constant:
		return float64(shape % 10)
	}
	return u * float64(1+shape%1000)
}

// rate is by how much a counter grows a sample: 1 to 1,000, the small ones as frequent as the large.
func rate(shape uint64) float64 { return math.Floor(math.Exp(unit(scramble(shape)) * math.Log(1000))) }

// The histograms of a Spec: schema and number of buckets.
const (
	histSchema  = 3
	minBuckets  = 8
	moreBuckets = 24
)

// Histogram is sample k of series i where the model is Histograms.
func (s *Spec) Histogram(i, k int) *histogram.Histogram {
	shape := mix(s.Seed^saltShape, uint64(i), 0)
	n := minBuckets + int(shape%moreBuckets)
	h := &histogram.Histogram{
		Schema: histSchema, ZeroThreshold: 1e-128, ZeroCount: uint64(k) * (shape >> 8 % 2),
		PositiveSpans:   []histogram.Span{{Offset: int32(shape>>16%32) - 16, Length: uint32(n / 2)}, {Offset: 2, Length: uint32(n - n/2)}},
		PositiveBuckets: make([]int64, n),
	}
	h.Count = h.ZeroCount
	last := int64(0)
	for b := range n {
		r := rate(mix(s.Seed^saltRate, uint64(i), uint64(b)))
		u := unit(mix(s.Seed^uint64(b)<<32, uint64(i), uint64(k)))
		c := int64(r * (float64(k) + 0.9*u))
		h.PositiveBuckets[b] = c - last
		last = c
		h.Count += uint64(c)
	}
	h.Sum = float64(h.Count) * (0.5 + unit(shape)) / 8
	return h
}
