package ooo_test

import (
	"math"
	"testing"

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
