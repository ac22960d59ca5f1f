package query

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/golang/snappy"
	"github.com/prometheus/client_golang/prometheus"
	config_util "github.com/prometheus/common/config"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/storage/remote"
	promenc "github.com/prometheus/prometheus/tsdb/chunkenc"
	"go.uber.org/goleak"

	"github.com/rwsink/rwsink/head"
	"github.com/rwsink/rwsink/internal/metrics"
	"github.com/rwsink/rwsink/store"
	"github.com/rwsink/rwsink/wal"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	modeSamples = prompb.ReadRequest_SAMPLES
	modeChunks  = prompb.ReadRequest_STREAMED_XOR_CHUNKS
)

// longAgo is where the head keeps samples by their order of arrival, hourAgo where
// it keeps them by series. Unix milliseconds.
const longAgo = int64(1_700_000_000_000)

func hourAgo() int64 { return time.Now().Add(-time.Hour).UnixMilli() }

var bothModes = []prompb.ReadRequest_ResponseType{modeSamples, modeChunks}

// rig is a store with the handler before it, on a real server.
type rig struct {
	store *store.Store
	srv   *httptest.Server
	reg   *prometheus.Registry
	log   *logBuffer

	mu   sync.Mutex
	keys map[string]head.Key
}

type logBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.String()
}

func openStore(t testing.TB) *store.Store {
	t.Helper()
	s, err := store.Open(store.Options{
		Path: t.TempDir(),
		Sync: wal.SyncNever,
		Head: head.Options{Accept: head.Accept{Window: -1, MaxFuture: 1 << 62, TrustClock: true}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func newRig(t testing.TB, o Options) *rig {
	t.Helper()
	r := &rig{store: openStore(t), reg: prometheus.NewRegistry(), log: &logBuffer{}, keys: map[string]head.Key{}}
	if err := r.store.Replay(context.Background()); err != nil {
		t.Fatal(err)
	}
	o.Store = r.store
	o.Metrics = metrics.NewQuery(r.reg)
	o.Logger = slog.New(slog.NewTextHandler(r.log, nil))
	r.srv = httptest.NewUnstartedServer(New(o))
	r.srv.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	r.srv.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		if err := c.(*net.TCPConn).SetWriteBuffer(16 << 10); err != nil { // a client that stalls is felt soon
			t.Error(err)
		}
		return ctx
	}
	r.srv.Start()
	t.Cleanup(r.srv.Close)
	return r
}

// series returns the head's series with these labels.
func (r *rig) series(t testing.TB, ls labels.Labels) *head.Series {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	key, known := r.keys[ls.String()]
	if !known {
		key = head.Key{Hi: 1, Lo: uint64(len(r.keys))}
		r.keys[ls.String()] = key
	}
	if s, _ := r.store.Head().Lookup(key); s != nil {
		return s
	}
	var wire []head.Label
	ls.Range(func(l labels.Label) {
		wire = append(wire, head.Label{Name: []byte(l.Name), Value: []byte(l.Value)})
	})
	s, _, err := r.store.Head().Resolve(key, wire)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// write commits points of one series in one batch.
func (r *rig) write(t testing.TB, ls labels.Labels, points ...point) {
	t.Helper()
	b := r.store.Head().NewBatch()
	defer b.Release()
	s := r.series(t, ls)
	for _, p := range points {
		switch {
		case p.h != nil:
			b.Histogram(s, p.t, 0, p.h.Copy(), nil)
		case p.fh != nil:
			b.Histogram(s, p.t, 0, nil, p.fh.Copy())
		default:
			b.Float(s, p.t, 0, p.v)
		}
	}
	r.commit(t, b)
}

func (r *rig) commit(t testing.TB, b *head.Batch) {
	t.Helper()
	res, err := r.store.Head().Commit(context.Background(), b)
	if err != nil {
		t.Fatal(err)
	}
	if res.Refused.Any() {
		t.Fatal(res.Refused.Error())
	}
}

// floats returns n points from t on, a millisecond step apart, of value v.
func floatPoints(t, step int64, n int, v float64) (out []point) {
	for i := range int64(n) {
		out = append(out, point{t: t + i*step, v: v})
	}
	return out
}

// answer is one series of a reply.
type answer struct {
	query  int64
	labels labels.Labels
	points []point
}

func queryOf(mint, maxt int64, ms ...*prompb.LabelMatcher) *prompb.Query {
	return &prompb.Query{StartTimestampMs: mint, EndTimestampMs: maxt, Matchers: ms}
}

func eq(name, value string) *prompb.LabelMatcher {
	return &prompb.LabelMatcher{Type: prompb.LabelMatcher_EQ, Name: name, Value: value}
}

func everything(ms ...*prompb.LabelMatcher) *prompb.Query {
	return queryOf(math.MinInt64, math.MaxInt64, ms...)
}

// post sends a request and returns the whole reply.
func (r *rig) post(t testing.TB, body []byte) (*http.Response, []byte) {
	t.Helper()
	resp, err := http.Post(r.srv.URL, "text/odd; not=checked", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, got
}

// ask sends queries in a mode and decodes the reply, checking all that a client relies on.
func (r *rig) ask(t testing.TB, mode prompb.ReadRequest_ResponseType, queries ...*prompb.Query) []answer {
	t.Helper()
	resp, got := r.post(t, body(t, &prompb.ReadRequest{
		Queries: queries, AcceptedResponseTypes: []prompb.ReadRequest_ResponseType{mode},
	}))
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("status %d: %s", resp.StatusCode, got)
	}
	return decodeReply(t, resp, got, len(queries))
}

func decodeReply(t testing.TB, resp *http.Response, got []byte, queries int) []answer {
	t.Helper()
	var out []answer
	kind, enc := resp.Header.Get("Content-Type"), resp.Header.Get("Content-Encoding")
	switch kind {
	case "application/x-protobuf":
		if enc != "snappy" {
			t.Fatalf("content encoding %q", enc)
		}
		out = decodeSamples(t, got, queries)
	case "application/x-streamed-protobuf; proto=prometheus.ChunkedReadResponse":
		if enc != "" {
			t.Fatalf("content encoding %q", enc)
		}
		for _, f := range readFrames(t, got, DefaultMaxFrameBytes) {
			s := f.ChunkedSeries[0]
			out = append(out, answer{f.QueryIndex, labelsOf(s.Labels), decodeChunks(t, s.Chunks)})
		}
	default:
		t.Fatalf("content type %q", kind)
	}
	for i := range out {
		if i > 0 && (out[i].query < out[i-1].query ||
			out[i].query == out[i-1].query && labels.Compare(out[i-1].labels, out[i].labels) >= 0) {
			t.Fatalf("%s of query %d follows %s of query %d", out[i].labels, out[i].query, out[i-1].labels, out[i-1].query)
		}
		for k := 1; k < len(out[i].points); k++ {
			if out[i].points[k].t <= out[i].points[k-1].t {
				t.Fatalf("%s: %d follows %d", out[i].labels, out[i].points[k].t, out[i].points[k-1].t)
			}
		}
	}
	return out
}

func labelsOf(in []prompb.Label) labels.Labels {
	b := labels.NewScratchBuilder(len(in))
	for _, l := range in {
		b.Add(l.Name, l.Value)
	}
	return b.Labels()
}

func decodeSamples(t testing.TB, got []byte, queries int) (out []answer) {
	t.Helper()
	raw, err := snappy.Decode(nil, got)
	if err != nil {
		t.Fatal(err)
	}
	var msg prompb.ReadResponse
	if err := msg.Unmarshal(raw); err != nil {
		t.Fatal(err)
	}
	if len(msg.Results) != queries {
		t.Fatalf("%d results for %d queries", len(msg.Results), queries)
	}
	for i, res := range msg.Results {
		for _, ts := range res.Timeseries {
			var a, b runs
			for _, s := range ts.Samples {
				a = append(a, runOf(point{t: s.Timestamp, v: s.Value}))
			}
			for _, h := range ts.Histograms {
				if h.IsFloatHistogram() {
					b = append(b, runOf(point{t: h.Timestamp, fh: h.ToFloatHistogram()}))
				} else {
					b = append(b, runOf(point{t: h.Timestamp, h: h.ToIntHistogram()}))
				}
			}
			merged := mergeRuns(a, b)
			if n := len(merged.points()); n != len(ts.Samples)+len(ts.Histograms) {
				t.Fatal("a sample and a histogram share a timestamp")
			}
			out = append(out, answer{int64(i), labelsOf(ts.Labels), merged.points()})
		}
	}
	return out
}

// client returns Prometheus's own client.
func (r *rig) client(t testing.TB, modes ...prompb.ReadRequest_ResponseType) remote.ReadClient {
	t.Helper()
	u, err := url.Parse(r.srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	c, err := remote.NewReadClient(fmt.Sprintf("test %v", modes), &remote.ClientConfig{
		URL: &config_util.URL{URL: u}, Timeout: model.Duration(time.Minute),
		ChunkedReadLimit: 5e7, AcceptedResponseTypes: modes,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.(*remote.Client).Client.CloseIdleConnections)
	return c
}

// drain reads what Prometheus's client makes of a reply.
func drain(t testing.TB, set storage.SeriesSet) (out []answer) {
	t.Helper()
	for set.Next() {
		s := set.At()
		a := answer{labels: s.Labels()}
		it := s.Iterator(nil)
		for typ := it.Next(); typ != promenc.ValNone; typ = it.Next() {
			var p point
			switch typ {
			case promenc.ValFloat:
				p.t, p.v = it.At()
			case promenc.ValHistogram:
				p.t, p.h = it.AtHistogram(nil)
			default:
				p.t, p.fh = it.AtFloatHistogram(nil)
			}
			a.points = append(a.points, p)
		}
		if it.Err() != nil {
			t.Fatal(it.Err())
		}
		out = append(out, a)
	}
	if set.Err() != nil {
		t.Fatal(set.Err())
	}
	return out
}

func checkAnswers(t testing.TB, got, want []answer) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d series, want %d", len(got), len(want))
	}
	for i := range got {
		if got[i].query != want[i].query || !labels.Equal(got[i].labels, want[i].labels) {
			t.Fatalf("series %d is %s of query %d, want %s of %d", i, got[i].labels, got[i].query, want[i].labels, want[i].query)
		}
		checkPoints(t, got[i].points, want[i].points)
	}
}
