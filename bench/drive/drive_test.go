package drive_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang/snappy"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	writev2 "github.com/prometheus/prometheus/prompb/io/prometheus/write/v2"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"go.uber.org/goleak"

	"github.com/rwsink/rwsink/bench/drive"
	"github.com/rwsink/rwsink/bench/load"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) { http.DefaultClient.CloseIdleConnections(); os.Exit(code) }))
}

type point struct {
	v float64
	h *histogram.Histogram
}

// store is a receiver in memory, made of Prometheus's own messages.
type store struct {
	mu       sync.Mutex
	requests int
	samples  map[string]map[int64]point // by the labels, as JSON
	labels   map[string]labels.Labels
	spoil    func(ls labels.Labels, t int64, p *point) bool // of what is stored; false drops it
	answer   func(w http.ResponseWriter, n int) bool        // to request n, counted from 1; true if it has answered
}

func newStore() *store {
	return &store{samples: map[string]map[int64]point{}, labels: map[string]labels.Labels{}}
}

func (s *store) serve(t *testing.T) string {
	srv := httptest.NewServer(s)
	t.Cleanup(func() { http.DefaultClient.CloseIdleConnections(); srv.Close() })
	return srv.URL
}

func (s *store) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err == nil {
		body, err = snappy.Decode(nil, body)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err != nil:
	case r.URL.Path == "/read":
		err = s.read(w, body)
	default:
		s.requests++
		if s.answer != nil && s.answer(w, s.requests) {
			return
		}
		err = s.write(w, r, body)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
	}
}

func (s *store) write(w http.ResponseWriter, r *http.Request, body []byte) error {
	b := labels.NewScratchBuilder(0)
	floats, hists := 0, 0
	if strings.Contains(r.Header.Get("Content-Type"), "v2") {
		var req writev2.Request
		if err := req.Unmarshal(body); err != nil {
			return err
		}
		for _, ts := range req.Timeseries {
			ls, err := ts.ToLabels(&b, req.Symbols)
			if err != nil {
				return err
			}
			for _, p := range ts.Samples {
				s.add(ls, p.Timestamp, point{v: p.Value})
			}
			for _, h := range ts.Histograms {
				s.add(ls, h.Timestamp, point{h: h.ToIntHistogram()})
			}
			floats, hists = floats+len(ts.Samples), hists+len(ts.Histograms)
		}
		w.Header().Set("X-Prometheus-Remote-Write-Samples-Written", fmt.Sprint(floats))
		w.Header().Set("X-Prometheus-Remote-Write-Histograms-Written", fmt.Sprint(hists))
	} else {
		var req prompb.WriteRequest
		if err := req.Unmarshal(body); err != nil {
			return err
		}
		for _, ts := range req.Timeseries {
			for _, p := range ts.Samples {
				s.add(ts.ToLabels(&b, nil), p.Timestamp, point{v: p.Value})
			}
		}
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (s *store) add(ls labels.Labels, t int64, p point) {
	if s.spoil != nil && !s.spoil(ls, t, &p) {
		return
	}
	key := ls.String()
	if s.samples[key] == nil {
		s.samples[key], s.labels[key] = map[int64]point{}, ls
	}
	s.samples[key][t] = p
}

func (s *store) read(w http.ResponseWriter, body []byte) error {
	var req prompb.ReadRequest
	if err := req.Unmarshal(body); err != nil {
		return err
	}
	q := req.Queries[0]
	m := q.Matchers[0]
	var keys []string
	for key, ls := range s.labels {
		if ls.Get(m.Name) == m.Value {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	streamed := req.AcceptedResponseTypes[0] == prompb.ReadRequest_STREAMED_XOR_CHUNKS
	if streamed {
		w.Header().Set("Content-Type", "application/x-streamed-protobuf; proto=prometheus.ChunkedReadResponse")
	}
	result := &prompb.QueryResult{}
	for _, key := range keys {
		ls := prompb.FromLabels(s.labels[key], nil)
		times := make([]int64, 0, len(s.samples[key]))
		for t := range s.samples[key] {
			if t >= q.StartTimestampMs && t <= q.EndTimestampMs {
				times = append(times, t)
			}
		}
		slices.Sort(times)
		if streamed {
			if err := s.stream(w, ls, times, s.samples[key]); err != nil {
				return err
			}
			continue
		}
		ts := &prompb.TimeSeries{Labels: ls}
		for _, t := range times {
			if p := s.samples[key][t]; p.h != nil {
				ts.Histograms = append(ts.Histograms, prompb.FromIntHistogram(t, p.h))
			} else {
				ts.Samples = append(ts.Samples, prompb.Sample{Timestamp: t, Value: p.v})
			}
		}
		result.Timeseries = append(result.Timeseries, ts)
	}
	if streamed {
		return nil
	}
	msg, err := (&prompb.ReadResponse{Results: []*prompb.QueryResult{result}}).Marshal()
	_, _ = w.Write(snappy.Encode(nil, msg))
	return err
}

// stream writes a frame for every 20 samples, as servers with small frames do.
func (s *store) stream(w io.Writer, ls []prompb.Label, times []int64, samples map[int64]point) error {
	for part := range slices.Chunk(times, 20) {
		var chunk chunkenc.Chunk = chunkenc.NewXORChunk()
		typ := prompb.Chunk_XOR
		if samples[part[0]].h != nil {
			chunk, typ = chunkenc.NewHistogramChunk(), prompb.Chunk_HISTOGRAM
		}
		app, err := chunk.Appender()
		if err != nil {
			return err
		}
		for _, t := range part {
			if p := samples[t]; p.h != nil {
				if _, _, _, err := app.AppendHistogram(nil, 0, t, p.h, true); err != nil {
					return err
				}
			} else {
				app.Append(0, t, p.v)
			}
		}
		msg, err := (&prompb.ChunkedReadResponse{ChunkedSeries: []*prompb.ChunkedSeries{{Labels: ls, Chunks: []prompb.Chunk{
			{MinTimeMs: part[0], MaxTimeMs: part[len(part)-1], Type: typ, Data: chunk.Bytes()},
		}}}}).Marshal()
		if err != nil {
			return err
		}
		frame := binary.AppendUvarint(nil, uint64(len(msg)))
		frame = binary.BigEndian.AppendUint32(frame, crc32.Checksum(msg, crc32.MakeTable(crc32.Castagnoli)))
		if _, err := w.Write(append(frame, msg...)); err != nil {
			return err
		}
	}
	return nil
}

func prepare(t *testing.T, spec load.Spec) *load.Set {
	t.Helper()
	set, err := load.Prepare(context.Background(), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(set.Close)
	return set
}

func spec(protocol int) load.Spec {
	s := load.Canonical(protocol, 450, 40, 1_800_000_000_000)
	s.Request = 300
	return s
}

// TestThereAndBack sends loads of every kind and reads them back in both modes.
func TestThereAndBack(t *testing.T) {
	for name, change := range map[string]func(*load.Spec, *drive.Options){
		"1.0":        func(*load.Spec, *drive.Options) {},
		"2.0":        func(s *load.Spec, _ *drive.Options) { s.Protocol = 2 },
		"pipelined":  func(s *load.Spec, o *drive.Options) { s.Late, s.LateBound, o.InFlight = 0.3, time.Hour, 8 },
		"churn":      func(s *load.Spec, _ *drive.Options) { s.Churn = 0.5 },
		"histograms": func(s *load.Spec, _ *drive.Options) { s.Protocol, s.Values = 2, load.Histograms },
	} {
		t.Run(name, func(t *testing.T) {
			st := newStore()
			url := st.serve(t)
			s, o := spec(1), drive.Options{URL: url + "/write?x=1"}
			change(&s, &o)
			set := prepare(t, s)
			var last drive.Progress
			o.Progress = func(p drive.Progress) { last = p }
			r, err := drive.Run(context.Background(), set, o)
			if err != nil {
				t.Fatal(err)
			}
			if err := r.Complete(set); err != nil || r.Requests != set.Requests() || r.Status[204] != r.Requests || r.Bytes != set.Bytes {
				t.Errorf("%+v, %v", r, err)
			}
			if last.Samples != set.Total() || r.Latency(0.5) <= 0 || r.Latency(1) < r.Latency(0.5) {
				t.Errorf("progress %+v, latencies %v to %v", last, r.Latency(0), r.Latency(1))
			}
			for _, mode := range drive.Modes {
				v, err := drive.Verify(context.Background(), url+"/read", &s, mode)
				if err != nil || v.Err() != nil || v.Samples != set.Total() {
					t.Errorf("%+v, %v", v, err)
				}
			}
		})
	}
}

// TestVerifyParts reads back two loads of the same series, one behind the other in time.
func TestVerifyParts(t *testing.T) {
	url := newStore().serve(t)
	whole := spec(1)
	first := whole
	first.Samples, first.Start = 2, whole.Start-2*whole.Interval.Milliseconds()
	for _, s := range []load.Spec{first, whole} {
		if _, err := drive.Run(context.Background(), prepare(t, s), drive.Options{URL: url}); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range []load.Spec{first, whole} {
		for _, mode := range drive.Modes {
			v, err := drive.Verify(context.Background(), url+"/read", &s, mode)
			if err != nil || v.Err() != nil || v.Samples != s.Total() {
				t.Errorf("%d samples a series: %+v, %v", s.Samples, v, err)
			}
		}
	}
}

// TestVerifyFinds stores what was not sent.
func TestVerifyFinds(t *testing.T) {
	s := spec(1)
	of := s.LabelsOf(201, false)
	at := s.Time(201, 7)
	for name, c := range map[string]struct {
		spoil func(ls labels.Labels, t int64, p *point) bool
		want  drive.Verdict
	}{
		"a sample less": {func(ls labels.Labels, t int64, _ *point) bool { return !labels.Equal(ls, of) || t != at }, drive.Verdict{Missing: 1}},
		"a series less": {func(ls labels.Labels, _ int64, _ *point) bool { return !labels.Equal(ls, of) }, drive.Verdict{Missing: 40}},
		"another bit": {func(ls labels.Labels, t int64, p *point) bool {
			if labels.Equal(ls, of) && t == at {
				p.v += 1e-9
			}
			return true
		}, drive.Verdict{Wrong: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			st := newStore()
			st.spoil = c.spoil
			url := st.serve(t)
			if _, err := drive.Run(context.Background(), prepare(t, s), drive.Options{URL: url}); err != nil {
				t.Fatal(err)
			}
			checkVerdicts(t, url, &s, c.want)
		})
	}
	t.Run("a sample more", func(t *testing.T) {
		st := newStore()
		url := st.serve(t)
		if _, err := drive.Run(context.Background(), prepare(t, s), drive.Options{URL: url}); err != nil {
			t.Fatal(err)
		}
		st.add(of, at+1, point{v: 1})
		other := labels.NewBuilder(of).Set("x", "y").Labels()
		st.add(other, at, point{v: 1})
		checkVerdicts(t, url, &s, drive.Verdict{Extra: 2})
	})
}

func checkVerdicts(t *testing.T, url string, s *load.Spec, want drive.Verdict) {
	t.Helper()
	for _, mode := range drive.Modes {
		v, err := drive.Verify(context.Background(), url+"/read", s, mode)
		if err != nil || v.Err() == nil || v.Missing != want.Missing || v.Wrong != want.Wrong || v.Extra != want.Extra {
			t.Errorf("%s: %+v, %v, want %+v", mode, v, err, want)
		}
	}
}

// TestAnswers counts refusals, miscounts and closed connections.
func TestAnswers(t *testing.T) {
	st := newStore()
	st.answer = func(w http.ResponseWriter, n int) bool {
		switch n % 10 {
		case 3:
			http.Error(w, "not now", http.StatusServiceUnavailable)
			return true
		case 5:
			w.WriteHeader(http.StatusNoContent) // without counts
			return true
		case 7:
			w.Header().Set("Connection", "close")
		}
		return false
	}
	set := prepare(t, spec(2))
	r, err := drive.Run(context.Background(), set, drive.Options{URL: st.serve(t)})
	if err != nil {
		t.Fatal(err)
	}
	n := set.Requests()
	refusals, miscounts := (n+7)/10, (n+5)/10
	if r.Status[503] != refusals || r.Status[204] != n-refusals || r.Miscounts != miscounts || r.Samples >= set.Total() {
		t.Errorf("%d requests: %+v", n, r)
	}
	if err := r.Complete(set); err == nil || !strings.Contains(err.Error(), "not now") && !strings.Contains(err.Error(), "Written") {
		t.Error(err)
	}
}

// TestBrokenConnection: a server that goes away ends the run, pipelined or not.
func TestBrokenConnection(t *testing.T) {
	for _, inFlight := range []int{1, 16} {
		st := newStore()
		st.answer = func(w http.ResponseWriter, n int) bool {
			if n > 9 {
				panic(http.ErrAbortHandler)
			}
			return false
		}
		set := prepare(t, spec(1))
		r, err := drive.Run(context.Background(), set, drive.Options{URL: st.serve(t), InFlight: inFlight})
		if err == nil || r.Samples >= set.Total() {
			t.Errorf("%d in flight: %v, %+v", inFlight, err, r)
		}
	}
	if _, err := drive.Run(context.Background(), prepare(t, spec(1)), drive.Options{URL: "ftp://127.0.0.1/"}); err == nil {
		t.Error("ftp is taken")
	}
}

// TestPace checks rate, duration and cancellation.
func TestPace(t *testing.T) {
	st := newStore()
	url := st.serve(t)
	set := prepare(t, spec(1))
	rate := float64(set.Total()) * 2 // half a second
	r, err := drive.Run(context.Background(), set, drive.Options{URL: url, Rate: rate})
	if err != nil || r.Complete(set) != nil || r.Wall < 350*time.Millisecond {
		t.Errorf("%v, %+v", err, r)
	}
	r, err = drive.Run(context.Background(), set, drive.Options{URL: url, Rate: rate / 20, Duration: 200 * time.Millisecond})
	if err != nil || r.Samples == 0 || r.Samples > set.Total()/4 || r.Wall > 5*time.Second {
		t.Errorf("%v, %+v", err, r)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	if _, err = drive.Run(ctx, set, drive.Options{URL: url, Rate: rate / 20}); err == nil {
		t.Error("a run that was cancelled has no error")
	}
}

func TestDiskBytes(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/a", make([]byte, 1000), 0o600); err != nil {
		t.Fatal(err)
	}
	if n, err := drive.DiskBytes(dir); err != nil || n != 1000 {
		t.Error(n, err)
	}
	if _, err := drive.DiskBytes(dir + "/b"); err == nil {
		t.Error("a directory that is not there has a size")
	}
}
