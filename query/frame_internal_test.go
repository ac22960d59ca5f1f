package query

import (
	"errors"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/rwsink/rwsink/chunkenc"
)

func floatRun(rng *rand.Rand, n int) chunkenc.Samples {
	var s chunkenc.Samples
	for i := range n {
		s.T, s.V = append(s.T, int64(i)*15_000), append(s.V, rng.Float64())
	}
	return s
}

func TestFrameSplitsOnlyAboveItsLimit(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	rs := runs{floatRun(rng, 120*50)}
	whole := frameOf(t, rs, nil)
	frames := readFrames(t, whole, DefaultMaxFrameBytes)
	message := frames[0].Size()
	for _, query := range []int64{0, 1, 300} {
		set := func(limit int) func(*framer) {
			return func(f *framer) { f.limit, f.query = limit, query }
		}
		if n := len(readFrames(t, frameOf(t, rs, set(message+frameSlack)), uint64(message+frameSlack))); n != 1 {
			t.Errorf("%d frames where one fits", n)
		}
		limit := message / 3
		frames := readFrames(t, frameOf(t, rs, set(limit)), uint64(limit)) // refuses longer ones
		if len(frames) < 4 {
			t.Errorf("%d frames of %d bytes for %d", len(frames), limit, message)
		}
		var got []point
		for _, f := range frames {
			if f.QueryIndex != query {
				t.Errorf("query index %d, want %d", f.QueryIndex, query)
			}
			if len(f.ChunkedSeries[0].Chunks) == 0 || len(f.ChunkedSeries[0].Labels) != 2 {
				t.Error("frame without chunks or labels")
			}
			got = append(got, decodeChunks(t, f.ChunkedSeries[0].Chunks)...)
		}
		checkPoints(t, got, rs.points())
	}
}

func TestFrameOfOneChunkAboveItsLimit(t *testing.T) {
	rs := runs{floatRun(rand.New(rand.NewPCG(1, 1)), 360)}
	frames := readFrames(t, frameOf(t, rs, func(f *framer) { f.limit = 1 }), 1<<20)
	if len(frames) != 3 {
		t.Errorf("%d frames, want one a chunk", len(frames))
	}
}

func TestFrameOversizeIsReportedWhileItCanBe(t *testing.T) {
	for _, started := range []bool{false, true} {
		var out wire
		out.reset(httptest.NewRecorder())
		out.started = started
		f := framer{out: &out, limit: 100, rescue: true}
		f.begin(labels.FromStrings("a", "b"))
		var err error
		for i := int64(0); i < 3 && err == nil; i++ {
			err = f.chunk(i, i, 1, make([]byte, 50))
		}
		if got := errors.Is(err, errOversize); got == started {
			t.Errorf("started %v: error %v", started, err)
		}
	}
}

func TestFrameOfBigLabelsAndOfNoChunks(t *testing.T) {
	rec := httptest.NewRecorder()
	var out wire
	out.reset(rec)
	f := framer{out: &out, limit: DefaultMaxFrameBytes}
	big := labels.FromStrings("__name__", "m", "big", strings.Repeat("x", 1<<20))
	f.begin(big)
	if err := f.write(); err != nil {
		t.Fatal(err)
	}
	f.begin(big)
	if err := f.chunk(1, 1, 1, []byte{0}); err != nil {
		t.Fatal(err)
	}
	if err := f.write(); err != nil {
		t.Fatal(err)
	}
	if err := out.flush(); err != nil {
		t.Fatal(err)
	}
	frames := readFrames(t, rec.Body.Bytes(), DefaultMaxFrameBytes)
	if len(frames) != 2 {
		t.Fatalf("%d frames", len(frames))
	}
	for i, f := range frames {
		if s := f.ChunkedSeries[0]; len(s.Chunks) != i || s.Labels[0].Value != strings.Repeat("x", 1<<20) && s.Labels[1].Value != strings.Repeat("x", 1<<20) {
			t.Errorf("frame %d has %d chunks", i, len(s.Chunks))
		}
	}
}

func TestStreamDoesNotAllocate(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	run := floatRun(rng, 240)
	ls := labels.FromStrings("__name__", "m", "instance", "host:9100")
	var out wire
	out.reset(discard{})
	f := framer{out: &out, limit: DefaultMaxFrameBytes}
	var c chunker
	one := func() {
		f.begin(ls)
		c.begin(&f)
		if err := errors.Join(c.add(&run), c.end()); err != nil {
			t.Fatal(err)
		}
		if err := f.write(); err != nil {
			t.Fatal(err)
		}
	}
	one()
	if n := testing.AllocsPerRun(1000, one); n != 0 {
		t.Errorf("%v allocations a series", n)
	}
}

// discard is a client that takes everything.
type discard struct{}

func (discard) Header() http.Header         { return http.Header{} }
func (discard) Write(p []byte) (int, error) { return len(p), nil }
func (discard) WriteHeader(int)             {}

func BenchmarkStreamPieces(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	run := floatRun(rng, 240)
	for i := range run.V {
		run.V[i] = float64(i * 3) // a counter
	}
	ls := labels.FromStrings("__name__", "m", "instance", "host:9100", "job", "node")
	var out wire
	out.reset(discard{})
	f := framer{out: &out, limit: DefaultMaxFrameBytes}
	var c chunker
	b.ReportAllocs()
	for b.Loop() {
		f.begin(ls)
		c.begin(&f)
		if err := errors.Join(c.add(&run), c.end()); err != nil {
			b.Fatal(err)
		}
		if err := f.write(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*run.Len()), "ns/sample")
}
