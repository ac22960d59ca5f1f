package query

import (
	"bytes"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"net/http/httptest"
	"testing"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/storage/remote"
	promenc "github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"

	"github.com/rwsink/rwsink/chunkenc"
)

// frameOf sends one series through chunker and framer and returns the body.
func frameOf(t *testing.T, rs runs, set func(*framer)) []byte {
	t.Helper()
	rec := httptest.NewRecorder()
	var out wire
	out.reset(rec)
	f := framer{out: &out, limit: DefaultMaxFrameBytes}
	if set != nil {
		set(&f)
	}
	f.begin(labels.FromStrings("__name__", "m", "l", "v"))
	var c chunker
	c.begin(&f)
	for _, s := range rs.clone() {
		if err := c.add(&s); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.end(); err != nil {
		t.Fatal(err)
	}
	if err := f.write(); err != nil {
		t.Fatal(err)
	}
	if err := out.flush(); err != nil {
		t.Fatal(err)
	}
	return rec.Body.Bytes()
}

// readFrames decodes a body with Prometheus's own reader.
func readFrames(t testing.TB, body []byte, limit uint64) (out []*prompb.ChunkedReadResponse) {
	t.Helper()
	r := remote.NewChunkedReader(bytes.NewReader(body), limit, nil)
	for {
		var m prompb.ChunkedReadResponse
		err := r.NextProto(&m)
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(m.ChunkedSeries) != 1 {
			t.Fatalf("frame with %d series", len(m.ChunkedSeries))
		}
		out = append(out, &m)
	}
}

// decodeChunks decodes and checks the chunks of one series.
func decodeChunks(t testing.TB, in []prompb.Chunk) (out []point) {
	t.Helper()
	last := int64(math.MinInt64)
	for i, c := range in {
		if c.Type < prompb.Chunk_XOR || c.Type > prompb.Chunk_FLOAT_HISTOGRAM {
			t.Fatalf("chunk %d has type %v", i, c.Type)
		}
		chk, err := promenc.FromData(promenc.Encoding(c.Type), c.Data)
		if err != nil {
			t.Fatal(err)
		}
		if n := chk.NumSamples(); n < 1 || n > chunkSamples {
			t.Fatalf("chunk %d has %d samples", i, n)
		}
		if i > 0 && c.MinTimeMs <= last {
			t.Fatalf("chunk %d begins at %d, the one before ends at %d", i, c.MinTimeMs, last)
		}
		start := len(out)
		it := chk.Iterator(nil)
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
			out = append(out, p)
		}
		if it.Err() != nil {
			t.Fatal(it.Err())
		}
		if c.MinTimeMs != out[start].t || c.MaxTimeMs != out[len(out)-1].t {
			t.Fatalf("chunk %d says [%d, %d], holds [%d, %d]", i, c.MinTimeMs, c.MaxTimeMs, out[start].t, out[len(out)-1].t)
		}
		last = c.MaxTimeMs
	}
	return out
}

func checkPoints(t testing.TB, got, want []point) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d samples, want %d", len(got), len(want))
	}
	for i := range got {
		if !samePoint(got[i], want[i]) {
			t.Fatalf("sample %d is %+v, want %+v", i, got[i], want[i])
		}
	}
}

// promSample is a point as Prometheus's chunk encoder takes it.
type promSample struct{ point }

func (p promSample) T() int64                      { return p.t }
func (p promSample) ST() int64                     { return 0 }
func (p promSample) F() float64                    { return p.v }
func (p promSample) H() *histogram.Histogram       { return p.h }
func (p promSample) FH() *histogram.FloatHistogram { return p.fh }
func (p promSample) Copy() chunks.Sample           { return p }
func (p promSample) Type() promenc.ValueType {
	switch {
	case p.h != nil:
		return promenc.ValHistogram
	case p.fh != nil:
		return promenc.ValFloatHistogram
	}
	return promenc.ValFloat
}

// TestChunksAsPrometheusCutsThem compares with the encoder that Prometheus's own
// handler uses, byte for byte.
func TestChunksAsPrometheusCutsThem(t *testing.T) {
	const seed = 11
	rng := rand.New(rand.NewPCG(seed, seed))
	rounds := 25
	if testing.Short() {
		rounds = 2
	}
	for round := range rounds {
		rs := randRuns(rng, 200)
		frames := readFrames(t, frameOf(t, rs, nil), DefaultMaxFrameBytes)
		if len(frames) != 1 {
			t.Fatalf("seed %d, round %d: %d frames", seed, round, len(frames))
		}
		got := frames[0].ChunkedSeries[0].Chunks
		checkPoints(t, decodeChunks(t, got), rs.points())

		var list []chunks.Sample
		for _, p := range rs.clone().points() {
			list = append(list, promSample{p})
		}
		it := storage.NewSeriesToChunkEncoder(storage.NewListSeries(labels.EmptyLabels(), list)).Iterator(nil)
		for i := 0; it.Next(); i++ {
			m := it.At()
			if i >= len(got) {
				t.Fatalf("seed %d, round %d: %d chunks, Prometheus has more", seed, round, len(got))
			}
			g := got[i]
			if g.MinTimeMs != m.MinTime || g.MaxTimeMs != m.MaxTime || byte(g.Type) != byte(m.Chunk.Encoding()) || !bytes.Equal(g.Data, m.Chunk.Bytes()) {
				t.Fatalf("seed %d, round %d: chunk %d is [%d, %d] %v, Prometheus's [%d, %d] %v (or the data differ)", seed, round, i,
					g.MinTimeMs, g.MaxTimeMs, g.Type, m.MinTime, m.MaxTime, m.Chunk.Encoding())
			}
		}
		if it.Err() != nil {
			t.Fatal(it.Err())
		}
	}
}

// TestResetHeaders checks that no chunk calls its first sample "not a reset", and
// what the headers say otherwise.
func TestResetHeaders(t *testing.T) {
	h := func(count uint64, hint histogram.CounterResetHint) *histogram.Histogram {
		return &histogram.Histogram{Count: count, ZeroCount: count, ZeroThreshold: 1, CounterResetHint: hint}
	}
	const unknown, yes, no, gauge = histogram.UnknownCounterReset, histogram.CounterReset, histogram.NotCounterReset, histogram.GaugeType
	for name, tc := range map[string]struct {
		in   []*histogram.Histogram
		want []promenc.CounterResetHeader // of each chunk
	}{
		"growing":                {[]*histogram.Histogram{h(1, unknown), h(2, no), h(3, unknown)}, []promenc.CounterResetHeader{promenc.UnknownCounterReset}},
		"drop called no reset":   {[]*histogram.Histogram{h(9, unknown), h(2, no)}, []promenc.CounterResetHeader{promenc.UnknownCounterReset, promenc.CounterReset}},
		"explicit first":         {[]*histogram.Histogram{h(1, yes), h(2, unknown)}, []promenc.CounterResetHeader{promenc.CounterReset}},
		"explicit while growing": {[]*histogram.Histogram{h(1, unknown), h(2, yes)}, []promenc.CounterResetHeader{promenc.UnknownCounterReset, promenc.CounterReset}},
		"gauge":                  {[]*histogram.Histogram{h(5, gauge), h(2, gauge)}, []promenc.CounterResetHeader{promenc.GaugeType}},
		"gauge, then counter":    {[]*histogram.Histogram{h(5, gauge), h(2, unknown)}, []promenc.CounterResetHeader{promenc.GaugeType, promenc.UnknownCounterReset}},
		"counter, then gauge":    {[]*histogram.Histogram{h(5, unknown), h(2, gauge)}, []promenc.CounterResetHeader{promenc.UnknownCounterReset, promenc.GaugeType}},
		"after a stale marker":   {[]*histogram.Histogram{h(5, unknown), {Sum: staleNaN}, h(2, no)}, []promenc.CounterResetHeader{promenc.UnknownCounterReset, promenc.UnknownCounterReset}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, float := range []bool{false, true} {
				s := chunkenc.Samples{Kind: chunkenc.KindHistogram}
				for i, h := range tc.in {
					s.T = append(s.T, int64(i))
					if float {
						s.Kind = chunkenc.KindFloatHistogram
						s.FH = append(s.FH, h.ToFloat(nil))
					} else {
						s.H = append(s.H, h)
					}
				}
				got := readFrames(t, frameOf(t, runs{s}, nil), DefaultMaxFrameBytes)[0].ChunkedSeries[0].Chunks
				if len(got) != len(tc.want) {
					t.Fatalf("%d chunks, want %d", len(got), len(tc.want))
				}
				for i, c := range got {
					if head := promenc.CounterResetHeader(c.Data[2] & promenc.CounterResetHeaderMask); head != tc.want[i] {
						t.Errorf("float %v: chunk %d has header %x, want %x", float, i, head, tc.want[i])
					}
				}
				checkPoints(t, decodeChunks(t, got), runs{s}.points())
			}
		})
	}
}

func TestChunkerFillsChunksAcrossRuns(t *testing.T) {
	const total = 1000
	for _, n := range []int{1, 7, 119, 120, 121, 240, 999} {
		var rs runs
		for at := 0; at < total; at += n {
			s := chunkenc.Samples{}
			for i := at; i < min(at+n, total); i++ {
				s.T, s.V = append(s.T, int64(i)), append(s.V, float64(i))
			}
			rs = append(rs, s)
		}
		got := readFrames(t, frameOf(t, rs, nil), DefaultMaxFrameBytes)[0].ChunkedSeries[0].Chunks
		checkPoints(t, decodeChunks(t, got), rs.points())
		if want := (total + chunkSamples - 1) / chunkSamples; len(got) != want {
			t.Errorf("runs of %d: %d chunks, want %d", n, len(got), want)
		}
	}
}

func TestChunkerRefusesTimeThatGoesBack(t *testing.T) {
	for name, bad := range map[string]int64{"same": 20, "older": 19} {
		t.Run(name, func(t *testing.T) {
			var out wire
			out.reset(httptest.NewRecorder())
			f := framer{out: &out, limit: 1000}
			f.begin(labels.FromStrings("a", "b"))
			var c chunker
			c.begin(&f)
			if err := c.add(&chunkenc.Samples{T: []int64{10, 20}, V: []float64{1, 2}}); err != nil {
				t.Fatal(err)
			}
			if err := c.add(&chunkenc.Samples{T: []int64{bad}, V: []float64{3}}); err == nil {
				t.Fatal("no error")
			}
		})
	}
}
