package chunkenc_test

import (
	"math"
	"math/rand/v2"

	"github.com/rwsink/rwsink/chunkenc"
	"github.com/rwsink/rwsink/internal/fixture"
)

// loadSeries reads a .rwd.gz file (see testdata/README.md).
func loadSeries(name string) ([]*chunkenc.Samples, error) {
	all, err := fixture.ReadSeries("testdata", name)
	var out []*chunkenc.Samples
	for _, s := range all {
		out = append(out, &chunkenc.Samples{T: s.T, V: s.V})
	}
	return out, err
}

// synthetic makes series of the shapes that metrics have, on a grid of 15 s with a
// jitter of 2 ms.
func synthetic(r *rand.Rand, n int, next func(i int) float64) *chunkenc.Samples {
	s := &chunkenc.Samples{T: make([]int64, n), V: make([]float64, n)}
	for i := range s.T {
		s.T[i] = 1_700_000_000_000 + int64(i)*15_000 + int64(math.Round(r.NormFloat64()*2))
		s.V[i] = next(i)
	}
	return s
}

// shape is a named set of series.
type shape struct {
	name   string
	series []*chunkenc.Samples
}

// shapes are the synthetic sets, 20 series of 2,400 samples each.
func shapes() []shape {
	r := rand.New(rand.NewPCG(31, 32))
	var at float64
	places := make([]float64, 40)
	for i := range places {
		places[i] = -73.9 - math.Round(r.Float64()*1e12)/1e13
	}
	gens := []struct {
		name string
		next func(i int) float64
	}{
		{"counter", func(int) float64 { at += float64(r.IntN(100)); return at }},
		{"counter, large steps", func(int) float64 { at += math.Floor(r.ExpFloat64() * 1e6); return at }},
		{"gauge, 2 decimals", func(int) float64 { return math.Round((50+10*r.NormFloat64())*100) / 100 }},
		{"uniform", func(int) float64 { return r.Float64() }},
		{"100 + normal", func(int) float64 { return 100 + r.NormFloat64() }},
		{"constant", func(int) float64 { return 17.25 }},
		{"sum of durations", func(int) float64 { at += math.Floor(r.ExpFloat64()*1e7) / 1e9; return at }},
		{"changes in 5 %", func(int) float64 {
			if r.IntN(20) == 0 {
				at = float64(r.IntN(1000))
			}
			return at
		}},
		{"counter, 2 % stale", func(int) float64 {
			if at += float64(r.IntN(100)); r.IntN(50) == 0 {
				return staleNaN
			}
			return at
		}},
		{"coordinates", func(int) float64 { return places[min(r.IntN(40), r.IntN(40))] }},
		{"page multiples", func(int) float64 { at += float64(r.IntN(64)-32) * 4096; return 1e9 - math.Mod(1e9, 4096) + at }},
	}
	var out []shape
	for _, g := range gens {
		s := shape{name: g.name}
		for range 20 {
			at = 0
			s.series = append(s.series, synthetic(r, 2400, g.next))
		}
		out = append(out, s)
	}
	return out
}

// cut cuts the series in runs of at most n samples.
func cut(series []*chunkenc.Samples, n int) (runs []chunkenc.Samples) {
	for _, s := range series {
		for i := 0; i < s.Len(); i += n {
			runs = append(runs, s.Slice(i, min(i+n, s.Len())))
		}
	}
	return runs
}

// cutSlots cuts the series at multiples of slot milliseconds, as the head does.
func cutSlots(series []*chunkenc.Samples, slot int64) (runs []chunkenc.Samples) {
	for _, s := range series {
		from := 0
		for i := range s.T {
			if i > 0 && s.T[i]/slot != s.T[i-1]/slot {
				runs = append(runs, s.Slice(from, i))
				from = i
			}
		}
		runs = append(runs, s.Slice(from, s.Len()))
	}
	return runs
}
