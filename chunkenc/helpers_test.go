package chunkenc_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/value"

	"github.com/rwsink/rwsink/chunkenc"
)

var staleNaN = math.Float64frombits(value.StaleNaN)

// nastyFloats are values that a codec may get wrong.
var nastyFloats = []float64{
	0, math.Copysign(0, -1), 1, -1, 0.1, 1.1, 100.25, 1e15, 1e16, 1e17, 1e22, 1e23, -1e300,
	math.Inf(1), math.Inf(-1), math.NaN(), staleNaN,
	math.Float64frombits(0x7ff0000000000001), math.Float64frombits(0xfff8000000000000),
	math.Float64frombits(0xffffffffffffffff), math.Float64frombits(0x7ff8000000000001),
	math.SmallestNonzeroFloat64, -math.SmallestNonzeroFloat64, math.Float64frombits(0x000fffffffffffff),
	math.Float64frombits(0x0010000000000000), math.MaxFloat64, -math.MaxFloat64,
	1 << 52, 1 << 53, 1<<53 + 2, 1 << 62, 1 << 63, -(1 << 63), 0.3, 0.1 + 0.2, math.Pi,
	math.Nextafter(1, 2), math.Nextafter(1, 0), math.Nextafter(0.1, 1),
}

// few is n, and a sixteenth of it with -short: the race detector has nothing to find in
// what one goroutine does, and takes ten times as long for it.
func few(n int) int {
	if testing.Short() {
		return (n + 15) / 16
	}
	return n
}

// floats makes a batch of n samples of one of many shapes.
func floats(r *rand.Rand, n int) *chunkenc.Samples {
	s := &chunkenc.Samples{Kind: chunkenc.KindFloat, T: times(r, n), V: values(r, n)}
	switch r.IntN(4) {
	case 0:
		s.ST = make([]int64, n)
		for i := range s.ST {
			if r.IntN(20) > 0 {
				s.ST[i] = s.T[i/7*7] - int64(r.IntN(3))
			}
		}
	case 1:
		s.ST = make([]int64, n)
	}
	return s
}

// times makes n strictly increasing timestamps: grids with and without jitter
// and gaps, and jumps of every size up to the ends of int64.
func times(r *rand.Rand, n int) []int64 {
	t := make([]int64, n)
	shape := r.IntN(5)
	next := int64(1_700_000_000_000) + r.Int64N(1e9)
	if shape == 4 {
		next = math.MinInt64
	}
	for i := range t {
		t[i] = next
		step := int64(15_000)
		switch shape {
		case 1:
			step += r.Int64N(7) - 3
		case 2:
			step = 1 + r.Int64N(1<<r.IntN(30))
		case 3:
			if r.IntN(30) == 0 {
				step *= 1 + r.Int64N(1000)
			}
		case 4:
			step = math.MaxInt64/int64(n) + r.Int64N(math.MaxInt64/int64(n))
			if n == 2 {
				t[i], step = math.MinInt64, math.MaxInt64
			}
		}
		next += step
	}
	if shape == 4 && n > 1 {
		t[n-1] = math.MaxInt64
	}
	return t
}

func values(r *rand.Rand, n int) []float64 {
	v := make([]float64, n)
	shape := r.IntN(12)
	scale := math.Pow(10, float64(r.IntN(18)))
	at := r.Float64() * 1000
	for i := range v {
		switch shape {
		case 0:
			v[i] = at
		case 1:
			at += float64(r.IntN(100))
			v[i] = math.Floor(at)
		case 2:
			v[i] = math.Round((at+r.NormFloat64())*scale) / scale
		case 3:
			at += r.ExpFloat64()
			v[i] = at
		case 4:
			v[i] = r.Float64()
		case 5:
			v[i] = math.Float64frombits(r.Uint64())
		case 6:
			v[i] = nastyFloats[r.IntN(len(nastyFloats))]
		case 7:
			v[i] = math.Floor(at) * 4096
			at += float64(r.IntN(3))
		case 8:
			v[i] = math.Floor(at)
			if r.IntN(20) == 0 {
				v[i] = nastyFloats[r.IntN(len(nastyFloats))]
			}
		case 9:
			at += float64(r.IntN(1e9)) / 1e9
			v[i] = at
		case 10:
			v[i] = math.Float64frombits(math.Float64bits(at) + uint64(r.IntN(3)))
		default:
			v[i] = at
			if r.IntN(25) == 0 {
				at = r.Float64() * scale
			}
		}
	}
	return v
}

// checkEqual compares two batches bit by bit; histograms apart from empty buckets
// and with hints.
func checkEqual(t testing.TB, got, want *chunkenc.Samples) {
	t.Helper()
	if got.Kind != want.Kind || got.Len() != want.Len() {
		t.Fatalf("got %d samples of kind %d, want %d of %d", got.Len(), got.Kind, want.Len(), want.Kind)
	}
	for i := range want.T {
		if got.T[i] != want.T[i] {
			t.Fatalf("sample %d: got t %d, want %d", i, got.T[i], want.T[i])
		}
		if g, w := start(got, i), start(want, i); g != w {
			t.Fatalf("sample %d: got start %d, want %d", i, g, w)
		}
		switch want.Kind {
		case chunkenc.KindFloat:
			if g, w := math.Float64bits(got.V[i]), math.Float64bits(want.V[i]); g != w {
				t.Fatalf("sample %d: got value %016x, want %016x (%v)", i, g, w, want.V[i])
			}
		case chunkenc.KindHistogram:
			g, w := got.H[i].Copy(), want.H[i].Copy()
			if !g.Compact(0).Equals(w.Compact(0)) {
				t.Fatalf("sample %d: got %v, want %v", i, g, w)
			}
			checkHint(t, i, g.CounterResetHint, w.CounterResetHint)
		case chunkenc.KindFloatHistogram:
			g, w := got.FH[i].Copy(), want.FH[i].Copy()
			if !g.Compact(0).Equals(w.Compact(0)) {
				t.Fatalf("sample %d: got %v, want %v", i, g, w)
			}
			checkHint(t, i, g.CounterResetHint, w.CounterResetHint)
		}
	}
}

// checkHint wants explicit hints kept and no others.
func checkHint(t testing.TB, i int, got, want histogram.CounterResetHint) {
	t.Helper()
	if want == histogram.NotCounterReset {
		want = histogram.UnknownCounterReset
	}
	if got != want {
		t.Fatalf("sample %d: got hint %d, want %d", i, got, want)
	}
}

func start(s *chunkenc.Samples, i int) int64 {
	if len(s.ST) == 0 {
		return 0
	}
	return s.ST[i]
}

// decodeAll decodes the chunks of one batch and checks their bounds.
func decodeAll(t testing.TB, chunks []chunkenc.Chunk) *chunkenc.Samples {
	t.Helper()
	var d chunkenc.Decoder
	out := new(chunkenc.Samples)
	for i := range chunks {
		c := &chunks[i]
		n := out.Len()
		if err := d.Decode(out, c); err != nil {
			t.Fatalf("chunk %d: %v", i, err)
		}
		if got := out.Len() - n; got != int(c.N) || out.T[n] != c.MinT || out.T[out.Len()-1] != c.MaxT {
			t.Fatalf("chunk %d: %d samples of [%d, %d], want %d of [%d, %d]", i, got, out.T[n], out.T[out.Len()-1], c.N, c.MinT, c.MaxT)
		}
	}
	return out
}
