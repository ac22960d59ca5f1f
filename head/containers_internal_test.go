package head

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestFindAmongRanges looks times up among ranges of one length and of many, with
// and without gaps, up to both ends of time, and compares with a walk over all.
func TestFindAmongRanges(t *testing.T) {
	for round := range 300 {
		rng := rand.New(rand.NewPCG(uint64(round), 3))
		l := &containerList{}
		lo := rng.Int64N(2000) - 1000
		if round%5 == 0 {
			l.open, lo = append(l.open, &Container{lo: math.MinInt64, hi: lo - 1}), lo+10
		}
		for range rng.IntN(12) {
			length := int64(100)
			if round%3 == 0 {
				length = 1 + rng.Int64N(300)
			}
			l.open = append(l.open, &Container{lo: lo, hi: lo + length - 1})
			if lo += length; round%2 == 0 {
				lo += rng.Int64N(300)
			}
		}
		if round%7 == 0 {
			l.open = append(l.open, &Container{lo: lo, hi: math.MaxInt64})
		}
		times := []int64{math.MinInt64, math.MaxInt64}
		for range 200 {
			times = append(times, rng.Int64N(8000)-3000)
		}
		for _, at := range times {
			i := 0
			for i < len(l.open) && l.open[i].hi < at {
				i++
			}
			var want *Container
			if i < len(l.open) && l.open[i].lo <= at {
				want = l.open[i]
			}
			if got, k := l.find(at); got != want || k != i {
				t.Fatalf("round %d: %d is at %d, want %d", round, at, k, i)
			}
		}
	}
}
