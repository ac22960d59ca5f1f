package bench

import (
	"fmt"
	"math/rand/v2"
	"slices"
)

// figures are what was measured of one thing, one value a run.
type figures []float64

func (f figures) sorted() figures { return slices.Sorted(slices.Values(f)) }

// median of the figures, 0 without any.
func (f figures) median() float64 {
	s := f.sorted()
	switch n := len(s); {
	case n == 0:
		return 0
	case n%2 == 1:
		return s[n/2]
	default:
		return (s[n/2-1] + s[n/2]) / 2
	}
}

// resamples is how often the interval of a median draws.
const resamples = 4000

// interval is the 90 % interval of the median, by bootstrap with a fixed seed.
func (f figures) interval() (low, high float64) {
	if len(f) < 2 {
		return f.median(), f.median()
	}
	rng := rand.New(rand.NewPCG(1, 2))
	draw, medians := make(figures, len(f)), make(figures, resamples)
	for i := range medians {
		for j := range draw {
			draw[j] = f[rng.IntN(len(f))]
		}
		medians[i] = draw.median()
	}
	medians = medians.sorted()
	return medians[resamples*5/100], medians[resamples*95/100]
}

// spread writes the median and the range.
func (f figures) spread(format string) string {
	s := f.sorted()
	switch len(s) {
	case 0:
		return "-"
	case 1:
		return fmt.Sprintf(format, s[0])
	}
	return fmt.Sprintf(format+" ("+format+"-"+format+")", s.median(), s[0], s[len(s)-1])
}

// over divides pairwise: the ratios of runs of the same round.
func (f figures) over(g figures) figures {
	out := make(figures, min(len(f), len(g)))
	for i := range out {
		out[i] = f[i] / g[i]
	}
	return out
}

// times multiplies every figure.
func (f figures) times(by float64) figures {
	out := make(figures, len(f))
	for i := range f {
		out[i] = f[i] * by
	}
	return out
}
