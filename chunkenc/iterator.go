package chunkenc

import (
	"sort"

	"github.com/prometheus/prometheus/model/histogram"
	promenc "github.com/prometheus/prometheus/tsdb/chunkenc"
)

// millis is a timestamp in Unix milliseconds. (It also tells vet that this Seek is
// Prometheus's, not io.Seeker's.)
type millis = int64

// Iterator is Prometheus's iterator over a decoded batch, for the PromQL engine.
// It borrows the batch, which must not change meanwhile. Histograms that it gives
// are copies: the engine writes to them.
type Iterator struct {
	s *Samples
	i int // index of the current sample; -1 before the first
}

var _ promenc.Iterator = (*Iterator)(nil)

// NewIterator returns an iterator before the first sample of s.
func NewIterator(s *Samples) *Iterator { return &Iterator{s: s, i: -1} }

// Reset puts the iterator before the first sample of s.
func (it *Iterator) Reset(s *Samples) { it.s, it.i = s, -1 }

// Next goes to the next sample.
func (it *Iterator) Next() promenc.ValueType {
	if it.i+1 >= len(it.s.T) {
		it.i = len(it.s.T)
		return promenc.ValNone
	}
	it.i++
	return it.valueType()
}

// Seek goes forward to the first sample at or after t; the current one may be it.
func (it *Iterator) Seek(t millis) promenc.ValueType {
	from := max(it.i, 0)
	step := 1
	for from+step < len(it.s.T) && it.s.T[from+step] < t {
		from += step
		step *= 2
	}
	rest := it.s.T[from:min(from+step+1, len(it.s.T))]
	it.i = from + sort.Search(len(rest), func(i int) bool { return rest[i] >= t })
	if it.i >= len(it.s.T) {
		return promenc.ValNone
	}
	return it.valueType()
}

func (it *Iterator) valueType() promenc.ValueType {
	switch it.s.Kind {
	case KindHistogram:
		return promenc.ValHistogram
	case KindFloatHistogram:
		return promenc.ValFloatHistogram
	default:
		return promenc.ValFloat
	}
}

// At gives the current sample of a batch of floats.
func (it *Iterator) At() (int64, float64) { return it.s.T[it.i], it.s.V[it.i] }

// AtHistogram gives the current sample of a batch of integer histograms, in h when
// that is not nil.
func (it *Iterator) AtHistogram(h *histogram.Histogram) (int64, *histogram.Histogram) {
	if h == nil {
		return it.s.T[it.i], it.s.H[it.i].Copy()
	}
	it.s.H[it.i].CopyTo(h)
	return it.s.T[it.i], h
}

// AtFloatHistogram gives the current sample of a batch of histograms of either kind,
// in h when that is not nil.
func (it *Iterator) AtFloatHistogram(h *histogram.FloatHistogram) (int64, *histogram.FloatHistogram) {
	t := it.s.T[it.i]
	if it.s.Kind == KindHistogram {
		return t, it.s.H[it.i].ToFloat(h)
	}
	if h == nil {
		return t, it.s.FH[it.i].Copy()
	}
	it.s.FH[it.i].CopyTo(h)
	return t, h
}

// AtT gives the timestamp of the current sample.
func (it *Iterator) AtT() int64 { return it.s.T[it.i] }

// AtST gives the start timestamp of the current sample, 0 when it has none.
func (it *Iterator) AtST() int64 {
	if len(it.s.ST) == 0 {
		return 0
	}
	return it.s.ST[it.i]
}

// Err is nil: the batch has been decoded.
func (it *Iterator) Err() error { return nil }
