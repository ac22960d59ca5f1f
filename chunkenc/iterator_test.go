package chunkenc_test

import (
	"math"
	"math/rand/v2"
	"testing"

	promenc "github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/rwsink/rwsink/chunkenc"
)

// Prometheus's own iterator over an XOR chunk is the oracle, under the same calls.
func TestIteratorLikePrometheus(t *testing.T) {
	r := rand.New(rand.NewPCG(51, 52))
	it := chunkenc.NewIterator(new(chunkenc.Samples))
	for range few(500) {
		s := floats(r, 1+r.IntN(300))
		if s.Len() > 1 && s.T[0] == math.MinInt64 {
			continue // Prometheus's starts there and takes it for the time before
		}
		it.Reset(s)
		want := xorChunk(t, s).Iterator(nil)
		for range 400 {
			var g, w promenc.ValueType
			if r.IntN(3) > 0 {
				g, w = it.Next(), want.Next()
			} else {
				at := s.T[r.IntN(s.Len())] + r.Int64N(3) - 1
				g, w = it.Seek(at), want.Seek(at)
			}
			if g != w {
				t.Fatalf("got type %v, want %v", g, w)
			}
			if g == promenc.ValNone {
				break
			}
			gt, gv := it.At()
			wt, wv := want.At()
			if gt != wt || it.AtT() != wt || math.Float64bits(gv) != math.Float64bits(wv) {
				t.Fatalf("got %d %v, want %d %v", gt, gv, wt, wv)
			}
		}
		if it.Err() != nil {
			t.Fatal(it.Err())
		}
	}
}

func TestIteratorHistograms(t *testing.T) {
	r := rand.New(rand.NewPCG(53, 54))
	for _, kind := range []chunkenc.Kind{chunkenc.KindHistogram, chunkenc.KindFloatHistogram} {
		s := histograms(r, 200, kind)
		got := &chunkenc.Samples{Kind: kind}
		it := chunkenc.NewIterator(s)
		for it.Next() != promenc.ValNone {
			got.T, got.ST = append(got.T, it.AtT()), append(got.ST, it.AtST())
			if kind == chunkenc.KindHistogram {
				_, h := it.AtHistogram(nil)
				_, again := it.AtHistogram(h.Copy())
				_, f := it.AtFloatHistogram(nil)
				if !h.Equals(again) || !f.Equals(h.ToFloat(nil)) {
					t.Fatal("a reused histogram differs")
				}
				got.H = append(got.H, h)
				clear(again.PositiveBuckets) // must not reach the batch
			} else {
				_, h := it.AtFloatHistogram(nil)
				_, again := it.AtFloatHistogram(h.Copy())
				if !h.Equals(again) {
					t.Fatal("a reused histogram differs")
				}
				got.FH = append(got.FH, h)
				clear(again.PositiveBuckets)
			}
		}
		for i := range got.H {
			if !got.H[i].Equals(s.H[i]) {
				t.Fatalf("histogram %d: got %v, want %v", i, got.H[i], s.H[i])
			}
		}
		for i := range got.FH {
			if !got.FH[i].Equals(s.FH[i]) {
				t.Fatalf("histogram %d: got %v, want %v", i, got.FH[i], s.FH[i])
			}
		}
		if got.Len() != s.Len() {
			t.Fatalf("got %d samples, want %d", got.Len(), s.Len())
		}
	}
}
