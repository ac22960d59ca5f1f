package receiver_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/golang/snappy"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/relabel"
	"github.com/prometheus/prometheus/prompb"
	writev2 "github.com/prometheus/prometheus/prompb/io/prometheus/write/v2"
	"go.yaml.in/yaml/v2"

	"github.com/rwsink/rwsink/head"
	"github.com/rwsink/rwsink/receiver"
)

const (
	day    = 24 * 3600 * 1000
	tooOld = -16 * day
	tooNew = 11 * 60 * 1000
)

// inBoth runs f against a fresh server once a version. send sends series of
// one sample each, by name and time.
func inBoth(t *testing.T, f func(t *testing.T, s *server, send func(names string, times ...int64) response, counts func(string) string)) {
	t.Run("1.0", func(t *testing.T) {
		s := newServer(t, nil)
		f(t, s, func(names string, times ...int64) response {
			var ts []prompb.TimeSeries
			for i, n := range strings.Split(names, ",") {
				ts = append(ts, series1(n, times[i], 1))
			}
			return s.write1(request1(ts...))
		}, func(string) string { return none })
	})
	t.Run("2.0", func(t *testing.T) {
		s := newServer(t, nil)
		f(t, s, func(names string, times ...int64) response {
			b := new2()
			for i, n := range strings.Split(names, ",") {
				b.sample(n, times[i], 1)
			}
			return s.write2(b.request())
		}, func(written string) string { return written })
	})
}

// TestOneBadSampleCostsNoOther puts it first, in the middle and last.
func TestOneBadSampleCostsNoOther(t *testing.T) {
	inBoth(t, func(t *testing.T, s *server, send func(string, ...int64) response, counts func(string) string) {
		for i, bad := range []int64{tooOld, tooNew, math.MaxInt64, math.MinInt64 + 1 - now.UnixMilli()} {
			for place := range 3 {
				times := []int64{int64(i*3 + place), int64(i*3 + place), int64(i*3 + place)}
				times[place] = bad
				r := send("a,b,c", times...)
				expect(t, r, 400, counts("2 0 0"), "1 samples refused", fmt.Sprintf(`{__name__="%c"}`, 'a'+place), fmt.Sprint(at(bad)))
			}
		}
		if got := s.contents(); len(got) != 4*3*2 {
			t.Errorf("stored: got %d samples, want 24:\n%s", len(got), strings.Join(got, "\n"))
		}
	})
}

func TestOnlyRefusedSamplesOfASeriesAreLost(t *testing.T) {
	s := newServer(t, nil)
	ts := series1("m", 5, 5)
	ts.Samples = append(ts.Samples, prompb.Sample{Timestamp: at(tooOld), Value: 1}, prompb.Sample{Timestamp: at(3), Value: 3}, prompb.Sample{Timestamp: at(tooNew), Value: 2})
	expect(t, s.write1(request1(ts)), 400, none, "1 samples refused: too old", "1 samples refused: too new")
	s.expectContents(`{__name__="m"} 3 3`, `{__name__="m"} 5 5`)
}

// TestSampleFaultsComeFirst has a bad sample, histogram, exemplar and metadata.
func TestSampleFaultsComeFirst(t *testing.T) {
	s := newServer(t, nil)
	b := new2().entry([]string{"__name__", "m"}, func(ts *writev2.TimeSeries) {
		ts.Samples = []writev2.Sample{{Timestamp: at(0), Value: 1}}
		ts.Exemplars = []writev2.Exemplar{{LabelsRefs: []uint32{1}, Timestamp: at(0)}}
		ts.Histograms = []writev2.Histogram{{Timestamp: at(1), Schema: 77}}
		ts.Metadata.HelpRef = 99
	}).sample("old", tooOld, 1)
	r := s.write2(b.request())
	expect(t, r, 400, "1 0 0")
	at := -1
	for _, part := range []string{"1 samples refused: too old", "1 histograms refused: invalid histogram: schema 77", "1 exemplars refused: exemplar: labels_refs has 1", "1 metadata refused: invalid metadata: help_ref names symbol 99 of 4"} {
		i := strings.Index(r.body, part)
		if i <= at {
			t.Fatalf("%q is missing or out of order in %q", part, r.body)
		}
		at = i
	}
	s.expectContents(`{__name__="m"} 0 1`)
}

// labelFaults are label sets that are refused, and what the answer says.
var labelFaults = []struct {
	name   string
	labels []string
	part   string
}{
	{"no name", []string{"host", "a"}, "no metric name"},
	{"an empty name", []string{"__name__", ""}, "no metric name"},
	{"no labels", nil, "no metric name"},
	{"a label without a name", []string{"__name__", "m", "", "x"}, "label name"},
	{"a label without anything", []string{"__name__", "m", "", ""}, "label name"},
	{"a name twice", []string{"__name__", "m", "a", "1", "a", "2"}, "duplicate label"},
	{"a name twice, the same", []string{"__name__", "m", "a", "1", "a", "1"}, "duplicate label"},
	{"a name twice, once empty", []string{"__name__", "m", "a", "", "a", "1"}, "duplicate label"},
	{"two metric names", []string{"__name__", "m", "__name__", "n"}, "duplicate label"},
	{"a value not UTF-8", []string{"__name__", "m", "a", "\xff\xfe"}, "label utf8"},
	{"a name not UTF-8", []string{"__name__", "m", "a\xff", "1"}, "label utf8"},
	{"a metric name not UTF-8", []string{"__name__", "m\xc3"}, "label utf8"},
}

func TestLabelsRefused(t *testing.T) {
	for _, test := range labelFaults {
		t.Run(test.name, func(t *testing.T) {
			s := newServer(t, nil)
			bad := prompb.TimeSeries{Labels: labels1(test.labels...), Samples: []prompb.Sample{{Timestamp: at(7), Value: 1.5}, {Timestamp: at(8), Value: 2}}}
			r := s.write1(request1(series1("before", 0, 1), bad, series1("after", 0, 1)))
			expect(t, r, 400, none, "2 samples refused: "+test.part, fmt.Sprint(at(7)), "value 1.5")
			if !utf8.ValidString(r.body) {
				t.Errorf("the body is not UTF-8: %q", r.body)
			}
			b := new2().sample("before", 1, 1).entry(test.labels, func(ts *writev2.TimeSeries) {
				ts.Samples = []writev2.Sample{{Timestamp: at(7), Value: 1.5}, {Timestamp: at(8), Value: 2}}
			}).sample("after", 1, 1)
			r = s.write2(b.request())
			expect(t, r, 400, "2 0 0", "2 samples refused: "+test.part, fmt.Sprint(at(7)), "value 1.5")
			if !utf8.ValidString(r.body) {
				t.Errorf("the body is not UTF-8: %q", r.body)
			}
			s.expectContents(`{__name__="before"} 0 1`, `{__name__="before"} 1 1`, `{__name__="after"} 0 1`, `{__name__="after"} 1 1`)
		})
	}
}

func TestOddLabelsTaken(t *testing.T) {
	for name, ls := range map[string][]string{
		"unsorted":     {"z", "1", "__name__", "m", "a", "2"},
		"odd values":   {"__name__", "m", "a", "\x00 \uFFFD\n😀"},
		"dots":         {"__name__", "http.requests", "a.b", "1"},
		"empty values": {"__name__", "m", "x", "", "a", "1"},
		"many":         manyLabels(250),
		"long":         {"__name__", "m", "a", strings.Repeat("x", 100_000)},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, nil)
			ts := prompb.TimeSeries{Labels: labels1(ls...), Samples: []prompb.Sample{{Timestamp: at(0), Value: 1}}}
			expect(t, s.write1(request1(ts)), 204, none)
			expect(t, s.write2(new2().entry(ls, func(ts *writev2.TimeSeries) {
				ts.Samples = []writev2.Sample{{Timestamp: at(1), Value: 2}}
			}).request()), 204, "1 0 0")
			var pairs []string
			for i := 0; i < len(ls); i += 2 {
				if ls[i+1] != "" {
					pairs = append(pairs, ls[i], ls[i+1])
				}
			}
			want := labels.FromStrings(pairs...).String()
			s.expectContents(want+" 0 1", want+" 1 2")
		})
	}
}

func manyLabels(n int) []string {
	ls := []string{"__name__", "m"}
	for i := range n {
		ls = append(ls, fmt.Sprintf("l%03d", i), "v")
	}
	return ls
}

func TestLabelLimits(t *testing.T) {
	for _, n := range []int{300, 5000} { // beyond the head's limit, and beyond what is decoded at all
		s := newServer(t, nil)
		ls := manyLabels(n)
		ts := prompb.TimeSeries{Labels: labels1(ls...), Samples: []prompb.Sample{{Timestamp: at(0), Value: 1}}}
		expect(t, s.write1(request1(ts, series1("good", 0, 1))), 400, none, "1 samples refused: label limit")
		expect(t, s.write2(new2().entry(ls, func(ts *writev2.TimeSeries) {
			ts.Samples = []writev2.Sample{{Timestamp: at(0), Value: 1}}
		}).sample("good", 1, 1).request()), 400, "1 0 0", "1 samples refused: label")
		s.expectContents(`{__name__="good"} 0 1`, `{__name__="good"} 1 1`)
	}
}

// TestSeriesLimit expects existing series to flow on.
func TestSeriesLimit(t *testing.T) {
	s := newServer(t, func(o *head.Options, _ *receiver.Options) { o.Limits.Series = 10 })
	b := new2()
	for i := range 10 {
		b.sample(fmt.Sprint("m", i), 0, 1)
	}
	expect(t, s.write2(b.request()), 204, "10 0 0")
	for i := range 5 {
		b.sample(fmt.Sprint("new", i), 0, 1)
	}
	for i := range 10 {
		b.sample(fmt.Sprint("m", i), 1, 1)
	}
	expect(t, s.write2(b.request()), 400, "20 0 0", "5 samples refused: series limit", "10 series")
	if got := s.contents(); len(got) != 20 {
		t.Errorf("stored: %d samples, want 20", len(got))
	}
}

// TestSameSeriesInManyEntries has its first appearance in one request.
func TestSameSeriesInManyEntries(t *testing.T) {
	inBoth(t, func(t *testing.T, s *server, send func(string, ...int64) response, counts func(string) string) {
		expect(t, send("a,a,a,b", 0, -5000, 0, 0), 204, counts("4 0 0"))
		s.expectContents(`{__name__="a"} -5000 1`, `{__name__="a"} 0 1`, `{__name__="b"} 0 1`)
		series, err := s.head.View().Select(t.Context(), math.MinInt64, math.MaxInt64, labels.MustNewMatcher(labels.MatchEqual, "__name__", "a"))
		if err != nil || len(series) != 1 {
			t.Errorf("series a: got %d, %v, want 1", len(series), err)
		}
	})
}

func TestSentTwice(t *testing.T) {
	inBoth(t, func(t *testing.T, s *server, send func(string, ...int64) response, counts func(string) string) {
		for range 3 {
			expect(t, send("a,b,a", 0, 0, -60_000), 204, counts("3 0 0"))
		}
		s.expectContents(`{__name__="a"} -60000 1`, `{__name__="a"} 0 1`, `{__name__="b"} 0 1`)
	})
}

// TestNamesMeanNothing stores odd values under names that look like counts.
func TestNamesMeanNothing(t *testing.T) {
	s := newServer(t, nil)
	stale := math.Float64frombits(0x7ff0000000000002)
	odd := math.Float64frombits(0x7ff8dead0000beef)
	var want []string
	b := new2()
	for i, name := range []string{"x_bucket", "x_count", "x_sum"} {
		for j, v := range []float64{stale, -1, 1.5, 1e300, odd, math.Inf(-1)} {
			ms := int64(i*10 + j)
			b.sample(name, ms, v)
			text := fmt.Sprint(v)
			if math.IsNaN(v) {
				text = fmt.Sprintf("NaN:%x", math.Float64bits(v))
			}
			want = append(want, fmt.Sprintf("{__name__=%q} %d %s", name, ms, text))
		}
	}
	expect(t, s.write2(b.request()), 204, "18 0 0")
	s.expectContents(want...)
}

// TestMalformedStoresNothing has good series before and behind what is malformed.
func TestMalformedStoresNothing(t *testing.T) {
	s := newServer(t, nil)
	good := mustRaw(t, request1(series1("m", 0, 1)))
	for name, bad := range map[string][]byte{
		"a series":    {0x0a, 3, 0x12, 9, 0},
		"a label":     {0x0a, 4, 0x0a, 2, 0x0a, 9},
		"a histogram": {0x0a, 4, 0x22, 2, 0x18, 0},
		"an exemplar": {0x0a, 4, 0x1a, 2, 0x10, 0},
		"metadata":    {0x1a, 2, 0x10, 0},
		"the end":     {0x0a},
	} {
		body := slices.Concat(good, bad, good)
		if name == "the end" {
			body = slices.Concat(good, bad)
		}
		expect(t, s.post(typeV1, snappy.Encode(nil, body)), 400, none, "malformed protobuf")
	}
	good2 := mustRaw(t, new2().sample("m", 0, 1).request())
	for _, bad := range [][]byte{{0x2a, 3, 0x12, 9, 0}, {0x2a, 2, 0x0a, 9}, {0x2a, 4, 0x1a, 2, 0x18, 0}, {0x2a, 4, 0x22, 2, 0x10, 0}, {0x2a, 4, 0x2a, 2, 0x18}, {0x22}} {
		expect(t, s.post(typeV2, snappy.Encode(nil, slices.Concat(good2, bad))), 400, "0 0 0", "malformed protobuf")
	}
	s.expectContents()
}

func mustRaw(t *testing.T, m message) []byte {
	t.Helper()
	b, err := m.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestRelabelDropCountsAsWritten sends new and known series that are dropped.
func TestRelabelDropCountsAsWritten(t *testing.T) {
	var rules []*relabel.Config
	if err := yaml.Unmarshal([]byte("[{source_labels: [__name__], regex: 'drop.*', action: drop}]"), &rules); err != nil {
		t.Fatal(err)
	}
	s := newServer(t, func(o *head.Options, _ *receiver.Options) { o.Relabel = rules })
	for range 2 {
		b := new2().sample("keep", 0, 1).entry([]string{"__name__", "dropped"}, func(ts *writev2.TimeSeries) {
			ts.Samples = []writev2.Sample{{Timestamp: at(0), Value: 1}, {Timestamp: at(1), Value: 1}}
			ts.Histograms = []writev2.Histogram{{Timestamp: at(2)}}
			ts.Exemplars = []writev2.Exemplar{{Timestamp: at(0)}}
		})
		expect(t, s.write2(b.request()), 204, "3 1 1")
		expect(t, s.write1(request1(series1("dropped", 0, 1))), 204, none)
	}
	s.expectContents(`{__name__="keep"} 0 1`)
}

// TestBadReferences has entries whose references name no labels beside good ones.
func TestBadReferences(t *testing.T) {
	for name, refs := range map[string][]uint32{"odd": {1, 2, 1}, "out of range": {1, 77}} {
		s := newServer(t, nil)
		b := new2().sample("m", 0, 1).entry(nil, func(ts *writev2.TimeSeries) {
			ts.LabelsRefs = refs
			ts.Samples = []writev2.Sample{{Timestamp: at(5), Value: 1}, {Timestamp: at(6), Value: 1}}
			ts.Histograms = []writev2.Histogram{{Timestamp: at(5)}}
		}).sample("n", 0, 1)
		expect(t, s.write2(b.request()), 400, "2 0 0", "2 samples refused: label references: series entry 2 of the request", "1 histograms refused: label references", fmt.Sprint(at(5)))
		s.expectContents(`{__name__="m"} 0 1`, `{__name__="n"} 0 1`)
		_ = name
	}
}

// TestFirstSymbol accepts a table whose first symbol is not empty.
func TestFirstSymbol(t *testing.T) {
	s := newServer(t, nil)
	req := &writev2.Request{Symbols: []string{"__name__", "m"}, Timeseries: []writev2.TimeSeries{{
		LabelsRefs: []uint32{0, 1}, Samples: []writev2.Sample{{Timestamp: at(0), Value: 1}}}}}
	expect(t, s.write2(req), 204, "1 0 0")
	s.expectContents(`{__name__="m"} 0 1`)
	if len(s.head.Metadata()) != 0 {
		t.Errorf("metadata made of unset references: %v", s.head.Metadata())
	}
}

func TestConcatenated(t *testing.T) {
	s := newServer(t, nil)
	a := mustRaw(t, &prompb.WriteRequest{Timeseries: []prompb.TimeSeries{series1("a", 0, 1)}, Metadata: []prompb.MetricMetadata{{MetricFamilyName: "a", Help: "A."}}})
	b := mustRaw(t, &prompb.WriteRequest{Timeseries: []prompb.TimeSeries{series1("b", 0, 1)}, Metadata: []prompb.MetricMetadata{{MetricFamilyName: "b", Help: "B."}}})
	expect(t, s.post(typeV1, snappy.Encode(nil, slices.Concat(a, b))), 204, none)
	s.expectContents(`{__name__="a"} 0 1`, `{__name__="b"} 0 1`)
	if m := s.head.Metadata(); m["a"].Help != "A." || m["b"].Help != "B." {
		t.Errorf("metadata: got %v", m)
	}
}

// TestWindow leaves nothing out that a sender shuffled inside a request.
func TestWindow(t *testing.T) {
	s := newServer(t, func(o *head.Options, _ *receiver.Options) { o.Accept.Window = 0 })
	ts := series1("m", -7, 3)
	ts.Samples = append(ts.Samples, prompb.Sample{Timestamp: at(-9), Value: 1}, prompb.Sample{Timestamp: at(-8), Value: 2})
	expect(t, s.write1(request1(ts, series1("m", -10, 0))), 204, none)
	expect(t, s.write2(new2().sample("m", -8, 2).sample("m", -6, 4).request()), 204, "2 0 0") // held already, and new
	expect(t, s.write2(new2().sample("m", -9, 9).sample("m", -5, 5).request()), 400, "1 0 0", "too late", fmt.Sprint(at(-9)))
	s.expectContents(`{__name__="m"} -10 0`, `{__name__="m"} -9 1`, `{__name__="m"} -8 2`, `{__name__="m"} -7 3`, `{__name__="m"} -6 4`, `{__name__="m"} -5 5`)
}
