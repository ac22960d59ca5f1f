package receiver_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/golang/snappy"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	writev2 "github.com/prometheus/prometheus/prompb/io/prometheus/write/v2"

	"github.com/rwsink/rwsink/chunkenc"
	"github.com/rwsink/rwsink/head"
	"github.com/rwsink/rwsink/internal/metrics"
	"github.com/rwsink/rwsink/receiver"
	"github.com/rwsink/rwsink/wal"
)

// now is the clock of the tests; N in milliseconds.
var now = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

const (
	typeV1 = "application/x-protobuf"
	typeV2 = "application/x-protobuf;proto=io.prometheus.write.v2.Request"
)

// server is a receiver with a real head and log behind it.
type server struct {
	t        testing.TB
	head     *head.Head
	handler  http.Handler
	url      string
	client   *http.Client
	registry *prometheus.Registry
}

// newServer starts one; change, if given, changes the options.
func newServer(t testing.TB, change func(*head.Options, *receiver.Options)) *server {
	t.Helper()
	s := &server{t: t, registry: prometheus.NewRegistry()}
	log, err := wal.Open(wal.Options{Dir: t.TempDir(), Sync: wal.SyncNever})
	if err != nil {
		t.Fatal(err)
	}
	ho := head.Options{Log: log, Accept: head.Accept{
		Retention: 15 * 24 * time.Hour, Window: 2 * time.Hour, MaxFuture: 10 * time.Minute, Now: func() time.Time { return now },
	}}
	ro := receiver.Options{Metrics: metrics.NewReceiver(s.registry)}
	if change != nil {
		change(&ho, &ro)
	}
	if s.head, err = head.New(ho); err != nil {
		t.Fatal(err)
	}
	if err := s.head.Replay(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	ro.Head = s.head
	s.handler = receiver.New(ro)
	web := httptest.NewServer(s.handler)
	s.url, s.client = web.URL, web.Client()
	t.Cleanup(func() {
		web.Close()
		s.head.Close()
		if err := log.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// response is what an answer said.
type response struct {
	code   int
	body   string
	header http.Header
}

// written returns the three counts of a 2.0 answer, as "samples histograms exemplars".
func (r response) written() string {
	const p = "X-Prometheus-Remote-Write-"
	return r.header.Get(p+"Samples-Written") + " " + r.header.Get(p+"Histograms-Written") + " " + r.header.Get(p+"Exemplars-Written")
}

func (s *server) do(req *http.Request) response {
	s.t.Helper()
	resp, err := s.client.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return response{resp.StatusCode, string(body), resp.Header}
}

// post sends a compressed body under a content type.
func (s *server) post(contentType string, body []byte) response {
	s.t.Helper()
	req, err := http.NewRequest(http.MethodPost, s.url, bytes.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Content-Type", contentType)
	req.Header.Set("Content-Encoding", "snappy")
	return s.do(req)
}

type message interface{ Marshal() ([]byte, error) }

func encode(t testing.TB, m message) []byte {
	t.Helper()
	b, err := m.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return snappy.Encode(nil, b)
}

func (s *server) write1(m *prompb.WriteRequest) response {
	s.t.Helper()
	return s.post(typeV1, encode(s.t, m))
}

func (s *server) write2(m *writev2.Request) response {
	s.t.Helper()
	return s.post(typeV2, encode(s.t, m))
}

// expect checks status, counts (2.0) and parts of the body.
func expect(t testing.TB, r response, code int, written string, parts ...string) {
	t.Helper()
	if r.code != code || r.written() != written {
		t.Errorf("got %d, written %q, body %q; want %d, written %q", r.code, r.written(), r.body, code, written)
	}
	for _, p := range parts {
		if !strings.Contains(r.body, p) {
			t.Errorf("body %q does not name %q", r.body, p)
		}
	}
	if code == http.StatusNoContent && r.body != "" {
		t.Errorf("body of success: %q", r.body)
	}
	if code >= 400 && !strings.HasPrefix(r.header.Get("Content-Type"), "text/plain") {
		t.Errorf("an error of type %q", r.header.Get("Content-Type"))
	}
}

// none are the counts of a 1.0 answer, which has none.
const none = "  "

// contents returns what the head holds, a line a sample: labels, time, value bits or histogram.
func (s *server) contents() []string {
	s.t.Helper()
	view := s.head.View()
	matcher := labels.MustNewMatcher(labels.MatchNotEqual, "__name__", "")
	series, err := view.Select(context.Background(), math.MinInt64, math.MaxInt64, matcher)
	if err != nil {
		s.t.Fatal(err)
	}
	var out []string
	reader := view.NewReader()
	for _, x := range series {
		err := reader.Read(x, math.MinInt64, math.MaxInt64, func(run *chunkenc.Samples) error {
			for i, t := range run.T {
				out = append(out, fmt.Sprintf("%s %d %s", x.Labels(), t-now.UnixMilli(), valueText(run, i)))
			}
			return nil
		})
		if err != nil {
			s.t.Fatal(err)
		}
	}
	slices.Sort(out)
	return out
}

func valueText(run *chunkenc.Samples, i int) string {
	text := ""
	switch run.Kind {
	case chunkenc.KindFloat:
		if text = fmt.Sprint(run.V[i]); math.IsNaN(run.V[i]) {
			text = fmt.Sprintf("NaN:%x", math.Float64bits(run.V[i]))
		}
	case chunkenc.KindHistogram:
		text = "int" + run.H[i].String()
	default:
		text = "float" + run.FH[i].String()
	}
	if len(run.ST) > 0 && run.ST[i] != 0 {
		text += fmt.Sprintf(" since %d", run.ST[i]-now.UnixMilli())
	}
	return text
}

// expectContents compares with the whole content, in any order.
func (s *server) expectContents(want ...string) {
	s.t.Helper()
	slices.Sort(want)
	if got := s.contents(); !slices.Equal(got, want) {
		s.t.Errorf("contents:\n got %s\nwant %s", strings.Join(got, "\n     "), strings.Join(want, "\n     "))
	}
}

// metric returns the sum of a counter over its labels, as far as they are given.
func (s *server) metric(name string, with map[string]string) float64 {
	s.t.Helper()
	families, err := s.registry.Gather()
	if err != nil {
		s.t.Fatal(err)
	}
	sum := 0.0
	for _, f := range families {
		for _, m := range f.Metric {
			if f.GetName() != name {
				continue
			}
			have := map[string]string{}
			for _, l := range m.Label {
				have[l.GetName()] = l.GetValue()
			}
			for k, v := range with {
				if have[k] != v {
					have = nil
				}
			}
			if have != nil {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return sum
}

// Builders. Times are relative to now.

func at(ms int64) int64 { return now.UnixMilli() + ms }

func labels1(pairs ...string) (out []prompb.Label) {
	for i := 0; i < len(pairs); i += 2 {
		out = append(out, prompb.Label{Name: pairs[i], Value: pairs[i+1]})
	}
	return out
}

// series1 is an entry with the metric name and one sample.
func series1(name string, ms int64, v float64) prompb.TimeSeries {
	return prompb.TimeSeries{Labels: labels1("__name__", name), Samples: []prompb.Sample{{Timestamp: at(ms), Value: v}}}
}

func request1(ts ...prompb.TimeSeries) *prompb.WriteRequest {
	return &prompb.WriteRequest{Timeseries: ts}
}

// builder2 builds a 2.0 request.
type builder2 struct {
	table writev2.SymbolsTable
	req   writev2.Request
}

func new2() *builder2 { return &builder2{table: writev2.NewSymbolTable()} }

// entry adds an entry with these labels; fill, if given, fills it.
func (b *builder2) entry(pairs []string, fill func(*writev2.TimeSeries)) *builder2 {
	var ts writev2.TimeSeries
	for _, s := range pairs {
		ts.LabelsRefs = append(ts.LabelsRefs, b.table.Symbolize(s))
	}
	if fill != nil {
		fill(&ts)
	}
	b.req.Timeseries = append(b.req.Timeseries, ts)
	return b
}

// sample adds an entry with the metric name and one sample.
func (b *builder2) sample(name string, ms int64, v float64) *builder2 {
	return b.entry([]string{"__name__", name}, func(ts *writev2.TimeSeries) {
		ts.Samples = []writev2.Sample{{Timestamp: at(ms), Value: v}}
	})
}

func (b *builder2) request() *writev2.Request {
	b.req.Symbols = b.table.Symbols()
	return &b.req
}

// lint checks the names and help texts of the metrics.
func TestMetricsAreWellFormed(t *testing.T) {
	s := newServer(t, nil)
	s.write1(request1(series1("m", 0, 1), series1("", 0, 1)))
	problems, err := testutil.GatherAndLint(s.registry)
	if err != nil || len(problems) > 0 {
		t.Errorf("%v %v", problems, err)
	}
	families, err := s.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, f := range families {
		names[f.GetName()] = true
	}
	for _, want := range []string{"rwsink_write_requests_total", "rwsink_write_request_duration_seconds", "rwsink_write_refused_total",
		"rwsink_write_received_samples_total", "rwsink_write_body_bytes_total", "rwsink_write_requests_in_flight"} {
		if !names[want] {
			t.Errorf("no metric %s among %v", want, slices.Sorted(maps.Keys(names)))
		}
	}
}
