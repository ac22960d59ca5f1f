package acceptance

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"testing"

	"github.com/golang/snappy"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
)

// mode is a response type of remote read.
type mode = prompb.ReadRequest_ResponseType

const (
	samplesMode  = prompb.ReadRequest_SAMPLES
	streamedMode = prompb.ReadRequest_STREAMED_XOR_CHUNKS
)

// modes are both response types.
var modes = []mode{samplesMode, streamedMode}

const (
	samplesType  = "application/x-protobuf"
	streamedType = "application/x-streamed-protobuf; proto=prometheus.ChunkedReadResponse"
)

// everything matches every series.
var everything = re("__name__", ".+")

func eq(name, value string) *prompb.LabelMatcher {
	return &prompb.LabelMatcher{Type: prompb.LabelMatcher_EQ, Name: name, Value: value}
}

func neq(name, value string) *prompb.LabelMatcher {
	return &prompb.LabelMatcher{Type: prompb.LabelMatcher_NEQ, Name: name, Value: value}
}

func re(name, value string) *prompb.LabelMatcher {
	return &prompb.LabelMatcher{Type: prompb.LabelMatcher_RE, Name: name, Value: value}
}

func nre(name, value string) *prompb.LabelMatcher {
	return &prompb.LabelMatcher{Type: prompb.LabelMatcher_NRE, Name: name, Value: value}
}

func query(mint, maxt int64, ms ...*prompb.LabelMatcher) *prompb.Query {
	return &prompb.Query{StartTimestampMs: mint, EndTimestampMs: maxt, Matchers: ms}
}

// fetch sends a read request and returns the whole answer.
func (s *server) fetch(accepted []mode, queries ...*prompb.Query) (*http.Response, []byte, error) {
	body := marshal(&prompb.ReadRequest{Queries: queries, AcceptedResponseTypes: accepted})
	return s.fetchRaw(snappy.Encode(nil, body))
}

// fetchRaw sends a body to the read endpoint and returns the whole answer.
func (s *server) fetchRaw(body []byte) (*http.Response, []byte, error) {
	req, err := http.NewRequest(http.MethodPost, s.url+"/api/v1/read", bytes.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	req.Header.Set("Content-Type", "application/x-protobuf")
	req.Header.Set("Content-Encoding", "snappy")
	req.Header.Set("Accept-Encoding", "snappy")
	req.Header.Set("X-Prometheus-Remote-Read-Version", "0.1.0")
	resp, err := s.client.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp, b, err
}

// readAll returns all that the server has.
func (s *server) readAll(t testing.TB, m mode) result {
	t.Helper()
	return s.read(t, m, query(math.MinInt64, math.MaxInt64, everything))[0]
}

// read sends queries and returns a result for each, cut to the query's time range;
// series without samples are left out. The answer must be of the mode and well-formed.
func (s *server) read(t testing.TB, m mode, queries ...*prompb.Query) []result {
	t.Helper()
	out, err := s.tryRead(m, queries...)
	if err != nil {
		t.Fatalf("read, %v: %v", m, err)
	}
	return out
}

// readBoth reads in both modes and expects them to agree.
func (s *server) readBoth(t testing.TB, q *prompb.Query) result {
	t.Helper()
	a, b := s.read(t, samplesMode, q)[0], s.read(t, streamedMode, q)[0]
	if d := diff(b, a); d != "" {
		t.Errorf("the read modes differ (got streamed, want samples):\n%s", d)
	}
	return a
}

func (s *server) tryRead(m mode, queries ...*prompb.Query) ([]result, error) {
	resp, body, err := s.fetch([]mode{m}, queries...)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("status %d: %s", resp.StatusCode, tail(string(body), 2000))
	}
	if m == streamedMode {
		return decodeStreamed(resp.Header, body, queries)
	}
	return decodeSamples(resp.Header, body, queries)
}

// decodeSamples decodes a SAMPLES answer and checks it.
func decodeSamples(header http.Header, body []byte, queries []*prompb.Query) ([]result, error) {
	if ct, ce := header.Get("Content-Type"), header.Get("Content-Encoding"); ct != samplesType || ce != "snappy" {
		return nil, fmt.Errorf("SAMPLES with Content-Type %q and Content-Encoding %q", ct, ce)
	}
	raw, err := snappy.Decode(nil, body)
	if err != nil {
		return nil, err
	}
	var rr prompb.ReadResponse
	if err := rr.Unmarshal(raw); err != nil {
		return nil, err
	}
	if len(rr.Results) != len(queries) {
		return nil, fmt.Errorf("%d results for %d queries", len(rr.Results), len(queries))
	}
	out := make([]result, len(queries))
	for i, r := range rr.Results {
		for _, ts := range r.Timeseries {
			ls, err := checkLabels(ts.Labels)
			if err != nil {
				return nil, err
			}
			points, err := samplesOf(ts, queries[i])
			if err != nil {
				return nil, fmt.Errorf("%s: %w", short(ls), err)
			}
			if len(points) > 0 {
				out[i] = append(out[i], readSeries{labels: ls, points: points})
			}
		}
		slices.SortFunc(out[i], func(a, b readSeries) int { return labels.Compare(a.labels, b.labels) })
		for k := 1; k < len(out[i]); k++ {
			if labels.Equal(out[i][k-1].labels, out[i][k].labels) {
				return nil, fmt.Errorf("%s stands twice in a result", short(out[i][k].labels))
			}
		}
	}
	return out, nil
}

// samplesOf returns the points of a series of a SAMPLES answer: floats and
// histograms sorted each, no time twice, nothing outside the query's range.
func samplesOf(ts *prompb.TimeSeries, q *prompb.Query) ([]point, error) {
	var points []point
	for i, s := range ts.Samples {
		if i > 0 && ts.Samples[i-1].Timestamp >= s.Timestamp {
			return nil, fmt.Errorf("time goes from %d to %d", ts.Samples[i-1].Timestamp, s.Timestamp)
		}
		points = append(points, point{t: s.Timestamp, v: s.Value})
	}
	for i, h := range ts.Histograms {
		if i > 0 && ts.Histograms[i-1].Timestamp >= h.Timestamp {
			return nil, fmt.Errorf("time of histograms goes from %d to %d", ts.Histograms[i-1].Timestamp, h.Timestamp)
		}
		p := point{t: h.Timestamp, h: h.ToIntHistogram()}
		if h.IsFloatHistogram() {
			p = point{t: h.Timestamp, fh: h.ToFloatHistogram()}
		}
		points = append(points, p)
	}
	if len(ts.Samples) > 0 && len(ts.Histograms) > 0 {
		slices.SortStableFunc(points, func(a, b point) int {
			if a.t < b.t {
				return -1
			} else if a.t > b.t {
				return 1
			}
			return 0
		})
	}
	for i, p := range points {
		if i > 0 && points[i-1].t == p.t {
			return nil, fmt.Errorf("a float and a histogram at %d", p.t)
		}
		if p.t < q.StartTimestampMs || p.t > q.EndTimestampMs {
			return nil, fmt.Errorf("SAMPLES holds %d, outside [%d, %d]", p.t, q.StartTimestampMs, q.EndTimestampMs)
		}
	}
	return points, nil
}

// checkLabels returns a series' labels: sorted, no name twice, no empty name or value.
func checkLabels(pairs []prompb.Label) (labels.Labels, error) {
	b := labels.NewScratchBuilder(len(pairs))
	for i, l := range pairs {
		if l.Name == "" || l.Value == "" {
			return labels.EmptyLabels(), fmt.Errorf("an empty label: %q=%q", l.Name, l.Value)
		}
		if i > 0 && pairs[i-1].Name >= l.Name {
			return labels.EmptyLabels(), fmt.Errorf("labels are not sorted: %q before %q", pairs[i-1].Name, l.Name)
		}
		b.Add(l.Name, l.Value)
	}
	return b.Labels(), nil
}
