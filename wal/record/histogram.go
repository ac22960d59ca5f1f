package record

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/prometheus/prometheus/model/histogram"
)

// Histograms body:
//
//	count <uvarint> | histogram ...
//	histogram  flags <1b> | ref step <uvarint> | time step <uvarint> | (bit 1) ST <uvarint> | counter reset hint <1b>
//	           | schema <uvarint> | zero threshold <8b> | zero count | count | sum <8b>
//	           | spans | spans | buckets | buckets | custom values
//	spans      count <uvarint> | (offset <uvarint> | length <uvarint>) ...      positive, then negative
//	buckets    count <uvarint> | bucket ...                                     positive, then negative
//	custom     count <uvarint> | value <8b> ...
//
// flags: bit 0 is set for a float histogram, bit 1 when there is a start timestamp.
// An integer histogram's counts are <uvarint>, its buckets zigzag <uvarint>; a
// float histogram's are <8b>. Offsets, schema, ST and the steps are zigzag; steps
// are from the histogram before (first: from ref 1, time 0) as for floats.
// Nothing is validated or normalised: what was put in comes out.
const (
	flagFloat       = 1
	flagHistogramST = 2
)

func appendHistograms(dst []byte, hs []Histogram) []byte {
	start := len(dst)
	dst = binary.AppendUvarint(dst, uint64(len(hs)))
	next, last := uint64(1), uint64(0)
	for i := range hs {
		h := &hs[i]
		flags := byte(0)
		if h.FH != nil {
			flags |= flagFloat
		}
		if h.ST != 0 {
			flags |= flagHistogramST
		}
		dst = append(dst, flags)
		dst = appendDelta(dst, next, h.Ref)
		dst = appendDelta(dst, last, uint64(h.T))
		next, last = h.Ref+1, uint64(h.T)
		if h.ST != 0 {
			dst = appendDelta(dst, 0, uint64(h.ST))
		}
		if h.FH != nil {
			dst = appendFloatHistogram(dst, h.FH)
		} else {
			dst = appendHistogram(dst, h.H)
		}
	}
	return end(dst, start)
}

func appendHistogram(dst []byte, h *histogram.Histogram) []byte {
	dst = append(dst, byte(h.CounterResetHint))
	dst = appendDelta(dst, 0, uint64(h.Schema))
	dst = appendFloat(dst, h.ZeroThreshold)
	dst = binary.AppendUvarint(dst, h.ZeroCount)
	dst = binary.AppendUvarint(dst, h.Count)
	dst = appendFloat(dst, h.Sum)
	dst = appendSpans(appendSpans(dst, h.PositiveSpans), h.NegativeSpans)
	for _, buckets := range [2][]int64{h.PositiveBuckets, h.NegativeBuckets} {
		dst = binary.AppendUvarint(dst, uint64(len(buckets)))
		for _, v := range buckets {
			dst = appendDelta(dst, 0, uint64(v))
		}
	}
	return appendFloatColumn(dst, h.CustomValues)
}

func appendFloatHistogram(dst []byte, h *histogram.FloatHistogram) []byte {
	dst = append(dst, byte(h.CounterResetHint))
	dst = appendDelta(dst, 0, uint64(h.Schema))
	dst = appendFloat(dst, h.ZeroThreshold)
	dst = appendFloat(dst, h.ZeroCount)
	dst = appendFloat(dst, h.Count)
	dst = appendFloat(dst, h.Sum)
	dst = appendSpans(appendSpans(dst, h.PositiveSpans), h.NegativeSpans)
	dst = appendFloatColumn(appendFloatColumn(dst, h.PositiveBuckets), h.NegativeBuckets)
	return appendFloatColumn(dst, h.CustomValues)
}

func appendFloat(dst []byte, v float64) []byte {
	return binary.LittleEndian.AppendUint64(dst, math.Float64bits(v))
}

func appendFloatColumn(dst []byte, vs []float64) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(vs)))
	for _, v := range vs {
		dst = appendFloat(dst, v)
	}
	return dst
}

func appendSpans(dst []byte, spans []histogram.Span) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(spans)))
	for _, s := range spans {
		dst = appendDelta(dst, 0, uint64(s.Offset))
		dst = binary.AppendUvarint(dst, uint64(s.Length))
	}
	return dst
}

// minHistogramSize is the bytes of a histogram whose every count is 0.
const minHistogramSize = 1 + 1 + 1 + 1 + 1 + 8 + 1 + 1 + 8 + 2 + 2 + 1

func (d *decoder) histograms(b *Batch) {
	n := d.count(minHistogramSize)
	b.Histograms = slices.Grow(b.Histograms, n)
	next, last := uint64(1), uint64(0)
	for range n {
		flags := d.byte()
		if flags&^(flagFloat|flagHistogramST) != 0 {
			d.fail("unknown flags %#x of a histogram", flags)
		}
		h := Histogram{Ref: next + d.delta(), T: int64(last + d.delta())}
		next, last = h.Ref+1, uint64(h.T)
		if flags&flagHistogramST != 0 {
			h.ST = int64(d.delta())
		}
		if flags&flagFloat != 0 {
			h.FH = d.floatHistogram()
		} else {
			h.H = d.histogram()
		}
		if d.err != nil {
			return
		}
		b.Histograms = append(b.Histograms, h)
	}
}

func (d *decoder) histogram() *histogram.Histogram {
	h := &histogram.Histogram{
		CounterResetHint: histogram.CounterResetHint(d.byte()),
		Schema:           d.int32(),
		ZeroThreshold:    d.float(),
		ZeroCount:        d.uvarint(),
		Count:            d.uvarint(),
		Sum:              d.float(),
		PositiveSpans:    d.spans(),
		NegativeSpans:    d.spans(),
		PositiveBuckets:  d.deltas(),
		NegativeBuckets:  d.deltas(),
		CustomValues:     d.floatColumn(),
	}
	return h
}

func (d *decoder) floatHistogram() *histogram.FloatHistogram {
	h := &histogram.FloatHistogram{
		CounterResetHint: histogram.CounterResetHint(d.byte()),
		Schema:           d.int32(),
		ZeroThreshold:    d.float(),
		ZeroCount:        d.float(),
		Count:            d.float(),
		Sum:              d.float(),
		PositiveSpans:    d.spans(),
		NegativeSpans:    d.spans(),
		PositiveBuckets:  d.floatColumn(),
		NegativeBuckets:  d.floatColumn(),
		CustomValues:     d.floatColumn(),
	}
	return h
}

func (d *decoder) float() float64 { return math.Float64frombits(d.fixed64()) }

func (d *decoder) int32() int32 {
	v := int64(d.delta())
	if v != int64(int32(v)) {
		d.fail("%d is no int32", v)
	}
	return int32(v)
}

func (d *decoder) spans() []histogram.Span {
	n := d.count(2)
	if n == 0 {
		return nil
	}
	out := make([]histogram.Span, n)
	for i := range out {
		out[i].Offset = d.int32()
		length := d.uvarint()
		if length > math.MaxUint32 {
			d.fail("span length %d is no uint32", length)
		}
		out[i].Length = uint32(length)
	}
	return out
}

func (d *decoder) deltas() []int64 {
	n := d.count(1)
	if n == 0 {
		return nil
	}
	out := make([]int64, n)
	for i := range out {
		out[i] = int64(d.delta())
	}
	return out
}

func (d *decoder) floatColumn() []float64 {
	n := d.count(8)
	if n == 0 {
		return nil
	}
	out := make([]float64, n)
	for i := range out {
		out[i] = d.float()
	}
	return out
}
