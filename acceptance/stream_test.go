package acceptance

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
)

const (
	maxFrame        = 50_000_000 // bytes of a message that the usual client takes
	maxChunkSamples = 120        // where Prometheus cuts
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// decodeStreamed decodes a STREAMED_XOR_CHUNKS answer and checks every rule of
// its form. Samples outside a query's range are allowed and left out.
func decodeStreamed(header http.Header, body []byte, queries []*prompb.Query) ([]result, error) {
	if ct, ce := header.Get("Content-Type"), header.Get("Content-Encoding"); ct != streamedType || ce != "" {
		return nil, fmt.Errorf("a stream with Content-Type %q and Content-Encoding %q", ct, ce)
	}
	out := make([]result, len(queries))
	index := 0
	last := make([]labels.Labels, len(queries)) // of the newest frame of a query
	for n := 0; len(body) > 0; n++ {
		frame, rest, err := decodeFrame(body)
		if err != nil {
			return nil, fmt.Errorf("frame %d: %w", n, err)
		}
		body = rest
		if len(frame.ChunkedSeries) != 1 {
			return nil, fmt.Errorf("frame %d holds %d series", n, len(frame.ChunkedSeries))
		}
		i := int(frame.QueryIndex)
		if i < index || i >= len(queries) {
			return nil, fmt.Errorf("frame %d is of query %d, after one of query %d of %d", n, i, index, len(queries))
		}
		index = i
		rs, err := decodeChunkedSeries(frame.ChunkedSeries[0], queries[i])
		if err != nil {
			return nil, fmt.Errorf("frame %d, %s: %w", n, short(rs.labels), err)
		}
		if !last[i].IsEmpty() && labels.Compare(last[i], rs.labels) >= 0 {
			return nil, fmt.Errorf("frame %d: %s stands after %s", n, short(rs.labels), short(last[i]))
		}
		last[i] = rs.labels
		if len(rs.points) > 0 {
			out[i] = append(out[i], rs)
		}
	}
	return out, nil
}

// decodeFrame takes a frame from the front of a stream.
func decodeFrame(b []byte) (*prompb.ChunkedReadResponse, []byte, error) {
	size, n := binary.Uvarint(b)
	if n <= 0 {
		return nil, nil, errors.New("no length")
	}
	b = b[n:]
	if size == 0 || size > maxFrame {
		return nil, nil, fmt.Errorf("%d bytes", size)
	}
	if uint64(len(b)) < 4+size {
		return nil, nil, fmt.Errorf("cut: %d bytes of %d", len(b), 4+size)
	}
	sum, msg := binary.BigEndian.Uint32(b), b[4:4+size]
	if got := crc32.Checksum(msg, castagnoli); got != sum {
		return nil, nil, fmt.Errorf("checksum %08x, want %08x", got, sum)
	}
	var frame prompb.ChunkedReadResponse
	return &frame, b[4+size:], frame.Unmarshal(msg)
}

// decodeChunkedSeries decodes the chunks of one series and checks them.
func decodeChunkedSeries(cs *prompb.ChunkedSeries, q *prompb.Query) (readSeries, error) {
	ls, err := checkLabels(cs.Labels)
	if err != nil {
		return readSeries{}, err
	}
	rs := readSeries{labels: ls}
	for i, c := range cs.Chunks {
		if i > 0 && c.MinTimeMs <= cs.Chunks[i-1].MaxTimeMs {
			return rs, fmt.Errorf("chunk %d begins at %d and the one before ends at %d", i, c.MinTimeMs, cs.Chunks[i-1].MaxTimeMs)
		}
		points, err := decodeChunk(c)
		if err != nil {
			return rs, fmt.Errorf("chunk %d: %w", i, err)
		}
		for _, p := range points {
			if q.StartTimestampMs <= p.t && p.t <= q.EndTimestampMs {
				rs.points = append(rs.points, p)
			}
		}
	}
	return rs, nil
}

// decodeChunk decodes one chunk and checks its bounds, its size and its order.
func decodeChunk(c prompb.Chunk) ([]point, error) {
	enc := map[prompb.Chunk_Encoding]chunkenc.Encoding{
		prompb.Chunk_XOR:             chunkenc.EncXOR,
		prompb.Chunk_HISTOGRAM:       chunkenc.EncHistogram,
		prompb.Chunk_FLOAT_HISTOGRAM: chunkenc.EncFloatHistogram,
	}[c.Type]
	if enc == chunkenc.EncNone {
		return nil, fmt.Errorf("of type %v", c.Type)
	}
	chunk, err := chunkenc.FromData(enc, c.Data)
	if err != nil {
		return nil, err
	}
	var points []point
	it := chunk.Iterator(nil)
	for typ := it.Next(); typ != chunkenc.ValNone; typ = it.Next() {
		var p point
		switch typ {
		case chunkenc.ValFloat:
			p.t, p.v = it.At()
		case chunkenc.ValHistogram:
			p.t, p.h = it.AtHistogram(nil)
		case chunkenc.ValFloatHistogram:
			p.t, p.fh = it.AtFloatHistogram(nil)
		}
		if len(points) > 0 && points[len(points)-1].t >= p.t {
			return nil, fmt.Errorf("time goes from %d to %d", points[len(points)-1].t, p.t)
		}
		points = append(points, p)
	}
	if err := it.Err(); err != nil {
		return nil, err
	}
	if n := len(points); n == 0 || n > maxChunkSamples || n != chunk.NumSamples() {
		return nil, fmt.Errorf("%d samples, and its header says %d", n, chunk.NumSamples())
	}
	if first, last := points[0].t, points[len(points)-1].t; c.MinTimeMs != first || c.MaxTimeMs != last {
		return nil, fmt.Errorf("says [%d, %d] and holds [%d, %d]", c.MinTimeMs, c.MaxTimeMs, first, last)
	}
	return points, nil
}

// The rest of this file tests the checks above: each must find its fault.

// chunkOf encodes floats at the given times as one chunk.
func chunkOf(ts ...int64) prompb.Chunk {
	c := chunkenc.NewXORChunk()
	app, err := c.Appender()
	if err != nil {
		panic(err)
	}
	for _, t := range ts {
		app.Append(0, t, float64(t))
	}
	return prompb.Chunk{Type: prompb.Chunk_XOR, MinTimeMs: ts[0], MaxTimeMs: ts[len(ts)-1], Data: c.Bytes()}
}

func frameOf(index int64, all ...*prompb.ChunkedSeries) []byte {
	msg := marshal(&prompb.ChunkedReadResponse{ChunkedSeries: all, QueryIndex: index})
	b := binary.AppendUvarint(nil, uint64(len(msg)))
	return append(binary.BigEndian.AppendUint32(b, crc32.Checksum(msg, castagnoli)), msg...)
}

func chunked(name string, chunks ...prompb.Chunk) *prompb.ChunkedSeries {
	return &prompb.ChunkedSeries{Labels: labelsV1([]string{"__name__", name}), Chunks: chunks}
}

func TestStreamChecksFindEveryFault(t *testing.T) {
	header := http.Header{"Content-Type": {streamedType}}
	queries := []*prompb.Query{query(0, 100), query(0, 100)}
	changed := func(c prompb.Chunk, f func(*prompb.Chunk)) prompb.Chunk { f(&c); return c }
	long := make([]int64, maxChunkSamples+1)
	for i := range long {
		long[i] = int64(i)
	}
	broken := frameOf(0, chunked("a", chunkOf(1)))
	broken[len(broken)-1] ^= 1
	for name, tc := range map[string]struct {
		body []byte
		want string // part of the error; empty: none
	}{
		"nothing":             {nil, ""},
		"good":                {cat(frameOf(0, chunked("a", chunkOf(1, 2), chunkOf(3))), frameOf(0, chunked("b", chunkOf(1))), frameOf(1, chunked("a", chunkOf(1)))), ""},
		"checksum":            {broken, "checksum"},
		"cut":                 {broken[:len(broken)-1], "cut"},
		"no series":           {frameOf(0), "bytes"},
		"empty frame":         {frameOf(1), "holds 0 series"},
		"two series a frame":  {frameOf(0, chunked("a", chunkOf(1)), chunked("b", chunkOf(1))), "holds 2 series"},
		"series out of order": {cat(frameOf(0, chunked("b", chunkOf(1))), frameOf(0, chunked("a", chunkOf(1)))), "stands after"},
		"series split":        {cat(frameOf(0, chunked("a", chunkOf(1))), frameOf(0, chunked("a", chunkOf(2)))), "stands after"},
		"query out of order":  {cat(frameOf(1, chunked("a", chunkOf(1))), frameOf(0, chunked("a", chunkOf(1)))), "is of query"},
		"query unknown":       {frameOf(2, chunked("a", chunkOf(1))), "is of query"},
		"chunks touch":        {frameOf(0, chunked("a", chunkOf(1, 2), chunkOf(2, 3))), "begins at"},
		"chunk goes back":     {frameOf(0, chunked("a", chunkOf(2, 1))), "time goes"},
		"false start":         {frameOf(0, chunked("a", changed(chunkOf(1, 2), func(c *prompb.Chunk) { c.MinTimeMs-- }))), "says"},
		"false end":           {frameOf(0, chunked("a", changed(chunkOf(1, 2), func(c *prompb.Chunk) { c.MaxTimeMs++ }))), "says"},
		"type 0":              {frameOf(0, chunked("a", changed(chunkOf(1), func(c *prompb.Chunk) { c.Type = 0 }))), "of type"},
		"type 4":              {frameOf(0, chunked("a", changed(chunkOf(1), func(c *prompb.Chunk) { c.Type = 4 }))), "of type"},
		"long chunk":          {frameOf(0, chunked("a", chunkOf(long...))), "121 samples"},
		"labels not sorted":   {frameOf(0, &prompb.ChunkedSeries{Labels: labelsV1([]string{"b", "1", "a", "2"})}), "not sorted"},
		"empty label":         {frameOf(0, &prompb.ChunkedSeries{Labels: labelsV1([]string{"b", ""})}), "an empty label"},
	} {
		_, err := decodeStreamed(header, tc.body, queries)
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error %v, want %q", name, err, tc.want)
		}
	}
	header.Set("Content-Type", strings.ReplaceAll(streamedType, " ", ""))
	if _, err := decodeStreamed(header, nil, queries); err == nil {
		t.Error("a Content-Type without its space passed")
	}
}

// The model keeps the last number, and the last stale marker only where there is no number.
func TestModelRule(t *testing.T) {
	h, fh := intHistogram(3), floatHistogram(3)
	e := series("m").at(1, 1).at(1, staleNaN).at(2, staleNaN).at(2, math.NaN()).at(3, 1).at(3, 2).at(4, staleNaN).hist(3, h).fhist(4, fh)
	m := newModel()
	m.write(e)
	want := []point{{t: 1, v: 1}, {t: 2, v: math.NaN()}, {t: 3, h: h}, {t: 4, fh: fh}}
	got := m.all()
	if len(got) != 1 || !slices.EqualFunc(got[0].points, want, point.equal) {
		t.Errorf("got %v, want %v", got, want)
	}
	other := h.Copy()
	other.CounterResetHint = histogram.GaugeType
	other.PositiveSpans = append(other.PositiveSpans, histogram.Span{Offset: 3, Length: 1})
	last := int64(0)
	for _, d := range other.PositiveBuckets {
		last += d
	}
	other.PositiveBuckets = append(other.PositiveBuckets, -last)
	if a, b := (point{h: h}), (point{h: other}); !a.equal(b) {
		t.Errorf("histograms that differ only in hint and empty buckets: %v and %v", a, b)
	}
	if other.Count++; (point{h: h}).equal(point{h: other}) {
		t.Error("histograms of different counts are equal")
	}
}
