package head

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// TestRandomOrderSealsEachSampleAFewTimes writes one dense series in random
// order: however many chunks its late samples fall into, a sample must not be
// decoded and sealed again with every few that come after it.
func TestRandomOrderSealsEachSampleAFewTimes(t *testing.T) {
	const n = 60_000
	h, c := testHead(t, Options{BlockDuration: time.Hour})
	s := testSeries(h, "m")
	resealed := 0
	for _, i := range rand.New(rand.NewPCG(1, 2)).Perm(n) {
		before, held := c.applier.stats.merges, 0
		c.place(s, 1, &sample{t: int64(i) * 50, v: float64(i)})
		if c.applier.stats.merges > before {
			for k := range s.live.chunks {
				held += int(s.live.chunks[k].N)
			}
			resealed += held
		}
	}
	if got := len(readAll(t, h, s, math.MinInt64, math.MaxInt64)); got != n {
		t.Fatalf("%d samples, want %d", got, n)
	}
	if most := 20 * n; resealed > most {
		t.Errorf("%d samples sealed again for %d written, want at most %d", resealed, n, most)
	}
}
