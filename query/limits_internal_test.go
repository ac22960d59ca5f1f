package query

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	"github.com/prometheus/prometheus/storage/remote"
)

// fill writes series of n points each.
func fill(t testing.TB, r *rig, series, n int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 1))
	base := hourAgo()
	for i := range series {
		points := floatPoints(base, 1000, n, 0)
		for k := range points {
			points[k].v = rng.Float64()
		}
		r.write(t, labels.FromStrings("__name__", "m", "i", fmt.Sprintf("%05d", i)), points...)
	}
}

func request1(t testing.TB, modes []prompb.ReadRequest_ResponseType, queries ...*prompb.Query) []byte {
	t.Helper()
	return body(t, &prompb.ReadRequest{Queries: queries, AcceptedResponseTypes: modes})
}

// metric returns the value of one of the rig's metrics.
func (r *rig) metric(t testing.TB, name, label string) float64 {
	t.Helper()
	families, err := r.reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() != name || label != "" && (len(m.GetLabel()) == 0 || m.GetLabel()[0].GetValue() != label) {
				continue
			}
			return m.GetGauge().GetValue() + m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return 0
}

// await waits for a condition, at most ten seconds.
func await(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for range 1000 {
		if ok() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("still not: %s", what)
}

func TestSampleLimit(t *testing.T) {
	r := newRig(t, Options{SampleLimit: 100})
	fill(t, r, 2, 50)
	h := newCounts(rand.New(rand.NewPCG(1, 1)))
	h.observe(rand.New(rand.NewPCG(1, 1)))
	r.write(t, labels.FromStrings("__name__", "n"), append(floatPoints(1, 1, 99, 1), point{t: 500, h: h.int()})...)
	m, n := everything(eq("__name__", "m")), everything(eq("__name__", "n"))
	if got := r.ask(t, modeSamples, m, n, m); len(got) != 5 { // a query, not a request, is limited
		t.Errorf("%d series", len(got))
	}
	r.write(t, labels.FromStrings("__name__", "n"), point{t: 501, h: h.int()})
	r.write(t, labels.FromStrings("__name__", "o", "i", "1"), floatPoints(1, 1, 60, 1)...)
	r.write(t, labels.FromStrings("__name__", "o", "i", "2"), floatPoints(1, 1, 41, 1)...)
	for _, queries := range [][]*prompb.Query{{n}, {m, n}, {everything(eq("__name__", "o"))}} {
		resp, got := r.post(t, request1(t, nil, queries...))
		if resp.StatusCode != http.StatusBadRequest || !strings.Contains(string(got), "exceeded sample limit (100)") {
			t.Errorf("status %d: %s", resp.StatusCode, got)
		}
		if e := resp.Header.Get("Content-Encoding"); e != "" {
			t.Errorf("the text has content encoding %q", e)
		}
	}
	if got := r.ask(t, modeChunks, n); len(got[0].points) != 101 {
		t.Errorf("the limit is of SAMPLES, a stream has %d samples", len(got[0].points))
	}
	if got := r.metric(t, "rwsink_read_refused_total", "sample_limit"); got != 3 {
		t.Errorf("counted %v refusals", got)
	}
}

func TestNoLimits(t *testing.T) {
	r := newRig(t, Options{SampleLimit: -1, Concurrency: -1})
	fill(t, r, 2, 50)
	if got := r.ask(t, modeSamples, everything(eq("__name__", "m"))); len(got) != 2 || len(got[0].points) != 50 {
		t.Errorf("%d series", len(got))
	}
	if h := New(Options{SampleLimit: -1, Concurrency: -1}).(*handler); h.SampleLimit < math.MaxInt || cap(h.gate.slots) < math.MaxInt32 {
		t.Errorf("at most %d samples, %d reads at a time", h.SampleLimit, cap(h.gate.slots))
	}
}

func TestNotReady(t *testing.T) {
	s := openStore(t)
	defer func() { // Close wants the replay done
		if err := s.Replay(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	rec := httptest.NewRecorder()
	New(Options{Store: s}).ServeHTTP(rec, httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(request1(t, nil))))
	if rec.Code != http.StatusServiceUnavailable || rec.Header().Get("Retry-After") == "" || !strings.Contains(rec.Body.String(), "replay") {
		t.Errorf("status %d, %v: %s", rec.Code, rec.Header(), rec.Body)
	}
}

func TestRefusedRequestsAndTheNextOne(t *testing.T) {
	r := newRig(t, Options{})
	fill(t, r, 1, 10)
	get, err := http.Get(r.srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	get.Body.Close()
	if get.StatusCode != http.StatusMethodNotAllowed || get.Header.Get("Allow") != http.MethodPost {
		t.Errorf("GET: status %d, Allow %q", get.StatusCode, get.Header.Get("Allow"))
	}
	for name, b := range map[string][]byte{
		"empty":      nil,
		"garbage":    []byte("garbage, and quite some of it"),
		"too long":   make([]byte, maxBodyBytes+1),
		"no type":    request1(t, []prompb.ReadRequest_ResponseType{7}),
		"bad regexp": request1(t, nil, everything(&prompb.LabelMatcher{Type: prompb.LabelMatcher_RE, Name: "a", Value: "["})),
	} {
		resp, text := r.post(t, b)
		if resp.StatusCode != http.StatusBadRequest || len(text) == 0 {
			t.Errorf("%s: status %d: %s", name, resp.StatusCode, text)
		}
		if got := r.ask(t, modeChunks, everything(eq("__name__", "m"))); len(got) != 1 {
			t.Errorf("after %s: %d series", name, len(got))
		}
	}
	if s := r.log.String(); s != "" {
		t.Errorf("what clients do wrong is logged: %s", s)
	}
}

// narrow is a client whose connections hold little.
var narrow = &http.Client{Transport: &http.Transport{
	DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		if err == nil {
			err = c.(*net.TCPConn).SetReadBuffer(16 << 10)
		}
		return c, err
	},
}}

// stalled begins a long streamed read and leaves it unread.
func stalled(t testing.TB, r *rig, ctx context.Context) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.srv.URL,
		bytes.NewReader(request1(t, []prompb.ReadRequest_ResponseType{modeChunks}, everything(eq("__name__", "m")))))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := narrow.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

// TestGateInFront: one slot; a client that stops reading keeps it, others wait or
// are turned away, until it disconnects.
func TestGateInFront(t *testing.T) {
	r := newRig(t, Options{Concurrency: 1})
	fill(t, r, 200, 1000) // more than the buffers of a connection hold
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	resp := stalled(t, r, ctx)
	defer resp.Body.Close()
	if got := r.metric(t, "rwsink_read_in_flight", ""); got != 1 {
		t.Fatalf("%v in flight", got)
	}

	small := request1(t, nil, everything(eq("i", "00001")))
	impatient, leave := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	results := make(chan int, waitersPerSlot)
	for i := range waitersPerSlot {
		wg.Go(func() {
			ctx := t.Context()
			if i == 0 {
				ctx = impatient
			}
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.srv.URL, bytes.NewReader(small))
			if err != nil {
				t.Error(err)
				return
			}
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				if !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
				results <- 0
				return
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			results <- resp.StatusCode
		})
	}
	await(t, "a full queue", func() bool { return r.metric(t, "rwsink_read_waiting", "") == waitersPerSlot })
	over, text := r.post(t, small)
	if over.StatusCode != http.StatusServiceUnavailable || over.Header.Get("Retry-After") == "" {
		t.Errorf("one too many: status %d: %s", over.StatusCode, text)
	}
	leave()
	await(t, "a place in the queue", func() bool { return r.metric(t, "rwsink_read_waiting", "") == waitersPerSlot-1 })
	cancel() // the stalled client disconnects
	wg.Wait()
	close(results)
	served := 0
	for status := range results {
		if status == http.StatusOK {
			served++
		}
	}
	if served != waitersPerSlot-1 {
		t.Errorf("%d of those who waited were served, want %d", served, waitersPerSlot-1)
	}
	await(t, "an empty gate", func() bool { return r.metric(t, "rwsink_read_in_flight", "") == 0 })
	if got := r.metric(t, "rwsink_read_aborted_total", "streamed_xor_chunks"); got != 1 {
		t.Errorf("%v replies counted as broken off", got)
	}
	if s := r.log.String(); s != "" {
		t.Errorf("a client that left is logged: %s", s)
	}
	narrow.CloseIdleConnections()
	http.DefaultClient.CloseIdleConnections()
}

func TestSlowClientGetsEverything(t *testing.T) {
	r := newRig(t, Options{})
	fill(t, r, 20, 2000)
	resp := stalled(t, r, t.Context())
	defer resp.Body.Close()
	rd := remote.NewChunkedReader(slowReader{bufio.NewReader(resp.Body)}, 5e7, nil)
	series, samples := 0, 0
	for {
		var m prompb.ChunkedReadResponse
		err := rd.NextProto(&m)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if series == 3 { // what is written meanwhile does not disturb it
			fill(t, r, 1, 10)
		}
		series++
		samples += len(decodeChunks(t, m.ChunkedSeries[0].Chunks))
	}
	if series != 20 || samples != 40_000 {
		t.Errorf("%d series with %d samples", series, samples)
	}
	narrow.CloseIdleConnections()
}

// slowReader hands out little at a time.
type slowReader struct{ r io.Reader }

func (s slowReader) Read(p []byte) (int, error) {
	time.Sleep(50 * time.Microsecond)
	return s.r.Read(p[:min(len(p), 1024)])
}

// lossy breaks after so many bytes.
type lossy struct {
	http.ResponseWriter
	left int
}

func (l *lossy) Write(p []byte) (int, error) {
	if l.left -= len(p); l.left < 0 {
		return 0, errors.New("the cable is out")
	}
	return l.ResponseWriter.Write(p)
}

func (l *lossy) Unwrap() http.ResponseWriter { return l.ResponseWriter }

func TestFailureAfterTheFirstByteBreaksTheConnection(t *testing.T) {
	for _, mode := range bothModes {
		r := newRig(t, Options{})
		fill(t, r, 50, 2000)
		inner := r.srv.Config.Handler
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			inner.ServeHTTP(&lossy{w, 150_000}, q)
		}))
		resp, err := srv.Client().Post(srv.URL, "", bytes.NewReader(request1(t, []prompb.ReadRequest_ResponseType{mode}, everything(eq("__name__", "m")))))
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(resp.Body)
		if err == nil || len(got) == 0 {
			t.Errorf("%v: %d bytes, then %v: it looks complete", mode, len(got), err)
		}
		resp.Body.Close()
		srv.Close()
	}
}

func TestOversizeSeries(t *testing.T) {
	r := newRig(t, Options{MaxFrameBytes: 10_000})
	fill(t, r, 1, 5000)
	q := everything(eq("__name__", "m"))
	want := r.ask(t, modeSamples, q)

	resp, got := r.post(t, request1(t, []prompb.ReadRequest_ResponseType{modeChunks, modeSamples}, q))
	if kind := resp.Header.Get("Content-Type"); kind != "application/x-protobuf" {
		t.Errorf("a client that understands SAMPLES gets %s", kind)
	}
	checkAnswers(t, decodeReply(t, resp, got, 1), want)
	if r.log.String() != "" {
		t.Errorf("log: %s", r.log)
	}

	_, got = r.post(t, request1(t, []prompb.ReadRequest_ResponseType{modeChunks}, q))
	var points []point
	frames := readFrames(t, got, 10_000)
	for _, f := range frames {
		points = append(points, decodeChunks(t, f.ChunkedSeries[0].Chunks)...)
	}
	checkPoints(t, points, want[0].points)
	if len(frames) < 2 || r.metric(t, "rwsink_read_split_series_total", "") != 1 || !strings.Contains(r.log.String(), "split") {
		t.Errorf("%d frames, log: %s", len(frames), r.log)
	}
}

// TestOversizeSeriesBehindOthers: it is seen before the first byte, too.
func TestOversizeSeriesBehindOthers(t *testing.T) {
	for name, base := range map[string]int64{"near": hourAgo() + 1_000_000, "cold": longAgo} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, Options{MaxFrameBytes: 30_000})
			fill(t, r, 100, 1000) // about 10 KB each
			in := request1(t, []prompb.ReadRequest_ResponseType{modeChunks, modeSamples},
				everything(eq("i", "00001")), everything(eq("__name__", "m")))
			ask := func() string {
				resp, got := r.post(t, in)
				series := decodeReply(t, resp, got, 2)
				if len(series) != 1+100 {
					t.Fatalf("%d series", len(series))
				}
				return resp.Header.Get("Content-Type")
			}
			if kind := ask(); !strings.Contains(kind, "streamed") {
				t.Errorf("all fit: %s", kind)
			}
			long := floatPoints(base, 1000, 10_000, 0)
			for k := range long {
				long[k].v = math.Sqrt(float64(k))
			}
			r.write(t, labels.FromStrings("__name__", "m", "i", "00099"), long...)
			if kind := ask(); kind != "application/x-protobuf" {
				t.Errorf("one does not: %s", kind)
			}
			if s := r.log.String(); s != "" {
				t.Errorf("log: %s", s)
			}
		})
	}
}

func TestMetrics(t *testing.T) {
	r := newRig(t, Options{})
	fill(t, r, 3, 100)
	for i, mode := range []string{"samples", "streamed_xor_chunks"} {
		_, got := r.post(t, request1(t, bothModes[i:i+1], everything(eq("__name__", "m"))))
		await(t, "the read to be counted", func() bool { return r.metric(t, "rwsink_read_bytes_total", mode) > 0 })
		for name, want := range map[string]float64{
			"rwsink_read_samples_total":    300,
			"rwsink_read_series_total":     3,
			"rwsink_read_bytes_total":      float64(len(got)),
			"rwsink_read_duration_seconds": 1,
			"rwsink_read_aborted_total":    0,
		} {
			if v := r.metric(t, name, mode); v != want {
				t.Errorf("%s{mode=%q} is %v, want %v", name, mode, v, want)
			}
		}
	}
	problems, err := testutil.GatherAndLint(r.reg)
	if err != nil || len(problems) > 0 {
		t.Errorf("%v %v", problems, err)
	}
}

// TestDeadlines: every piece gets its own, so that only a client that takes
// nothing at all loses its connection.
func TestDeadlines(t *testing.T) {
	w := &deadlineWriter{}
	var out wire
	out.reset(w)
	for range 10 {
		if err := out.write(make([]byte, pieceBytes)); err != nil {
			t.Fatal(err)
		}
	}
	if err := out.flush(); err != nil {
		t.Fatal(err)
	}
	if len(w.deadlines) != 10 || out.sent != 10*pieceBytes {
		t.Fatalf("%d deadlines for %d bytes", len(w.deadlines), out.sent)
	}
	for _, d := range w.deadlines {
		if left := time.Until(d); left <= 0 || left > pieceTimeout {
			t.Errorf("deadline in %v", left)
		}
	}
}

type deadlineWriter struct {
	discard
	deadlines []time.Time
}

func (w *deadlineWriter) SetWriteDeadline(d time.Time) error {
	w.deadlines = append(w.deadlines, d)
	return nil
}
