package chunkenc

import (
	"slices"

	"github.com/prometheus/prometheus/model/histogram"
)

// Kind says what the values of a batch or a chunk are.
type Kind uint8

// The kinds of values.
const (
	KindFloat Kind = iota
	KindHistogram
	KindFloatHistogram
)

// MaxSamples is the most samples that one chunk holds: a Prometheus chunk
// counts its samples in two bytes, and a chunk is always transcoded to those.
const MaxSamples = 65535

// Samples is a batch of samples of one kind as columns, in strictly increasing
// order of time. The caller owns the memory; only the column of Kind is used.
type Samples struct {
	Kind Kind
	// T are the timestamps, in Unix milliseconds.
	T []int64
	// ST are the start timestamps, in Unix milliseconds, 0 where a sample has
	// none; the column is empty when no sample has one.
	ST []int64
	// V are the values of KindFloat, every bit of them.
	V []float64
	// H are the values of KindHistogram. A chunk does not keep the objects.
	H []*histogram.Histogram
	// FH are the values of KindFloatHistogram.
	FH []*histogram.FloatHistogram
}

// Len returns the number of samples.
func (s *Samples) Len() int { return len(s.T) }

// Reset empties the columns and sets the kind; their memory is kept.
func (s *Samples) Reset(k Kind) {
	s.Kind = k
	s.T, s.ST, s.V, s.H, s.FH = s.T[:0], s.ST[:0], s.V[:0], s.H[:0], s.FH[:0]
}

// Slice returns the samples [i, j) as a view of the same memory.
func (s *Samples) Slice(i, j int) Samples {
	out := Samples{Kind: s.Kind, T: s.T[i:j]}
	if len(s.ST) > 0 {
		out.ST = s.ST[i:j]
	}
	switch s.Kind {
	case KindFloat:
		out.V = s.V[i:j]
	case KindHistogram:
		out.H = s.H[i:j]
	case KindFloatHistogram:
		out.FH = s.FH[i:j]
	}
	return out
}

// Append appends the samples of o, which is of the same kind. Histogram objects are shared.
func (s *Samples) Append(o *Samples) {
	if len(s.ST) > 0 || len(o.ST) > 0 {
		s.ST = append(s.ST, make([]int64, len(s.T)-len(s.ST))...)
		s.ST = append(s.ST, o.ST...)
		s.ST = append(s.ST, make([]int64, len(o.T)-len(o.ST))...)
	}
	s.T = append(s.T, o.T...)
	s.V = append(s.V, o.V...)
	s.H = append(s.H, o.H...)
	s.FH = append(s.FH, o.FH...)
}

// Cut removes the samples in [lo, hi] and keeps the memory.
func (s *Samples) Cut(lo, hi int64) {
	i, _ := slices.BinarySearch(s.T, lo)
	n, found := slices.BinarySearch(s.T[i:], hi)
	j := i + n
	if found {
		j++
	}
	if i == j {
		return
	}
	s.T = slices.Delete(s.T, i, j)
	if len(s.ST) > 0 {
		s.ST = slices.Delete(s.ST, i, j)
	}
	switch s.Kind {
	case KindFloat:
		s.V = slices.Delete(s.V, i, j)
	case KindHistogram:
		s.H = slices.Delete(s.H, i, j)
	case KindFloatHistogram:
		s.FH = slices.Delete(s.FH, i, j)
	}
}
