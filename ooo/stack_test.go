package ooo_test

import (
	"math"
	"math/rand/v2"
	"sort"
	"testing"

	"github.com/prometheus/prometheus/model/value"

	"github.com/rwsink/rwsink/chunkenc"
	"github.com/rwsink/rwsink/ooo"
)

// TestStackReadsLongStretchesInFewWindows merges two layers that both span all
// of time: windows of the step alone would be without end.
func TestStackReadsLongStretchesInFewWindows(t *testing.T) {
	reads := 0
	layer := func(v float64, times ...int64) ooo.Layer {
		return ooo.Layer{Lo: math.MinInt64, Hi: math.MaxInt64, Read: func(lo, hi int64, emit func(*chunkenc.Samples) error) error {
			reads++
			s := &chunkenc.Samples{}
			for _, at := range times {
				if lo <= at && at <= hi {
					s.T, s.V = append(s.T, at), append(s.V, v)
				}
			}
			if s.Len() == 0 {
				return nil
			}
			return emit(s)
		}}
	}
	layers := []ooo.Layer{layer(1, math.MinInt64, -5, 0, 7, math.MaxInt64), layer(2, math.MinInt64+1, 0, 1, 7, math.MaxInt64)}
	var stack ooo.Stack
	var times []int64
	var values []float64
	err := stack.Read(layers, math.MinInt64, math.MaxInt64, 1000, func(run *chunkenc.Samples) error {
		times, values = append(times, run.T...), append(values, run.V...)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	wantT, wantV := []int64{math.MinInt64, math.MinInt64 + 1, -5, 0, 1, 7, math.MaxInt64}, []float64{1, 2, 1, 2, 2, 2, 2}
	if len(times) != len(wantT) {
		t.Fatalf("times %v, want %v", times, wantT)
	}
	for i := range wantT {
		if times[i] != wantT[i] || values[i] != wantV[i] {
			t.Errorf("sample %d is %v@%d, want %v@%d", i, values[i], times[i], wantV[i], wantT[i])
		}
	}
	if reads > 5000 {
		t.Errorf("the layers were read %d times", reads)
	}
}

// TestStackOfManyLayers merges one to six layers of floats, some with start
// timestamps and stale markers, against a map that follows the one rule.
func TestStackOfManyLayers(t *testing.T) {
	stale := math.Float64frombits(value.StaleNaN)
	var stack ooo.Stack
	for round := range 300 {
		rng := rand.New(rand.NewPCG(uint64(round), 2))
		want, layers := map[int64]float64{}, []ooo.Layer(nil)
		for range 1 + rng.IntN(6) {
			s := &chunkenc.Samples{}
			starts := rng.IntN(8) == 0
			for at, n := rng.Int64N(50), rng.IntN(200); s.Len() < n; at += 1 + rng.Int64N(4) {
				v := float64(rng.IntN(1000))
				if rng.IntN(10) == 0 {
					v = stale
				}
				s.T, s.V = append(s.T, at), append(s.V, v)
				if starts {
					s.ST = append(s.ST, at-1)
				}
				if old, ok := want[at]; !ok || math.IsNaN(old) || !math.IsNaN(v) {
					want[at] = v
				}
			}
			layers = append(layers, ooo.Layer{Lo: 0, Hi: 2000, Read: func(lo, hi int64, emit func(*chunkenc.Samples) error) error {
				i := sort.Search(s.Len(), func(i int) bool { return s.T[i] >= lo })
				j := sort.Search(s.Len(), func(i int) bool { return s.T[i] > hi })
				if i == j {
					return nil
				}
				run := s.Slice(i, j)
				return emit(&run)
			}})
		}
		n, last := 0, int64(-1)
		err := stack.Read(layers, 0, 2000, 100, func(run *chunkenc.Samples) error {
			for i, at := range run.T {
				v, ok := want[at]
				if !ok || at <= last || math.Float64bits(v) != math.Float64bits(run.V[i]) {
					t.Fatalf("round %d: %v@%d behind %d, want %v, %v", round, run.V[i], at, last, v, ok)
				}
				n, last = n+1, at
			}
			return nil
		})
		if err != nil || n != len(want) {
			t.Fatalf("round %d: %d samples, want %d, %v", round, n, len(want), err)
		}
	}
}
