package chunkenc_test

import (
	"bufio"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/rwsink/rwsink/chunkenc"
)

// dataDir is where the series of benchmarks are: CODEC_DATA, or the samples here.
func dataDir() string {
	if dir := os.Getenv("CODEC_DATA"); dir != "" {
		return dir
	}
	return "testdata"
}

// loadSeries reads a .rwd.gz file (see testdata/README.md).
func loadSeries(name string) ([]*chunkenc.Samples, error) {
	f, err := os.Open(filepath.Join(dataDir(), name))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, err
	}
	r := bufio.NewReader(z)
	magic := make([]byte, 4)
	if _, err := io.ReadFull(r, magic); err != nil || string(magic) != "RWD1" {
		return nil, fmt.Errorf("magic %q: %w", magic, err)
	}
	count, err := binary.ReadUvarint(r)
	var all []*chunkenc.Samples
	for range count {
		size, err1 := binary.ReadUvarint(r)
		_, err2 := r.Discard(int(size))
		n, err3 := binary.ReadUvarint(r)
		if err = errors.Join(err1, err2, err3); err != nil {
			return nil, err
		}
		s := &chunkenc.Samples{T: make([]int64, n), V: make([]float64, n)}
		var t, delta int64
		for i := range s.T {
			dod, err := binary.ReadVarint(r)
			if err != nil {
				return nil, err
			}
			delta += dod
			t += delta
			s.T[i] = t
		}
		if err := binary.Read(r, binary.LittleEndian, s.V); err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, err
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
