package ooo

import (
	"github.com/prometheus/prometheus/model/histogram"

	"github.com/rwsink/rwsink/chunkenc"
)

// Sample is one late sample: a float, or a histogram when H or FH is set.
type Sample struct {
	T, ST int64
	V     float64
	H     *histogram.Histogram
	FH    *histogram.FloatHistogram
}

// Buffer holds the late samples of one series in one container in order of arrival.
// The zero value is an empty buffer. Not safe for concurrent use.
type Buffer struct{}

// Add keeps a sample.
func (b *Buffer) Add(s Sample) { panic("BUG: not built") }

// Len returns the number of samples kept, duplicates included.
func (b *Buffer) Len() int { panic("BUG: not built") }

// Stats count what a merge resolved.
type Stats struct{ Duplicates, Overwritten int }

// Merger merges late samples into runs. It holds scratch memory and serves one goroutine.
type Merger struct{}

// Merge calls emit with the union of base and the late samples in order of
// time, as runs of one kind with no timestamp twice.
func (m *Merger) Merge(base []*chunkenc.Samples, late []Sample, emit func(*chunkenc.Samples) error) (Stats, error) {
	panic("BUG: not built")
}
