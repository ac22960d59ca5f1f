package query

import (
	"encoding/binary"
	"math"

	"github.com/prometheus/prometheus/model/histogram"

	"github.com/rwsink/rwsink/chunkenc"
)

// The Histogram message (prompb/types.proto). Tags above 15 take two bytes.
const (
	tagHistCountInt       = 1<<3 | 0
	tagHistCountFloat     = 2<<3 | 1
	tagHistSum            = 3<<3 | 1
	tagHistSchema         = 4<<3 | 0
	tagHistZeroThreshold  = 5<<3 | 1
	tagHistZeroCountInt   = 6<<3 | 0
	tagHistZeroCountFloat = 7<<3 | 1
	tagHistNegSpans       = 8<<3 | 2
	tagHistNegDeltas      = 9<<3 | 2
	tagHistNegCounts      = 10<<3 | 2
	tagHistPosSpans       = 11<<3 | 2
	tagHistPosDeltas      = 12<<3 | 2
	tagHistPosCounts      = 13<<3 | 2
	tagHistResetHint      = 14<<3 | 0
	tagHistTimestamp      = 15<<3 | 0
	tagHistCustomValues   = 16<<3 | 2

	tagSpanOffset = 1<<3 | 0
	tagSpanLength = 2<<3 | 0
)

// histEncoder appends Histogram messages. scratch holds one message while its
// length is unknown.
type histEncoder struct{ scratch []byte }

// append appends the histograms of s, of either kind, as fields 4 of a TimeSeries.
//
// The hint "not a reset" is written as "unknown": it spoke of the neighbour the
// sample had when it was sent, and a late sample may stand between them now.
func (e *histEncoder) append(dst []byte, s *chunkenc.Samples) []byte {
	for i, t := range s.T {
		if s.Kind == chunkenc.KindHistogram {
			e.scratch = appendHistogram(e.scratch[:0], t, s.H[i])
		} else {
			e.scratch = appendFloatHistogram(e.scratch[:0], t, s.FH[i])
		}
		dst = append(dst, tagSeriesHistogram)
		dst = binary.AppendUvarint(dst, uint64(len(e.scratch)))
		dst = append(dst, e.scratch...)
	}
	return dst
}

func appendHistogram(b []byte, t int64, h *histogram.Histogram) []byte {
	b = binary.AppendUvarint(append(b, tagHistCountInt), h.Count)
	b = appendDouble(b, tagHistSum, h.Sum)
	b = appendSint(b, tagHistSchema, int64(h.Schema))
	b = appendDouble(b, tagHistZeroThreshold, h.ZeroThreshold)
	b = binary.AppendUvarint(append(b, tagHistZeroCountInt), h.ZeroCount)
	b = appendSpans(b, tagHistNegSpans, h.NegativeSpans)
	b = appendDeltas(b, tagHistNegDeltas, h.NegativeBuckets)
	b = appendSpans(b, tagHistPosSpans, h.PositiveSpans)
	b = appendDeltas(b, tagHistPosDeltas, h.PositiveBuckets)
	return appendHistogramTail(b, t, h.CounterResetHint, h.CustomValues)
}

func appendFloatHistogram(b []byte, t int64, h *histogram.FloatHistogram) []byte {
	b = appendFixed(append(b, tagHistCountFloat), h.Count)
	b = appendDouble(b, tagHistSum, h.Sum)
	b = appendSint(b, tagHistSchema, int64(h.Schema))
	b = appendDouble(b, tagHistZeroThreshold, h.ZeroThreshold)
	b = appendFixed(append(b, tagHistZeroCountFloat), h.ZeroCount)
	b = appendSpans(b, tagHistNegSpans, h.NegativeSpans)
	b = appendDoubles(b, tagHistNegCounts, h.NegativeBuckets)
	b = appendSpans(b, tagHistPosSpans, h.PositiveSpans)
	b = appendDoubles(b, tagHistPosCounts, h.PositiveBuckets)
	return appendHistogramTail(b, t, h.CounterResetHint, h.CustomValues)
}

func appendHistogramTail(b []byte, t int64, hint histogram.CounterResetHint, bounds []float64) []byte {
	if hint == histogram.CounterReset || hint == histogram.GaugeType {
		b = append(b, tagHistResetHint, byte(hint))
	}
	if t != 0 {
		b = binary.AppendUvarint(append(b, tagHistTimestamp), uint64(t))
	}
	return appendDoubles(b, tagHistCustomValues, bounds)
}

// appendDouble appends a double that is left out when it is +0.
func appendDouble(b []byte, tag byte, v float64) []byte {
	if math.Float64bits(v) == 0 {
		return b
	}
	return appendFixed(append(b, tag), v)
}

func appendFixed(b []byte, v float64) []byte {
	return binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
}

// appendSint appends a sint32 or sint64 that is left out when it is 0.
func appendSint(b []byte, tag byte, v int64) []byte {
	if v == 0 {
		return b
	}
	return binary.AppendVarint(append(b, tag), v)
}

func appendSpans(b []byte, tag byte, spans []histogram.Span) []byte {
	for _, s := range spans {
		b = append(b, tag, 0)
		start := len(b)
		b = appendSint(b, tagSpanOffset, int64(s.Offset))
		if s.Length != 0 {
			b = binary.AppendUvarint(append(b, tagSpanLength), uint64(s.Length))
		}
		b[start-1] = byte(len(b) - start) // at most 12
	}
	return b
}

// appendDeltas appends packed sint64.
func appendDeltas(b []byte, tag byte, deltas []int64) []byte {
	if len(deltas) == 0 {
		return b
	}
	n := 0
	for _, d := range deltas {
		n += uvarintLen(uint64(d<<1) ^ uint64(d>>63))
	}
	b = binary.AppendUvarint(append(b, tag), uint64(n))
	for _, d := range deltas {
		b = binary.AppendVarint(b, d)
	}
	return b
}

// appendDoubles appends packed doubles. tag is a varint.
func appendDoubles(b []byte, tag uint64, vs []float64) []byte {
	if len(vs) == 0 {
		return b
	}
	b = binary.AppendUvarint(b, tag)
	b = binary.AppendUvarint(b, uint64(8*len(vs)))
	for _, v := range vs {
		b = appendFixed(b, v)
	}
	return b
}
