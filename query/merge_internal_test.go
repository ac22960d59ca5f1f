package query

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/rwsink/rwsink/chunkenc"
)

func TestMergeRuns(t *testing.T) {
	const seed = 3
	rng := rand.New(rand.NewPCG(seed, seed))
	for round := range 300 {
		// Times from a small set, so that they meet.
		series := func() (out runs) {
			var times []int64
			for i := range int64(40) {
				if rng.IntN(2) == 0 {
					times = append(times, i-20)
				}
			}
			for len(times) > 0 {
				n := 1 + rng.IntN(len(times))
				run, _ := randRun(rng, chunkenc.Kind(rng.IntN(3)), false, 0, n)
				copy(run.T, times[:n])
				times = times[n:]
				out = append(out, run)
			}
			return out
		}
		a, b := series(), series()
		model := map[int64]point{}
		for _, p := range b.points() {
			model[p.t] = p
		}
		for _, p := range a.points() {
			model[p.t] = p
		}
		var want []point
		for _, p := range model {
			want = append(want, p)
		}
		slices.SortFunc(want, func(x, y point) int { return int(x.t - y.t) })
		got := mergeRuns(a, b)
		for i := range got {
			if got[i].Len() == 0 || i > 0 && got[i].Kind == got[i-1].Kind {
				t.Fatalf("seed %d, round %d: run %d is empty or could be one with the run before", seed, round, i)
			}
		}
		checkPoints(t, got.points(), want)
	}
}
