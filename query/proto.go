package query

import (
	"encoding/binary"
	"math"
	"math/bits"
	"slices"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/rwsink/rwsink/chunkenc"
)

// The encoders of the reply messages (prometheus/prompb: remote.proto, types.proto),
// append-shaped and without message objects. A field is left out when all its
// bits are zero, so a value of -0 is written, which the generated encoder drops.

// Tags: field number << 3 | wire type.
const (
	tagResult     = 1<<3 | 2 // ReadResponse.results
	tagTimeseries = 1<<3 | 2 // QueryResult.timeseries

	tagSeriesLabel     = 1<<3 | 2 // TimeSeries.labels and ChunkedSeries.labels
	tagSeriesSample    = 2<<3 | 2 // TimeSeries.samples
	tagSeriesHistogram = 4<<3 | 2 // TimeSeries.histograms
	tagSeriesChunk     = 2<<3 | 2 // ChunkedSeries.chunks

	tagLabelName   = 1<<3 | 2
	tagLabelValue  = 2<<3 | 2
	tagSampleValue = 1<<3 | 1
	tagSampleTime  = 2<<3 | 0

	tagChunkMinTime = 1<<3 | 0
	tagChunkMaxTime = 2<<3 | 0
	tagChunkType    = 3<<3 | 0
	tagChunkData    = 4<<3 | 2

	tagChunkedSeries = 1<<3 | 2 // ChunkedReadResponse.chunked_series
	tagQueryIndex    = 2<<3 | 0 // ChunkedReadResponse.query_index
)

// uvarintLen returns how many bytes v takes as an unsigned varint.
func uvarintLen(v uint64) int { return (bits.Len64(v|1) + 6) / 7 }

// appendLabels appends ls as fields 1 of a TimeSeries or ChunkedSeries.
func appendLabels(dst []byte, ls labels.Labels) []byte {
	ls.Range(func(l labels.Label) {
		n := 2 + uvarintLen(uint64(len(l.Name))) + len(l.Name) + uvarintLen(uint64(len(l.Value))) + len(l.Value)
		dst = append(dst, tagSeriesLabel)
		dst = binary.AppendUvarint(dst, uint64(n))
		dst = append(dst, tagLabelName)
		dst = binary.AppendUvarint(dst, uint64(len(l.Name)))
		dst = append(dst, l.Name...)
		dst = append(dst, tagLabelValue)
		dst = binary.AppendUvarint(dst, uint64(len(l.Value)))
		dst = append(dst, l.Value...)
	})
	return dst
}

// maxSampleSize is the most bytes that one sample takes in a TimeSeries: tag and
// length, tag and value, tag and ten bytes of time.
const maxSampleSize = 2 + 9 + 11

// appendSamples appends the float samples of s as fields 2 of a TimeSeries.
func appendSamples(dst []byte, s *chunkenc.Samples) []byte {
	n := len(dst)
	dst = slices.Grow(dst, len(s.T)*maxSampleSize)
	buf := dst[:cap(dst)]
	for i, t := range s.T {
		buf[n] = tagSeriesSample
		p := n + 2
		if v := math.Float64bits(s.V[i]); v != 0 {
			buf[p] = tagSampleValue
			binary.LittleEndian.PutUint64(buf[p+1:], v)
			p += 9
		}
		if t != 0 {
			buf[p] = tagSampleTime
			p++
			u := uint64(t)
			for ; u >= 0x80; u >>= 7 {
				buf[p] = byte(u) | 0x80
				p++
			}
			buf[p] = byte(u)
			p++
		}
		buf[n+1] = byte(p - n - 2)
		n = p
	}
	return buf[:n]
}

// appendChunk appends one chunk as field 2 of a ChunkedSeries.
func appendChunk(dst []byte, minT, maxT int64, typ byte, data []byte) []byte {
	dst = append(dst, tagSeriesChunk)
	dst = binary.AppendUvarint(dst, uint64(chunkSize(minT, maxT, len(data))))
	if minT != 0 {
		dst = append(dst, tagChunkMinTime)
		dst = binary.AppendUvarint(dst, uint64(minT))
	}
	if maxT != 0 {
		dst = append(dst, tagChunkMaxTime)
		dst = binary.AppendUvarint(dst, uint64(maxT))
	}
	dst = append(dst, tagChunkType, typ, tagChunkData)
	dst = binary.AppendUvarint(dst, uint64(len(data)))
	return append(dst, data...)
}

// chunkSize returns the length of the Chunk message, without tag and length.
func chunkSize(minT, maxT int64, data int) int {
	n := 3 + uvarintLen(uint64(data)) + data
	if minT != 0 {
		n += 1 + uvarintLen(uint64(minT))
	}
	if maxT != 0 {
		n += 1 + uvarintLen(uint64(maxT))
	}
	return n
}
