package receiver_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/golang/snappy"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/prompb"
	writev2 "github.com/prometheus/prometheus/prompb/io/prometheus/write/v2"

	"github.com/rwsink/rwsink/head"
	"github.com/rwsink/rwsink/receiver"
)

// aHistogram is a valid one with n observations.
func aHistogram(n uint64) *histogram.Histogram {
	return &histogram.Histogram{Count: n, Sum: 1.5, Schema: 3, ZeroThreshold: 0.001,
		PositiveSpans: []histogram.Span{{Offset: 0, Length: 1}}, PositiveBuckets: []int64{int64(n)}}
}

func TestHistogramsBothVersions(t *testing.T) {
	s := newServer(t, nil)
	h := aHistogram(5)
	fh := h.ToFloat(nil)
	custom := &histogram.Histogram{Count: 3, Sum: 2, Schema: histogram.CustomBucketsSchema, CustomValues: []float64{1, 2.5},
		PositiveSpans: []histogram.Span{{Offset: 0, Length: 2}}, PositiveBuckets: []int64{1, 1}}
	stale := &histogram.Histogram{Sum: math.Float64frombits(0x7ff0000000000002)}
	ts := prompb.TimeSeries{Labels: labels1("__name__", "one"), Histograms: []prompb.Histogram{
		prompb.FromIntHistogram(at(0), h), prompb.FromFloatHistogram(at(1), fh), prompb.FromIntHistogram(at(2), custom), prompb.FromIntHistogram(at(3), stale)}}
	expect(t, s.write1(request1(ts)), 204, none)
	b := new2().entry([]string{"__name__", "two"}, func(ts *writev2.TimeSeries) {
		ts.Histograms = []writev2.Histogram{writev2.FromIntHistogram(0, at(0), h), writev2.FromFloatHistogram(0, at(1), fh),
			writev2.FromIntHistogram(0, at(2), custom), writev2.FromIntHistogram(0, at(3), stale)}
	})
	expect(t, s.write2(b.request()), 204, "0 4 0")
	var want []string
	for _, name := range []string{"one", "two"} {
		want = append(want, fmt.Sprintf("{__name__=%q} 0 int%s", name, h), fmt.Sprintf("{__name__=%q} 1 float%s", name, fh),
			fmt.Sprintf("{__name__=%q} 2 int%s", name, custom), fmt.Sprintf("{__name__=%q} 3 int%s", name, stale))
	}
	s.expectContents(want...)
}

// TestInvalidHistograms has one beside a valid one, samples and another series.
func TestInvalidHistograms(t *testing.T) {
	s := newServer(t, nil)
	bad := prompb.FromIntHistogram(at(1), aHistogram(5))
	bad.PositiveSpans[0].Length = 2
	noBounds := prompb.FromIntHistogram(at(2), aHistogram(5))
	noBounds.Schema = histogram.CustomBucketsSchema
	noBounds.ZeroThreshold = 0
	ts := prompb.TimeSeries{Labels: labels1("__name__", "m"), Samples: []prompb.Sample{{Timestamp: at(-1), Value: 1}},
		Histograms: []prompb.Histogram{prompb.FromIntHistogram(at(0), aHistogram(5)), bad, noBounds}}
	expect(t, s.write1(request1(series1("a", 0, 1), ts, series1("b", 0, 1))), 400, none,
		`2 histograms refused: invalid histogram: positive side: spans need 2 buckets, have 1`, `series {__name__="m"}`, fmt.Sprint(at(1)), "histogram{count:5")
	want := []string{`{__name__="a"} 0 1`, `{__name__="b"} 0 1`, `{__name__="m"} -1 1`, fmt.Sprintf(`{__name__="m"} 0 int%s`, aHistogram(5))}
	s.expectContents(want...)
	if n := s.metric("rwsink_write_refused_total", map[string]string{"item": "histograms", "reason": "invalid_histogram"}); n != 2 {
		t.Errorf("refused: got %v, want 2", n)
	}
	b := new2().entry([]string{"__name__", "m"}, func(ts *writev2.TimeSeries) {
		ts.Histograms = []writev2.Histogram{{Timestamp: at(5), Schema: 60}, writev2.FromIntHistogram(0, at(6), aHistogram(7))}
	})
	expect(t, s.write2(b.request()), 400, "0 1 0", "schema 60")
	s.expectContents(append(want, fmt.Sprintf(`{__name__="m"} 6 int%s`, aHistogram(7)))...)
}

// TestFloatsAndHistogramsMixed has both kinds in one series, in one entry and in several.
func TestFloatsAndHistogramsMixed(t *testing.T) {
	s := newServer(t, nil)
	hist := func(ms int64) prompb.Histogram { return prompb.FromIntHistogram(at(ms), aHistogram(uint64(ms))) }
	ts := prompb.TimeSeries{Labels: labels1("__name__", "one"), Samples: []prompb.Sample{{Timestamp: at(1), Value: 1}, {Timestamp: at(3), Value: 3}},
		Histograms: []prompb.Histogram{hist(2), hist(4)}}
	expect(t, s.write1(request1(ts)), 204, none)
	b := new2()
	for ms := int64(1); ms <= 4; ms++ {
		b.entry([]string{"__name__", "two"}, func(ts *writev2.TimeSeries) {
			if ms%2 == 1 {
				ts.Samples = []writev2.Sample{{Timestamp: at(ms), Value: float64(ms)}}
			} else {
				ts.Histograms = []writev2.Histogram{writev2.FromIntHistogram(0, at(ms), aHistogram(uint64(ms)))}
			}
		})
	}
	// Both in one entry, which the text of 2.0 forbids and Prometheus stores; at
	// one timestamp the histogram comes after the float.
	b.entry([]string{"__name__", "both"}, func(ts *writev2.TimeSeries) {
		ts.Samples = []writev2.Sample{{Timestamp: at(1), Value: 1}}
		ts.Histograms = []writev2.Histogram{writev2.FromIntHistogram(0, at(1), aHistogram(9))}
	})
	expect(t, s.write2(b.request()), 204, "3 3 0")
	want := []string{fmt.Sprintf(`{__name__="both"} 1 int%s`, aHistogram(9))}
	for _, name := range []string{"one", "two"} {
		want = append(want, fmt.Sprintf("{__name__=%q} 1 1", name), fmt.Sprintf("{__name__=%q} 3 3", name),
			fmt.Sprintf("{__name__=%q} 2 int%s", name, aHistogram(2)), fmt.Sprintf("{__name__=%q} 4 int%s", name, aHistogram(4)))
	}
	s.expectContents(want...)
}

// TestStartTimestamps stores them beside the samples and makes no samples of them.
func TestStartTimestamps(t *testing.T) {
	s := newServer(t, nil)
	b := new2().entry([]string{"__name__", "m"}, func(ts *writev2.TimeSeries) {
		ts.Samples = []writev2.Sample{
			{Timestamp: at(0), Value: 1, StartTimestamp: at(0)}, {Timestamp: at(1), Value: 2, StartTimestamp: at(-1000)},
			{Timestamp: at(2), Value: 3, StartTimestamp: at(100)}, {Timestamp: at(3), Value: 4}, {Timestamp: at(4), Value: 5, StartTimestamp: at(-30 * day)},
		}
	}).entry([]string{"__name__", "h"}, func(ts *writev2.TimeSeries) {
		ts.Histograms = []writev2.Histogram{writev2.FromIntHistogram(at(-7), at(0), aHistogram(1))}
	})
	want := []string{`{__name__="m"} 0 1`, `{__name__="m"} 1 2 since -1000`, `{__name__="m"} 2 3 since 100`, `{__name__="m"} 3 4`,
		fmt.Sprintf(`{__name__="m"} 4 5 since %d`, -30*day), fmt.Sprintf(`{__name__="h"} 0 int%s since -7`, aHistogram(1))}
	for range 2 {
		expect(t, s.write2(b.request()), 204, "5 1 0")
		got := s.contents()
		// A start that equals the clock's 0 prints as none.
		for i := range got {
			got[i] = strings.TrimSuffix(got[i], " since 0")
		}
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

// TestStartOfTheSeries is the older place of the start timestamp, field 6 of the entry.
func TestStartOfTheSeries(t *testing.T) {
	s := newServer(t, nil)
	b := new2().entry([]string{"__name__", "m"}, func(ts *writev2.TimeSeries) {
		ts.Samples = []writev2.Sample{{Timestamp: at(1), Value: 1}, {Timestamp: at(2), Value: 2, StartTimestamp: at(-5)}}
		ts.Histograms = []writev2.Histogram{writev2.FromIntHistogram(0, at(3), aHistogram(1))}
		field := []byte{6 << 3}
		for v := uint64(at(-9)); ; v >>= 7 {
			if v < 0x80 {
				field = append(field, byte(v))
				break
			}
			field = append(field, byte(v)|0x80)
		}
		ts.XXX_unrecognized = field
	})
	expect(t, s.write2(b.request()), 204, "2 1 0")
	s.expectContents(`{__name__="m"} 1 1 since -9`, `{__name__="m"} 2 2 since -5`, fmt.Sprintf(`{__name__="m"} 3 int%s since -9`, aHistogram(1)))
}

func exemplar2(ms int64, v float64, refs ...uint32) writev2.Exemplar {
	return writev2.Exemplar{LabelsRefs: refs, Timestamp: at(ms), Value: v}
}

func TestExemplars(t *testing.T) {
	s := newServer(t, nil)
	name := []string{"__name__", "m"}
	// An entry of its own, as senders write them, before any sample of the series.
	only := new2().entry(name, func(ts *writev2.TimeSeries) { ts.Exemplars = []writev2.Exemplar{exemplar2(0, 1)} })
	expect(t, s.write2(only.request()), 204, "0 0 1")
	expect(t, s.write2(only.request()), 204, "0 0 1") // once more: it is there
	three := new2().entry(name, func(ts *writev2.TimeSeries) {
		ts.Histograms = []writev2.Histogram{writev2.FromIntHistogram(0, at(1), aHistogram(1))}
		ts.Exemplars = []writev2.Exemplar{exemplar2(1, 3), exemplar2(1, 1), exemplar2(1, 2)}
	})
	expect(t, s.write2(three.request()), 204, "0 1 3")
	old := new2().sample("m", 2, 1).entry(name, func(ts *writev2.TimeSeries) { ts.Exemplars = []writev2.Exemplar{exemplar2(-1000, 1)} })
	expect(t, s.write2(old.request()), 400, "1 0 0", "1 exemplars refused: exemplar order", `{__name__="m"}`)
	untimed := new2().sample("m", 3, 1).entry(name, func(ts *writev2.TimeSeries) { ts.Exemplars = []writev2.Exemplar{{Value: 1}} })
	expect(t, s.write2(untimed.request()), 400, "1 0 0", "1 exemplars refused: exemplar timestamp")
	long := new2()
	x := exemplar2(9, 1, long.table.Symbolize("trace_id"), long.table.Symbolize(strings.Repeat("x", 121)))
	long.entry(name, func(ts *writev2.TimeSeries) {
		ts.Exemplars = []writev2.Exemplar{x, exemplar2(9, 2)}
		ts.Samples = []writev2.Sample{{Timestamp: at(4), Value: 1}}
	})
	expect(t, s.write2(long.request()), 400, "1 0 1", "more than 128 characters together: 129")
	if got := s.contents(); len(got) != 4 {
		t.Errorf("samples and histograms: got %d, want 4: %v", len(got), got)
	}
}

func TestExemplars1(t *testing.T) {
	s := newServer(t, nil)
	entry := func(ms int64, ls ...string) prompb.TimeSeries {
		return prompb.TimeSeries{Labels: labels1("__name__", "m"), Exemplars: []prompb.Exemplar{{Labels: labels1(ls...), Timestamp: at(ms), Value: 1}}}
	}
	expect(t, s.write1(request1(entry(0, "trace_id", "a"))), 204, none)
	// Out of order: counted, but senders of 1.0 are not told.
	expect(t, s.write1(request1(series1("m", 0, 1), entry(-1000, "trace_id", "b"))), 204, none)
	if n := s.metric("rwsink_write_refused_total", map[string]string{"item": "exemplars", "reason": head.ReasonExemplarOrder}); n != 1 {
		t.Errorf("refused exemplars: got %v, want 1", n)
	}
	expect(t, s.write1(request1(series1("m", 1, 1), entry(5, "trace_id", strings.Repeat("x", 200)))), 400, none, "1 exemplars refused: exemplar: ")
	s.expectContents(`{__name__="m"} 0 1`, `{__name__="m"} 1 1`)
}

// TestExemplarsOff expects samples not to fail because exemplars are not kept.
func TestExemplarsOff(t *testing.T) {
	s := newServer(t, func(o *head.Options, _ *receiver.Options) { o.Exemplars = -1 })
	b := new2().sample("m", 0, 1).entry([]string{"__name__", "m"}, func(ts *writev2.TimeSeries) { ts.Exemplars = []writev2.Exemplar{exemplar2(0, 1)} })
	expect(t, s.write2(b.request()), 204, "1 0 0")
}

func TestMetadata1(t *testing.T) {
	s := newServer(t, nil)
	req := &prompb.WriteRequest{Metadata: []prompb.MetricMetadata{
		{Type: prompb.MetricMetadata_COUNTER, MetricFamilyName: "a_total", Help: "A.", Unit: "seconds"},
		{Type: prompb.MetricMetadata_STATESET, MetricFamilyName: "b"},
		{Type: 99, MetricFamilyName: "c", Help: "C."},
	}}
	expect(t, s.write1(req), 204, none)
	req.Metadata = append(req.Metadata, prompb.MetricMetadata{Help: "no name"}, prompb.MetricMetadata{MetricFamilyName: "d", Help: "\xff"})
	req.Timeseries = []prompb.TimeSeries{series1("m", 0, 1)}
	expect(t, s.write1(req), 400, none, "2 metadata refused: invalid metadata: no metric family name")
	want := map[string]head.Metadata{"a_total": {Type: "counter", Unit: "seconds", Help: "A."}, "b": {Type: "stateset"}, "c": {Type: "unknown", Help: "C."}}
	expectMetadata(t, s, want)
	s.expectContents(`{__name__="m"} 0 1`)
}

func expectMetadata(t *testing.T, s *server, want map[string]head.Metadata) {
	t.Helper()
	got := s.head.Metadata()
	for name, m := range want {
		if got[name] != m {
			t.Errorf("%s: got %v, want %v", name, got[name], m)
		}
	}
	if len(got) != len(want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestMetadata2(t *testing.T) {
	s := newServer(t, nil)
	b := new2()
	meta := func(typ writev2.Metadata_MetricType, help, unit string) func(*writev2.TimeSeries) {
		return func(ts *writev2.TimeSeries) {
			ts.Metadata = writev2.Metadata{Type: typ, HelpRef: b.table.Symbolize(help), UnitRef: b.table.Symbolize(unit)}
		}
	}
	b.entry([]string{"__name__", "alone"}, meta(writev2.Metadata_METRIC_TYPE_GAUGE, "Alone.", "bytes"))
	b.entry([]string{"__name__", "h_bucket", "le", "1"}, meta(writev2.Metadata_METRIC_TYPE_HISTOGRAM, "H.", ""))
	b.entry([]string{"__name__", "h_count"}, meta(writev2.Metadata_METRIC_TYPE_HISTOGRAM, "H.", ""))
	b.entry([]string{"__name__", "c_total"}, meta(writev2.Metadata_METRIC_TYPE_COUNTER, "C.", ""))
	b.entry([]string{"__name__", "unspecified"}, meta(writev2.Metadata_METRIC_TYPE_UNSPECIFIED, "U.", ""))
	b.sample("nothing_said", 0, 1)
	expect(t, s.write2(b.request()), 204, "1 0 0")
	want := map[string]head.Metadata{"alone": {Type: "gauge", Unit: "bytes", Help: "Alone."}, "h": {Type: "histogram", Help: "H."},
		"c_total": {Type: "counter", Help: "C."}, "unspecified": {Type: "unknown", Help: "U."}}
	expectMetadata(t, s, want)
	// References out of range cost the metadata, not the samples.
	for _, m := range []writev2.Metadata{{HelpRef: 999}, {UnitRef: 999}} {
		b := new2().entry([]string{"__name__", "m"}, func(ts *writev2.TimeSeries) {
			ts.Metadata, ts.Samples = m, []writev2.Sample{{Timestamp: at(0), Value: 1}}
		})
		expect(t, s.write2(b.request()), 400, "1 0 0", "1 metadata refused: invalid metadata", "_ref names symbol 999 of 3")
	}
	expect(t, s.write2(new2().entry([]string{"x", "y"}, meta(writev2.Metadata_METRIC_TYPE_GAUGE, "", "")).request()), 400, "0 0 0", "no metric name")
	expectMetadata(t, s, want)
	s.expectContents(`{__name__="nothing_said"} 0 1`, `{__name__="m"} 0 1`)
}

// TestSymbolsBehindSeries puts the table where encoders do not put it.
func TestSymbolsBehindSeries(t *testing.T) {
	s := newServer(t, nil)
	req := new2().sample("m", 0, 1).request()
	table := mustRaw(t, &writev2.Request{Symbols: req.Symbols})
	series := mustRaw(t, &writev2.Request{Timeseries: req.Timeseries})
	expect(t, s.post(typeV2, snappy.Encode(nil, slices.Concat(series, table))), 204, "1 0 0")
	s.expectContents(`{__name__="m"} 0 1`)
}
