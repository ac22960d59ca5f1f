package drive

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"strings"

	"github.com/golang/snappy"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
)

// Mode is one of the two forms of an answer to a remote read.
type Mode string

const (
	Samples  Mode = "SAMPLES"
	Streamed Mode = "STREAMED_XOR_CHUNKS"
)

// Modes are all of them.
var Modes = []Mode{Samples, Streamed}

// maxAnswer bounds what is read of one answer, and of a frame, bytes.
const maxAnswer = 1 << 30

// point is one sample that was read; h is nil for floats.
type point struct {
	t int64
	v float64
	h *histogram.Histogram
}

// readAll asks url for all series whose label has the value, between two times,
// both included, and hands each of them to emit.
func readAll(ctx context.Context, url string, mode Mode, name, value string, from, to int64, emit func(labels []prompb.Label, points []point) error) error {
	accepted := prompb.ReadRequest_ResponseType(prompb.ReadRequest_ResponseType_value[string(mode)])
	msg, err := (&prompb.ReadRequest{
		Queries: []*prompb.Query{{
			StartTimestampMs: from, EndTimestampMs: to,
			Matchers: []*prompb.LabelMatcher{{Type: prompb.LabelMatcher_EQ, Name: name, Value: value}},
		}},
		AcceptedResponseTypes: []prompb.ReadRequest_ResponseType{accepted},
	}).Marshal()
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(snappy.Encode(nil, msg)))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-protobuf")
	req.Header.Set("Content-Encoding", "snappy")
	req.Header.Set("X-Prometheus-Remote-Read-Version", "0.1.0")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("read an answer of %s: %w", mode, err)
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s: %s", req.URL.Redacted(), resp.Status, strings.TrimSpace(string(body[:min(len(body), refusalBytes)])))
	}
	if streamed := strings.HasPrefix(resp.Header.Get("Content-Type"), "application/x-streamed-protobuf"); streamed != (mode == Streamed) {
		return fmt.Errorf("asked for %s, %s answers with Content-Type %q", mode, req.URL.Redacted(), resp.Header.Get("Content-Type"))
	}
	if mode == Streamed {
		return decodeFrames(body, emit)
	}
	return decodeSamples(body, emit)
}

func decodeSamples(body []byte, emit func([]prompb.Label, []point) error) error {
	raw, err := snappy.Decode(nil, body)
	if err != nil {
		return err
	}
	var r prompb.ReadResponse
	if err := r.Unmarshal(raw); err != nil {
		return err
	}
	if len(r.Results) != 1 {
		return fmt.Errorf("%d results for one query", len(r.Results))
	}
	var points []point
	for _, ts := range r.Results[0].Timeseries {
		points = points[:0]
		for _, s := range ts.Samples {
			points = append(points, point{t: s.Timestamp, v: s.Value})
		}
		for _, h := range ts.Histograms {
			if h.IsFloatHistogram() {
				return errors.New("a float histogram, and only such of integers were sent")
			}
			points = append(points, point{t: h.Timestamp, h: h.ToIntHistogram()})
		}
		if err := emit(ts.Labels, points); err != nil {
			return err
		}
	}
	return nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// decodeFrames decodes a stream: length <uvarint>, crc32c <4b>, message. A series
// may lie in several frames, one behind the other.
func decodeFrames(body []byte, emit func([]prompb.Label, []point) error) error {
	var labels []prompb.Label
	var points []point
	for len(body) > 0 {
		size, n := binary.Uvarint(body)
		if n <= 0 || size > maxAnswer || uint64(len(body)-n) < size+4 {
			return fmt.Errorf("a frame is cut, with %d bytes to go", len(body))
		}
		sum, msg := binary.BigEndian.Uint32(body[n:]), body[n+4:n+4+int(size)]
		body = body[n+4+int(size):]
		if got := crc32.Checksum(msg, castagnoli); got != sum {
			return fmt.Errorf("a frame with checksum %08x, want %08x", got, sum)
		}
		var frame prompb.ChunkedReadResponse
		if err := frame.Unmarshal(msg); err != nil {
			return err
		}
		for _, cs := range frame.ChunkedSeries {
			if len(labels) > 0 && !sameLabels(labels, cs.Labels) {
				if err := emit(labels, points); err != nil {
					return err
				}
				points = points[:0]
			}
			labels = cs.Labels
			for _, c := range cs.Chunks {
				var err error
				if points, err = appendChunk(points, c); err != nil {
					return err
				}
			}
		}
	}
	if len(labels) > 0 {
		return emit(labels, points)
	}
	return nil
}

func sameLabels(a, b []prompb.Label) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].Name != b[i].Name || a[i].Value != b[i].Value {
			return false
		}
	}
	return true
}

func appendChunk(points []point, c prompb.Chunk) ([]point, error) {
	enc, ok := map[prompb.Chunk_Encoding]chunkenc.Encoding{
		prompb.Chunk_XOR: chunkenc.EncXOR, prompb.Chunk_HISTOGRAM: chunkenc.EncHistogram,
	}[c.Type]
	if !ok {
		return nil, fmt.Errorf("a chunk of type %v", c.Type)
	}
	chunk, err := chunkenc.FromData(enc, c.Data)
	if err != nil {
		return nil, err
	}
	it := chunk.Iterator(nil)
	for typ := it.Next(); typ != chunkenc.ValNone; typ = it.Next() {
		var p point
		if typ == chunkenc.ValHistogram {
			p.t, p.h = it.AtHistogram(nil)
		} else {
			p.t, p.v = it.At()
		}
		points = append(points, p)
	}
	return points, it.Err()
}

// text writes labels as labels.Labels does.
func text(ls []prompb.Label) string {
	b := labels.NewScratchBuilder(len(ls))
	for _, l := range ls {
		b.Add(l.Name, l.Value)
	}
	b.Sort()
	return b.Labels().String()
}
