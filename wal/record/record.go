// Package record is the payload of a log frame: one batch as records, one kind after another.
package record

import (
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
)

// Batch is one batch as the log holds it; in a frame the kinds stand in the order of these fields.
type Batch struct {
	Series     []Series
	Floats     Floats
	Histograms []Histogram
	Metadata   []Metadata
	Exemplars  []Exemplar
}

// Series names a reference. A segment holds the record of every reference that its frames use.
type Series struct {
	Ref    uint64
	Labels labels.Labels
}

// Floats are float samples as columns of one length; ST is empty when no sample has a start timestamp.
type Floats struct {
	Ref []uint64
	T   []int64
	ST  []int64
	V   []float64
}

// Histogram is one histogram sample: exactly one of H and FH is set.
type Histogram struct {
	Ref   uint64
	T, ST int64
	H     *histogram.Histogram
	FH    *histogram.FloatHistogram
}

// Metadata is what is known of one metric family.
type Metadata struct {
	Family     string
	Type       model.MetricType
	Unit, Help string
}

// Exemplar is one exemplar of a series.
type Exemplar struct {
	Ref    uint64
	T      int64
	V      float64
	Labels labels.Labels
}

// Append appends the encoding of b to dst. It allocates nothing but dst's growth.
func Append(dst []byte, b *Batch) []byte { panic("BUG: not built") }

// Decode fills b from src, reusing b's memory; labels and histograms are fresh.
// The error names the offset in src.
func Decode(b *Batch, src []byte) error { panic("BUG: not built") }
